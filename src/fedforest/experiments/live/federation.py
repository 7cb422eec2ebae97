"""A federation as it is run: coordinator and parties, each a process of its own, mutual TLS.

Everything lies in one folder: certificates, settings, tables and logs. All processes listen and
connect on loopback only, and none of them outlives the `with` block.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple, Self, TypeAlias

from fedforest.experiments.live.line import CountingLine, Line
from fedforest.masking.key_agreement import fingerprint
from fedforest.runtime.client.connection import Federation
from fedforest.runtime.membership.homes import load_identity, make_keys
from fedforest.transport.authority import Authority, make_authority

if TYPE_CHECKING:
    import pyarrow

THREADS_PER_PARTY = 1
START_SECONDS = 300.0
STOP_SECONDS = 20.0
_VALID = timedelta(days=1)
_LISTENING = "listening at "
_OF_A_PROCESS = (
    2  # with the inverted number of a process: its clock, as clock_getcpuclockid(3) says
)

# a table, or who writes it to a Parquet file: one larger than memory is made in pieces
DataSets: TypeAlias = "Mapping[str, pyarrow.Table | Callable[[Path], None]]"
Tables: TypeAlias = Mapping[str, DataSets]  # of each party


class Footprint(NamedTuple):
    """Memory and files of a process at a moment, and what it took so far."""

    resident_bytes: int
    n_files: int
    processor_seconds: float
    peak_bytes: int  # resident, of its whole life


@dataclass(slots=True)
class ServiceProcess:
    """A process of the federation."""

    kind: str
    home: Path
    options: tuple[str, ...] = ()  # of its command
    process: "subprocess.Popen[bytes] | None" = None

    @property
    def log(self) -> Path:
        return self.home / "log.txt"

    def start(self) -> None:
        command = [sys.executable, "-m", "fedforest", self.kind, "start", "--home", str(self.home)]
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [*command, "--log-format", "json", *self.options], stdout=log, stderr=log
            )

    def stop(self) -> None:
        if self.process is None:
            return
        self.process.terminate()
        try:
            self.process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def events(self) -> Iterator[dict[str, Any]]:
        """Return the events of its log."""
        for line in self.log.read_text().splitlines():
            if line.startswith("{"):
                yield json.loads(line)

    def footprint(self) -> Footprint:
        """Return memory and open files as Linux tells them."""
        assert self.process is not None
        about = Path(f"/proc/{self.process.pid}")
        n_pages = int((about / "statm").read_text().split()[1])
        [peak] = [
            int(line.split()[1]) * 1024
            for line in (about / "status").read_text().splitlines()
            if line.startswith("VmHWM:")
        ]
        n_bytes, n_files = n_pages * os.sysconf("SC_PAGE_SIZE"), len(os.listdir(about / "fd"))
        return Footprint(n_bytes, n_files, self.processor_seconds(), peak)

    def processor_seconds(self) -> float:
        """Return the processor time so far, of threads that ended too, by the process's clock."""
        assert self.process is not None
        return time.clock_gettime((~self.process.pid << 3) | _OF_A_PROCESS)


@dataclass(slots=True)
class LiveFederation:
    """A coordinator and parties; with a `line`, parties reach the coordinator through it."""

    folder: Path
    tables: Tables
    line: Line | None = None
    id_column: str = ""  # of all tables, where rows are to be aligned
    rules: str = ""  # further lines of every party's policy
    coordinator_options: tuple[str, ...] = ()
    settings: Sequence[str] = ()  # further lines of each party's settings
    coordinator: ServiceProcess = field(init=False)
    parties: dict[str, ServiceProcess] = field(init=False, default_factory=dict)
    counting: CountingLine | None = field(init=False, default=None)

    def __enter__(self) -> Self:
        try:
            authority = make_authority("experiment", _VALID)
            address = self._start_coordinator(authority)
            if self.line is not None:
                self.counting = CountingLine(address, self.line)
                address = self.counting.start()
            for name in self.tables:
                (self.folder / name).mkdir(mode=0o700, parents=True, exist_ok=True)
                make_keys(self.folder / name)
            for name, data_sets in self.tables.items():
                self._start_party(authority, name, data_sets, address)
            self._wait_for(lambda: self._connected() >= set(self.tables))
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        for role in reversed(self.roles):
            role.stop()
        if self.counting is not None:
            self.counting.close()

    @property
    def roles(self) -> list[ServiceProcess]:
        return [self.coordinator, *self.parties.values()]

    def connect(self) -> Federation:
        """Connect as a user."""
        return Federation.find(str(self.folder / "user"))

    def _start_coordinator(self, authority: Authority) -> str:
        home = self.folder / "coordinator"
        authority.issue("coordinator", "coordinator", _VALID).save(home / "tls")
        (home / "coordinator.toml").write_text('address = "127.0.0.1:0"\n')
        self.coordinator = ServiceProcess("coordinator", home, self.coordinator_options)
        self.coordinator.start()
        self._wait_for(lambda: bool(self._said(_LISTENING)))
        address = self._said(_LISTENING).removeprefix(_LISTENING)
        authority.issue("user", "analyst", _VALID).save(self.folder / "user" / "tls")
        (self.folder / "user" / "profile.toml").write_text(f'coordinator = "{address}"\n')
        return address

    def _start_party(
        self,
        authority: Authority,
        name: str,
        data_sets: DataSets,
        address: str,
    ) -> None:
        from pyarrow import parquet  # noqa: PLC0415 - an extra that only experiments need

        home = self.folder / name
        authority.issue("party", name, _VALID).save(home / "tls")
        settings = [f'coordinator = "{address}"', f"threads = {THREADS_PER_PARTY}"]
        settings += self.settings
        if self.id_column:
            settings += ["[pins]", *self._pins_of_others(name)]
        policy = "[default]\nmin_rows_per_leaf = 1\nprediction_rows_per_day = 1_000_000_000_000\n"
        policy += f"prediction_rows_per_day_total = 1_000_000_000_000\n{self.rules}\n"
        (home / "policy.toml").write_text(policy)
        (home / "catalogue").mkdir()
        for data_set, table in data_sets.items():
            path = home / f"{data_set}.parquet"
            if callable(table):
                table(path)
            else:
                parquet.write_table(table, path)
            entry = f'source = "{data_set}.parquet"\n'
            entry += f'id = ["{self.id_column}"]\n' if self.id_column else ""
            (home / "catalogue" / f"{data_set}.toml").write_text(entry)
        (home / "party.toml").write_text("\n".join(settings) + "\n")
        self.parties[name] = ServiceProcess("party", home)
        self.parties[name].start()

    def _pins_of_others(self, name: str) -> Iterator[str]:
        """Return lines that pin the keys of the other parties."""
        for other in self.tables:
            if other != name:
                key = load_identity(self.folder / other).public
                yield f'{other} = "{fingerprint(key)}"'

    def _said(self, beginning: str) -> str:
        """Return a line of the coordinator's log; empty where there is none yet."""
        lines = self.coordinator.log.read_text().splitlines()
        return next((line for line in lines if line.startswith(beginning)), "")

    def _connected(self) -> set[str]:
        text = self.coordinator.log.read_text()
        return {name for name in self.tables if f"party '{name}' connected" in text}

    def _wait_for(self, is_there: Callable[[], bool]) -> None:
        deadline = time.monotonic() + START_SECONDS
        while not is_there():
            ended = [role.kind for role in self.roles if role.process and role.process.poll()]
            if ended or time.monotonic() > deadline:
                logs = "\n".join(role.log.read_text()[-2_000:] for role in self.roles)
                raise RuntimeError(f"the federation did not come up ({ended}):\n{logs}")
            time.sleep(0.02)

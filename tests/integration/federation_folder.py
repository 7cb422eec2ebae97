"""A federation in a folder: certificates, settings and tables of every role, for real processes."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

import pyarrow
import pyarrow.parquet

from fedforest.masking.key_agreement import fingerprint
from fedforest.runtime.membership.homes import load_identity, make_keys
from fedforest.runtime.party.catalogue.catalogue import Catalogue
from fedforest.runtime.party.catalogue.entries import Entry
from fedforest.transport.authority import make_authority

START_SECONDS = 120.0  # also where others use the machine
DAY = timedelta(days=1)
# forests of tests are grown out, and storms of hostile messages ask for many predictions
POLICY = "[default]\nmin_rows_per_leaf = 1\nprediction_rows_per_day = 1000000000\n"


@dataclass(slots=True)
class Role:
    """A process of the federation."""

    kind: str
    home: Path
    command: tuple[str, ...] = ()
    process: "subprocess.Popen[bytes] | None" = None
    started_at: int = 0  # where its log was when it was started last
    log_format: str = "json"
    log_level: str = "info"
    options: tuple[str, ...] = ()  # of `start`, besides

    @property
    def name(self) -> str:
        return self.home.name

    @property
    def is_running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    @property
    def log(self) -> Path:
        return self.home / "log.txt"

    def start(self) -> None:
        assert not self.is_running
        self.started_at = len(self.read_log())
        command = [*(self.command or (sys.executable, "-m", "fedforest")), self.kind, "start"]
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [*command, "--home", str(self.home), *self._log_options],
                stdout=log,
                stderr=log,
                env={**os.environ, "OMP_NUM_THREADS": "1"},
            )

    @property
    def _log_options(self) -> tuple[str, ...]:
        return ("--log-format", self.log_format, "--log-level", self.log_level, *self.options)

    def read_log(self) -> str:
        return self.log.read_text() if self.log.exists() else ""

    def log_since_start(self) -> str:
        return self.read_log()[self.started_at :]

    def signal(self, number: int) -> None:
        assert self.process is not None
        self.process.send_signal(number)

    def kill(self) -> None:
        """End it with no chance to do anything about it."""
        assert self.process is not None
        self.process.kill()
        self.process.wait(START_SECONDS)

    def stop(self) -> int | None:
        """Ask it to end; whoever does not is killed."""
        if self.process is None or self.process.poll() is not None:
            return None
        self.process.send_signal(signal.SIGCONT)
        self.process.terminate()
        try:
            return self.process.wait(START_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait(START_SECONDS)
            raise


@dataclass(slots=True)
class FederationFolder:
    """All roles of a federation, below one folder."""

    folder: Path
    address: str
    coordinator: Role
    parties: dict[str, Role] = field(default_factory=dict)

    @property
    def profile(self) -> str:
        return str(self.folder / "user")

    @property
    def roles(self) -> list[Role]:
        return [self.coordinator, *self.parties.values()]

    def start(self) -> None:
        """Start whoever does not run, and return when all parties are connected."""
        for role in self.roles:
            if not role.is_running:
                role.start()
        self.wait_until_connected()

    def wait_until_connected(self) -> None:
        """Return when the coordinator, since it was started last, sees all parties."""
        wait_for(lambda: all(map(self.is_connected, self.parties)), self)

    def is_connected(self, party: str) -> bool:
        """Whether the last that the coordinator's log says of a party is that it came."""
        log = self.coordinator.log_since_start()
        came, left = f"party '{party}' connected", f"party '{party}' is disconnected"
        return log.rfind(came) > log.rfind(left)

    def role(self, name: str) -> Role:
        return self.coordinator if name == "coordinator" else self.parties[name]

    def logs(self) -> str:
        return "\n".join(f"--- {role.name}\n{role.read_log()[-8000:]}" for role in self.roles)


def wait_for(
    is_there: Callable[[], bool], federation: FederationFolder, seconds: float = START_SECONDS
) -> None:
    """Return when it is so; a wait that is over tells what the roles logged."""
    deadline = time.monotonic() + seconds
    while not is_there():
        if time.monotonic() > deadline:
            raise TimeoutError(federation.logs())
        time.sleep(0.02)


def make_federation(
    folder: Path,
    tables: Mapping[str, Mapping[str, pyarrow.Table]],
    *,
    command: tuple[str, ...] = (),
    patience_seconds: float = 60.0,
) -> FederationFolder:
    """Folders of a coordinator, a user and parties with these data sets, none of them started.

    A column called `id` is what rows are known by to other parties.
    """
    port = find_port()
    address = f"127.0.0.1:{port}"
    authority = make_authority("tests", DAY)
    authority.save(folder / "authority")  # apart from all roles, to issue more certificates
    coordinator = folder / "coordinator"
    authority.issue("coordinator", "coordinator", DAY).save(coordinator / "tls")
    settings = f'address = "{address}"\npatience_seconds = {patience_seconds}\n'
    (coordinator / "coordinator.toml").write_text(settings)
    authority.issue("user", "analyst", DAY).save(folder / "user" / "tls")
    (folder / "user" / "profile.toml").write_text(f'coordinator = "{address}"\n')
    for party in tables:
        make_keys(folder / party)
    pins = {party: fingerprint(load_identity(folder / party).public) for party in tables}
    federation = FederationFolder(folder, address, Role("coordinator", coordinator, command))
    for party, data_sets in tables.items():
        home = folder / party
        authority.issue("party", party, DAY).save(home / "tls")
        lines = [f'coordinator = "{address}"', "threads = 1", "[pins]"]
        lines += [f'{other} = "{pin}"' for other, pin in pins.items() if other != party]
        (home / "party.toml").write_text("\n".join(lines) + "\n")
        (home / "policy.toml").write_text(POLICY)
        for name, table in data_sets.items():
            pyarrow.parquet.write_table(table, home / f"{name}.parquet")
            ids = ["id"] if "id" in table.column_names else []
            Catalogue(home).add(name, Entry(source=f"{name}.parquet", id=ids))
        federation.parties[party] = Role("party", home, command)
    return federation


def find_port() -> int:
    """A port that nobody listens on at this moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@contextmanager
def running(federation: FederationFolder, *, is_started: bool = True) -> Iterator[FederationFolder]:
    """All roles run, or whoever is started; whatever happens, none of them does afterwards."""
    with ExitStack() as ending:
        for role in federation.roles:
            ending.callback(role.stop)  # all of them, also if one does not end in time
        if is_started:
            federation.start()
        yield federation

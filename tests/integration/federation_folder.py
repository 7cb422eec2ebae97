"""A federation in a folder: certificates, settings and tables of every role, for real processes."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet

from fedforest.masking.key_agreement import fingerprint
from fedforest.runtime.homes import load_keys
from fedforest.transport.tls import make_authority

START_SECONDS = 60.0
DAY = timedelta(days=1)


@dataclass(slots=True)
class Role:
    """A process of the federation."""

    kind: str
    home: Path
    command: tuple[str, ...] = ()
    process: "subprocess.Popen[bytes] | None" = None

    @property
    def log(self) -> Path:
        return self.home / "log.txt"

    def start(self) -> None:
        assert self.process is None or self.process.poll() is not None
        command = [*(self.command or (sys.executable, "-m", "fedforest")), self.kind, "start"]
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [*command, "--home", str(self.home), "--log-format", "json"],
                stdout=log,
                stderr=log,
                env={**os.environ, "OMP_NUM_THREADS": "1"},
            )

    def kill(self, number: int = signal.SIGKILL) -> None:
        assert self.process is not None
        self.process.send_signal(number)
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
    coordinator: Role
    parties: dict[str, Role] = field(default_factory=dict)

    @property
    def profile(self) -> str:
        return str(self.folder / "user")

    @property
    def roles(self) -> list[Role]:
        return [self.coordinator, *self.parties.values()]

    def start(self) -> None:
        for role in self.roles:
            role.start()
        self.wait_until_connected()

    def wait_until_connected(self) -> None:
        """Return when the coordinator has seen all parties since it was started last."""
        wait_for(
            lambda: all(
                f"party '{name}' connected" in self.coordinator.log.read_text()
                for name in self.parties
            ),
            self,
        )

    def logs(self) -> str:
        return "\n".join(f"--- {role.home.name}\n{role.log.read_text()}" for role in self.roles)


def wait_for(is_there: Any, federation: FederationFolder) -> None:
    deadline = time.monotonic() + START_SECONDS
    while not is_there():
        if time.monotonic() > deadline:
            raise TimeoutError(federation.logs()[-4000:])
        time.sleep(0.02)


def make_federation(
    folder: Path,
    tables: Mapping[str, Mapping[str, pyarrow.Table]],
    *,
    command: tuple[str, ...] = (),
    patience_seconds: float = 60.0,
) -> FederationFolder:
    """Folders of a coordinator, a user and parties with these data sets, none of them started."""
    port = find_port()
    address = f"127.0.0.1:{port}"
    authority = make_authority("tests", DAY)
    coordinator = folder / "coordinator"
    authority.issue("coordinator", "coordinator", DAY).save(coordinator / "tls")
    settings = f'address = "{address}"\npatience_seconds = {patience_seconds}\n'
    (coordinator / "coordinator.toml").write_text(settings)
    authority.issue("user", "analyst", DAY).save(folder / "user" / "tls")
    (folder / "user" / "profile.toml").write_text(f'coordinator = "{address}"\n')
    pins = {
        party: fingerprint(load_keys(folder / party, party, {}).identity.public) for party in tables
    }
    federation = FederationFolder(folder, Role("coordinator", coordinator, command))
    for party, data_sets in tables.items():
        home = folder / party
        authority.issue("party", party, DAY).save(home / "tls")
        lines = [f'coordinator = "{address}"', "threads = 1", "[pins]"]
        lines += [f'{other} = "{pin}"' for other, pin in pins.items() if other != party]
        for name, table in data_sets.items():
            pyarrow.parquet.write_table(table, home / f"{name}.parquet")
            lines += [f"[data.{name}]", f'file = "{name}.parquet"']
        (home / "party.toml").write_text("\n".join(lines) + "\n")
        federation.parties[party] = Role("party", home, command)
    return federation


def find_port() -> int:
    """A port that nobody listens on at this moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@contextmanager
def running(federation: FederationFolder) -> Iterator[FederationFolder]:
    """All roles run; whatever happens, none of them does afterwards."""
    try:
        federation.start()
        yield federation
    finally:
        for role in reversed(federation.roles):
            role.stop()

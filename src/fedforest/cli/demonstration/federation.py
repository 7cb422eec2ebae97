"""The demo's federation: folders made as the documented commands make them, and real processes.

    fedforest coordinator init, start, invite    fedforest party join, trust, data add, start

Whatever happens to the demo, none of its processes is left: they are asked to end, and whoever does
not is killed. Every wait has a deadline.
"""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from secrets import token_hex

import pyarrow
import pyarrow.parquet

from fedforest.cli.demonstration.letters import ID
from fedforest.errors import TransportError
from fedforest.masking.key_agreement import fingerprint
from fedforest.runtime.coordinator.home import load_members, make_coordinator, public_addresses
from fedforest.runtime.membership.homes import CoordinatorSettings, load_identity
from fedforest.runtime.membership.invitations import InvitedRole
from fedforest.runtime.membership.joining import join
from fedforest.runtime.membership.pins import Pins
from fedforest.runtime.membership.presence import read_presence
from fedforest.runtime.membership.service_tokens import FILE, ServiceTokens
from fedforest.runtime.party.catalogue.catalogue import Catalogue
from fedforest.runtime.party.catalogue.entries import Entry

_START_SECONDS = 120.0  # for a process to be there, on a busy machine
_STOP_SECONDS = 15.0
_LOOK_SECONDS = 0.1
_TOKEN_SECONDS = 3600.0

Tables = Mapping[str, Mapping[str, pyarrow.Table]]


@dataclass(frozen=True, slots=True)
class Process:
    """A service of the federation."""

    name: str
    log: Path
    running: "subprocess.Popen[bytes]"

    def check(self) -> None:
        """Raise where it has ended although nobody asked it to."""
        if self.running.poll() is not None:
            last = self.log.read_text().splitlines()[-3:]
            raise TransportError(f"the process of {self.name} has ended: {' / '.join(last)}")


@contextmanager
def running_federation(
    folder: Path,
    tables: Tables,
    web_port: int | None = None,
    party_ports: Mapping[str, int] | None = None,
) -> Iterator[Path]:
    """A coordinator, and a party for each of the tables; gives the folder of a user's profile.

    Those that have ports show pages there.
    """
    with ExitStack() as stack:
        processes: list[Process] = []
        stack.callback(_stop, processes)
        coordinator = folder / "coordinator"
        address, enrolment = (f"127.0.0.1:{port}" for port in find_ports(2))
        make_coordinator(
            coordinator, "demo", CoordinatorSettings(address=address, enrolment=enrolment)
        )
        processes.append(_start("coordinator", coordinator, web_port))
        user = folder / "user"
        _wait_until(lambda: "listening" in processes[0].log.read_text(), processes)
        _enrol(coordinator, "user", "analyst", user)
        for party in tables:
            _enrol(coordinator, "party", party, folder / party)
        _pin_each_other([folder / party for party in tables])
        for party, data_sets in tables.items():
            _fill_catalogue(folder / party, data_sets)
            port = None if party_ports is None else party_ports[party]
            processes.append(_start("party", folder / party, port))
        _wait_until(lambda: _all_connected(coordinator, tables), processes)
        yield user


def _stop(processes: list[Process]) -> None:
    """Ask all of them to end, and see to it that they do."""
    for process in processes:
        if process.running.poll() is None:
            process.running.send_signal(signal.SIGTERM)
    deadline = time.monotonic() + _STOP_SECONDS
    for process in processes:
        try:
            process.running.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            process.running.kill()
            process.running.wait()


def _start(kind: str, home: Path, web_port: int | None = None) -> Process:
    """`fedforest coordinator start` or `fedforest party start`, as anybody starts it."""
    log = home / "log.txt"
    command = [sys.executable, "-m", "fedforest", kind, "start", "--home", str(home)]
    if web_port is not None:
        command += ["--dashboard", "--web-address", f"127.0.0.1:{web_port}"]
    with log.open("wb") as stream:
        popen = subprocess.Popen(command, stdout=stream, stderr=stream, env=_environment())
    return Process(home.name, log, popen)


def _environment() -> dict[str, str]:
    """A child finds the package where this process has it."""
    package = str(Path(__file__).parents[3])
    known = os.environ.get("PYTHONPATH")
    return {**os.environ, "PYTHONPATH": package if known is None else f"{package}:{known}"}


def _enrol(coordinator: Path, role: InvitedRole, name: str, home: Path) -> None:
    """`fedforest coordinator invite` there, `fedforest party join` or `fedforest join` here."""
    members = load_members(coordinator)
    token = members.invite(role, name, public_addresses(coordinator), _TOKEN_SECONDS)
    join(token, role, home)


def _pin_each_other(homes: list[Path]) -> None:
    """`fedforest party trust`, with the fingerprint that the other one told by telephone."""
    for home in homes:
        for other in homes:
            if other != home:
                Pins(home, {}).trust(other.name, fingerprint(load_identity(other).public))


def _fill_catalogue(home: Path, data_sets: Mapping[str, pyarrow.Table]) -> None:
    """`fedforest party data add NAME FILE --id letter`."""
    for name, table in data_sets.items():
        pyarrow.parquet.write_table(table, home / f"{name}.parquet")
        Catalogue(home).add(name, Entry(source=f"{name}.parquet", id=[ID]))


def login_link(home: Path, web_port: int, user: str = "") -> str:
    """`fedforest tokens add`: an address that logs its reader in until the demo ends."""
    word = ServiceTokens(home / FILE).issue(f"demo-{token_hex(4)}", user=user, days=1.0)
    return f"http://127.0.0.1:{web_port}/login#{word}"


def _all_connected(coordinator: Path, tables: Tables) -> bool:
    present = read_presence(coordinator)
    return present is not None and tables.keys() <= set(present.connected)


def _wait_until(is_so: Callable[[], bool], processes: list[Process]) -> None:
    deadline = time.monotonic() + _START_SECONDS
    while not is_so():
        for process in processes:
            process.check()
        if time.monotonic() > deadline:
            raise TransportError(f"the federation is not up after {_START_SECONDS:g} seconds")
        time.sleep(_LOOK_SECONDS)


def find_ports(count: int) -> list[int]:
    """Ports that nobody listens at, at this moment."""
    with ExitStack() as stack:
        probes = [stack.enter_context(socket.socket()) for _ in range(count)]
        for probe in probes:
            probe.bind(("127.0.0.1", 0))
        return [probe.getsockname()[1] for probe in probes]

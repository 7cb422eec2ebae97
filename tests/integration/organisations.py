"""Organisations that know nothing of each other but the guide: a folder each, and commands.

On one machine they are processes on loopback. Where network namespaces are permitted they are also
tried with a network of their own: every organisation in a namespace, with an address that the
others reach over a wire, inside a namespace that has no way out.
"""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, chdir, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from fedforest.cli.main import app
from tests.integration.federation_folder import START_SECONDS

COMMAND_SECONDS = 120.0
NAMESPACE = ("unshare", "--map-root-user", "--net", "--pid", "--fork", "--kill-child")
_LOOPBACK = "127.0.0.1"


@dataclass(slots=True)
class Organisation:
    """Somebody with a folder, a place in the network, and the command."""

    folder: Path
    address: str = _LOOPBACK
    prefix: tuple[str, ...] = ()  # how a process gets into its namespace
    processes: list["subprocess.Popen[bytes]"] = field(default_factory=list)

    @property
    def name(self) -> str:
        return self.folder.name

    def run(self, *arguments: str | Path, fails: bool = False) -> str:
        """What `fedforest ARGUMENTS` prints, run in the organisation's folder.

        Where nothing but the folder tells organisations apart, commands that end well are run in
        this process: starting one for each of them takes most of the time. How a command fails is
        seen from outside.
        """
        if not self.prefix and not fails:
            return self._run_here(arguments)
        outcome = subprocess.run(
            self._command(arguments),
            cwd=self.folder,
            env=self._environment(),
            capture_output=True,
            text=True,
            timeout=COMMAND_SECONDS,
            check=False,
        )
        assert (outcome.returncode != 0) == fails, outcome.stdout + outcome.stderr
        return outcome.stdout + outcome.stderr if fails else outcome.stdout

    def keep_secret(self, name: str, text: str) -> None:
        """Write a file in the organisation's folder that nobody else can read."""
        (self.folder / name).touch(mode=0o600)
        (self.folder / name).write_text(text)

    def _run_here(self, arguments: Sequence[str | Path]) -> str:
        with chdir(self.folder):
            outcome = CliRunner(env=self._settings()).invoke(app, [*map(str, arguments)])
        assert outcome.exit_code == 0, f"{outcome.output}{outcome.exception}"
        return outcome.stdout

    def ask(self, *arguments: str | Path) -> Any:
        """What a command says in JSON, of several objects the last."""
        told = self.run(*arguments, "--json")
        return json.loads(told[told.rfind('\n{"') + 1 :])

    def start(self, *arguments: str | Path) -> None:
        """Start a process that stays; what it says goes to `log.txt`."""
        with (self.folder / "log.txt").open("ab") as log:
            self.processes.append(
                subprocess.Popen(
                    self._command(arguments),
                    cwd=self.folder,
                    env=self._environment(),
                    stdout=log,
                    stderr=log,
                )
            )

    def read_log(self) -> str:
        path = self.folder / "log.txt"
        return path.read_text() if path.exists() else ""

    def stop(self) -> None:
        for process in self.processes:
            process.terminate()
        for process in self.processes:
            process.wait(START_SECONDS)

    def _command(self, arguments: Sequence[str | Path]) -> list[str]:
        return [*self.prefix, sys.executable, "-m", "fedforest", *map(str, arguments)]

    def _environment(self) -> dict[str, str]:
        return {**os.environ, **self._settings(), "OMP_NUM_THREADS": "1"}

    def _settings(self) -> dict[str, str]:
        profiles = str(self.folder / "profiles")
        return {"FEDFOREST_HOME": profiles, "NO_COLOR": "1", "COLUMNS": "200"}


@contextmanager
def on_loopback(folder: Path, names: Sequence[str]) -> Iterator[dict[str, Organisation]]:
    """Organisations on this machine."""
    with ExitStack() as stack:
        found = {}
        for name in names:
            (folder / name).mkdir()
            found[name] = Organisation(folder / name)
            stack.callback(found[name].stop)
        yield found


@contextmanager
def in_namespaces(folder: Path, names: Sequence[str]) -> Iterator[dict[str, Organisation]]:
    """Organisations with networks of their own, joined by wires to one switch without a way out."""
    outer = _hold(*NAMESPACE)
    try:
        inside = _enter(outer)
        _do(*inside, "ip", "link", "add", "switch", "type", "bridge")
        _do(*inside, "ip", "link", "set", "switch", "up")
        with ExitStack() as stack, on_loopback(folder, names) as found:
            for number, organisation in enumerate(found.values(), start=1):
                _wire(organisation, outer, number, stack)
            yield found
    finally:
        _end(outer)


def _wire(
    organisation: Organisation, outer: "subprocess.Popen[bytes]", number: int, stack: ExitStack
) -> None:
    """Give an organisation a namespace with an address, and a wire to the switch."""
    inside = _enter(outer)
    inner = _hold(*inside, "unshare", "--net")
    stack.callback(_end, inner)
    pid = str(_child_of(inner))
    wire, address = f"wire{number}", f"10.77.0.{number}"
    _do(*inside, "ip", "link", "add", wire, "type", "veth", "peer", "name", "eth0", "netns", pid)
    _do(*inside, "ip", "link", "set", wire, "master", "switch", "up")
    entering = ("nsenter", "--target", pid, "--user", "--preserve-credentials", "--net")
    for words in (
        ("addr", "add", f"{address}/24", "dev", "eth0"),
        ("link", "set", "eth0", "up"),
        ("link", "set", "lo", "up"),
    ):
        _do(*entering, "ip", *words)
    organisation.address, organisation.prefix = address, entering


def _hold(*command: str) -> "subprocess.Popen[bytes]":
    """A process that only keeps a namespace alive, until it is told to end."""
    process = subprocess.Popen(
        [*command, "sh", "-c", "echo ready; exec sleep 600"], stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    with process.stdout as said:
        assert said.readline() == b"ready\n"
    return process


def _end(process: "subprocess.Popen[bytes]") -> None:
    process.kill()
    process.wait(START_SECONDS)


def _enter(holder: "subprocess.Popen[bytes]") -> tuple[str, ...]:
    pid = str(_child_of(holder))
    return ("nsenter", "--target", pid, "--user", "--preserve-credentials", "--net")


def _child_of(process: "subprocess.Popen[bytes]") -> int:
    """The process inside: `unshare --fork` waits outside for it."""
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    return int(children[0]) if children else process.pid


def _do(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True, timeout=COMMAND_SECONDS)


def reason_without_namespaces() -> str | None:
    """Why organisations cannot have networks of their own here; None where they can."""
    missing = [tool for tool in ("unshare", "nsenter", "ip") if shutil.which(tool) is None]
    if missing:
        return f"there is no `{missing[0]}` here"
    attempt = subprocess.run(
        [*NAMESPACE, "ip", "link", "add", "switch", "type", "bridge"],
        capture_output=True,
        check=False,
    )
    return None if attempt.returncode == 0 else "network namespaces are not permitted here"

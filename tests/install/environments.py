"""Clean virtual environments into which the package is installed as its documents say.

The wheel is built from this source; pip takes everything else from its own package index, in the
versions of constraints.txt. Commands run without the source on their path.
"""

import os
import subprocess
import sys
import venv
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
CONSTRAINTS = ROOT / "constraints.txt"
PIP_SECONDS = 600.0  # for one installation, also where others use the machine
COMMAND_SECONDS = 900.0  # kernels may have to be compiled
_BUILD_BACKEND = "hatchling"  # small, and building needs it anyway


@dataclass(frozen=True, slots=True)
class Environment:
    """A virtual environment, and a folder for what its commands read and write."""

    python: Path
    folder: Path

    def run(self, *arguments: str | Path) -> "subprocess.CompletedProcess[str]":
        """`fedforest ARGUMENTS`, in the folder."""
        return self._run([self.python.with_name("fedforest"), *arguments])

    def run_python(self, code: str) -> "subprocess.CompletedProcess[str]":
        return self._run([self.python, "-c", code])

    def tell(self, *arguments: str | Path) -> str:
        """What a command that succeeds prints to standard output."""
        outcome = self.run(*arguments)
        assert outcome.returncode == 0, outcome.stdout + outcome.stderr
        return outcome.stdout.strip()

    def has(self, library: str) -> bool:
        return self.run_python(f"import {library}").returncode == 0

    @contextmanager
    def running(self, log: str, *arguments: str | Path) -> Iterator[Path]:
        """A command that runs until the end of the block; gives the file that it writes to."""
        path = self.folder / log
        with path.open("wb") as stream:
            process = subprocess.Popen(
                [self.python.with_name("fedforest"), *arguments],
                cwd=self.folder,
                env=_environment(),
                stdout=stream,
                stderr=stream,
            )
        try:
            yield path
        finally:
            process.terminate()
            try:
                process.wait(30.0)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def _run(self, command: Sequence[str | Path]) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            command,
            cwd=self.folder,
            env=_environment(),
            capture_output=True,
            text=True,
            timeout=COMMAND_SECONDS,
            check=False,
        )


def build_wheel(folder: Path) -> Path:
    """The wheel of this source; skips the test where pip reaches no package index."""
    backend = next(
        line for line in CONSTRAINTS.read_text().splitlines() if line.startswith(_BUILD_BACKEND)
    )
    if _pip("download", "--no-deps", "--dest", folder / "probe", backend).returncode:
        pytest.skip(f"there is no package index: pip cannot download {backend}")
    outcome = _pip("wheel", "--no-deps", "--wheel-dir", folder, ROOT)
    assert outcome.returncode == 0, outcome.stderr
    (wheel,) = folder.glob("*.whl")
    return wheel


def install(wheel: Path, extras: str, folder: Path) -> Environment:
    """An environment with the wheel and these extras, such as "[federation]"."""
    place = folder / "environment"
    venv.create(place, with_pip=False)
    python = place / "bin" / "python"
    # modules are compiled when they are imported, which is few of them
    outcome = _pip("--python", python, "install", "--no-compile", f"{wheel}{extras}")
    assert outcome.returncode == 0, outcome.stderr
    home = folder / "work"
    home.mkdir()
    return Environment(python, home)


def _pip(*arguments: str | Path) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "pip", *arguments],
        env={
            **_environment(),
            "PIP_CONSTRAINT": str(CONSTRAINTS),  # reaches the build of the wheel as well
            "PIP_DISABLE_PIP_VERSION_CHECK": "1",
            "PIP_QUIET": "1",
        },
        capture_output=True,
        text=True,
        timeout=PIP_SECONDS,
        check=False,
    )


def _environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}

"""Compiled kernels are found again by content, never trusted by name, and nobody must keep them."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from fedforest.kernels.compiled.cache import PORTABLE, Target, host_target

pytestmark = [
    pytest.mark.skipif(os.environ.get("NUMBA_DISABLE_JIT") == "1", reason="nothing is compiled"),
]
runs_portable_code = pytest.mark.skipif(
    not host_target().runs_code_for(PORTABLE), reason="this processor runs no shipped kernels"
)

KERNELS = """
from fedforest.kernels.jit import kernel

@kernel
def double(value):
    return 2 * value

@kernel
def add_doubled(values):
    total = 0
    for value in values:
        total += double(value)
    return total
"""
CALL = """
import sys
from pathlib import Path
import numpy as np
from numba import config
from numba.core import event
from fedforest.kernels.compiled import cache
if len(sys.argv) > 1:
    cache.SHIPPED = Path(sys.argv[1])
from some_kernels import add_doubled
compiled = []
class Count(event.Listener):
    def on_start(self, started):
        compiled.append(started.data["dispatcher"].__name__)
    def on_end(self, _):
        pass
before = config.CPU_NAME, config.CPU_FEATURES
with event.install_listener("numba:compile", Count()):
    print(add_doubled(np.arange(4)), *compiled)
assert before == (config.CPU_NAME, config.CPU_FEATURES)
"""


class Process:
    """Runs processes that call `add_doubled`."""

    def __init__(self, folder: Path) -> None:
        self.cache, self._sources = folder / "cache", folder / "sources"
        self.write(KERNELS)
        self.said = ""

    def write(self, source: str) -> None:
        self._sources.mkdir(exist_ok=True)
        (self._sources / "some_kernels.py").write_text(source)

    def move(self) -> None:
        self._sources = self._sources.rename(self._sources.with_name("elsewhere"))
        os.utime(self._sources / "some_kernels.py", (0, 0))

    def call(self, *arguments: object, **environment: object) -> list[str]:
        """The result, and the kernels that were compiled for it, in their order."""
        paths = os.pathsep.join([str(self._sources), *sys.path])
        given = {"FEDFOREST_CACHE": self.cache, "PYTHONPATH": paths, **environment}
        outcome = subprocess.run(
            [sys.executable, "-c", CALL, *map(str, arguments)],
            env={**os.environ, **{name: str(value) for name, value in given.items()}},
            capture_output=True,
            text=True,
            check=True,
            timeout=120,
        )
        self.said = outcome.stderr
        return outcome.stdout.split()

    def files(self, kernel: str = "add_doubled") -> list[Path]:
        return sorted(self.cache.glob(f"{kernel}-*"))


@pytest.fixture
def process(tmp_path: Path) -> Process:
    return Process(tmp_path)


COMPILED = ["12", "add_doubled", "double"]
LOADED = ["12"]


def test_a_kernel_is_compiled_once_with_what_it_calls(process: Process) -> None:
    assert process.call() == COMPILED
    assert "compiling kernels" in process.said
    assert process.call() == LOADED
    assert process.said == ""
    assert process.cache.stat().st_mode & 0o777 == 0o700
    assert {path.name.split("-")[0] for path in process.cache.iterdir()} == {
        "add_doubled",
        "double",
    }


def test_an_installer_may_move_and_date_the_sources(process: Process) -> None:
    process.call()
    process.move()
    assert process.call() == LOADED


def test_a_change_of_what_a_kernel_calls_compiles_both_again(process: Process) -> None:
    process.call()
    process.write(KERNELS.replace("2 * value", "3 * value"))
    assert process.call() == ["18", "add_doubled", "double"]
    process.write(KERNELS)
    assert process.call() == LOADED


@pytest.mark.parametrize("damage", ["cut", "changed", "empty", "of another kernel"])
def test_a_damaged_file_is_compiled_again(process: Process, damage: str) -> None:
    process.call()
    (file,) = process.files()
    whole = file.read_bytes()
    damaged = {
        "cut": whole[:-1],
        "changed": whole[:500] + bytes([whole[500] ^ 1]) + whole[501:],
        "empty": b"",
        "of another kernel": process.files("double")[0].read_bytes(),
    }
    file.write_bytes(damaged[damage])
    assert process.call() == ["12", "add_doubled"]
    assert process.call() == LOADED


def test_a_folder_that_others_may_write_to_is_not_used(process: Process) -> None:
    process.call()
    process.cache.chmod(0o777)
    assert process.call() == COMPILED
    assert process.said.count("others may write to it") == 1


def test_without_a_folder_kernels_are_compiled_in_every_process(
    process: Process, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("no folder")
    assert process.call(FEDFOREST_CACHE=tmp_path / "file" / "below") == COMPILED
    assert process.said.count("cannot be kept") == 1


def test_numbas_settings_take_part(process: Process) -> None:
    process.call()
    assert process.call(NUMBA_BOUNDSCHECK=1) == COMPILED
    assert process.call(NUMBA_CPU_NAME="generic", NUMBA_CPU_FEATURES="") == COMPILED
    assert process.call() == LOADED


@runs_portable_code
def test_shipped_kernels_are_loaded_only_where_numba_compiles_for_their_instructions(
    process: Process, tmp_path: Path
) -> None:
    portable = {"NUMBA_CPU_NAME": PORTABLE.processor, "NUMBA_CPU_FEATURES": PORTABLE.features}
    process.call(**portable)
    shipped, process.cache = process.cache, tmp_path / "empty"
    assert process.call(shipped) == LOADED
    assert not process.cache.exists()
    assert process.call(shipped, NUMBA_ENABLE_AVX=0) == COMPILED


def test_code_for_other_instructions_or_another_system_does_not_run() -> None:
    here = Target("x86_64-unknown-linux-gnu", "znver4", "+avx,+avx2,-avx512f")
    assert here.runs_code_for(Target(here.system, "x86-64-v3", "+avx,+avx2"))
    assert not here.runs_code_for(Target(here.system, "x86-64-v4", "+avx,+avx512f"))
    assert not here.runs_code_for(Target(here.system, "newer", "+never_heard_of"))
    assert not here.runs_code_for(Target("aarch64-unknown-linux-gnu", "znver4", here.features))

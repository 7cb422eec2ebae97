"""Whoever waits for kernels to be compiled hears of it, and nobody hears of those on the disk."""

import os
import subprocess
import sys
from pathlib import Path

import numba
import pytest

from fedforest.kernels.compilation import hear_of_compilation
from fedforest.runtime.kernel_cache import are_compiled

needs_numba = pytest.mark.skipif(
    os.environ.get("NUMBA_DISABLE_JIT") == "1", reason="nothing is compiled"
)

TWICE = """
import sys
from fedforest.kernels.compilation import hear_of_compilation
from fedforest.runtime.kernel_cache import are_compiled
from fedforest.kernels.partition import plan_move
from fedforest.kernels.cut_sums import pack_counts
import numpy as np
heard = []
print(are_compiled())
with hear_of_compilation(lambda: heard.append(1)):
    pack_counts(3, 2)
    plan_move(*(np.zeros(1, np.int64),) * 2, np.zeros(1, np.uint8), np.zeros(1, np.int64), 0)
print(len(heard), are_compiled())
"""


@needs_numba
def test_the_first_kernel_that_is_compiled_is_told_once() -> None:
    told: list[int] = []

    @numba.njit
    def add_one(value):  # type: ignore[no-untyped-def] # a kernel
        return value + 1

    @numba.njit
    def add_two(value):  # type: ignore[no-untyped-def] # a kernel
        return value + 2

    with hear_of_compilation(lambda: told.append(1)):
        assert add_one(1) + add_two(1) == 5
        assert add_one(2) == 3
    assert told == [1]
    add_one(1.5)  # nobody listens any more
    assert told == [1]


@needs_numba
def test_a_second_process_reads_kernels_from_the_disk_and_has_nothing_to_tell(
    tmp_path: Path,
) -> None:
    def run() -> str:
        environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
        command = [sys.executable, "-c", TWICE]
        return subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=300, check=True
        ).stdout

    assert run().split() == ["False", "1", "True"]
    assert run().split() == ["True", "0", "True"]


def test_where_nothing_is_compiled_everything_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fedforest.kernels.compilation.move_rows", lambda: None)
    assert are_compiled()

"""A kernel's fingerprint changes with its machine code, and with nothing else."""

import os
import subprocess
import sys
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from pkgutil import walk_packages
from typing import Any

import pytest
from numba.core.dispatcher import Dispatcher

import fedforest.kernels
from fedforest.kernels.compiled.fingerprint import fingerprint

pytestmark = pytest.mark.skipif(
    os.environ.get("NUMBA_DISABLE_JIT") == "1", reason="nothing is compiled"
)

SOURCE = '''
"""Kernels that call each other."""

import numpy as np
from numba import types
from numba.extending import intrinsic

from fedforest.kernels.jit import inlined, kernel

FACTOR = 3
TABLE = np.array([1, 2, 3])


@intrinsic
def same(_context, value):
    def generate(context, builder, signature, arguments):
        return arguments[0]

    return value(value), generate


@inlined
def innermost(value):
    return value + FACTOR


@kernel
def inner(value):
    return innermost(value) + TABLE[1] + same(value)


@kernel
def outer(values):
    """Adds up."""
    total = 0
    for value in values:
        total += inner(value)
    return total
'''


def fingerprint_of(folder: Path, source: str, name: str = "outer") -> str:
    path = folder / "kernels_for_a_test.py"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(source)
    spec = spec_from_file_location("kernels_for_a_test", path)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return fingerprint(getattr(module, name))


def test_another_folder_time_comment_line_or_docstring_changes_nothing(tmp_path: Path) -> None:
    before = fingerprint_of(tmp_path / "one", SOURCE)
    assert fingerprint_of(tmp_path / "other", SOURCE) == before
    os.utime(tmp_path / "other" / "kernels_for_a_test.py", (0, 0))
    commented = SOURCE.replace("    total = 0", "    # from nothing\n\n    total = 0")
    assert fingerprint_of(tmp_path / "other", commented) == before
    described = SOURCE.replace("Adds up.", "Adds all of them up.")
    assert fingerprint_of(tmp_path / "other", described) == before


@pytest.mark.parametrize(
    ("was", "becomes"),
    [
        ("total = 0", "total = 1"),  # the kernel itself
        ("+ TABLE[1]", "- TABLE[1]"),  # a kernel that it calls
        ("return value + FACTOR", "return value - FACTOR"),  # what that one takes in
        ("FACTOR = 3", "FACTOR = 4"),
        ("FACTOR = 3", "FACTOR = 3.0"),
        ("[1, 2, 3]", "[1, 2, 4]"),
        ("[1, 2, 3])", "[1, 2, 3], np.int32)"),
        ("return arguments[0]", "return arguments[-1]"),  # inside the intrinsic
        ("@inlined", "@kernel"),  # how it is compiled
    ],
)
def test_what_goes_into_the_machine_code_changes_it(tmp_path: Path, was: str, becomes: str) -> None:
    assert SOURCE.count(was) == 1
    changed = fingerprint_of(tmp_path, SOURCE.replace(was, becomes))
    assert changed != fingerprint_of(tmp_path, SOURCE)


def test_a_kernel_that_calls_none_of_it_stays_the_same(tmp_path: Path) -> None:
    changed = SOURCE.replace("total = 0", "total = 1")
    assert fingerprint_of(tmp_path, changed, "inner") == fingerprint_of(tmp_path, SOURCE, "inner")


def test_a_kernel_with_content_that_cannot_be_told_is_refused(tmp_path: Path) -> None:
    opaque = SOURCE.replace("FACTOR = 3", "FACTOR = object()")
    with pytest.raises(TypeError, match="cannot cover"):
        fingerprint_of(tmp_path, opaque)


def all_kernels() -> dict[str, Any]:
    names = [
        module.name
        for module in walk_packages(fedforest.kernels.__path__, "fedforest.kernels.")
        if not module.name.endswith("__main__")
    ]
    return {
        f"{name}.{key}": value
        for name in names
        for key, value in vars(import_module(name)).items()
        if isinstance(value, Dispatcher) and value.__module__ == name
    }


def test_every_kernel_has_a_fingerprint_of_its_own_that_every_process_finds() -> None:
    found = {name: fingerprint(kernel) for name, kernel in all_kernels().items()}
    assert len(found) > 300
    assert len(set(found.values())) == len(found)
    script = (
        "import sys; from importlib import import_module;"
        "from fedforest.kernels.compiled.fingerprint import fingerprint\n"
        "for name in sys.stdin.read().split():\n"
        "    module, kernel = name.rsplit('.', 1)\n"
        "    print(name, fingerprint(getattr(import_module(module), kernel)))"
    )
    again = subprocess.run(
        [sys.executable, "-c", script],
        input=" ".join(found),
        env={**os.environ, "PYTHONHASHSEED": "7"},
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    ).stdout
    assert dict(line.split() for line in again.splitlines()) == found

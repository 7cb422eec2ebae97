"""Multiples by secret digits: libsodium's, and made without a look at the digits."""

import platform
import re

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from numba.core.caching import NullCache

from fedforest.kernels.jit import borrowing, kernel
from fedforest.kernels.points.sums import clear
from fedforest.kernels.points.wide_products import ENTRIES, ENTRY_LIMBS, copy_entry
from fedforest.kernels.points.windows import add_multiples, add_selected, fill_tables
from tests.reference.ristretto import SCALARS, element, encode_twice, to_points
from tests.strategies import IS_PLAIN_PYTHON

N_WINDOWS = 1 if IS_PLAIN_PYTHON else 42
DIGITS = st.lists(
    st.one_of(st.sampled_from([0, 31, 32, 63]), st.integers(0, 63)),
    min_size=N_WINDOWS,
    max_size=N_WINDOWS,
)


def make_tables(scalar: int) -> np.ndarray:
    tables = np.zeros((N_WINDOWS, ENTRIES, ENTRY_LIMBS), np.uint64)
    fill_tables(to_points([element(scalar)]), N_WINDOWS, tables)
    return tables


@settings(max_examples=2 if IS_PLAIN_PYTHON else 60)
@given(SCALARS, SCALARS, st.lists(DIGITS, min_size=1, max_size=3))
@example(1, 0, [[0] * N_WINDOWS])
@example(1, 5, [[63] * N_WINDOWS, [32] * N_WINDOWS])
@example(0, 5, [[7] * N_WINDOWS])
def test_digits_stand_for_the_multiple_that_their_docstring_says(
    base: int, start: int, rows: list[list[int]]
) -> None:
    points = to_points([element(start)] * len(rows))
    add_multiples(points, np.array(rows, np.uint8), make_tables(base))
    multiples = [sum((2 * digit - 63) * 64**k for k, digit in enumerate(digits)) for digits in rows]
    assert encode_twice(points) == [element(2 * (start + k * base)) for k in multiples]


def test_more_scalars_than_fit_a_block_get_each_its_own_multiple() -> None:
    n = 2 if IS_PLAIN_PYTHON else 200
    digits = np.zeros((n, N_WINDOWS), np.uint8)
    digits[:, 0] = np.arange(n) % 64
    points = to_points([element(0)] * n)
    clear(points)
    add_multiples(points, digits, make_tables(1))
    rest = sum(-63 * 64**k for k in range(1, N_WINDOWS))
    assert encode_twice(points) == [element(2 * (2 * (k % 64) - 63 + rest)) for k in range(n)]


@kernel
def copy(table, wanted, chosen):  # type: ignore[no-untyped-def] # numba's to infer
    copy_entry(table, wanted, chosen)  # type: ignore[no-untyped-call]


def test_every_entry_is_found() -> None:
    table = np.arange(ENTRIES * ENTRY_LIMBS, dtype=np.uint64).reshape(ENTRIES, ENTRY_LIMBS)
    chosen = np.empty(ENTRY_LIMBS, np.uint64)
    for wanted in range(ENTRIES):
        copy(table, np.uint64(wanted), chosen)
        np.testing.assert_array_equal(chosen, table[wanted])


@pytest.mark.skipif(
    IS_PLAIN_PYTHON or platform.machine() != "x86_64", reason="reads machine code of x86-64"
)
def test_the_machine_code_jumps_nowhere_between_the_masks_of_a_look_up() -> None:
    """All entries' masks, and the sign's, are made and used in one straight line."""
    compiled = borrowing(add_selected.py_func)
    compiled._cache = NullCache()  # code from the disk does not come with its text
    shapes = ((1, 20), (1, N_WINDOWS), (N_WINDOWS, ENTRIES, ENTRY_LIMBS), (1, ENTRY_LIMBS))
    kinds = (np.uint64, np.uint8, np.uint64, np.uint64)
    compiled(*(np.zeros(shape, kind) for shape, kind in zip(shapes, kinds, strict=True)))
    [code] = compiled.inspect_asm().values()
    lines = code.splitlines()
    masks = [number for number, line in enumerate(lines) if line.strip() == "#APP"]
    assert len(masks) == 1 + ENTRIES
    between = lines[masks[0] : masks[-1]]
    assert [line for line in between if re.match(r"\s+(j[a-z]+|call\w*)\s", line)] == []

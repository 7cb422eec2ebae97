"""Sums of points are libsodium's: random, neutral, equal and opposite ones, and per bin."""

import numpy as np
import rbcl
from hypothesis import example, given, settings
from hypothesis import strategies as st

from fedforest.kernels.layout import MISSING_BIN, Columns, RowOrder
from fedforest.kernels.points.curve import ADDEND_LIMBS, POINT_LIMBS
from fedforest.kernels.points.encoding import decode_addends
from fedforest.kernels.points.sums import add_points, add_rows, clear, run_sums, subtract_points
from tests.reference.ristretto import (
    ORDER,
    SCALARS,
    element,
    encode_twice,
    to_points,
    to_words,
    turn,
)
from tests.strategies import IS_PLAIN_PYTHON

EXAMPLES = settings(max_examples=5 if IS_PLAIN_PYTHON else 100)
FEW = settings(max_examples=2 if IS_PLAIN_PYTHON else 40)


@EXAMPLES
@given(SCALARS, SCALARS, st.integers(0, 3))
@example(7, 7, 0)
@example(7, 7, 2)
@example(7, ORDER - 7, 0)
@example(7, ORDER - 7, 1)
@example(0, 0, 0)
@example(0, 7, 3)
def test_sums_and_differences_of_points_are_libsodiums(a: int, b: int, factor: int) -> None:
    """`factor` takes another point of the same element, which must not matter."""
    first, second = element(a), element(b)
    once = rbcl.crypto_core_ristretto255_add(first, second)
    apart = rbcl.crypto_core_ristretto255_sub(first, second)
    for combine, result in ((add_points, once), (subtract_points, apart)):
        totals = to_points([first])
        combine(totals, turn(to_points([second]), factor))
        assert encode_twice(totals) == [rbcl.crypto_core_ristretto255_add(result, result)]


def to_addends(scalars: list[int]) -> np.ndarray:
    addends = np.empty((len(scalars), ADDEND_LIMBS), np.uint64)
    assert decode_addends(to_words([element(scalar) for scalar in scalars]), addends) == -1
    return addends


@FEW
@given(st.data())
def test_cells_hold_the_sums_of_their_rows_as_often_as_these_were_drawn(
    data: st.DataObject,
) -> None:
    n_rows, n_columns, n_bins, n_components = 5, 2, 3, 2
    scalars = data.draw(st.lists(st.integers(0, 5), min_size=10, max_size=10))
    codes = st.sampled_from([0, 1, 2, MISSING_BIN])
    bins = data.draw(st.lists(codes, min_size=n_columns * n_rows, max_size=n_columns * n_rows))
    times = data.draw(st.lists(st.integers(1, 4), min_size=n_rows, max_size=n_rows))
    stop = data.draw(st.integers(0, n_rows))  # rows from there on are in the second node
    columns = Columns(
        np.array(bins, np.uint8),
        np.uint64(n_rows),
        np.full(n_columns, n_bins, np.int16),
        np.zeros(n_columns, np.bool_),
        np.zeros((0, 0), np.uint8),
    )
    entries = np.array([times[row] << 20 | row for row in range(n_rows)], np.uint32)
    order = RowOrder(entries, np.uint64(20), np.array([0, stop]), np.array([stop, n_rows]))
    candidates = np.array([[0, 1], [1, 0]], np.int32)
    cells = np.empty((2, 2, n_bins + 1, n_components, POINT_LIMBS), np.uint64)
    clear(cells.reshape(-1, POINT_LIMBS))
    add_rows(cells, to_addends(scalars), columns, order, candidates)

    expected = np.zeros((2, 2, n_bins + 1, n_components), int)
    for node, rows in enumerate((range(stop), range(stop, n_rows))):
        for place, column in enumerate(candidates[node]):
            for row in rows:
                code = bins[column * n_rows + row]
                cell = n_bins if code == MISSING_BIN else code
                for component in range(n_components):
                    added = times[row] * scalars[row * n_components + component]
                    expected[node, place, cell, component] += added
    assert encode_twice(cells.reshape(-1, POINT_LIMBS)) == [
        element(2 * int(k)) for k in expected.flat
    ]


def test_running_sums_leave_the_bins_after_them_as_they_are() -> None:
    scalars = np.arange(1, 9).reshape(1, 4, 2)  # four bins of two components
    cells = to_points([element(int(k)) for k in scalars.flat]).reshape(1, 4, 2, POINT_LIMBS)
    run_sums(cells, 3)
    expected = scalars.copy()
    expected[:, :3] = scalars[:, :3].cumsum(axis=1)
    assert encode_twice(cells.reshape(-1, POINT_LIMBS)) == [
        element(2 * int(k)) for k in expected.flat
    ]

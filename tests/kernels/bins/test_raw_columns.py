"""Numbers read together come out as if read column by column, wherever they lie in memory."""

from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray

from fedforest.kernels.bins.raw_columns import ROWS_TOGETHER, find_missing, round_columns
from fedforest.tree.table.blocks import group_columns
from tests.strategies import IS_PLAIN_PYTHON, SEEDS

N_EXAMPLES = 20 if IS_PLAIN_PYTHON else 100
VALUES = st.sampled_from([0.0, -0.0, 1.5, 1e300, -1e300, 1e-300, np.inf, -np.inf, np.nan])
SHAPES = st.tuples(
    st.sampled_from([1, 2, ROWS_TOGETHER, ROWS_TOGETHER + 1, 150]), st.integers(1, 4)
)


@given(
    SHAPES.flatmap(lambda shape: arrays(np.float64, shape, elements=VALUES)),
    st.booleans(),
    st.sampled_from([np.float32, np.float64]),
    SEEDS,
)
@settings(max_examples=N_EXAMPLES)
def test_columns_are_rounded_and_gaps_found_as_one_by_one(
    table: NDArray[Any], by_column: bool, dtype: type[np.floating], seed: int
) -> None:
    with np.errstate(over="ignore"):
        table = table.astype(dtype, order="F" if by_column else "C")
        expected = table.T.astype(np.float32)
    n_rows, n_columns = table.shape
    features = np.random.default_rng(seed).permutation(n_columns)
    values = np.zeros((n_columns, n_rows), np.float32)
    is_missing = np.zeros(n_columns, np.bool_)
    middle = n_rows // 2
    for block in group_columns((int(f), table[:, f]) for f in features):
        for first, last in ((middle, n_rows), (0, middle)):
            round_columns(*block, values, first, last)
        is_missing[block.features] = find_missing(block.cells, n_rows)
    assert np.array_equal(values, expected, equal_nan=True)
    assert is_missing.tolist() == np.isnan(table).any(axis=0).tolist()


def test_columns_without_rows_are_in_no_block() -> None:
    assert group_columns([(0, np.zeros(0)), (1, np.zeros(0, np.float32))]) == []

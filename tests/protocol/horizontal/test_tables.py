"""What a party declares about its columns, however it holds them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray

from fedforest.errors import DataError
from fedforest.kernels.bins.raw_columns import ROWS_TOGETHER
from fedforest.protocol.horizontal.payloads import CATEGORICAL, EMPTY, NUMERIC
from fedforest.protocol.horizontal.tables import (
    ColumnUnion,
    declare_columns,
    list_kinds,
)
from fedforest.tree.table.frames import read_table

NUMBERS = st.sampled_from([np.nan, -np.inf, np.inf, 0.0, 1.5])
MATRICES = st.tuples(st.integers(0, 5), st.integers(1, 4)).flatmap(
    lambda shape: arrays(np.float64, shape, elements=NUMBERS)
)


@given(MATRICES)
def test_a_matrix_is_declared_as_its_columns_one_by_one(matrix: NDArray[np.float64]) -> None:
    together = declare_columns(read_table(matrix, may_be_empty=True))
    columns = {f"x{place}": column for place, column in enumerate(matrix.T)}
    apart = declare_columns(read_table(columns, may_be_empty=True))
    assert together.names == apart.names
    assert bytes(together.kinds) == bytes(apart.kinds)
    assert bytes(together.has_missing) == bytes(apart.has_missing)


def test_a_matrix_of_many_rows_too_shows_where_a_value_is_missing() -> None:
    matrix = np.zeros((3 * ROWS_TOGETHER + 1, 3))
    matrix[-1, 1] = np.nan
    assert list(declare_columns(read_table(matrix)).has_missing) == [0, 1, 0]


def test_kinds_are_told_by_what_is_known() -> None:
    columns = {"text": ["a", "b"], "numbers": [np.nan, 1.0], "nothing": [np.nan, np.nan]}
    assert list_kinds(read_table(columns)) == [CATEGORICAL, NUMERIC, EMPTY]


def test_categories_are_united_where_somebody_has_some() -> None:
    tables = {"a": {"x": [1.0], "y": ["red"]}, "b": {"x": [2.0], "y": [np.nan]}}
    declared = {party: declare_columns(read_table(table)) for party, table in tables.items()}
    assert ColumnUnion(declared).categories() == [None, ("red",)]


def test_numbers_at_one_party_and_categories_at_another_are_refused() -> None:
    tables = {"a": {"x": [1.0]}, "b": {"x": ["red"]}}
    declared = {party: declare_columns(read_table(table)) for party, table in tables.items()}
    with pytest.raises(DataError, match="categories at party 'b' and numbers at party 'a'"):
        ColumnUnion(declared).categories()

"""A table that comes in pieces has the bins and values of the same table in memory."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from fedforest.tree.files.container import encode_model
from fedforest.tree.table.bins import Bins, fit_bins
from fedforest.tree.table.edges import SAMPLE_ROWS
from fedforest.tree.table.frames import Table, read_table
from fedforest.tree.table.pieces import TablePiece
from tests.strategies import SEEDS, numeric_columns


@dataclass(frozen=True)
class CutTable:
    """A table that is read in pieces; `rows` says which row of it stands at each place."""

    whole: Table
    cuts: Sequence[int]
    rows: NDArray[np.int64] | None = None

    @property
    def names(self) -> tuple[str, ...]:
        return self.whole.names

    @property
    def has_names(self) -> bool:
        return self.whole.has_names

    @property
    def n_rows(self) -> int:
        return self.whole.n_rows if self.rows is None else len(self.rows)

    @property
    def n_features(self) -> int:
        return self.whole.n_features

    def take(self, features: Sequence[int]) -> "CutTable":
        return replace(self, whole=self.whole.take(features))

    def pieces(self) -> Iterator[TablePiece]:
        ends = [0, *sorted(self.cuts), self.whole.n_rows]
        for first, last in pairwise(ends):
            if self.rows is None:
                yield TablePiece(self.whole.take_rows(slice(first, last)), range(first, last))
                continue
            places = np.flatnonzero((first <= self.rows) & (self.rows < last))
            yield TablePiece(self.whole.take_rows(self.rows[places]), places)

    def take_rows(self, rows: NDArray[np.int64]) -> "CutTable":
        return replace(self, rows=rows if self.rows is None else self.rows[rows])

    def take_span(self, first: int, last: int) -> "CutTable":
        return self.take_rows(np.arange(first, last))

    def load(self) -> Table:
        return self.whole if self.rows is None else self.whole.take_rows(self.rows)


def contents(bins: Bins) -> bytes:
    arrays, metadata = bins.to_arrays()
    return encode_model("bins", metadata, arrays)


def assert_same(cut: CutTable, whole: Table, *, seed: int = 0, max_bins: int = 255) -> None:
    expected = fit_bins(whole, seed=seed, max_bins=max_bins)
    found = fit_bins(cut, seed=seed, max_bins=max_bins)
    assert contents(found) == contents(expected)
    np.testing.assert_array_equal(found.transform(cut), expected.transform(whole))
    np.testing.assert_array_equal(found.raw_values(cut), expected.raw_values(whole))


@st.composite
def mixed_tables(draw: st.DrawFn, n_rows: int) -> Table:
    """Numbers of both widths, and categories, some of them rare, with missing values."""
    rng = np.random.default_rng(draw(SEEDS))
    columns: dict[str, Any] = {
        "narrow": draw(numeric_columns(n_rows, np.float32)),
        "wide": draw(numeric_columns(n_rows)),
        "few": rng.integers(0, draw(st.sampled_from([2, 250, 300])), n_rows),
    }
    names = np.array([f"c{i:03}" for i in range(draw(st.sampled_from([1, 5, 400])))], object)
    column = rng.choice(names, n_rows)
    column[rng.random(n_rows) < draw(st.sampled_from([0.0, 0.3, 1.0]))] = None
    return read_table(pd.DataFrame({**columns, "text": pd.Series(column, dtype="category")}))


@given(st.data(), st.sampled_from([1, 17, 1025]), st.sampled_from([2, 16, 255]))
@settings(max_examples=25)
def test_any_pieces_give_the_bins_of_the_table(
    data: st.DataObject, n_rows: int, max_bins: int
) -> None:
    table = data.draw(mixed_tables(n_rows))
    cuts = data.draw(st.lists(st.integers(0, n_rows), max_size=5))
    assert_same(CutTable(table, cuts), table, max_bins=max_bins)


@given(st.data(), st.sampled_from([17, 513]))
@settings(max_examples=15)
def test_chosen_rows_in_any_order_give_the_bins_of_their_table(
    data: st.DataObject, n_rows: int
) -> None:
    table = data.draw(mixed_tables(n_rows))
    rng = np.random.default_rng(data.draw(SEEDS))
    rows = rng.permutation(n_rows)[: data.draw(st.integers(1, n_rows))]
    cuts = data.draw(st.lists(st.integers(0, n_rows), max_size=3))
    assert_same(CutTable(table, cuts, rows), table.take_rows(rows))


@pytest.mark.parametrize("is_permuted", [False, True])
def test_the_sampled_rows_of_a_long_table_are_found_in_its_pieces(is_permuted: bool) -> None:
    n_rows = SAMPLE_ROWS + 12_345
    rng = np.random.default_rng(3)
    matrix = rng.standard_normal((n_rows, 5))
    matrix[:, 1] = np.arange(n_rows) % 250
    matrix[rng.integers(0, n_rows, 3), 1] = [-1.5, np.inf, 17.25]  # seldom in the sample
    matrix[:, 2] = np.nan
    matrix[rng.integers(0, n_rows, 3), 2] = [0, -1, 0]
    matrix[:, 3] = np.arange(n_rows) // 100  # every piece has few values, the table many
    matrix[rng.random(n_rows) < 0.1, 4] = np.nan
    rows = rng.permutation(n_rows) if is_permuted else None
    whole = read_table(matrix if rows is None else matrix[rows])
    assert_same(CutTable(read_table(matrix), [7, 512, 30_000, 30_000], rows), whole, seed=5)


def test_a_column_whose_pieces_differ_in_width_has_the_bins_of_the_wider_one() -> None:
    values = np.arange(600.0) % 90 / 4
    wide = read_table(values[:, None])

    class Widths(CutTable):
        def pieces(self) -> Iterator[TablePiece]:
            for number, piece in enumerate(CutTable.pieces(self)):
                matrix = np.column_stack([np.asarray(c) for c in piece.table.columns])
                narrow = matrix.astype([np.float32, np.float64][number % 2])
                yield TablePiece(read_table(narrow), piece.places)

    assert_same(Widths(wide, [100, 300, 450]), wide)


def test_arrays_live_where_the_caller_wants_them() -> None:
    table, given = read_table(np.arange(12.0).reshape(6, 2)), []

    def allocate(shape: tuple[int, ...], dtype: Any) -> NDArray[Any]:
        given.append(np.empty(shape, dtype))
        return given[-1]

    bins = fit_bins(table, seed=0)
    assert bins.transform(table, allocate=allocate) is given[0]
    assert bins.raw_values(table, allocate=allocate) is given[1]

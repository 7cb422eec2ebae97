"""The binning kernels against slow references; also run without the compiler."""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from fedforest.kernels.bins import binning
from fedforest.kernels.layout import MAX_BINS, MISSING_BIN
from tests.reference import binning as reference
from tests.strategies import BLOCK_SIZES, numeric_columns

DTYPES = st.sampled_from([np.float32, np.float64])
NUMBERS = st.floats(allow_nan=False)
SMALLEST = 5e-324
LARGEST = float(np.finfo(np.float64).max)


@pytest.fixture(autouse=True, scope="module")
def _silent_arithmetic() -> Iterator[None]:
    """Compiled kernels overflow to infinity silently; plain Python would warn."""
    with np.errstate(all="ignore"):
        yield


def cells_of(matrix: NDArray[Any]) -> binning.Cells:
    """The cells of a C- or Fortran-ordered matrix."""
    memory = matrix.reshape(-1, order="A").view()
    memory.flags.writeable = False
    row_step, column_step = (stride // matrix.itemsize for stride in matrix.strides)
    return binning.Cells(memory, row_step, np.arange(matrix.shape[1]) * column_step)


def search_for(edges: Sequence[Sequence[float]], dtype: type) -> binning.Search:
    n_columns = len(edges)
    padded: NDArray[Any] = np.full((n_columns, binning.EDGES_WIDTH), np.inf, dtype)
    for row, column_edges in zip(padded, edges, strict=True):
        row[: len(column_edges)] = column_edges
    search = binning.Search(
        padded,
        np.zeros((n_columns, binning.N_CELLS), np.uint8),
        np.zeros(n_columns, dtype),
        np.zeros(n_columns, dtype),
        np.zeros(n_columns, np.int64),
    )
    binning.build_guides(search, np.array([len(column_edges) for column_edges in edges]))
    return search


def edges_at_quantiles(values: NDArray[Any], max_bins: int) -> list[float]:
    edges = np.empty(max_bins - 1)
    n_edges = binning.edges_at_quantiles(np.sort(values), max_bins, edges)
    return list(edges[:n_edges])


@st.composite
def matrices(draw: st.DrawFn) -> NDArray[Any]:
    dtype, n_rows = draw(DTYPES), draw(st.sampled_from(BLOCK_SIZES))
    columns = [draw(numeric_columns(n_rows, dtype)) for _ in range(draw(st.integers(1, 3)))]
    order = np.ascontiguousarray if draw(st.booleans()) else np.asfortranarray
    return order(np.column_stack(columns))


@given(NUMBERS, NUMBERS)
@example(-np.inf, np.inf)
@example(-np.inf, -LARGEST)
@example(LARGEST, np.inf)
@example(-LARGEST, LARGEST)
@example(0.0, SMALLEST)
@example(SMALLEST, 2 * SMALLEST)
@example(1.0, np.nextafter(1.0, 2.0))
def test_an_edge_is_not_below_the_lower_and_below_the_higher_value(a: float, b: float) -> None:
    low, high = sorted((a, b))
    if low < high:
        assert low <= binning.midpoint(low, high) < high


def test_an_edge_lies_halfway() -> None:
    assert binning.midpoint(1.0, 2.0) == 1.5
    assert binning.midpoint(-np.inf, np.inf) == 0.0


@given(st.lists(st.integers(-20, 20)), st.integers(2, 50))
def test_distinct_values_are_listed_until_there_are_too_many(values: list[int], limit: int) -> None:
    distinct = np.empty(limit)
    count = binning.list_distinct(np.sort(np.array(values, np.float64)), limit, distinct)
    expected = sorted(set(values))
    assert count == min(len(expected), limit + 1)
    if count <= limit:
        assert distinct[:count].tolist() == expected


@given(st.lists(NUMBERS, max_size=50, unique=True))
def test_edges_between_distinct_values_give_each_its_own_bin(values: list[float]) -> None:
    distinct = np.unique(values)
    edges = np.empty(max(len(distinct) - 1, 0))
    binning.edges_between(distinct, edges)
    assert reference.find_bins(distinct, list(edges)).tolist() == list(range(len(distinct)))


@given(st.data(), st.sampled_from(BLOCK_SIZES), DTYPES, st.sampled_from([2, 3, 16, 255]))
@settings(max_examples=50)
def test_quantile_edges_equal_the_reference(
    data: st.DataObject, n_rows: int, dtype: type, max_bins: int
) -> None:
    column = data.draw(numeric_columns(n_rows, dtype))
    values = column[~np.isnan(column)]
    edges = edges_at_quantiles(values, max_bins)
    assert edges == reference.edges_at_quantiles(values.astype(np.float64).tolist(), max_bins)
    assert len(edges) < max_bins
    assert all(low < high for low, high in pairwise(edges))


@given(st.integers(1, 1000), st.integers(2, 255))
@settings(max_examples=30)
def test_bins_of_different_values_have_equal_sizes_up_to_one(n: int, max_bins: int) -> None:
    values = np.random.default_rng(n).permutation(n).astype(np.float64)
    counts = np.bincount(reference.find_bins(values, edges_at_quantiles(values, max_bins)))
    assert len(counts) == min(n, max_bins)
    assert counts.max() - counts.min() <= 1


def test_a_frequent_value_has_a_bin_of_its_own_and_leaves_the_other_bins_to_the_others() -> None:
    others = np.random.default_rng(0).random(1000) + 1
    edges = edges_at_quantiles(np.concatenate([np.zeros(9000), others]), 255)
    counts = np.bincount(reference.find_bins(others, edges), minlength=255)
    assert len(edges) == 254
    assert counts[0] == 0
    assert counts[1:].max() <= 4


@given(matrices(), st.integers(0, 2**32 - 1))
@settings(max_examples=30)
def test_gathered_rows_are_the_rows_asked_for(matrix: NDArray[Any], seed: int) -> None:
    rows = np.sort(np.random.default_rng(seed).integers(0, len(matrix), len(matrix)))
    gathered = np.zeros((matrix.shape[1], len(rows)), matrix.dtype)
    middle = len(rows) // 2
    binning.gather_rows(cells_of(matrix), rows, gathered, 0, middle)
    assert not gathered[:, middle:].any()
    binning.gather_rows(cells_of(matrix), rows, gathered, middle, len(rows))
    np.testing.assert_array_equal(gathered, matrix[rows].T)


@given(matrices(), st.sampled_from([2, 5, 100, 255]))
@settings(max_examples=60)
def test_bins_equal_the_reference(matrix: NDArray[Any], max_bins: int) -> None:
    edges = [edges_at_quantiles(column[~np.isnan(column)], max_bins) for column in matrix.T]
    edges = [
        sorted({float(matrix.dtype.type(edge)) for edge in column} - {np.inf}) for column in edges
    ]
    bins = np.full(matrix.shape[::-1], 77, np.uint8)
    features = np.arange(matrix.shape[1])[::-1].copy()
    search = search_for(edges, matrix.dtype.type)
    binning.bin_rows(cells_of(matrix), search, features, bins, 0, len(matrix))
    expected = [reference.find_bins(c, e) for c, e in zip(matrix.T, edges, strict=True)]
    np.testing.assert_array_equal(bins, expected[::-1])


@given(st.lists(NUMBERS.filter(lambda x: x < np.inf), max_size=254, unique=True), DTYPES)
@settings(max_examples=60)
def test_values_at_and_beside_every_edge_find_their_bin(edges: list[float], dtype: type) -> None:
    ascending: NDArray[Any] = np.unique(np.array(edges, dtype))
    ascending = ascending[ascending < np.inf]
    limits: NDArray[Any] = np.array([-np.inf, np.inf, np.nan], dtype)
    below, above = np.nextafter(ascending, limits[0]), np.nextafter(ascending, limits[1])
    column = np.concatenate([ascending, below, above, limits])[:, None]
    bins = np.empty((1, len(column)), np.uint8)
    search = search_for([ascending.tolist()], dtype)
    binning.bin_rows(cells_of(column), search, np.zeros(1, np.int64), bins, 0, len(column))
    np.testing.assert_array_equal(bins[0], reference.find_bins(column[:, 0], ascending.tolist()))


def test_only_the_rows_of_the_range_are_binned() -> None:
    matrix = np.arange(12.0).reshape(6, 2)
    bins = np.full((2, 6), 77, np.uint8)
    search = search_for([[4.5], [4.5]], np.float64)
    binning.bin_rows(cells_of(matrix), search, np.arange(2), bins, 2, 4)
    assert bins.tolist() == [[77, 77, 0, 1, 77, 77], [77, 77, 1, 1, 77, 77]]


def test_even_edges_need_one_comparison_and_crowded_edges_no_more_than_eight() -> None:
    crowded = [1e9, *np.linspace(0, 1, 252), -1e9]
    search = search_for([[], np.linspace(0, 1, 254).tolist(), sorted(crowded)], np.float32)
    assert search.n_steps.tolist()[:2] == [0, 1]
    assert search.n_steps[2] <= 2, "outlying edges must not crowd the cells of all others"
    powers = [2.0**exponent for exponent in range(-120, 120)]
    assert search_for([powers], np.float64).n_steps[0] == 8


def test_a_missing_value_has_the_missing_bin_even_without_edges() -> None:
    column = np.array([[np.nan], [1.0]])
    bins = np.empty((1, 2), np.uint8)
    search = search_for([[]], np.float64)
    binning.bin_rows(cells_of(column), search, np.zeros(1, np.int64), bins, 0, 2)
    assert bins.tolist() == [[MISSING_BIN, 0]]


@given(matrices(), st.integers(0, 40))
@settings(max_examples=30)
def test_strangers_are_all_values_that_are_not_known(matrix: NDArray[Any], n_known: int) -> None:
    n_columns = matrix.shape[1]
    present = [np.unique(column[~np.isnan(column)]) for column in matrix.T]
    known = np.full((n_columns, MAX_BINS), np.nan, matrix.dtype)
    for row, values in zip(known, present, strict=True):
        row[: len(values[:n_known])] = values[:n_known]
    edges = [values[:n_known][:-1].tolist() for values in present]
    counts = np.zeros(n_columns, np.int64)
    distinct = binning.Distinct(known, np.empty_like(known), counts)
    search = search_for(edges, matrix.dtype.type)
    binning.find_strangers(cells_of(matrix), search, distinct, 0, len(matrix))
    for column, values in enumerate(present):
        expected = values[n_known:]
        assert counts[column] == min(len(expected), MAX_BINS + 1)
        if counts[column] <= MAX_BINS:
            found = distinct.strangers[column, : counts[column]]
            np.testing.assert_array_equal(np.sort(found), expected)

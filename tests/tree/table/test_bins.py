"""Fitted bins: equal to the reference, and the same however the table is held."""

import tracemalloc
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from fedforest.errors import ConfigurationError, DataError
from fedforest.tree.files.container import encode_model
from fedforest.tree.table.bins import Bins, fit_bins, number_categories
from fedforest.tree.table.edges import SAMPLE_ROWS, sample_rows
from fedforest.tree.table.frames import read_table
from fedforest.tree.workers import Workers
from tests.reference import binning as reference
from tests.strategies import BLOCK_SIZES, numeric_columns

MISSING = 255
MANY_ROWS = SAMPLE_ROWS + 12_345  # more than are sampled


@pytest.fixture(scope="module")
def two_workers() -> Iterator[Workers]:
    with ThreadPoolExecutor(2) as executor:
        yield Workers(executor, 3)


def bin_table(data: Any, *, seed: int = 0, **options: Any) -> NDArray[np.uint8]:
    table = read_table(data)
    return fit_bins(table, seed=seed, **options).transform(table)


def contents(bins: Bins) -> bytes:
    """Everything in the bins, for comparison."""
    arrays, metadata = bins.to_arrays()
    return encode_model("bins", metadata, arrays)


def mixed_columns(n_rows: int, seed: int) -> NDArray[np.float64]:
    """Continuous, skewed, tied, few-valued, constant and empty columns."""
    rng = np.random.default_rng(seed)
    matrix = rng.standard_normal((n_rows, 7))
    matrix[:, 1] = np.exp(4 * matrix[:, 1])
    matrix[:, 2] = np.where(rng.random(n_rows) < 0.95, 0, matrix[:, 2])
    matrix[:, 3] = rng.integers(0, 200, n_rows)
    matrix[:, 4] = 7
    matrix[:, 5] = np.nan
    matrix[rng.random(n_rows) < 0.1, 6] = np.nan
    matrix[rng.random(n_rows) < 0.01, 6] = -np.inf
    return matrix


@given(st.data(), st.sampled_from(BLOCK_SIZES), st.sampled_from([2, 16, 255]))
@settings(max_examples=60)
def test_bins_equal_the_reference(data: st.DataObject, n_rows: int, max_bins: int) -> None:
    dtype = data.draw(st.sampled_from([np.float32, np.float64]))
    columns = [data.draw(numeric_columns(n_rows, dtype)) for _ in range(3)]
    table = read_table(np.column_stack(columns))
    bins = fit_bins(table, seed=0, max_bins=max_bins)
    binned = bins.transform(table)
    for feature, column in enumerate(columns):
        edges = reference.fit_edges(column, np.arange(n_rows), max_bins)
        assert bins.edges(feature).tolist() == edges
        assert bins.n_bins[feature] == len(edges) + 1
        np.testing.assert_array_equal(binned[feature], reference.find_bins(column, edges))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_bins_of_sampled_tables_equal_the_reference(dtype: type) -> None:
    matrix: NDArray[Any] = mixed_columns(MANY_ROWS, seed=1)[:, [0, 2, 3, 5, 6]].astype(dtype)
    table = read_table(matrix)
    bins = fit_bins(table, seed=5, max_bins=100)
    rows = sample_rows(MANY_ROWS, seed=5)
    binned = bins.transform(table)
    for feature, column in enumerate(matrix.T):
        edges = reference.fit_edges(column, rows, 100)
        assert bins.edges(feature).tolist() == edges
        np.testing.assert_array_equal(binned[feature], reference.find_bins(column, edges))


def test_the_sample_has_one_row_of_every_stratum() -> None:
    rows = sample_rows(MANY_ROWS, seed=3)
    begins = np.arange(SAMPLE_ROWS + 1) * MANY_ROWS // SAMPLE_ROWS
    assert ((begins[:-1] <= rows) & (rows < begins[1:])).all()
    assert (rows != sample_rows(MANY_ROWS, seed=4)).any()
    assert sample_rows(SAMPLE_ROWS, seed=3).tolist() == list(range(SAMPLE_ROWS))


def rows_outside_the_sample(seed: int) -> NDArray[np.int64]:
    return np.setdiff1d(np.arange(MANY_ROWS), sample_rows(MANY_ROWS, seed))


def test_a_value_that_the_sample_missed_keeps_its_own_bin_if_there_are_few_values() -> None:
    column = np.arange(MANY_ROWS) % 250.0
    unseen = rows_outside_the_sample(seed=9)[:4]
    column[unseen] = [-1.5, np.inf, 17.25, 17.25]
    binned = bin_table(column[:, None], seed=9)[0]
    assert len(np.unique(binned)) == len(np.unique(column)) == 253
    np.testing.assert_array_equal(
        np.argsort(column, kind="stable"), np.argsort(binned, kind="stable")
    )


def test_a_column_whose_sample_is_empty_still_keeps_its_few_values() -> None:
    column = np.full(MANY_ROWS, np.nan)
    unseen = rows_outside_the_sample(seed=9)[:3]
    column[unseen] = [0, -1, 0]
    binned = bin_table(column[:, None], seed=9)[0]
    assert binned[unseen].tolist() == [1, 0, 1]
    assert np.bincount(binned)[MISSING] == MANY_ROWS - 3


@pytest.mark.parametrize("n_unseen", [6, 300, 5000])
def test_values_that_the_sample_missed_do_not_crowd_out_those_it_saw(n_unseen: int) -> None:
    column = np.arange(MANY_ROWS) % 250.0
    column[rows_outside_the_sample(seed=9)[:n_unseen]] = 300 + np.arange(n_unseen)
    bins = fit_bins(read_table(column[:, None]), seed=9)
    assert bins.edges(0).tolist() == (np.arange(249) + 0.5).tolist()


@given(st.integers(0, 2**32 - 1))
@settings(max_examples=5)
def test_every_way_of_holding_a_table_gives_the_same_bins(seed: int) -> None:
    matrix = mixed_columns(2000, seed).astype(np.float32)
    expected = bin_table(matrix)
    wide = np.repeat(matrix, 2, axis=1)
    read_only = matrix.copy()
    read_only.flags.writeable = False
    unaligned = np.frombuffer(b"x" + matrix.tobytes(), np.uint8)[1:].view(np.float32)
    frame = pd.DataFrame(matrix, columns=list("abcdefg"))
    ways: dict[str, Any] = {
        "Fortran order": np.asfortranarray(matrix),
        "float64": matrix.astype(np.float64),
        "every second column": wide[:, ::2],
        "every second row": np.repeat(matrix, 2, axis=0)[::2],
        "backwards in memory": matrix[::-1, ::-1].copy()[::-1, ::-1],
        "read-only": read_only,
        "unaligned": unaligned.reshape(matrix.shape),
        "big-endian": matrix.astype(">f4"),
        "broadcast": np.broadcast_to(matrix[None], (1, *matrix.shape))[0],
        "lists": matrix.tolist(),
        "objects": matrix.astype(object),
        "mapping": {f"x{i}": column for i, column in enumerate(matrix.T)},
        "frame": frame,
        "frame of separate columns": pd.DataFrame({c: frame[c].copy() for c in frame}),
        "frame around a matrix": pd.DataFrame(matrix, columns=list("abcdefg"), copy=False),
        "nullable frame": frame.astype("Float64"),
        "frame with text": frame.assign(text="x"),
    }
    for way, data in ways.items():
        np.testing.assert_array_equal(bin_table(data)[:7], expected, err_msg=way)


@pytest.mark.parametrize("fields", ["f4,f8", "f8,f4", "f4,f8,f4", "f8,f4,f8,f4"])
@pytest.mark.parametrize("align", [True, False])
def test_columns_that_are_views_of_one_buffer_are_told_apart(fields: str, align: bool) -> None:
    records: NDArray[Any] = np.zeros(400, np.dtype(fields, align=align))
    columns = {}
    for seed, name in enumerate(records.dtype.names or ()):
        records[name] = np.random.default_rng(seed).random(400)
        columns[name] = records[name][:200]
        columns[name + " of every second row"] = records[name][::2]
        columns[name + " backwards"] = records[name][199::-1]
    apart = {name: column.copy() for name, column in columns.items()}
    np.testing.assert_array_equal(bin_table(columns), bin_table(apart))


def test_constant_columns_by_broadcasting_are_read() -> None:
    assert bin_table(np.broadcast_to(np.float32(3), (1000, 2))).tolist() == [[0] * 1000] * 2


@pytest.mark.parametrize("n_workers", [1, 2, 3, 5])
def test_the_number_of_workers_does_not_matter(n_workers: int) -> None:
    table = read_table(mixed_columns(MANY_ROWS, seed=2))
    alone = fit_bins(table, seed=1)
    with ThreadPoolExecutor(n_workers) as executor:
        shared = fit_bins(table, seed=1, workers=Workers(executor, n_workers + 1))
        assert contents(shared) == contents(alone)
        np.testing.assert_array_equal(
            shared.transform(table, Workers(executor, n_workers + 1)), alone.transform(table)
        )


def test_every_division_of_the_columns_among_parties_gives_the_same_bins() -> None:
    matrix = mixed_columns(MANY_ROWS, seed=3)
    pooled = fit_bins(read_table(matrix), seed=8)
    for cut in range(8):
        parts = [fit_bins(read_table(part), seed=8) for part in np.split(matrix, [cut], axis=1)]
        assert contents(Bins.concatenate(parts)) == contents(pooled)


def test_more_columns_than_are_sampled_together_are_binned_like_each_alone() -> None:
    matrix = np.random.default_rng(0).standard_normal((300, 150))
    alone = np.concatenate([bin_table(matrix[:, [feature]]) for feature in range(150)])
    np.testing.assert_array_equal(bin_table(matrix), alone)
    two_blocks = {f"x{i}": matrix[:, i] if i % 3 else matrix[:, i].copy() for i in range(150)}
    np.testing.assert_array_equal(bin_table(two_blocks), alone)


def test_missing_values_have_the_last_bin_and_never_a_value_bin() -> None:
    binned = bin_table([[np.nan, 1.0], [2.0, np.nan], [3.0, np.nan]])
    assert binned.tolist() == [[MISSING, 0, 1], [0, MISSING, MISSING]]


def test_columns_without_values_or_with_one_value_have_one_bin() -> None:
    table = read_table([[None, 5, "a"], [None, 5, "a"]])
    bins = fit_bins(table, seed=0)
    assert bins.n_bins.tolist() == [1, 1, 1]
    assert bins.transform(table).tolist() == [[MISSING, MISSING], [0, 0], [0, 0]]


def test_infinities_and_huge_values_are_the_outermost_bins() -> None:
    largest = np.finfo(np.float64).max
    column = [np.inf, -np.inf, largest, -largest, 0.0, -0.0, 5e-324]
    assert bin_table(np.array(column)[:, None]).tolist() == [[5, 0, 4, 1, 2, 2, 3]]


def test_float32_values_meet_float64_edges_as_float64_values_would() -> None:
    rng = np.random.default_rng(0)
    bins = fit_bins(read_table(rng.standard_normal((5000, 1)) * 1e-3 + 1), seed=0)
    narrow = (rng.standard_normal((5000, 1)) * 1e-3 + 1).astype(np.float32)
    np.testing.assert_array_equal(
        bins.transform(read_table(narrow)), bins.transform(read_table(narrow.astype(np.float64)))
    )


@pytest.mark.parametrize("max_bins", [2, 7, 255])
def test_no_column_has_more_bins_than_asked_for(max_bins: int) -> None:
    bins = fit_bins(read_table(mixed_columns(3000, seed=0)), seed=0, max_bins=max_bins)
    assert bins.n_bins.max() == max_bins


@pytest.mark.parametrize("max_bins", [-1, 0, 1, 256])
def test_an_impossible_number_of_bins_is_refused(max_bins: int) -> None:
    with pytest.raises(ConfigurationError, match="between 2 and 255"):
        fit_bins(read_table([[1.0]]), seed=0, max_bins=max_bins)


def test_a_table_without_columns_has_no_bins() -> None:
    bins = fit_bins(read_table(np.empty((5, 0))), seed=0)
    assert bins.transform(read_table(np.empty((9, 0)))).shape == (0, 9)


def test_binned_tables_are_bytes_in_column_order() -> None:
    binned = bin_table(np.ones((5, 3)))
    assert binned.dtype == np.uint8
    assert binned.shape == (3, 5)
    assert binned.flags.c_contiguous


def peak_bytes(work: Callable[[], object]) -> int:
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_fitting_and_binning_need_an_eighth_of_the_table_beside_the_result(
    two_workers: Workers,
) -> None:
    matrix = np.random.default_rng(0).standard_normal((1_000_000, 8), dtype=np.float32)
    matrix[:, 0] = np.round(matrix[:, 0])
    table = read_table(matrix)
    bins = fit_bins(table, seed=0, workers=two_workers)
    fitting = peak_bytes(lambda: fit_bins(table, seed=0, workers=two_workers))
    binning = peak_bytes(lambda: bins.transform(table, two_workers)) - matrix.size
    assert fitting < matrix.nbytes / 8  # three threads may sort a sample each at the same time
    assert 0 <= binning < matrix.nbytes / 8


def test_named_columns_are_found_in_any_order() -> None:
    frame = pd.DataFrame({"a": [1.0, 2.0], "b": ["x", "y"], "c": [5.0, 4.0]})
    bins = fit_bins(read_table(frame), seed=0)
    expected = bins.transform(read_table(frame))
    np.testing.assert_array_equal(bins.transform(read_table(frame[["c", "a", "b"]])), expected)


def test_missing_and_unknown_columns_are_named() -> None:
    bins = fit_bins(read_table({name: [1.0] for name in "abcdefgh"}), seed=0)
    with pytest.raises(DataError, match=r"lacks .* 'b', 'c', 'd', 'e', 'f' and 2 more"):
        bins.transform(read_table({"a": [1.0]}))
    with pytest.raises(DataError, match="training had not: 'z'"):
        bins.transform(read_table({name: [1.0] for name in "abcdefghz"}))


@pytest.mark.parametrize("n_columns", [1, 3])
def test_unnamed_columns_must_be_as_many_as_in_training(n_columns: int) -> None:
    bins = fit_bins(read_table(np.ones((2, 2))), seed=0)
    with pytest.raises(DataError, match=f"{n_columns} columns, but training had 2"):
        bins.transform(read_table(np.ones((2, n_columns))))


def test_named_and_unnamed_tables_meet_by_position() -> None:
    matrix = np.array([[1.0, 5.0], [2.0, 4.0]])
    frame = pd.DataFrame(matrix, columns=["b", "a"])
    expected = [[0, 1], [1, 0]]
    assert fit_bins(read_table(frame), seed=0).transform(read_table(matrix)).tolist() == expected
    assert fit_bins(read_table(matrix), seed=0).transform(read_table(frame)).tolist() == expected


def test_taken_columns_keep_their_rules() -> None:
    table = read_table({"a": [1.0, 2.0], "b": ["x", "y"], "c": [5.0, 4.0]})
    bins = fit_bins(table, seed=0)
    taken = bins.take([2, 1])
    assert taken.names == ("c", "b")
    np.testing.assert_array_equal(
        taken.transform(table.take([1, 2])), bins.transform(table)[[2, 1]]
    )


def test_columns_of_parties_with_equal_names_are_numbered_anew() -> None:
    part = fit_bins(read_table({"age": [1.0, 2.0]}), seed=0)
    both = Bins.concatenate([part, part])
    assert both.names == ("x0", "x1")
    assert not both.has_names
    other = fit_bins(read_table({"size": [1.0, 2.0]}), seed=0)
    assert Bins.concatenate([part, other]).names == ("age", "size")


@pytest.mark.parametrize("n_workers", [1, 3])
@pytest.mark.parametrize("order", ["C", "F"])
def test_raw_values_of_a_matrix_are_those_of_its_columns_one_by_one(
    order: Any, n_workers: int
) -> None:
    rng = np.random.default_rng(0)
    matrix = np.asarray(rng.normal(size=(2000, 7)), order=order)
    matrix[0, :3] = np.nan, np.inf, 1e300  # beyond float32 is infinite
    columns = {f"x{place}": column for place, column in enumerate(matrix.T)}
    tables = read_table(matrix), read_table(columns)
    bins = number_categories(tables[0].names, [None] * 7, has_names=False)
    with ThreadPoolExecutor(2) as executor:
        workers = Workers(executor, n_workers)
        together, apart = (bins.raw_values(table, workers) for table in tables)
    assert together.flags.c_contiguous
    assert np.array_equal(together, apart, equal_nan=True)

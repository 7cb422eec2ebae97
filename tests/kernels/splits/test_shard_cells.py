"""Histograms of shards equal their reference, and add up to the histogram of the table."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from fedforest.kernels.layout import N_CODES, RowOrder, Targets
from fedforest.kernels.splits.binary import HEAVY_BLOCK
from fedforest.kernels.splits.shard_cells import (
    MOMENT_CELLS,
    fill_binary_cells,
    fill_class_cells,
    fill_moment_cells,
)
from fedforest.kernels.sums.packed_moments import WEIGHT_LIMIT
from tests.kernels.splits.test_split_search import ENTRY_TYPES, NOTHING, Case, cases, read_rows
from tests.reference.shards import histogram
from tests.reference.splits import Row, Statistic, class_weights, moments
from tests.strategies import IS_PLAIN_PYTHON, SEEDS, BinnedTable, DrawnNodes, class_codes

N_EXAMPLES = 15 if IS_PLAIN_PYTHON else 40


def list_pairs(case: Case) -> tuple[NDArray[np.int64], NDArray[np.uint64]]:
    """Where the pairs of each node begin, and the column of every pair."""
    node_start = np.cumsum([0, *map(len, case.candidates)])
    features = [feature for of_node in case.candidates for feature in sorted(of_node)]
    return node_start, np.array(features, np.uint64)


def expected_cells(
    case: Case, rows: Sequence[Sequence[Row]], statistic: Statistic, width: int
) -> NDArray[np.int64]:
    """The reference's histograms of all pairs."""
    cells = [
        histogram(node_rows, feature, statistic.of_row, width)
        for node_rows, features in zip(rows, case.candidates, strict=True)
        for feature in sorted(features)
    ]
    return np.array(cells, np.int64).reshape(-1, N_CODES, width)


def fill(case: Case, order: RowOrder, targets: Targets, width: int, kind: str) -> NDArray[np.int64]:
    """The kernel's histograms, in two calls of some nodes each."""
    node_start, features = list_pairs(case)
    cells = np.zeros((len(features), N_CODES, width), np.int64)
    columns, middle, n_nodes = case.table.columns(), len(case.nodes) // 2, len(case.nodes)
    for first, last in ((middle, n_nodes), (0, middle)):
        at = node_start, features, cells, first, last
        if kind == "binary":
            fill_binary_cells(columns, order, *at)
        elif kind == "moments":
            fill_moment_cells(columns, order, targets, *at)
        else:
            fill_class_cells(columns, order, targets.weights, *at)
        if first:
            assert not cells[: node_start[middle]].any()  # only the nodes that were asked for
    return cells


def divide(case: Case, cuts: Sequence[int]) -> list[tuple[slice, Case]]:
    """The case of every shard: consecutive rows, counted from 0 in each."""
    bounds = [0, *sorted(cuts), case.table.n_rows]
    parts = []
    for begin, end in pairwise(bounds):
        span = slice(begin, end)
        table = case.table.take_rows(np.arange(begin, end))
        own = [(rows >= begin) & (rows < end) for rows in case.nodes.rows]
        chosen = zip(case.nodes.rows, case.nodes.multiplicities, own, strict=True)
        drawn = [(rows[is_own] - begin, times[is_own]) for rows, times, is_own in chosen]
        nodes = DrawnNodes([rows for rows, _ in drawn], [times for _, times in drawn])
        parts.append((span, Case(table, nodes, case.candidates, case.min_rows_leaf)))
    return parts


def check(
    case: Case,
    cuts: Sequence[int],
    labels: tuple[NDArray[Any], NDArray[Any], NDArray[Any]],
    kind: str,
    n_classes: int,
    dtype: type,
) -> None:
    """Each shard says what the reference says of its rows; together, what it says of all."""
    classes, weights, values = labels
    statistic = class_weights(n_classes, entropy=False) if kind == "classes" else moments()
    width = n_classes + 1 if kind == "classes" else MOMENT_CELLS
    total = np.zeros((sum(map(len, case.candidates)), N_CODES, width), np.int64)
    for span, part in divide(case, cuts):
        own = classes[span], weights[span], values[span]
        codes = own[0] if kind != "moments" or n_classes else np.zeros_like(own[0])
        order = part.nodes.order(max(1, part.table.n_rows), codes, dtype)
        target = own[2] if len(values) else own[0] * (own[1] if len(weights) else 1)
        cells = fill(part, order, Targets(n_classes, own[1], target, NOTHING), width, kind)
        rows = read_rows(part, *own)
        assert np.array_equal(cells, expected_cells(part, rows, statistic, width))
        total += cells
    rows = read_rows(case, classes, weights, values)
    assert np.array_equal(total, expected_cells(case, rows, statistic, width))


@st.composite
def cut_places(draw: st.DrawFn, n_rows: int) -> list[int]:
    """Where shards end; some may have no rows."""
    return draw(st.lists(st.integers(0, n_rows), max_size=3), label="cuts")


@given(st.data(), cases(), ENTRY_TYPES)
@settings(max_examples=N_EXAMPLES)
def test_cells_of_two_classes_are_weight_weight_of_the_second_and_rows(
    data: st.DataObject, case: Case, dtype: type
) -> None:
    classes, cuts = data.draw(class_codes(case.table, 2)), data.draw(cut_places(case.table.n_rows))
    check(case, cuts, (classes, NOTHING, NOTHING), "binary", 2, dtype)


@given(st.data(), cases(), ENTRY_TYPES, SEEDS, st.sampled_from([None, 3, 2**36]), st.booleans())
@settings(max_examples=N_EXAMPLES)
def test_cells_of_numbers_are_weight_weighted_targets_and_rows(
    data: st.DataObject, case: Case, dtype: type, seed: int, heaviest: int | None, two: bool
) -> None:
    rng, n_rows = np.random.default_rng(seed), case.table.n_rows
    cuts = data.draw(cut_places(n_rows))
    weights = rng.integers(1, heaviest, n_rows) if heaviest else NOTHING
    classes = data.draw(class_codes(case.table, 2))  # two weighted classes are numbers, too
    values = NOTHING if two else rng.integers(-(2**20), 2**20, n_rows)
    check(case, cuts, (classes, weights, values), "moments", 2 if two else 0, dtype)


@given(
    st.data(),
    cases(),
    ENTRY_TYPES,
    SEEDS,
    st.sampled_from([2, 3, 6, 70]),
    st.sampled_from([None, 3, 2**33]),
)
@settings(max_examples=N_EXAMPLES)
def test_cells_of_many_classes_are_the_weight_of_each_and_rows(
    data: st.DataObject, case: Case, dtype: type, seed: int, n_classes: int, heaviest: int | None
) -> None:
    rng, n_rows = np.random.default_rng(seed), case.table.n_rows
    cuts = data.draw(cut_places(n_rows))
    weights = rng.integers(1, heaviest, n_rows) if heaviest else NOTHING
    classes = data.draw(class_codes(case.table, n_classes))
    check(case, cuts, (classes, weights, NOTHING), "classes", n_classes, dtype)


def one_node(n_rows: int, n_columns: int) -> Case:
    """All rows of a table in one node, each drawn 15 times and in the same bin."""
    bins = np.full((n_columns, n_rows), 3, np.uint8)
    table = BinnedTable(bins, np.full(n_columns, 4, np.int16), np.zeros(n_columns, np.bool_))
    nodes = DrawnNodes([np.arange(n_rows)], [np.full(n_rows, 15)])
    return Case(table, nodes, [list(range(n_columns))], 1)


@pytest.mark.parametrize("n_columns", [1, 2, 4])
def test_two_classes_in_more_rows_than_packed_words_hold_do_not_overflow(n_columns: int) -> None:
    n_rows = HEAVY_BLOCK + 77
    case = one_node(n_rows, n_columns)
    classes = np.ones(n_rows, np.int64)
    order = case.nodes.order(n_rows, classes)
    cells = fill(case, order, Targets(2, NOTHING, NOTHING, NOTHING), MOMENT_CELLS, "binary")
    assert cells[:, 3].tolist() == [[15 * n_rows, 15 * n_rows, n_rows]] * n_columns
    assert cells.sum() == cells[:, 3].sum()


@pytest.mark.parametrize("n_columns", [1, 7])
def test_weighted_numbers_in_more_rows_than_packed_words_hold_do_not_overflow(
    n_columns: int,
) -> None:
    n_rows = 3 * WEIGHT_LIMIT + 77
    case = one_node(n_rows, n_columns)
    order = case.nodes.order(n_rows, np.zeros(n_rows, np.int64))
    weights, values = np.full(n_rows, 2**35), np.full(n_rows, -(2**40))
    cells = fill(case, order, Targets(0, weights, values, values), MOMENT_CELLS, "moments")
    assert cells[:, 3].tolist() == [[15 * 2**35 * n_rows, -15 * 2**40 * n_rows, n_rows]] * n_columns
    assert cells.sum() == cells[:, 3].sum()

"""The best split of a node equals the one found by trying every cut, score and all."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from fedforest.kernels.criteria.entropy import Entropy
from fedforest.kernels.criteria.gini import Gini
from fedforest.kernels.criteria.poisson import Poisson
from fedforest.kernels.criteria.squared_error import SquaredError
from fedforest.kernels.layout import NO_SPLIT, Found, RowOrder, Rules, Targets
from fedforest.kernels.splits.binary import find_binary
from fedforest.kernels.splits.classes import find_by_classes
from fedforest.kernels.splits.moments import find_by_moments
from tests.reference.splits import (
    Row,
    Split,
    Statistic,
    best_split,
    class_weights,
    deviance,
    moments,
)
from tests.strategies import (
    IS_PLAIN_PYTHON,
    MISSING,
    SEEDS,
    BinnedTable,
    DrawnNodes,
    binned_tables,
    class_codes,
    drawn_nodes,
)

N_EXAMPLES = 25 if IS_PLAIN_PYTHON else 60
NOTHING = np.zeros(0, np.int64)
ENTRY_TYPES = st.sampled_from([np.uint32, np.uint64])


@dataclass(frozen=True, eq=False)
class Case:
    """Open nodes of a table, what they may use, and what makes a split valid."""

    table: BinnedTable
    nodes: DrawnNodes
    candidates: list[list[int]]
    min_rows_leaf: int
    least_weight: tuple[int, ...] = ()  # per node; none: any weight will do

    def rules(self, criterion: NamedTuple) -> Rules:
        return Rules(criterion, self.min_rows_leaf, np.array(self.least_weight, np.int64))

    def bitmap(self) -> NDArray[np.uint8]:
        bits = np.zeros((len(self.nodes), -(-self.table.n_columns // 8) * 8), np.uint8)
        for node, features in enumerate(self.candidates):
            bits[node, features] = 1
        return np.packbits(bits, axis=1, bitorder="little")

    def nothing_found(self) -> Found:
        """Room for the splits, filled with what a search must overwrite."""
        n = len(self.nodes)
        n_sets = n if self.table.is_categorical.any() else 0
        return Found(
            np.full(n, 77.0),
            np.full(n, 77, np.int32),
            np.full(n, 77, np.uint8),
            np.full(n, 77, np.uint8),
            np.full((n_sets, 4), 77, np.uint64),
        )

    def expected(self, rows: Sequence[Sequence[Row]], statistic: Statistic) -> list[Split | None]:
        is_categorical = self.table.is_categorical.tolist()
        least = self.least_weight or (0,) * len(self.nodes)
        return [
            best_split(node_rows, is_categorical, features, statistic, self.min_rows_leaf, weight)
            for node_rows, features, weight in zip(rows, self.candidates, least, strict=True)
        ]


@st.composite
def cases(draw: st.DrawFn) -> Case:
    table = draw(binned_tables(draw(st.sampled_from([1, 9, 40, 150, 300, 640]))))
    nodes = draw(drawn_nodes(table.n_rows))
    every_column = list(range(table.n_columns))
    some_columns = st.lists(st.sampled_from(every_column), unique=True)
    candidates = [draw(st.just(every_column) | some_columns) for _ in range(len(nodes))]
    return Case(table, nodes, candidates, draw(st.integers(1, 5), label="min_rows_leaf"))


def read_rows(
    case: Case,
    classes: NDArray[Any],
    weights: NDArray[np.int64] = NOTHING,
    values: NDArray[np.int64] = NOTHING,
) -> list[list[Row]]:
    """The rows of each node as the reference has them; `values` hold the weight already."""
    bins = case.table.rows()
    unit = np.ones(case.table.n_rows, np.int64)
    weight = (weights if len(weights) else unit).tolist()
    target = (values if len(values) else classes * weight).tolist()
    return [
        [
            Row(bins[row], times * weight[row], times * target[row], int(classes[row]))
            for row, times in zip(rows.tolist(), multiplicity.tolist(), strict=True)
        ]
        for rows, multiplicity in zip(case.nodes.rows, case.nodes.multiplicities, strict=True)
    ]


def read_found(found: Found, table: BinnedTable) -> list[Split | None]:
    """What a search wrote, as the reference says it."""
    splits: list[Split | None] = []
    for node, feature in enumerate(found.feature.tolist()):
        score = float(found.score[node])
        if feature < 0:
            assert score == NO_SPLIT
            splits.append(None)
            continue
        left_set = None
        if table.is_categorical[feature]:
            words = found.left_set[node].astype("<u8").tobytes()
            bits = np.unpackbits(np.frombuffer(words, np.uint8), bitorder="little")
            left_set = frozenset(np.flatnonzero(bits).tolist())
        cut, side = int(found.bin[node]), int(found.missing_left[node])
        splits.append(Split(score, feature, cut, side, left_set))
    return splits


def search_binary(case: Case, order: RowOrder) -> list[Split | None]:
    found = case.nothing_found()
    rules = case.rules(SquaredError())
    find_binary(case.table.columns(), order, case.bitmap(), rules, found, 0, len(case.nodes))
    return read_found(found, case.table)


def search_moments(
    case: Case,
    order: RowOrder,
    targets: Targets,
    formula: NamedTuple = SquaredError(),  # noqa: B008 - it is empty
) -> list[Split | None]:
    found = case.nothing_found()
    rules = case.rules(formula)
    n_nodes, bitmap = len(case.nodes), case.bitmap()
    columns = case.table.columns()
    find_by_moments(columns, order, targets, bitmap, rules, found, 0, n_nodes)
    return read_found(found, case.table)


def search_classes(
    case: Case, order: RowOrder, targets: Targets, criterion: Gini | Entropy
) -> list[Split | None]:
    found = case.nothing_found()
    rules = case.rules(criterion)
    n_nodes, bitmap = len(case.nodes), case.bitmap()
    find_by_classes(case.table.columns(), order, targets, bitmap, rules, found, 0, n_nodes)
    return read_found(found, case.table)


@given(st.data(), cases(), ENTRY_TYPES)
@settings(max_examples=N_EXAMPLES)
def test_the_best_split_of_two_classes_equals_the_reference(
    data: st.DataObject, case: Case, dtype: type
) -> None:
    classes = data.draw(class_codes(case.table, 2))
    order = case.nodes.order(case.table.n_rows, classes, dtype)
    assert search_binary(case, order) == case.expected(read_rows(case, classes), moments())


@given(st.data(), cases(), ENTRY_TYPES, st.sampled_from([1, 2**20, 2**40]), st.booleans())
@settings(max_examples=N_EXAMPLES)
def test_the_best_split_of_a_regression_equals_the_reference(
    data: st.DataObject, case: Case, dtype: type, largest: int, weighted: bool
) -> None:
    rng = np.random.default_rng(data.draw(SEEDS))
    n_rows = case.table.n_rows
    levels = data.draw(class_codes(case.table, 7)) * (largest // 7 + 1)
    levels += rng.integers(-largest, largest, n_rows)
    weights = rng.integers(1, 1000, n_rows) if weighted else NOTHING
    values = levels * weights if weighted else levels
    classes = np.zeros(n_rows, np.int64)
    order = case.nodes.order(n_rows, classes, dtype)
    found = search_moments(case, order, Targets(0, weights, values, levels))
    assert found == case.expected(read_rows(case, classes, weights, values), moments())


@pytest.mark.slow
@given(
    st.data(),
    cases(),
    ENTRY_TYPES,
    st.sampled_from([None, 3, 2**20]),
    st.sampled_from([2, 50, 2**30]),
    st.booleans(),
)
@settings(max_examples=3 * N_EXAMPLES)
def test_the_best_split_by_deviance_equals_the_reference(
    data: st.DataObject, case: Case, dtype: type, heaviest: int | None, highest: int, limited: bool
) -> None:
    rng = np.random.default_rng(data.draw(SEEDS))
    n_rows = case.table.n_rows
    levels = rng.integers(0, highest, n_rows) * data.draw(class_codes(case.table, 2))
    weights = rng.integers(1, heaviest, n_rows) if heaviest else NOTHING
    values = levels * weights if heaviest else levels
    order = case.nodes.order(n_rows, np.zeros_like(levels), dtype)
    rows = read_rows(case, np.zeros_like(levels), weights, values)
    case = limit_weight(data, case, rows) if limited else case
    found = search_moments(case, order, Targets(0, weights, values, levels), Poisson())
    assert found == case.expected(rows, deviance())


@given(st.data(), cases(), ENTRY_TYPES, st.sampled_from([3, 2**20, 2**36]))
@settings(max_examples=N_EXAMPLES)
def test_the_best_split_of_two_weighted_classes_equals_the_reference(
    data: st.DataObject, case: Case, dtype: type, heaviest: int
) -> None:
    rng = np.random.default_rng(data.draw(SEEDS))
    classes = data.draw(class_codes(case.table, 2))
    weights = rng.integers(1, heaviest, case.table.n_rows)
    order = case.nodes.order(case.table.n_rows, classes, dtype)
    found = search_moments(case, order, Targets(2, weights, weights * classes, NOTHING))
    assert found == case.expected(read_rows(case, classes, weights), moments())


def draw_classes(
    data: st.DataObject, case: Case, n_classes: int, heaviest: int | None
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Classes of all rows, and weights below the heaviest, if rows have any."""
    rng = np.random.default_rng(data.draw(SEEDS))
    classes = data.draw(class_codes(case.table, n_classes))
    return classes, rng.integers(1, heaviest, case.table.n_rows) if heaviest else NOTHING


@pytest.mark.slow
@given(
    st.data(),
    cases(),
    ENTRY_TYPES,
    st.sampled_from([2, 3, 4, 6, 70]),
    st.sampled_from([None, 3, 2**20, 2**26, 2**33]),
    st.sampled_from([Gini(), Entropy()]),
)
@settings(max_examples=3 * N_EXAMPLES)
def test_the_best_split_of_many_classes_equals_the_reference(
    data: st.DataObject,
    case: Case,
    dtype: type,
    n_classes: int,
    heaviest: int | None,
    criterion: Gini | Entropy,
) -> None:
    classes, weights = draw_classes(data, case, n_classes, heaviest)
    order = case.nodes.order(case.table.n_rows, classes, dtype)
    found = search_classes(case, order, Targets(n_classes, weights, NOTHING, NOTHING), criterion)
    statistic = class_weights(n_classes, entropy=isinstance(criterion, Entropy))
    assert found == case.expected(read_rows(case, classes, weights), statistic)


def limit_weight(data: st.DataObject, case: Case, rows: Sequence[Sequence[Row]]) -> Case:
    """The same nodes, whose children must have a share of the weight; of some, none."""
    shares = [data.draw(st.sampled_from([0.0, 0.05, 0.2, 0.45, 0.5]), label="share") for _ in rows]
    totals = [sum(row.weight for row in node_rows) for node_rows in rows]
    least = [math.ceil(share * total) for share, total in zip(shares, totals, strict=True)]
    return replace(case, least_weight=tuple(least))


@given(st.data(), cases(), ENTRY_TYPES, st.sampled_from([None, 3, 2**20, 2**36]), st.booleans())
@settings(max_examples=2 * N_EXAMPLES)
def test_a_side_that_weighs_too_little_is_no_side_by_moments(
    data: st.DataObject, case: Case, dtype: type, heaviest: int | None, regression: bool
) -> None:
    rng = np.random.default_rng(data.draw(SEEDS))
    n_rows = case.table.n_rows
    classes = data.draw(class_codes(case.table, 2))
    levels = rng.integers(-500, 500, n_rows) if regression else classes
    weights = rng.integers(1, heaviest, n_rows) if heaviest else NOTHING
    values = levels * weights if heaviest else levels
    order = case.nodes.order(n_rows, np.zeros_like(classes) if regression else classes, dtype)
    rows = read_rows(case, classes, weights, values)
    case = limit_weight(data, case, rows)
    found = search_moments(case, order, Targets(0 if regression else 2, weights, values, levels))
    assert found == case.expected(rows, moments())


@given(
    st.data(),
    cases(),
    ENTRY_TYPES,
    st.sampled_from([2, 3, 6]),
    st.sampled_from([None, 3, 2**20, 2**33]),
    st.sampled_from([Gini(), Entropy()]),
)
@settings(max_examples=2 * N_EXAMPLES)
def test_a_side_that_weighs_too_little_is_no_side_by_classes(
    data: st.DataObject,
    case: Case,
    dtype: type,
    n_classes: int,
    heaviest: int | None,
    criterion: Gini | Entropy,
) -> None:
    classes, weights = draw_classes(data, case, n_classes, heaviest)
    order = case.nodes.order(case.table.n_rows, classes, dtype)
    rows = read_rows(case, classes, weights)
    case = limit_weight(data, case, rows)
    found = search_classes(case, order, Targets(n_classes, weights, NOTHING, NOTHING), criterion)
    assert found == case.expected(
        rows, class_weights(n_classes, entropy=isinstance(criterion, Entropy))
    )


@pytest.mark.parametrize("followed", [0, 1, 2])
def test_a_node_of_more_than_two_million_drawn_rows_is_split_as_the_reference_does(
    followed: int,
) -> None:
    """Numbers, gaps and categories; one bin alone is too heavy for packed histograms."""
    n_rows = 150_000
    rng = np.random.default_rng(5)
    bins = np.where(rng.random((3, n_rows)) < 0.96, 0, rng.integers(1, 4, (3, n_rows)))
    bins[1, rng.random(n_rows) < 0.01] = MISSING
    table = BinnedTable(
        bins.astype(np.uint8), np.full(3, 4, np.int16), np.array([False, False, True])
    )
    case = Case(table, DrawnNodes([np.arange(n_rows)], [np.full(n_rows, 15)]), [[0, 1, 2]], 1)
    likely = np.where(bins[followed] == 0, 0.2, np.where(bins[followed] == 2, 0.6, 0.9))
    classes = (rng.random(n_rows) < likely).astype(np.int64)
    found = search_binary(case, case.nodes.order(n_rows, classes))
    assert found == case.expected(read_rows(case, classes), moments())
    assert found[0] is not None
    assert found[0].feature == followed


@given(st.data(), cases())
@settings(max_examples=N_EXAMPLES)
def test_only_the_nodes_of_the_range_are_searched(data: st.DataObject, case: Case) -> None:
    classes = data.draw(class_codes(case.table, 2))
    order = case.nodes.order(case.table.n_rows, classes)
    columns, bitmap, rules = case.table.columns(), case.bitmap(), case.rules(SquaredError())
    targets = Targets(2, NOTHING, classes, classes)
    middle = data.draw(st.integers(0, len(case.nodes)))
    whole, parts = case.nothing_found(), case.nothing_found()
    find_binary(columns, order, bitmap, rules, whole, 0, len(case.nodes))
    n_nodes = len(case.nodes)
    find_by_moments(columns, order, targets, bitmap, rules, parts, middle, n_nodes)
    assert (parts.score[:middle] == 77.0).all()
    assert (parts.feature[:middle] == 77).all()
    find_by_moments(columns, order, targets, bitmap, rules, parts, 0, middle)
    assert read_found(whole, case.table) == read_found(parts, case.table)


@given(SEEDS, st.integers(2, 7), st.booleans())
@settings(max_examples=2 * N_EXAMPLES)
def test_no_set_of_categories_scores_higher_than_the_one_found(
    seed: int, n_categories: int, regression: bool
) -> None:
    rng = np.random.default_rng(seed)
    bins = rng.integers(0, n_categories, (1, 30)).astype(np.uint8)
    table = BinnedTable(bins, np.array([n_categories], np.int16), np.array([True]))
    case = Case(table, DrawnNodes([np.arange(30)], [rng.integers(1, 4, 30)]), [[0]], 1)
    values = rng.integers(-50, 50, 30) if regression else rng.integers(0, 2, 30)
    order = case.nodes.order(30, np.zeros(30, np.int64))
    rows = read_rows(case, np.zeros(30, np.int64), values=values)[0]
    [found] = search_moments(case, order, Targets(0, NOTHING, values, values))
    categories = sorted(set(bins[0].tolist()))
    score = moments().score

    def sums(members: Sequence[int]) -> tuple[int, ...]:
        chosen = [row for row in rows if row.bins[0] in members]
        return sum(row.weight for row in chosen), sum(row.target for row in chosen), len(chosen)

    subsets = [s for n in range(1, len(categories)) for s in combinations(categories, n)]
    if found is None:
        assert not subsets
    else:
        best = max(score(sums(subset), sums(categories)) for subset in subsets)
        assert found.score == pytest.approx(best, rel=1e-12)


def found_by_all(table: BinnedTable, classes: NDArray[np.int64]) -> list[Split]:
    """The split of all rows by every search that serves two classes."""
    n_rows = table.n_rows
    nodes = DrawnNodes([np.arange(n_rows)], [np.ones(n_rows, np.int64)])
    case = Case(table, nodes, [list(range(table.n_columns))], 1)
    order = nodes.order(n_rows, classes)
    targets = Targets(2, NOTHING, classes, classes)
    found = [
        search_binary(case, order),
        search_moments(case, order, targets),
        search_classes(case, order, targets, Gini()),
        search_classes(case, order, targets, Entropy()),
    ]
    return [split for [split] in found if split is not None]


@pytest.mark.parametrize("n_rows", [9, 198, 600])
def test_of_equal_columns_and_equal_cuts_the_lowest_wins(n_rows: int) -> None:
    third = np.arange(n_rows) % 3
    useless = np.where(np.arange(n_rows) < n_rows // 3, 3, 5)
    symmetric = 2 * third + 1  # cuts after bins 1 and 3 mirror each other
    table = BinnedTable(
        np.stack([useless, symmetric, symmetric]).astype(np.uint8),
        np.full(3, 9, np.int16),
        np.zeros(3, np.bool_),
    )
    found = found_by_all(table, (third == 1).astype(np.int64))
    assert [(split.feature, split.cut) for split in found] == [(1, 1)] * 4


@pytest.mark.parametrize("n_rows", [10, 200, 600])
def test_a_cut_that_parts_missing_from_present_values_sends_the_missing_ones_right(
    n_rows: int,
) -> None:
    classes = np.arange(n_rows) % 2
    bins = np.where(classes == 1, MISSING, np.arange(n_rows) % 3 + 1)[None].astype(np.uint8)
    table = BinnedTable(bins, np.array([5], np.int16), np.array([False]))
    found = found_by_all(table, classes)
    assert [(split.cut, split.missing_left) for split in found] == [(3, 0)] * 4

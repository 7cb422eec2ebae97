"""The best split found in summed histograms is the one found by trying every cut of all rows."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from fedforest.kernels.criteria.entropy import Entropy
from fedforest.kernels.criteria.gini import Gini
from fedforest.kernels.criteria.poisson import Poisson
from fedforest.kernels.criteria.squared_error import SquaredError
from fedforest.kernels.splits.shard_cells import MOMENT_CELLS
from fedforest.kernels.splits.summed_cells import find_in_class_cells, find_in_moment_cells
from tests.kernels.splits.test_shard_cells import expected_cells, list_pairs
from tests.kernels.splits.test_split_search import (
    NOTHING,
    Case,
    cases,
    draw_classes,
    limit_weight,
    read_found,
    read_rows,
)
from tests.reference.splits import Row, Split, Statistic, class_weights, deviance, moments
from tests.strategies import IS_PLAIN_PYTHON, SEEDS, class_codes

N_EXAMPLES = 15 if IS_PLAIN_PYTHON else 40
HEAVIEST = st.sampled_from([None, 3, 2**20, 2**33])


def search(
    find: Any,
    case: Case,
    rows: Sequence[Sequence[Row]],
    statistic: Statistic,
    criterion: NamedTuple,
    width: int,
) -> list[Split | None]:
    """What a kernel finds in the reference's histograms, in two calls of some nodes each."""
    node_start, features = list_pairs(case)
    cells = expected_cells(case, rows, statistic, width)
    before, found, rules = cells.copy(), case.nothing_found(), case.rules(criterion)
    columns, middle, n_nodes = case.table.columns(), len(case.nodes) // 2, len(case.nodes)
    find(columns, node_start, features, cells, rules, found, middle, n_nodes)
    assert (found.feature[:middle] == 77).all()
    find(columns, node_start, features, cells, rules, found, 0, middle)
    assert np.array_equal(cells, before)
    return read_found(found, case.table)


@given(st.data(), cases(), HEAVIEST, st.booleans())
@settings(max_examples=N_EXAMPLES)
def test_the_best_split_of_numbers_equals_the_reference(
    data: st.DataObject, case: Case, heaviest: int | None, limited: bool
) -> None:
    rng = np.random.default_rng(data.draw(SEEDS))
    n_rows = case.table.n_rows
    weights = rng.integers(1, heaviest, n_rows) if heaviest else NOTHING
    levels = data.draw(class_codes(case.table, 7)) - 3 + rng.integers(-2, 3, n_rows)
    rows = read_rows(case, np.zeros_like(levels), weights, _weighted(levels, weights))
    case = limit_weight(data, case, rows) if limited else case
    found = search(find_in_moment_cells, case, rows, moments(), SquaredError(), MOMENT_CELLS)
    assert found == case.expected(rows, moments())


@given(st.data(), cases(), HEAVIEST, st.booleans())
@settings(max_examples=N_EXAMPLES)
def test_the_best_split_of_two_classes_equals_the_reference(
    data: st.DataObject, case: Case, heaviest: int | None, limited: bool
) -> None:
    classes, weights = draw_classes(data, case, 2, heaviest)
    rows = read_rows(case, classes, weights)
    case = limit_weight(data, case, rows) if limited else case
    found = search(find_in_moment_cells, case, rows, moments(), SquaredError(), MOMENT_CELLS)
    assert found == case.expected(rows, moments())


@given(st.data(), cases(), st.sampled_from([None, 3, 2**20]), st.booleans())
@settings(max_examples=N_EXAMPLES)
def test_the_best_split_by_deviance_equals_the_reference(
    data: st.DataObject, case: Case, heaviest: int | None, limited: bool
) -> None:
    rng = np.random.default_rng(data.draw(SEEDS))
    n_rows = case.table.n_rows
    weights = rng.integers(1, heaviest, n_rows) if heaviest else NOTHING
    levels = rng.integers(0, 50, n_rows) * data.draw(class_codes(case.table, 2))
    rows = read_rows(case, np.zeros_like(levels), weights, _weighted(levels, weights))
    case = limit_weight(data, case, rows) if limited else case
    found = search(find_in_moment_cells, case, rows, deviance(), Poisson(), MOMENT_CELLS)
    assert found == case.expected(rows, deviance())


@given(
    st.data(),
    cases(),
    st.sampled_from([2, 3, 4, 6, 70]),
    HEAVIEST,
    st.sampled_from([Gini(), Entropy()]),
    st.booleans(),
)
@settings(max_examples=N_EXAMPLES)
def test_the_best_split_of_many_classes_equals_the_reference(
    data: st.DataObject,
    case: Case,
    n_classes: int,
    heaviest: int | None,
    criterion: Gini | Entropy,
    limited: bool,
) -> None:
    classes, weights = draw_classes(data, case, n_classes, heaviest)
    rows = read_rows(case, classes, weights)
    case = limit_weight(data, case, rows) if limited else case
    statistic = class_weights(n_classes, entropy=isinstance(criterion, Entropy))
    found = search(find_in_class_cells, case, rows, statistic, criterion, n_classes + 1)
    assert found == case.expected(rows, statistic)


def _weighted(levels: NDArray[Any], weights: NDArray[Any]) -> NDArray[Any]:
    return levels * weights if len(weights) else levels

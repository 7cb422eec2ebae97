"""A forest as arrays: walked in parallel, joined, weighed, and refused when inconsistent."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest

from fedforest.errors import DamagedModelError
from fedforest.kernels.prediction.walk import MAX_WALK_COLUMNS, Leaves
from fedforest.tree.forest.forest import (
    Forest,
    ForestWalker,
    Shape,
    Splits,
    concatenate_forests,
    importances_of,
)
from fedforest.tree.growth.decisions import GrowthRules
from fedforest.tree.growth.level_loop import GrowthPlan, grow_batch
from fedforest.tree.growth.rows import Sampling
from fedforest.tree.table.targets import classification_targets
from fedforest.tree.workers import Workers
from tests.strategies import BinnedTable

ALONE = Workers()
N_STUMPS = 2000  # enough for several workers


@pytest.fixture(scope="module")
def three_workers() -> Iterator[Workers]:
    with ThreadPoolExecutor(2) as executor:
        yield Workers(executor, 3)


def table_of(n_rows: int, seed: int = 0) -> BinnedTable:
    bins = np.random.default_rng(seed).integers(0, 30, (4, n_rows)).astype(np.uint8)
    bins[1, ::7] = 255
    return BinnedTable(bins, np.full(4, 30, np.int16), np.arange(4) == 2)


def grown(n_rows: int, trees: range, seed: int = 0) -> Forest:
    table = table_of(n_rows, seed)
    codes = (table.bins[0] > 12) + (table.bins[2] % 3 == 0)
    targets = classification_targets(codes.astype(np.int64), 3)
    rules = GrowthRules(features_per_node=2)
    plan = GrowthPlan(rules, Sampling(bootstrap=True, n_draws=n_rows), seed)
    return grow_batch(table.columns(), targets, plan, trees, ALONE).forest


def stump() -> Forest:
    """One tree: column 0 at bin 4, missing left; class 1 on the left, both on the right."""
    shape = Shape(np.array([0, 3]), np.array([1, -1, -1], np.int32))
    splits = Splits(
        np.array([0, -1, -1], np.int32),
        np.array([4, 0, 0], np.uint8),
        np.array([1, 0, 0], np.uint8),
        np.full(3, -1, np.int32),
        np.zeros((0, 4), np.uint64),
    )
    labels = np.array([1, 0, 1], np.uint16)
    leaves = Leaves(np.array([0, 0, 1, 3]), labels, np.array([1.0, 0.75, 0.25]))
    return Forest(shape, splits, leaves, np.array([0.5, 0, 0]), 2, 1)


def test_a_stump_sends_rows_left_and_right_and_votes() -> None:
    bins = np.array([[4, 5, 255, 0]], np.uint8)
    walker = ForestWalker(stump())
    assert walker.apply(bins, ALONE).tolist() == [[1], [2], [1], [1]]
    soft = walker.votes(bins, ALONE).tolist()
    assert soft == [[0, 1], [0.75, 0.25], [0, 1], [0, 1]]
    assert walker.votes(bins, ALONE, hard=True).tolist() == [[0, 1], [1, 0], [0, 1], [0, 1]]


def test_any_number_of_threads_gives_the_same_votes(three_workers: Workers) -> None:
    walker = ForestWalker(grown(300, range(5)))
    bins = table_of(10_000, seed=1).bins
    np.testing.assert_array_equal(walker.votes(bins, ALONE), walker.votes(bins, three_workers))
    np.testing.assert_array_equal(walker.apply(bins, ALONE), walker.apply(bins, three_workers))


def test_votes_are_the_sum_over_the_trees() -> None:
    bins = table_of(500, seed=1).bins
    parts = [grown(300, range(t, t + 1)) for t in range(3)]
    votes = sum(ForestWalker(part).votes(bins, ALONE) for part in parts)
    np.testing.assert_allclose(ForestWalker(grown(300, range(3))).votes(bins, ALONE), votes)


def test_joined_forests_have_the_trees_of_all() -> None:
    parts = [grown(300, range(2)), grown(300, range(2, 3)), grown(300, range(3, 5))]
    joined, whole = concatenate_forests(parts), grown(300, range(5))
    for name in ("shape", "splits"):
        for array in getattr(joined, name).__slots__:
            one, other = (getattr(getattr(forest, name), array) for forest in (joined, whole))
            np.testing.assert_array_equal(one, other, array)
    for one, other in zip(joined.leaves, whole.leaves, strict=True):
        np.testing.assert_array_equal(one, other)
    bins = table_of(500, seed=1).bins
    one, other = ForestWalker(joined).votes(bins, ALONE), ForestWalker(whole).votes(bins, ALONE)
    np.testing.assert_array_equal(one, other)
    assert concatenate_forests(parts[:1]) is parts[0]


def test_importances_are_the_mean_of_the_shares_of_the_trees_that_split() -> None:
    shape = Shape(np.array([0, 3, 6, 7]), np.array([1, -1, -1, 1, -1, -1, -1], np.int32))
    feature = np.array([0, -1, -1, 2, -1, -1, -1], np.int32)
    decrease = np.array([0.5, 0, 0, 0.001, 0, 0, 0])
    assert importances_of(shape, feature, decrease, 3).tolist() == [0.5, 0, 0.5]
    nothing = importances_of(shape, np.full(7, -1, np.int32), np.zeros(7), 3)
    assert nothing.tolist() == [0, 0, 0]


def test_importances_sum_to_one_and_name_the_columns_that_matter() -> None:
    importances = grown(2000, range(10)).importances()
    assert importances.sum() == pytest.approx(1)
    assert sorted(np.argsort(importances)[-2:].tolist()) == [0, 2]


@pytest.mark.parametrize(
    ("tree_start", "left_child"),
    [
        ([1, 3], [1, -1, -1]),
        ([0, 2], [1, -1, -1]),
        ([0, 0, 3], [1, -1, -1]),
        ([0, 4, 3], [1, -1, -1]),
        ([], [1, -1, -1]),
        ([0, 3], [0, -1, -1]),
        ([0, 3], [2, -1, -1]),
    ],
)
def test_a_shape_that_is_no_forest_is_refused(tree_start: list[int], left_child: list[int]) -> None:
    shape = Shape(np.array(tree_start, np.int64), np.array(left_child, np.int32))
    with pytest.raises(DamagedModelError, match="out of place"):
        ForestWalker(replace(stump(), shape=shape))


def test_a_forest_is_made_ready_the_same_by_any_number_of_workers(three_workers: Workers) -> None:
    forest = concatenate_forests([grown(300, range(5)), *[stump()] * N_STUMPS])
    assert len(forest.shape.ranges(three_workers)) > 1
    alone, shared = forest.paths(), forest.paths(three_workers)
    for one, other in zip(alone, shared, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("tree", [0, N_STUMPS // 2, N_STUMPS - 1])
def test_a_damaged_tree_is_found_by_whichever_worker_gets_it(
    tree: int, three_workers: Workers
) -> None:
    shape = concatenate_forests([stump()] * N_STUMPS).shape
    children = shape.left_child.copy()
    children[shape.tree_start[tree]] = 0
    with pytest.raises(DamagedModelError, match="out of place"):
        Shape(shape.tree_start, children).depths(three_workers)


def test_a_forest_of_too_many_columns_is_refused() -> None:
    with pytest.raises(DamagedModelError, match="columns"):
        ForestWalker(replace(stump(), n_features=MAX_WALK_COLUMNS + 1))


def test_a_table_of_other_columns_is_refused() -> None:
    with pytest.raises(DamagedModelError, match="columns of the forest"):
        ForestWalker(stump()).votes(np.zeros((2, 5), np.uint8), ALONE)


def test_raw_values_go_where_thresholds_sets_and_sides_of_missing_values_lead() -> None:
    rng = np.random.default_rng(0)
    n_inner, n_rows = 31, 500
    n_nodes = 2 * n_inner + 1
    inner = np.arange(n_nodes) < n_inner
    feature = np.where(inner, rng.integers(0, 4, n_nodes), -1).astype(np.int32)
    by_set = inner & (feature >= 2)
    is_member = rng.integers(0, 2, (int(by_set.sum()), 256), np.uint8)
    splits = Splits(
        feature,
        rng.normal(size=n_nodes).astype(np.float32),
        rng.integers(0, 2, n_nodes).astype(np.uint8),
        np.where(by_set, np.cumsum(by_set) - 1, -1).astype(np.int32),
        np.packbits(is_member, axis=1, bitorder="little").view(np.uint64),
    )
    left_child = np.where(inner, 2 * np.arange(n_nodes) + 1, -1).astype(np.int32)
    shape = Shape(np.array([0, n_nodes]), left_child)
    leaves = Leaves(np.arange(n_nodes + 1), np.zeros(0, np.uint16), np.zeros(n_nodes))
    forest = Forest(shape, splits, leaves, np.zeros(n_nodes), 0, 4)
    codes = rng.integers(0, 255, (2, n_rows))
    table = np.concatenate([rng.normal(size=(2, n_rows)), codes]).astype(np.float32)
    table[rng.random(table.shape) < 0.2] = np.nan

    def leaf_of(row: int) -> int:
        node = 0
        while inner[node]:
            value = table[feature[node], row]
            goes_left = value <= splits.cut[node]
            if np.isnan(value):
                goes_left = splits.missing_left[node]
            elif by_set[node]:
                goes_left = is_member[splits.set_index[node], int(value)]
            node = 2 * node + (1 if goes_left else 2)
        return node

    before = table.copy()
    found = ForestWalker(forest).apply(table, ALONE)[:, 0]
    assert found.tolist() == [leaf_of(row) for row in range(n_rows)]
    assert np.array_equal(table, before, equal_nan=True)

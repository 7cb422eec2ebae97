"""Single rows reach the leaves that following the splits one by one leads to."""

import numpy as np
from hypothesis import given, settings
from numpy.typing import NDArray

from fedforest.kernels.prediction.single_rows import (
    TILE,
    LinkedForest,
    find_leaf,
    link_nodes,
    vote_on_rows,
)
from fedforest.kernels.prediction.walk import Leaves
from tests.kernels.prediction.test_walk import N_EXAMPLES, Case, cases, class_leaves
from tests.strategies import MISSING, SEEDS

SOFT, HARD = False, True


def linked(case: Case) -> LinkedForest:
    splits = case.splits()
    left_child = np.array([node.left_child for node in case.nodes], np.int32)
    link = np.empty(len(left_child), np.uint64)
    link_nodes(
        case.tree_start, left_child, splits.feature, splits.missing_left, splits.set_index, link
    )
    threshold = np.where(splits.set_index >= 0, splits.set_index, splits.cut).astype(np.float64)
    return LinkedForest(link, threshold, splits.left_set, case.tree_start[:-1].copy())


def as_values(case: Case) -> NDArray[np.float64]:
    """Bins as numbers, NaN where they are missing; codes of categories as they are."""
    values = case.table.bins.T.astype(np.float64)
    is_missing = (values == MISSING) & ~case.table.is_categorical
    return np.where(is_missing, np.nan, values)


@given(cases())
@settings(max_examples=N_EXAMPLES)
def test_every_row_reaches_the_leaf_of_the_reference(case: Case) -> None:
    forest, values = linked(case), as_values(case)
    starts = case.tree_start[:-1]
    found = [
        [int(find_leaf(forest, values, row, root)) - root for root in starts.tolist()]
        for row in range(case.table.n_rows)
    ]
    np.testing.assert_array_equal(found, case.expected_leaves())


@given(cases(), SEEDS)
@settings(max_examples=N_EXAMPLES)
def test_votes_are_means_over_trees_of_what_leaves_say(case: Case, seed: int) -> None:
    leaves = class_leaves(case, 3, np.random.default_rng(seed))
    soft, hard = (np.full((case.table.n_rows, 3), np.nan) for _ in range(2))
    vote_on_rows(linked(case), leaves, as_values(case), soft, SOFT)
    vote_on_rows(linked(case), leaves, as_values(case), hard, HARD)
    wanted_soft, wanted_hard = np.zeros((2, case.table.n_rows, 3))
    for row, reached in enumerate((case.expected_leaves() + case.tree_start[:-1]).tolist()):
        for leaf in reached:
            owned = slice(leaves.start[leaf], leaves.start[leaf + 1])
            wanted_soft[row, leaves.label[owned]] += leaves.value[owned]
            wanted_hard[row, leaves.label[owned][np.argmax(leaves.value[owned])]] += 1.0
    np.testing.assert_array_equal(soft, wanted_soft / len(case.trees))
    np.testing.assert_array_equal(hard, wanted_hard / len(case.trees))


def test_rows_beyond_the_first_tile_are_predicted_like_those_in_it() -> None:
    left_child = np.array([1, -1, -1], np.int32)
    feature, no_set = np.array([0, -1, -1], np.int32), np.full(3, -1, np.int32)
    link = np.empty(3, np.uint64)
    link_nodes(np.array([0, 3]), left_child, feature, np.zeros(3, np.uint8), no_set, link)
    forest = LinkedForest(
        link, np.array([4.0, 0.0, 0.0]), np.zeros((0, 4), np.uint64), np.zeros(1, np.int64)
    )
    leaves = Leaves(np.arange(4), np.zeros(0, np.uint16), np.array([0.0, -1.0, 1.0]))
    values = np.arange(3.0 * TILE)[:, np.newaxis] % 9
    votes = np.empty((len(values), 1))
    vote_on_rows(forest, leaves, values, votes, SOFT)
    np.testing.assert_array_equal(votes, np.where(values <= 4.0, -1.0, 1.0))

"""Weights, decreases and shares of nodes, from the integers that describe them."""

import numpy as np
import pytest

from fedforest.kernels.sums.nodes import (
    decrease_by_gini,
    list_shares,
    scale_scores,
    share_in_tree,
    weigh_nodes,
)

SUMS = np.array([[2, 0, 6, 5], [0, 0, 3, 1], [1, 1, 2, 4]], np.int64)
NO_CODES = np.zeros(0, np.int64)


def test_the_weight_of_a_node_is_that_of_its_classes_and_not_its_rows() -> None:
    assert weigh_nodes(SUMS).tolist() == [8, 3, 4]


def test_a_leaf_lists_the_classes_it_holds_with_their_shares() -> None:
    count, label, share = list_shares(SUMS, NO_CODES)
    assert count.tolist() == [2, 1, 3]
    assert label.tolist() == [0, 2, 2, 0, 1, 2]
    assert share.tolist() == [0.25, 0.75, 1.0, 0.25, 0.25, 0.5]


def test_a_leaf_speaks_of_classes_where_its_sums_are_by_code() -> None:
    count, label, share = list_shares(SUMS, np.array([2, 0, 1]))  # class 0 has code 2, ...
    assert count.tolist() == [2, 1, 3]
    assert label.tolist() == [0, 1, 0, 0, 1, 2]
    assert share.tolist() == [0.75, 0.25, 1.0, 0.5, 0.25, 0.25]


@pytest.mark.parametrize(("n_weights", "weights"), [(1, [2, 4]), (3, [8, 4])])
def test_a_decrease_is_per_unit_of_weight_and_zero_without_a_split(
    n_weights: int, weights: list[int]
) -> None:
    sums = np.array([SUMS[0], SUMS[0], [4, 0, 0, 9]])
    decrease = scale_scores(np.array([3.0, -np.inf, 5.0]), sums, n_weights, 2.0)
    assert decrease.tolist() == [6.0 / weights[0] ** 2, 0.0, 10.0 / weights[1] ** 2]


def test_a_decrease_counts_by_the_share_of_its_tree_that_reaches_the_node() -> None:
    decrease = np.array([1.0, 0.5, 3.0])
    share_in_tree(decrease, SUMS, 3, np.array([0, 0, 1], np.int32), np.array([16.0, 8.0]))
    assert decrease.tolist() == [0.5, 0.5 * (3 / 16), 1.5]


def test_the_gini_decrease_is_the_impurity_of_a_node_less_that_of_its_children() -> None:
    # (4, 4) divided into (4, 1) and (0, 3); the second node has no valid split
    sums = np.array([[4, 4, 8], [3, 5, 8]], np.int64)
    scores = np.array([17 / 5 + 9 / 3, -np.inf])
    before, after = 1 - 32 / 64, (5 * (1 - 17 / 25) + 3 * 0.0) / 8
    assert decrease_by_gini(scores, sums).tolist() == pytest.approx([before - after, 0.0])

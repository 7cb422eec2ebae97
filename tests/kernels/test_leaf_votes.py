"""Votes of rows whose leaves are known, against plain sums."""

import numpy as np
import pytest

from fedforest.kernels.leaf_votes import sum_leaf_votes
from fedforest.kernels.walk import Leaves

# two trees of three and one nodes: an inner root with two leaves, and a single leaf
TREE_START = np.array([0, 3, 4])
START = np.array([0, 0, 2, 3, 5])
LABEL = np.array([0, 2, 1, 1, 2], np.uint16)
VALUE = np.array([0.25, 0.75, 1.0, 0.5, 0.5])
LEAF_OF = np.array([[1, 2, 1], [0, 0, 0]], np.int32)


@pytest.mark.parametrize("rows", [(0, 3), (1, 3), (0, 0)])
def test_shares_of_classes_are_added_tree_by_tree(rows: tuple[int, int]) -> None:
    votes = np.zeros((3, 3))
    sum_leaf_votes(Leaves(START, LABEL, VALUE), TREE_START, LEAF_OF, votes, False, *rows)  # noqa: FBT003
    expected = np.array([[0.25, 0.5, 1.25], [0.0, 1.5, 0.5], [0.25, 0.5, 1.25]])
    expected[: rows[0]] = expected[rows[1] :] = 0.0
    assert np.array_equal(votes, expected)


def test_a_hard_vote_goes_to_the_largest_share_and_the_first_of_equal_ones() -> None:
    votes = np.zeros((3, 3))
    sum_leaf_votes(Leaves(START, LABEL, VALUE), TREE_START, LEAF_OF, votes, True, 0, 3)  # noqa: FBT003
    assert votes.tolist() == [[0, 1, 1], [0, 2, 0], [0, 1, 1]]


def test_means_of_regression_leaves_are_added() -> None:
    leaves = Leaves(np.array([0, 0, 1, 2, 3]), np.zeros(0, np.uint16), np.array([1.5, -2.0, 10.0]))
    votes = np.zeros((3, 1))
    sum_leaf_votes(leaves, TREE_START, LEAF_OF, votes, False, 0, 3)  # noqa: FBT003
    assert votes[:, 0].tolist() == [11.5, 8.0, 11.5]

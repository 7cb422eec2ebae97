"""Votes of rows whose leaves are known, against plain sums."""

import numpy as np
import pytest

from fedforest.kernels.prediction.votes import number_votes, sum_leaf_votes, sum_numbered_votes
from fedforest.kernels.prediction.walk import Leaves

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


@pytest.mark.parametrize("kind", [np.uint16, np.uint32])
@pytest.mark.parametrize("hard", [False, True])
@pytest.mark.parametrize("n_classes", [1, 2, 3])
@pytest.mark.parametrize("rows", [(0, 4300), (5, 700), (0, 0)])
def test_numbered_votes_add_up_to_the_same_bits(
    kind: type[np.uint16 | np.uint32], hard: bool, n_classes: int, rows: tuple[int, int]
) -> None:
    rng = np.random.default_rng(3)
    n_trees, n_nodes = 7, 40
    counts = rng.integers(0, n_classes + 1, n_trees * n_nodes)
    start = np.concatenate([[0], np.cumsum(counts)])
    label = np.concatenate([rng.permutation(n_classes)[:count] for count in counts])
    values = rng.integers(1, 4, len(label)) / 3  # some leaves say the same
    leaves = Leaves(start, label.astype(np.uint16), values)
    tree_start = n_nodes * np.arange(n_trees + 1)
    speaking = counts.reshape(n_trees, n_nodes) > 0
    leaf_of = np.array([rng.choice(np.flatnonzero(tree), 4300) for tree in speaking], np.int32)
    number = np.zeros(len(counts), np.uint32).astype(kind)
    votes = np.zeros((1 + len(counts), n_classes))
    n_numbers = number_votes(leaves, hard, number, votes)
    assert number.max() == n_numbers - 1
    assert len(np.unique(votes[:n_numbers], axis=0)) == n_numbers < len(counts)
    assert not votes[0].any()
    quick, plain = np.zeros((4300, n_classes)), np.zeros((4300, n_classes))
    sum_numbered_votes(votes, number, tree_start, leaf_of, quick, *rows)
    sum_leaf_votes(leaves, tree_start, leaf_of, plain, hard, *rows)
    assert quick.tobytes() == plain.tobytes()

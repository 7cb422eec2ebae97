"""Sums of left children from strangers: put where they belong; what no rows have is told."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from fedforest.kernels.sums.left_children import (
    WRONG_PART,
    WRONG_SIDES,
    WRONG_WEIGHT,
    judge_classes,
    judge_moments,
    place_class_sums,
    place_moment_sums,
)

LIMIT, SUM_LIMIT = 2**52, 2**62


@given(st.lists(st.sampled_from(["open", "mine", "theirs"]), max_size=20), st.integers(1, 4))
def test_sums_of_two_owners_come_together_in_node_order(nodes: list[str], n_classes: int) -> None:
    is_split = np.array([owner != "open" for owner in nodes], np.bool_)
    numbers = np.arange(len(nodes))
    expected = np.stack([10 * numbers + c + 1 for c in range(n_classes)], axis=1)
    rows = 100 + numbers
    left = np.zeros((int(is_split.sum()), n_classes + 1), np.int64)
    places: NDArray[np.int64] = np.cumsum(is_split) - is_split
    for owner in ("mine", "theirs"):
        own = np.array([node for node, name in enumerate(nodes) if name == owner], np.int64)
        given_sums = np.ascontiguousarray(expected[own])
        sums = np.full((len(nodes), n_classes + 1), 1000)
        assert not place_class_sums(given_sums, own, places, rows, sums, left, LIMIT)
    assert left[:, :-1].tolist() == expected[is_split].tolist()
    assert left[:, -1].tolist() == rows[is_split].tolist()


@pytest.mark.parametrize(
    ("left", "wrong"),
    [
        ([3, 2], 0),
        ([5, 0], 0),
        ([-1, 5], WRONG_PART),
        ([6, 2], WRONG_PART),  # more than the node has: the right child would have less than none
        ([LIMIT + 1, 0], WRONG_PART),
        ([-(2**63), 0], WRONG_PART),
        ([0, 0], WRONG_WEIGHT),
        ([5, 4], WRONG_WEIGHT),  # nothing is left for the right child
    ],
)
def test_class_weights_that_no_child_has_are_told(left: list[int], wrong: int) -> None:
    here, node = np.array([0]), np.array([[5, 4, 9]])
    placed = np.zeros((1, 3), np.int64)
    found = place_class_sums(np.array([left]), here, here, np.array([4]), node, placed, LIMIT)
    assert found == wrong


@pytest.mark.parametrize(
    ("left", "wrong"),
    [
        ([3, -50, 0], 0),
        ([3, 50, 3], 0),
        ([0, 50, 0], WRONG_WEIGHT),
        ([9, 50, 0], WRONG_WEIGHT),  # nothing is left for the right child
        ([3, SUM_LIMIT + 1, 0], WRONG_PART),
        ([3, -SUM_LIMIT, 0], WRONG_PART),  # the right child would have more than there can be
        ([3, 50, 4], WRONG_SIDES),
        ([3, 50, -1], WRONG_SIDES),
    ],
)
def test_moments_that_no_child_has_are_told(left: list[int], wrong: int) -> None:
    here, node = np.array([0]), np.array([[9, 70, 12, 0]])
    placed = np.zeros((1, 4), np.int64)
    limits = (LIMIT, SUM_LIMIT)
    found = place_moment_sums(np.array([left]), here, here, np.array([4]), node, placed, limits)
    assert found == wrong
    if not wrong:
        assert placed.tolist() == [[left[0], left[1], 4, left[2]]]


@given(st.lists(st.tuples(st.integers(-2, 6), st.integers(-2, 6)), max_size=5))
def test_a_list_of_nodes_is_judged_by_its_first_wrong_one(weights: list[tuple[int, int]]) -> None:
    sums = np.array([(*pair, 1) for pair in weights], np.int64).reshape(-1, 3)
    assert judge_classes(sums, 7) == next((w for w in map(judge_pair, weights) if w), 0)


def judge_pair(pair: tuple[int, int]) -> int:
    if min(pair) < 0:
        return WRONG_PART
    return 0 if 1 <= sum(pair) <= 7 else WRONG_WEIGHT


def test_the_bounds_of_moments_belong_to_them() -> None:
    def row(*sums: int) -> NDArray[np.int64]:
        return np.array([sums], np.int64)

    assert judge_moments(row(LIMIT, SUM_LIMIT, 1, 3), LIMIT, SUM_LIMIT) == 0
    assert judge_moments(row(1, -SUM_LIMIT, 1, 0), LIMIT, SUM_LIMIT) == 0
    assert judge_moments(row(LIMIT + 1, 0, 1, 0), LIMIT, SUM_LIMIT) == WRONG_WEIGHT

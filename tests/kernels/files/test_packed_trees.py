"""Trees from one bit per node: only trees are taken for trees, and all of them come back."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from fedforest.kernels.files.packed_trees import (
    are_all_born,
    are_trees,
    find_order,
    follows_order,
    number_children,
    place_children,
)

LEVEL_BY_LEVEL = [1, 3, 5, -1, -1, -1, -1]
RIGHT_SIDE_FIRST = [1, 5, 3, -1, -1, -1, -1]
LEAF = [-1]


def join(*trees: list[int]) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """(tree_start, left_child) of several trees."""
    starts = np.cumsum([0, *map(len, trees)])
    return starts, np.array([child for tree in trees for child in tree], np.int32)


def keep(*trees: list[int]) -> tuple[NDArray[np.bool_], NDArray[np.int32]]:
    """(is_in_order, left children of trees that are not) as a file keeps them."""
    is_in_order = [tree != RIGHT_SIDE_FIRST for tree in trees]
    kept = [c for tree in trees for c in tree if tree == RIGHT_SIDE_FIRST and c != -1]
    return np.array(is_in_order, np.bool_), np.array(kept, np.int32)


@given(st.lists(st.sampled_from([LEVEL_BY_LEVEL, RIGHT_SIDE_FIRST, LEAF]), max_size=6))
def test_trees_in_any_order_come_back(trees: list[list[int]]) -> None:
    starts, left_child = join(*trees)
    is_split = left_child != -1
    is_in_order, kept = keep(*trees)
    found = np.zeros(len(trees), np.bool_)
    assert find_order(starts, left_child, found)
    assert found.tolist() == is_in_order.tolist()
    assert are_trees(starts, is_split, is_in_order, kept)
    placed = np.full(len(left_child), -9, np.int32)
    place_children(starts, is_split, is_in_order, kept, placed)
    np.testing.assert_array_equal(placed, left_child, strict=True)


@given(st.lists(st.booleans(), min_size=1, max_size=15))
def test_bits_are_a_tree_if_their_children_follow_each_other(flags: list[bool]) -> None:
    is_split = np.array(flags, np.bool_)
    left_child = np.full(len(flags), -9, np.int32)
    number_children(is_split, left_child)
    born = {0}
    for node, is_one in enumerate(flags):
        if is_one and node in born:
            born |= {int(left_child[node]), int(left_child[node]) + 1}
    is_tree = born == set(range(len(flags)))
    assert are_all_born(is_split) == is_tree
    assert follows_order(left_child) == is_tree


@pytest.mark.parametrize(
    "left_child", [[1, -1], [1, 1, -1], [2, -1, -1, -1], [-1, -1, -1], [1, 3, -1], [0, -1, -1]]
)
def test_what_is_no_tree_has_no_order(left_child: list[int]) -> None:
    assert not follows_order(np.array(left_child, np.int32))
    starts, children = join(LEVEL_BY_LEVEL, left_child)
    assert not find_order(starts, children, np.zeros(2, np.bool_))


@pytest.mark.parametrize(
    "kept",
    [
        [1, 3, 5],  # in order after all
        [1, 5, 5],
        [1, 3, 3],
        [3, 5, 1],
        [1, 7, 3],
        [1, 6, 3],
        [1, 2**31 - 1, 3],
        [5, 1, 3],
    ],
)
def test_children_that_make_no_tree_are_refused(kept: list[int]) -> None:
    starts, left_child = join(RIGHT_SIDE_FIRST)
    is_split, children = left_child != -1, np.array(kept, np.int32)
    assert not are_trees(starts, is_split, np.zeros(1, np.bool_), children)


def test_splits_of_another_tree_are_not_counted_for_this_one() -> None:
    starts, left_child = join(RIGHT_SIDE_FIRST, RIGHT_SIDE_FIRST)
    is_in_order, kept = keep(RIGHT_SIDE_FIRST, RIGHT_SIDE_FIRST)
    is_split = left_child != -1
    assert are_trees(starts, is_split, is_in_order, kept)
    is_split[[6, 7]] = True, False
    assert not are_trees(starts, is_split, is_in_order, kept)

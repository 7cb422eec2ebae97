"""What becomes of children, judged and counted one node at a time."""

from dataclasses import dataclass
from random import Random

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from fedforest.kernels.growth.children import (
    Limits,
    divide_sums,
    follow_tried,
    grow,
    judge_by_classes,
    judge_by_moments,
    keep_trying,
    number_children,
    open_children,
)
from fedforest.kernels.growth.partition import OPEN_LEFT, OPEN_RIGHT, STAYS
from tests.strategies import IS_PLAIN_PYTHON

N_EXAMPLES = 25 if IS_PLAIN_PYTHON else 100
BOTH = OPEN_LEFT | OPEN_RIGHT


@dataclass(frozen=True, eq=False)
class Level:
    """Open nodes with their sums, those that are split, and the sums of their left children."""

    tree: NDArray[np.int32]
    node: NDArray[np.int32]
    depth: NDArray[np.int32]
    sums: NDArray[np.int64]
    left: NDArray[np.int64]
    is_split: NDArray[np.bool_]

    def splits(self) -> NDArray[np.int64]:
        return np.flatnonzero(self.is_split)

    def children(self, i: int) -> tuple[list[int], list[int]]:
        """Sums of both children of the i-th split node."""
        left = self.left[i].tolist()
        whole = self.sums[self.splits()[i]].tolist()
        return left, [w - part for w, part in zip(whole, left, strict=True)]


@st.composite
def levels(draw: st.DrawFn, n_sums: int) -> Level:
    n = draw(st.integers(0, 12))
    counts = st.lists(st.integers(0, 3), min_size=n_sums, max_size=n_sums)
    tree = sorted(draw(st.lists(st.integers(0, 3), min_size=n, max_size=n)))
    is_split = np.array(draw(st.lists(st.booleans(), min_size=n, max_size=n)), np.bool_)
    left = [draw(counts) for _ in range(int(is_split.sum()))]
    sums = np.array([draw(counts) for _ in range(n)], np.int64).reshape(n, n_sums)
    sums[is_split] += np.array(left, np.int64).reshape(-1, n_sums)
    depth = draw(st.lists(st.integers(0, 4), min_size=n, max_size=n))
    return Level(
        np.array(tree, np.int32),
        np.arange(n, dtype=np.int32),
        np.array(depth, np.int32),
        sums,
        np.array(left, np.int64).reshape(-1, n_sums),
        is_split,
    )


@st.composite
def levels_with_fate(draw: st.DrawFn) -> tuple[Level, NDArray[np.uint8]]:
    level = draw(levels(4))
    split_fates, other_fates = st.sampled_from([0, 1, 2, BOTH]), st.sampled_from([0, STAYS])
    fate = [draw(split_fates if split else other_fates) for split in level.is_split]
    return level, np.array(fate, np.uint8)


limits = st.builds(Limits, st.integers(2, 5), st.integers(1, 5))


@given(levels(4), limits)
@settings(max_examples=N_EXAMPLES)
def test_a_child_stays_open_that_is_mixed_large_and_above_the_depth_limit(
    level: Level, limits: Limits
) -> None:
    fate = np.zeros(len(level.tree), np.uint8)
    judge_by_classes(level.sums, level.left, level.splits(), level.depth, limits, fate)
    for i, node in enumerate(level.splits()):
        expected = 0
        for child, bit in zip(level.children(i), (OPEN_LEFT, OPEN_RIGHT), strict=True):
            mixed = sum(weight > 0 for weight in child[:-1]) > 1
            is_large = child[-1] >= limits.least_rows
            if mixed and is_large and level.depth[node] + 1 < limits.max_depth:
                expected |= bit
        assert fate[node] == expected
    assert not fate[~level.is_split].any()


@given(levels(4), limits)
@settings(max_examples=N_EXAMPLES)
def test_regression_children_bring_along_whether_they_are_pure(
    level: Level, limits: Limits
) -> None:
    fate = np.zeros(len(level.tree), np.uint8)
    judge_by_moments(level.sums, level.left, level.splits(), level.depth, limits, fate)
    for i, node in enumerate(level.splits()):
        expected, pure = 0, level.left[i, 3]
        for child, bit in zip(level.children(i), (OPEN_LEFT, OPEN_RIGHT), strict=True):
            is_large = child[2] >= limits.least_rows
            if not pure & bit and is_large and level.depth[node] + 1 < limits.max_depth:
                expected |= bit
        assert fate[node] == expected


def test_a_node_without_a_score_waits_while_it_has_columns_left() -> None:
    scores = np.array([1.0, -np.inf, -np.inf, -np.inf])
    tried = np.array([0, 0, 4, 6])
    assert keep_trying(scores, tried, 2, 7).tolist() == [0, STAYS, STAYS, 0]
    assert keep_trying(scores, tried, 2, 6).tolist() == [0, STAYS, 0, 0]
    assert not keep_trying(scores, tried, 2, 0).any()


@given(levels_with_fate())
@settings(max_examples=N_EXAMPLES)
def test_children_are_numbered_and_their_sums_follow_them(
    case: tuple[Level, NDArray[np.uint8]],
) -> None:
    level, fate = case
    node_count = np.full(4, 100, np.int32)
    left_child = np.empty(len(fate), np.int32)
    split = number_children(level.tree, level.node, level.is_split, node_count, left_child)
    opened: list[tuple[int, ...]] = []
    open_sums: list[list[int]] = []
    closed: list[tuple[int, int, list[int]]] = []
    next_number, i = [100] * 4, 0
    for k, (tree, node, depth) in enumerate(
        zip(level.tree.tolist(), level.node.tolist(), level.depth.tolist(), strict=True)
    ):
        if not level.is_split[k]:
            assert left_child[k] == -1
            children = [(fate[k] == STAYS, node, level.sums[k].tolist(), 0, False)]
        else:
            number = next_number[tree]
            next_number[tree] += 2
            assert left_child[k] == number
            assert [part[i] for part in split] == [tree, node, number]
            left, right = level.children(i)
            children = [
                (bool(fate[k] & OPEN_LEFT), number, left, 1, False),
                (bool(fate[k] & OPEN_RIGHT), number + 1, right, 1, True),
            ]
            i += 1
        for is_open, number, sums, deeper, is_right in children:
            if is_open:
                opened.append((tree, number, depth + deeper, k, is_right))
                open_sums.append(sums)
            else:
                closed.append((tree, number, sums))
    assert node_count.tolist() == next_number
    nodes = (level.tree, level.node, level.depth)
    after = open_children(nodes, fate, left_child)
    again = grow(nodes, level.is_split, fate, np.full(4, 100, np.int32), np.empty_like(left_child))
    for parts, expected in zip(again, (split, after), strict=True):
        assert [part.tolist() for part in parts] == [part.tolist() for part in expected]
    assert list(zip(*(part.tolist() for part in after), strict=True)) == opened
    named = (level.tree, level.node)
    tried, decrease = 10 * np.arange(len(fate)), 0.5 * np.arange(len(fate))
    before = (level.sums, tried, 3, decrease)
    sums, tried_after, decrease_of_split, leaf_tree, leaf_node = divide_sums(
        before, level.left, named, left_child, fate, len(opened)
    )
    stays = [fate[k] == STAYS for _, _, _, k, _ in opened]
    assert tried_after.tolist() == [
        10 * k + 3 if stays else 0 for stays, (_, _, _, k, _) in zip(stays, opened, strict=True)
    ]
    assert decrease_of_split.tolist() == decrease[level.is_split].tolist()
    assert sums[: len(opened)].tolist() == open_sums
    leaves = zip(leaf_tree.tolist(), leaf_node.tolist(), sums[len(opened) :].tolist(), strict=True)
    assert list(leaves) == closed


@given(levels_with_fate(), st.integers(1, 3), st.randoms(use_true_random=False))
@settings(max_examples=N_EXAMPLES)
def test_only_nodes_that_stay_remember_the_columns_they_tried(
    case: tuple[Level, NDArray[np.uint8]], width: int, random: Random
) -> None:
    _, fate = case
    shape = (len(fate), width)
    tried, flags = (
        np.array([random.getrandbits(8) for _ in range(len(fate) * width)], np.uint8).reshape(shape)
        for _ in range(2)
    )
    expected = []
    for k in range(len(fate)):
        if fate[k] == STAYS:
            expected.append((tried[k] | flags[k]).tolist())
        else:
            expected += [[0] * width] * int(fate[k] & BOTH).bit_count()
    assert follow_tried(fate, tried, flags).tolist() == expected

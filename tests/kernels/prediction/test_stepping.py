"""Rows that go down one level at a time, against walks row by row."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from fedforest.kernels.prediction.positions import Standing
from fedforest.kernels.prediction.stepping import (
    OwnSteps,
    count_inner_nodes,
    say_step,
    settle_step,
    take_step,
    write_own_steps,
    write_owner_steps,
)
from tests.kernels.owned_trees import (
    OwnedTree,
    assert_only_inner_stay,
    owned_trees,
    room_for,
    standing_at,
    starting_nodes,
)
from tests.reference.leaf_sets import goes_left
from tests.strategies import IS_PLAIN_PYTHON

EXAMPLES = settings(max_examples=15 if IS_PLAIN_PYTHON else 80)
ROWS = (0, 1, 8, 63, 64, 65, 200)


def own_steps(tree: OwnedTree, number: int) -> OwnSteps:
    splits = tree.partials[number].splits
    steps = write_own_steps(tree.flat_children, splits.feature, splits.cut, splits.missing_left)
    return OwnSteps(steps, splits.set_index, splits.left_set)


def say(
    tree: OwnedTree, number: int, standing: Standing
) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
    """The words and numbers of bits that an owner says."""
    n_words = (standing.counts + 63) >> 6
    starts = np.concatenate([[0], np.cumsum(n_words)])
    said = np.full(int(starts[-1]), 2**63 + 5, np.uint64)
    n_bits = np.full(len(standing.counts), -1)
    flat, n_rows = tree.bins[number].reshape(-1), np.uint64(tree.n_rows)
    for trees in ((0, tree.base), (tree.base, tree.base + 1)):
        say_step(own_steps(tree, number), standing, flat, n_rows, said, starts, n_bits, *trees)
    return said, n_bits


def bits_of(words: NDArray[np.uint64], n_bits: int) -> list[int]:
    return np.unpackbits(words.view(np.uint8), bitorder="little")[:n_bits].tolist()  # type: ignore[no-any-return]


@EXAMPLES
@given(owned_trees(ROWS))
def test_an_owner_says_one_bit_for_each_row_at_an_own_split(tree: OwnedTree) -> None:
    nodes = starting_nodes(tree)
    standing = standing_at(tree, nodes)
    for number, partial in enumerate(tree.partials):
        expected = []
        for row, node in enumerate(nodes):
            feature = partial.splits.feature[node]
            if feature >= 0:
                code = int(tree.bins[number][feature, row])
                expected.append(int(goes_left(partial, int(node), code)))
        said, n_bits = say(tree, number, standing)
        assert n_bits.tolist() == [0] * tree.base + [len(expected)]
        assert bits_of(said, len(expected)) == expected
        used = said[: -(-len(expected) // 64)]
        assert not any(bits_of(used, 64 * len(used))[len(expected) :])


@EXAMPLES
@given(owned_trees(ROWS), st.integers(0, 3))
def test_what_all_owners_say_leads_every_row_one_level_down(tree: OwnedTree, gap: int) -> None:
    nodes = starting_nodes(tree)
    expected = [next(iter(tree.path(row, int(node)))) for row, node in enumerate(nodes)]
    reached = [node for _, node in expected]
    source, target = standing_at(tree, nodes), room_for(tree, nodes)
    said = join(tree, source, gap)
    turns, starts = np.zeros((len(nodes) + 63) >> 6, np.uint64), np.zeros(tree.base + 2, np.int64)
    steps = write_owner_steps(tree.flat_children, tree.owner)
    leaf_of = np.full((tree.base + 1, tree.n_rows), -7, np.int32)
    roots, trees = tree.tree_start, (0, tree.base + 1)
    short = settle_step(steps, *said, turns, starts, source, target, roots, leaf_of, *trees)
    assert short == -1
    assert said[1].tolist() == said[2].tolist()
    assert bits_of(turns, len(nodes)) == [turn for turn, _ in expected]
    assert not any(bits_of(turns, 64 * len(turns))[len(nodes) :])
    assert_only_inner_stay(tree, target, reached)
    for row, node in enumerate(reached):
        if tree.left_child[node] < 0:
            assert leaf_of[tree.base, row] == node - tree.base
    target = room_for(tree, nodes)
    take_step(own_steps(tree, 0).steps, turns, starts, source, target, *trees)
    assert_only_inner_stay(tree, target, reached)


def join(
    tree: OwnedTree, standing: Standing, gap: int
) -> tuple[NDArray[np.uint8], NDArray[np.uint64], NDArray[np.uint64]]:
    """What all owners say, bytes of others between; (data, cursor, end) by tree and owner."""
    parts, at = [np.zeros(0, np.uint8)], 0
    cursor = np.zeros((tree.base + 1, len(tree.partials)), np.uint64)
    end = cursor.copy()
    for number in range(len(tree.partials)):
        words, n_bits = say(tree, number, standing)
        data = words.view(np.uint8)[: (int(n_bits[-1]) + 7) >> 3]
        parts += [np.full(gap, 0xAA, np.uint8), data]
        cursor[-1, number] = 8 * (at + gap)
        end[-1, number] = 8 * (at + gap) + n_bits[-1]
        at += gap + len(data)
    return np.concatenate(parts), cursor, end


@EXAMPLES
@given(owned_trees(ROWS), st.data())
def test_an_owner_who_says_too_little_is_named(tree: OwnedTree, data: st.DataObject) -> None:
    nodes = starting_nodes(tree)
    source, target = standing_at(tree, nodes), room_for(tree, nodes)
    said, cursor, end = join(tree, source, gap=0)
    talkers = np.flatnonzero(end[-1] > cursor[-1]).tolist()
    if not talkers:
        return
    silent = data.draw(st.sampled_from(talkers))
    missing = data.draw(st.integers(1, int(end[-1, silent] - cursor[-1, silent])))
    end[-1, silent] -= np.uint64(missing)
    turns, starts = np.zeros(99, np.uint64), np.zeros(tree.base + 2, np.int64)
    steps = write_owner_steps(tree.flat_children, tree.owner)
    leaf_of = np.zeros((tree.base + 1, tree.n_rows), np.int32)
    roots, moves = tree.tree_start, (turns, starts, source, target)
    short = settle_step(steps, said, cursor, end, *moves, roots, leaf_of, 0, tree.base + 1)
    assert short == silent


@EXAMPLES
@given(owned_trees())
def test_inner_nodes_are_counted_by_level(tree: OwnedTree) -> None:
    depth = dict.fromkeys(tree.tree_start[:-1].tolist(), 0)
    counts: dict[int, int] = {}
    for node, left in enumerate(tree.flat_children.tolist()):
        if left >= 0:
            depth[left] = depth[left + 1] = depth[node] + 1
            counts[depth[node]] = counts.get(depth[node], 0) + 1
    deepest = max(depth.values())
    expected = [counts.get(level, 0) for level in range(deepest + 1)]
    assert count_inner_nodes(tree.flat_children, deepest).tolist() == expected

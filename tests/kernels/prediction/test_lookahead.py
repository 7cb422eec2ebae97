"""Outcomes and turns of one tree, against walks row by row."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from fedforest.kernels.prediction.lookahead import (
    follow_turns,
    retire_rows,
    say_outcomes,
    settle_outcomes,
    settle_paths,
    write_outcomes,
)
from tests.kernels.owned_trees import (
    OwnedTree,
    assert_only_inner_stay,
    owned_trees,
    pack_turns,
    room_for,
    standing_at,
    starting_nodes,
)
from tests.reference.leaf_sets import goes_left, own_questions
from tests.strategies import IS_PLAIN_PYTHON

EXAMPLES = settings(max_examples=20 if IS_PLAIN_PYTHON else 100)


def unpack(data: NDArray[np.uint8], n_bits: int) -> list[int]:
    return np.unpackbits(data, bitorder="little")[:n_bits].tolist()  # type: ignore[no-any-return]


def no_turns(n_rows: int, n_levels: int) -> NDArray[np.uint64]:
    return np.zeros(-(-n_rows // 64) * n_levels, np.uint64)


def say(tree: OwnedTree, number: int, nodes: NDArray[np.int32]) -> tuple[NDArray[np.uint8], int]:
    own = int((tree.partials[number].splits.feature >= 0).sum())
    rows = np.arange(len(nodes), dtype=np.uint32)
    flat, n_rows = tree.bins[number].reshape(-1), np.uint64(tree.n_rows)
    most = min(own, 2**tree.lookahead)
    data, n_bits = write_outcomes(
        tree.splits(number), flat, n_rows, rows, nodes, tree.lookahead, most
    )
    return data, int(n_bits)


@EXAMPLES
@given(owned_trees())
def test_an_owner_says_one_bit_for_each_own_split_that_a_row_can_reach(tree: OwnedTree) -> None:
    nodes = starting_nodes(tree)
    number_of_tree = tree.base  # trees of one node lie before it
    for number, partial in enumerate(tree.partials):
        expected = []
        for row, node in enumerate(nodes):
            bins = tree.bins[number][:, row]
            start = int(node) - tree.base
            questions = own_questions(partial, number_of_tree, bins, start, tree.lookahead)
            for question in questions:
                flat = tree.base + question
                code = int(bins[partial.splits.feature[flat]])
                expected.append(int(goes_left(partial, flat, code)))
        data, n_bits = say(tree, number, nodes)
        assert unpack(data, n_bits) == expected
        assert len(data) == (n_bits + 7) // 8
        assert not any(unpack(data, 8 * len(data))[n_bits:])


@EXAMPLES
@given(owned_trees(), st.integers(0, 3))
def test_what_all_owners_say_leads_every_row_along_its_path(tree: OwnedTree, gap: int) -> None:
    nodes = starting_nodes(tree)
    data, cursor, end = join([say(tree, k, nodes) for k in range(len(tree.partials))], gap)
    turns, after = no_turns(len(nodes), tree.lookahead), nodes.copy()
    short = settle_paths(
        tree.flat_children, tree.owner, after, tree.lookahead, data, cursor, end, turns
    )
    paths = tree.paths(nodes)
    assert short == -1
    assert turns.tolist() == pack_turns(paths, tree.lookahead).tolist()
    assert after.tolist() == [steps[-1][1] for steps in paths]
    assert cursor.tolist() == end.tolist()


def join(
    said: list[tuple[NDArray[np.uint8], int]], gap: int
) -> tuple[NDArray[np.uint8], NDArray[np.uint64], NDArray[np.uint64]]:
    """All outcomes one after the other, bytes of others between them; (data, cursor, end)."""
    parts, cursor, end, at = [], [], [], 0
    for data, n_bits in said:
        parts += [np.full(gap, 0xAA, np.uint8), data]
        at += gap
        cursor.append(8 * at)
        end.append(8 * at + n_bits)
        at += len(data)
    return np.concatenate(parts), np.array(cursor, np.uint64), np.array(end, np.uint64)


@EXAMPLES
@given(owned_trees(), st.data())
def test_an_owner_who_says_too_little_is_named(tree: OwnedTree, data: st.DataObject) -> None:
    nodes = starting_nodes(tree)
    said = [say(tree, k, nodes) for k in range(len(tree.partials))]
    talkers = [k for k, (_, n_bits) in enumerate(said) if n_bits]
    if not talkers:
        return
    silent = data.draw(st.sampled_from(talkers))
    outcomes, cursor, end = join(said, gap=0)
    end[silent] -= np.uint64(data.draw(st.integers(1, said[silent][1])))
    turns = no_turns(len(nodes), tree.lookahead)
    short = settle_paths(
        tree.flat_children, tree.owner, nodes, tree.lookahead, outcomes, cursor, end, turns
    )
    assert short == silent


@EXAMPLES
@given(owned_trees())
def test_rows_follow_their_turns_and_leave_when_they_arrive(tree: OwnedTree) -> None:
    nodes = starting_nodes(tree)
    paths = tree.paths(nodes)
    source, target = standing_at(tree, nodes), room_for(tree, nodes)
    turns, starts = pack_turns(paths, tree.lookahead), np.zeros(tree.base + 1, np.int64)
    trees = (0, tree.base + 1)
    follow_turns(tree.flat_children, turns, starts, tree.lookahead, source, target, *trees)
    reached = [steps[-1][1] for steps in paths]
    assert_only_inner_stay(tree, target, reached)
    leaf_of = np.full((tree.base + 1, tree.n_rows), -7, np.int32)
    arrived, target = standing_at(tree, np.array(reached, np.int32)), room_for(tree, nodes)
    retire_rows(tree.flat_children, tree.tree_start, leaf_of, arrived, target, *trees)
    assert_only_inner_stay(tree, target, reached)
    for row, node in enumerate(reached):
        if tree.left_child[node] < 0:
            assert leaf_of[tree.base, row] == node - tree.base


@EXAMPLES
@given(owned_trees())
def test_several_trees_are_said_and_settled_as_each_alone(tree: OwnedTree) -> None:
    nodes, trees = starting_nodes(tree), (0, tree.base + 1)  # trees of one node, then this one
    standing = standing_at(tree, nodes)
    flat_turns, starts = no_turns(len(nodes), tree.lookahead), np.zeros(tree.base + 2, np.int64)
    starts[-1] = len(flat_turns)
    alone = [say(tree, number, nodes) for number in range(len(tree.partials))]
    for number, (data, n_bits) in enumerate(alone):
        bins, n_rows = tree.bins[number].reshape(-1), np.uint64(tree.n_rows)
        counted, most = np.zeros(tree.base + 1, np.int64), np.full(tree.base + 1, 2**10)
        splits = tree.splits(number)
        said = say_outcomes(splits, bins, n_rows, standing, tree.lookahead, most, counted, *trees)
        assert said.tolist() == data.tolist()
        assert counted.tolist() == [0] * tree.base + [n_bits]
    outcomes, cursor, end = join(alone, gap=0)
    said_of = (outcomes, np.tile(cursor, (trees[1], 1)), np.tile(end, (trees[1], 1)))
    short = np.full(trees[1], -7)
    settle_outcomes(
        tree.flat_children,
        tree.owner,
        standing,
        tree.lookahead,
        said_of,
        flat_turns,
        starts,
        short,
        *trees,
    )
    paths = tree.paths(nodes)
    assert short.tolist() == [-1] * trees[1]
    assert flat_turns.tolist() == pack_turns(paths, tree.lookahead).tolist()
    assert said_of[1][-1].tolist() == end.tolist()

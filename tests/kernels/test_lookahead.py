"""Outcomes and paths of one tree, against walks row by row."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from fedforest.kernels.lookahead import (
    OwnSplits,
    count_path_bits,
    follow_paths,
    retire_rows,
    settle_paths,
    write_outcomes,
)
from fedforest.tree.forest import Shape, Splits
from fedforest.tree.partial import FOREIGN, PartialForest
from tests.reference.leaf_sets import goes_left, own_questions
from tests.strategies import IS_PLAIN_PYTHON, MISSING, SEEDS

EXAMPLES = settings(max_examples=20 if IS_PLAIN_PYTHON else 100)
N_COLUMNS = 3  # of every owner


@dataclass(frozen=True, eq=False)
class OwnedTree:
    """A random tree behind some other nodes, its splits at several owners, and rows."""

    base: int
    left_child: NDArray[np.int32]
    owner: NDArray[np.int32]
    partials: list[PartialForest]
    bins: list[NDArray[np.uint8]]  # per owner: (columns, rows)
    lookahead: int

    @property
    def n_rows(self) -> int:
        return int(self.bins[0].shape[1])

    def splits(self, number: int) -> OwnSplits:
        splits = self.partials[number].splits
        return OwnSplits(
            self.left_child,
            splits.feature,
            splits.cut,
            splits.missing_left,
            splits.set_index,
            splits.left_set,
        )

    def path(self, row: int, start: int = 0) -> Iterator[tuple[int, int]]:
        """(turn, node reached) of each split that a row passes."""
        node = start
        while self.left_child[self.base + node] >= 0:
            number = int(self.owner[self.base + node])
            partial, bins = self.partials[number], self.bins[number][:, row]
            flat = self.base + node
            turn = goes_left(partial, flat, int(bins[partial.splits.feature[flat]]))
            node = int(self.left_child[flat]) + 1 - turn
            yield int(turn), node


@st.composite
def owned_trees(draw: st.DrawFn) -> OwnedTree:
    rng = np.random.default_rng(draw(SEEDS, label="seed"))
    n_splits = draw(st.integers(0, 25), label="splits")
    n_owners = draw(st.integers(1, 4), label="owners")
    n_rows = draw(st.sampled_from([0, 1, 7, 8, 30]), label="rows")
    base = draw(st.sampled_from([0, 5]), label="nodes before")
    children = [-1]
    for _ in range(n_splits):
        leaves = [node for node, child in enumerate(children) if child < 0]
        # mostly the last leaf: deep, lopsided trees
        chosen = leaves[-1] if rng.random() < 0.5 else int(rng.choice(leaves))
        children[chosen] = len(children)
        children += [-1, -1]
    left_child = np.array([-1] * base + children, np.int32)
    is_inner = left_child >= 0
    owner = np.where(is_inner, rng.integers(0, n_owners, len(left_child)), -1).astype(np.int32)
    starts = np.array([*range(base + 1), len(left_child)])
    partials = [
        PartialForest(Shape(starts, left_child), _random_splits(owner, k, rng), N_COLUMNS)
        for k in range(n_owners)
    ]
    bins = [_random_bins(n_rows, rng) for _ in range(n_owners)]
    lookahead = draw(st.integers(1, 12), label="lookahead")
    return OwnedTree(base, left_child, owner, partials, bins, lookahead)


def _random_splits(owner: NDArray[np.int32], number: int, rng: np.random.Generator) -> Splits:
    n_nodes = len(owner)
    is_own = owner == number
    feature = np.where(owner < 0, -1, FOREIGN)
    feature[is_own] = rng.integers(0, N_COLUMNS, int(is_own.sum()))
    by_set = is_own & (rng.random(n_nodes) < 0.3)
    set_index = np.where(by_set, np.cumsum(by_set) - 1, -1)
    return Splits(
        feature.astype(np.int32),
        rng.integers(0, 254, n_nodes).astype(np.uint8),
        rng.integers(0, 2, n_nodes).astype(np.uint8),
        set_index.astype(np.int32),
        rng.integers(0, 2**64, (int(by_set.sum()), 4), dtype=np.uint64),
    )


def _random_bins(n_rows: int, rng: np.random.Generator) -> NDArray[np.uint8]:
    bins = rng.integers(0, 255, (N_COLUMNS, n_rows))
    bins[rng.random(bins.shape) < 0.2] = MISSING
    return bins.astype(np.uint8)


def starting_nodes(tree: OwnedTree) -> NDArray[np.int32]:
    """Some rows stand at the root, some further down, none at a leaf."""
    inner = np.flatnonzero(tree.left_child[tree.base :] >= 0)
    rng = np.random.default_rng(tree.n_rows)
    return rng.choice(inner, tree.n_rows).astype(np.int32) if len(inner) else np.zeros(0, np.int32)


def unpack(data: NDArray[np.uint8], n_bits: int) -> list[int]:
    return np.unpackbits(data, bitorder="little")[:n_bits].tolist()  # type: ignore[no-any-return]


def pack(bits: list[int]) -> NDArray[np.uint8]:
    return np.packbits(np.array(bits, np.uint8), bitorder="little")


def say(tree: OwnedTree, number: int, nodes: NDArray[np.int32]) -> tuple[NDArray[np.uint8], int]:
    own = int((tree.partials[number].splits.feature >= 0).sum())
    rows = np.arange(len(nodes), dtype=np.int32)
    flat, n_rows = tree.bins[number].reshape(-1), np.uint64(tree.n_rows)
    most = min(own, 2**tree.lookahead)
    data, n_bits = write_outcomes(
        tree.splits(number), tree.base, flat, n_rows, rows, nodes, tree.lookahead, most
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
            questions = own_questions(partial, number_of_tree, bins, int(node), tree.lookahead)
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
    path = np.zeros(len(nodes) * tree.lookahead // 8 + 1, np.uint8)
    after = nodes.copy()
    used = settle_paths(
        tree.left_child, tree.owner, tree.base, after, tree.lookahead, data, cursor, end, path
    )
    paths = [list(tree.path(row, int(node)))[: tree.lookahead] for row, node in enumerate(nodes)]
    assert unpack(path, int(used)) == [turn for steps in paths for turn, _ in steps]
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
    path = np.zeros(len(nodes) * tree.lookahead // 8 + 1, np.uint8)
    used = settle_paths(
        tree.left_child, tree.owner, tree.base, nodes, tree.lookahead, outcomes, cursor, end, path
    )
    assert used == -1 - silent


@EXAMPLES
@given(owned_trees())
def test_rows_follow_their_turns_and_leave_when_they_arrive(tree: OwnedTree) -> None:
    nodes = starting_nodes(tree)
    paths = [list(tree.path(row, int(node)))[: tree.lookahead] for row, node in enumerate(nodes)]
    turns = pack([turn for steps in paths for turn, _ in steps])
    n_turns = sum(map(len, paths))
    assert count_path_bits(tree.left_child, tree.base, nodes, turns, tree.lookahead) == n_turns
    rows = np.arange(len(nodes), dtype=np.int32)
    n_active = follow_paths(tree.left_child, tree.base, rows, nodes, turns, tree.lookahead)
    reached = [steps[-1][1] for steps in paths]
    staying = [row for row, node in enumerate(reached) if tree.left_child[tree.base + node] >= 0]
    assert rows[:n_active].tolist() == staying
    assert nodes[:n_active].tolist() == [reached[row] for row in staying]


@EXAMPLES
@given(owned_trees(), st.binary(max_size=20))
def test_too_few_turns_are_noticed_whatever_they_are(tree: OwnedTree, data: bytes) -> None:
    nodes = starting_nodes(tree)
    turns = np.frombuffer(bytearray(data), np.uint8)
    needed = count_path_bits(tree.left_child, tree.base, nodes, turns, tree.lookahead)
    assert -1 <= needed <= 8 * len(data)
    if len(nodes):
        assert count_path_bits(tree.left_child, tree.base, nodes, turns[:0], tree.lookahead) == -1


@EXAMPLES
@given(owned_trees())
def test_rows_at_leaves_retire_and_the_others_stay_in_order(tree: OwnedTree) -> None:
    rng = np.random.default_rng(tree.n_rows)
    n_nodes = len(tree.left_child) - tree.base
    nodes = rng.integers(0, n_nodes, tree.n_rows).astype(np.int32)
    rows = np.arange(tree.n_rows, dtype=np.int32)
    is_leaf = tree.left_child[tree.base + nodes] < 0
    before = nodes.copy()
    leaf_of = np.full(tree.n_rows, -7, np.int32)
    n_active = retire_rows(tree.left_child, tree.base, rows, nodes, leaf_of)
    assert rows[:n_active].tolist() == np.flatnonzero(~is_leaf).tolist()
    assert nodes[:n_active].tolist() == before[~is_leaf].tolist()
    assert leaf_of.tolist() == np.where(is_leaf, before, -7).tolist()

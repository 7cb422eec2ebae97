"""The first levels of trees for 64 rows at a time, against walks row by row."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from fedforest.kernels.bits.byte_lanes import compare_rows
from fedforest.kernels.prediction.positions import NOWHERE, Standing, land_from_roots, note_landings
from fedforest.kernels.prediction.sweep import (
    MAX_SWEPT_LEVELS,
    UpperNodes,
    list_upper_nodes,
    list_upper_splits,
    say_upper,
    settle_upper,
)
from tests.kernels.owned_trees import OwnedTree, owned_trees
from tests.reference.leaf_sets import goes_left, own_questions
from tests.strategies import IS_PLAIN_PYTHON

EXAMPLES = settings(max_examples=10 if IS_PLAIN_PYTHON else 60)
ROWS = (1, 8, 63, 64, 65, 130)
N_LEVELS = st.integers(1, MAX_SWEPT_LEVELS)


def upper_of(tree: OwnedTree, n_levels: int) -> UpperNodes:
    upper: UpperNodes = list_upper_nodes(tree.flat_children, tree.tree_start, n_levels)
    return upper


def depths(tree: OwnedTree) -> dict[int, int]:
    """Depth of every node of the tree, flat numbers."""
    depth = {tree.base: 0}
    for node in range(tree.base, len(tree.left_child)):
        left = int(tree.flat_children[node])
        if left >= 0:
            depth[left] = depth[left + 1] = depth[node] + 1
    return depth


def unpack(words: NDArray[np.uint64], n_rows: int) -> NDArray[np.uint8]:
    """Words of consecutive rows as one bit per row; the rest must be zero."""
    bits = np.unpackbits(np.ascontiguousarray(words).view(np.uint8), bitorder="little")
    assert not bits[n_rows:].any()
    return bits[:n_rows]


@pytest.mark.parametrize("shift", [0, 1])
@pytest.mark.parametrize("cut", [0, 1, 100, 127, 128, 254])
def test_sixty_four_bins_are_compared_as_one_by_one(cut: int, shift: int) -> None:
    bins = np.random.default_rng(cut).integers(0, 256, 80).astype(np.uint8)
    bins[10:16] = 0, 255, cut, cut + 1, 254, 128
    limit = np.uint8((cut + shift) % 256)
    at_most = (bins + np.uint8(shift)) <= limit
    for start, n in ((0, 64), (3, 64), (16, 64), (0, 40), (79, 1)):
        word = int(compare_rows(bins, np.uint64(start), n, np.uint8(shift), limit))
        assert [(word >> k) & 1 for k in range(n)] == at_most[start : start + n].tolist()
        assert word >> n == 0


@EXAMPLES
@given(owned_trees(ROWS), N_LEVELS)
def test_upper_nodes_are_the_inner_nodes_of_the_first_levels(
    tree: OwnedTree, n_levels: int
) -> None:
    upper, depth = upper_of(tree, n_levels), depths(tree)
    expected = [n for n, d in depth.items() if d < n_levels and tree.left_child[n] >= 0]
    assert sorted(upper.node.tolist()) == sorted(expected)
    assert [depth[node] for node in upper.node.tolist()] == upper.level.tolist()
    assert upper.first.tolist() == [0] * (tree.base + 1) + [len(expected)]
    for single in range(tree.base):
        assert upper.landing[single].tolist() == [~single] + [NOWHERE] * (2**n_levels - 1)


@EXAMPLES
@given(owned_trees(ROWS), N_LEVELS)
def test_an_owner_says_which_rows_reach_a_split_by_its_own_ones_and_go_left(
    tree: OwnedTree, n_levels: int
) -> None:
    upper = upper_of(tree, n_levels)
    for number, partial in enumerate(tree.partials):
        said = say(tree, upper, number)
        nodes = [n for n in upper.node.tolist() if partial.splits.feature[n] >= 0]
        assert said.shape == (-(-tree.n_rows // 64), len(nodes))
        for k, node in enumerate(nodes):
            expected = []
            for bins in tree.bins[number].T:
                asked = own_questions(partial, tree.base, bins, 0, n_levels)
                turn = goes_left(partial, node, int(bins[partial.splits.feature[node]]))
                expected.append(int(node - tree.base in asked and turn))
            assert unpack(said[:, k], tree.n_rows).tolist() == expected


def say(tree: OwnedTree, upper: UpperNodes, number: int) -> NDArray[np.uint64]:
    """What an owner says, in two parts, of rows that lie behind some others."""
    own = list_upper_splits(upper, tree.splits(number))
    before = np.zeros((len(tree.bins[number]), 5), np.uint8)
    bins = np.concatenate([before, tree.bins[number]], axis=1)
    n_words = -(-tree.n_rows // 64)
    said = np.zeros((n_words, len(own.cut)), np.uint64)
    n_rows, rows = np.uint64(bins.shape[1]), (5, bins.shape[1])
    left_set = tree.partials[number].splits.left_set
    for part in ((0, n_words // 2), (n_words // 2, n_words)):
        say_upper(own, left_set, bins.reshape(-1), n_rows, rows, said, *part)
    return said


@EXAMPLES
@given(owned_trees(ROWS), N_LEVELS)
def test_the_words_of_all_owners_lead_every_row_along_its_path(
    tree: OwnedTree, n_levels: int
) -> None:
    upper, n_words = upper_of(tree, n_levels), -(-tree.n_rows // 64)
    words = [say(tree, upper, number) for number in range(len(tree.partials))]
    owner = tree.owner[upper.node]
    place, stride = np.zeros(len(owner), np.uint64), np.zeros(len(owner), np.uint64)
    begin = 0
    for number, said in enumerate(words):
        own = np.flatnonzero(owner == number)
        place[own], stride[own] = begin + np.arange(len(own)), len(own)
        begin += said.size
    flat = np.concatenate([said.reshape(-1) for said in words])
    turns = np.full((tree.base + 1, n_levels, n_words), 2**64 - 1, np.uint64)
    for trees in ((0, tree.base), (tree.base, tree.base + 1)):
        settle_upper(upper, flat, place, stride, tree.n_rows, turns, *trees)
    paths = [list(tree.path(row, tree.base))[:n_levels] for row in range(tree.n_rows)]
    assert not turns[: tree.base].any()
    for level in range(n_levels):
        expected = [path[level][0] if level < len(path) else 0 for path in paths]
        assert unpack(turns[tree.base, level], tree.n_rows).tolist() == expected
    reached = [path[-1][1] if path else tree.base for path in paths]
    assert_landed(tree, upper, turns, reached)


def assert_landed(
    tree: OwnedTree, upper: UpperNodes, turns: NDArray[np.uint64], reached: list[int]
) -> None:
    """Rows that reached an inner node stand there, the leaves of the others are noted."""
    standing, is_somewhere = land(tree, upper, turns)
    assert is_somewhere
    staying = [row for row, node in enumerate(reached) if tree.left_child[node] >= 0]
    first, count = standing.start[-1], standing.counts[-1]
    assert standing.counts[:-1].tolist() == [0] * tree.base
    assert standing.rows[first : first + count].tolist() == [20 + row for row in staying]
    assert standing.place[first : first + count].tolist() == [reached[row] for row in staying]
    leaf_of = np.full((tree.base + 1, 20 + tree.n_rows), -7, np.int32)
    roots, rows = tree.tree_start, (20, tree.n_rows)
    note_landings(turns, upper.landing, *rows, roots, leaf_of, 0, tree.base + 1)
    assert (leaf_of[:, :20] == -7).all()
    assert not leaf_of[: tree.base, 20:].any()
    for row, node in enumerate(reached):
        if row not in staying:
            assert leaf_of[tree.base, 20 + row] == node - tree.base


def land(tree: OwnedTree, upper: UpperNodes, turns: NDArray[np.uint64]) -> tuple[Standing, bool]:
    n_trees, n = tree.base + 1, tree.n_rows
    standing = Standing(
        np.zeros(n_trees * n, np.uint32),
        np.zeros(n_trees * n, np.int32),
        n * np.arange(n_trees),
        np.full(n_trees, n),
    )
    parts = ((0, tree.base), (tree.base, n_trees))
    is_somewhere = [land_from_roots(turns, upper.landing, 20, n, standing, *part) for part in parts]
    return standing, all(is_somewhere)


@EXAMPLES
@given(owned_trees(ROWS), N_LEVELS, st.data())
def test_turns_that_lead_nowhere_are_noticed(
    tree: OwnedTree, n_levels: int, data: st.DataObject
) -> None:
    upper = upper_of(tree, n_levels)
    row = data.draw(st.integers(0, tree.n_rows - 1), label="row")
    code = data.draw(st.integers(0, 2**n_levels - 1), label="code")
    codes = np.full(tree.n_rows, np.flatnonzero(upper.landing[tree.base] != NOWHERE)[0])
    codes[row] = code
    bits = np.zeros((n_levels, -(-tree.n_rows // 64) * 64), np.uint8)
    bits[:, : tree.n_rows] = (codes >> np.arange(n_levels)[:, None]) & 1
    turns = np.zeros((tree.base + 1, n_levels, -(-tree.n_rows // 64)), np.uint64)
    turns[tree.base] = np.packbits(bits, axis=1, bitorder="little").view(np.uint64)
    _, is_somewhere = land(tree, upper, turns)
    assert is_somewhere == (upper.landing[tree.base, code] != NOWHERE)

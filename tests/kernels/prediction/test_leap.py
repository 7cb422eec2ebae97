"""Four levels at a time, against walks row by row."""

from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from fedforest.kernels.prediction.leap import (
    CODES,
    LEAP,
    Blocks,
    join_said,
    list_blocks,
    list_own_slots,
    list_owner_slots,
    say_leap,
    settle_leap,
)
from fedforest.kernels.prediction.positions import (
    NOWHERE,
    Standing,
    is_padded_with_zeros,
    land_from_places,
)
from fedforest.kernels.prediction.slots import PLACES, VECTOR_LANES, lay_side_by_side
from tests.kernels.owned_trees import (
    OwnedTree,
    owned_trees,
    pack_turns,
    room_for,
    standing_at,
)
from tests.reference.leaf_sets import goes_left, own_questions
from tests.strategies import IS_PLAIN_PYTHON

EXAMPLES = settings(max_examples=15 if IS_PLAIN_PYTHON else 80)
ROWS = (0, 1, 8, 63, 64, 65, 200)
COLUMNS = st.sampled_from([np.uint8, np.uint16, np.uint32])  # on cards, or beside them


def blocks_of(tree: OwnedTree, first_level: int) -> Blocks:
    blocks: Blocks = list_blocks(tree.flat_children, first_level)
    return blocks


def slots_of(tree: OwnedTree, root: int) -> list[int]:
    """The inner nodes of a block in its fifteen slots, -1 without."""
    slots = [root]
    for slot in range(7):
        for side in range(2):
            child = -1 if slots[slot] < 0 else int(tree.flat_children[slots[slot]]) + side
            slots.append(child if child >= 0 and tree.left_child[child] >= 0 else -1)
    return slots


def starting_blocks(tree: OwnedTree, blocks: Blocks) -> NDArray[np.int32]:
    rng = np.random.default_rng(tree.n_rows)
    n_rows = tree.n_rows if len(blocks.root) else 0
    return rng.integers(0, max(1, len(blocks.root)), n_rows).astype(np.int32)


@EXAMPLES
@given(owned_trees(), st.integers(0, 4))
def test_blocks_begin_at_every_fourth_level(tree: OwnedTree, first_level: int) -> None:
    depth = dict.fromkeys(tree.tree_start[:-1].tolist(), 0)
    for node, left in enumerate(tree.flat_children.tolist()):
        if left >= 0:
            depth[left] = depth[left + 1] = depth[node] + 1
    inner = [node for node in depth if tree.left_child[node] >= 0]
    begins = sorted(node for node in inner if (depth[node] - first_level) % LEAP == 0)
    blocks = blocks_of(tree, first_level)
    assert blocks.root.tolist() == begins
    expected = [begins.index(n) if n in begins else -1 for n in range(len(tree.left_child))]
    assert blocks.block_of.tolist() == expected


@EXAMPLES
@given(owned_trees(), st.integers(0, 3))
def test_codes_lead_to_leaves_and_to_the_next_blocks(tree: OwnedTree, first_level: int) -> None:
    blocks = blocks_of(tree, first_level)
    for block, root in enumerate(blocks.root.tolist()):
        for code in range(CODES):
            node, level = root, 0
            while level < LEAP and tree.left_child[node] >= 0:
                node = int(tree.flat_children[node]) + 1 - ((code >> level) & 1)
                level += 1
            landing = int(blocks.landing[block * CODES + code])
            if code >> level:
                assert landing == NOWHERE
            elif tree.left_child[node] < 0:
                assert landing == ~node
            else:
                assert landing == blocks.block_of[node]


def say(
    tree: OwnedTree, number: int, blocks: Blocks, standing: Standing, column_type: type
) -> NDArray[np.uint16]:
    """The outcomes of an owner, about rows that lie behind some others."""
    before = np.full((len(tree.bins[number]), 4), 77, np.uint8)
    bins = np.concatenate([before, tree.bins[number]], axis=1)
    is_wide = column_type is not np.uint8
    lanes = np.zeros((tree.n_rows, len(bins) + 1 if is_wide else VECTOR_LANES), np.uint8)
    for part in ((0, tree.n_rows // 2), (tree.n_rows // 2, tree.n_rows)):
        lay_side_by_side(bins.reshape(-1), bins.shape[1], (4, bins.shape[1]), lanes, *part)
    column: NDArray[Any] = np.zeros(is_wide * len(blocks.root) * PLACES, column_type)
    slots = list_own_slots(blocks, tree.splits(number), lanes.shape[1] - 1, column)
    starts, said = np.zeros(tree.base + 1, np.int64), np.zeros(int(standing.counts[-1]), np.uint16)
    later = standing._replace(rows=standing.rows + np.uint32(4))
    for trees in ((0, tree.base), (tree.base, tree.base + 1)):
        say_leap(slots, lanes, 4, later, said, starts, *trees)
    return said


@EXAMPLES
@given(owned_trees(ROWS), st.integers(0, 3), COLUMNS)
def test_an_owner_speaks_of_the_own_slots_that_a_row_can_reach(
    tree: OwnedTree, first_level: int, column_type: type
) -> None:
    blocks = blocks_of(tree, first_level)
    places = starting_blocks(tree, blocks)
    for number, partial in enumerate(tree.partials):
        expected = []
        for row, block in enumerate(places):
            bins, root = tree.bins[number][:, row], int(blocks.root[block])
            asked = own_questions(partial, tree.base, bins, root - tree.base, LEAP)
            bits = 0
            for slot, node in enumerate(slots_of(tree, root)):
                if node >= 0 and node - tree.base in asked:
                    code = int(bins[partial.splits.feature[node]])
                    bits |= goes_left(partial, node, code) << slot
            expected.append(bits)
        standing = standing_at(tree, places)
        assert say(tree, number, blocks, standing, column_type).tolist() == expected


@EXAMPLES
@given(owned_trees(ROWS), st.integers(0, 3))
def test_the_outcomes_of_all_owners_lead_every_row_four_levels_down(
    tree: OwnedTree, first_level: int
) -> None:
    blocks = blocks_of(tree, first_level)
    places = starting_blocks(tree, blocks)
    source, target = standing_at(tree, places), room_for(tree, places)
    n_owners = len(tree.partials)
    said = np.zeros((n_owners, len(places)), np.uint16)
    slots = list_owner_slots(tree.flat_children, tree.owner, blocks, n_owners)
    for number in range(n_owners):
        own = slots.own[number, places]
        said[number] = say(tree, number, blocks, source, np.uint8) | ~own  # of others' slots: lies
    paths = [list(tree.path(r, int(blocks.root[b])))[:LEAP] for r, b in enumerate(places)]
    starts, turns = (
        np.zeros(tree.base + 2, np.int64),
        np.zeros(-(-len(places) // 64) * LEAP, np.uint64),
    )
    leaf_of, trees = np.full((tree.base + 1, tree.n_rows), -7, np.int32), (0, tree.base + 1)
    one, *others = said.astype("<u2").view(np.uint8)
    two = others[0] if len(others) == 1 else one  # who is alone may also speak as all others
    if len(others) > 1:
        two = np.zeros_like(one)
        for other, own in zip(others, slots.own[1:], strict=True):
            join_said(other, own, source, starts, two, *trees)
    settle_leap(
        blocks,
        slots.halves,
        one,
        two,
        starts,
        turns,
        starts,
        source,
        target,
        tree.tree_start,
        leaf_of,
        *trees,
    )
    assert turns.tolist() == pack_turns(paths, LEAP).tolist()
    reached = [path[-1][1] for path in paths]
    assert_leapt(tree, blocks, target, reached)
    for row, node in enumerate(reached):
        if tree.left_child[node] < 0:
            assert leaf_of[tree.base, row] == node - tree.base
    target = room_for(tree, places)
    assert land_from_places(turns, starts, LEAP, blocks.landing, source, target, *trees)
    assert_leapt(tree, blocks, target, reached)


def assert_leapt(tree: OwnedTree, blocks: Blocks, standing: Standing, reached: list[int]) -> None:
    staying = [row for row, node in enumerate(reached) if tree.left_child[node] >= 0]
    first, count = standing.start[-1], standing.counts[-1]
    assert standing.rows[first : first + count].tolist() == staying
    expected = [int(blocks.block_of[reached[row]]) for row in staying]
    assert standing.place[first : first + count].tolist() == expected


@EXAMPLES
@given(owned_trees((1, 64, 70)), st.data())
def test_turns_from_a_block_that_lead_nowhere_are_noticed(
    tree: OwnedTree, data: st.DataObject
) -> None:
    blocks = blocks_of(tree, 0)
    places = starting_blocks(tree, blocks)
    if not len(places):
        return
    codes = [
        int(np.flatnonzero(blocks.landing[CODES * block : CODES * (block + 1)] != NOWHERE)[0])
        for block in places
    ]
    row = data.draw(st.integers(0, len(places) - 1), label="row")
    codes[row] = data.draw(st.integers(0, CODES - 1), label="code")
    turns = pack_turns([[((code >> k) & 1, 0) for k in range(LEAP)] for code in codes], LEAP)
    source, target = standing_at(tree, places), room_for(tree, places)
    starts, trees = np.zeros(tree.base + 2, np.int64), (0, tree.base + 1)
    landing = blocks.landing
    leads = land_from_places(turns, starts, LEAP, landing, source, target, *trees)
    assert leads == (landing[CODES * places[row] + codes[row]] != NOWHERE)


def test_bits_behind_the_last_row_of_a_tree_are_noticed() -> None:
    counts = np.array([70, 0, 64, 1])
    n_words = [2, 0, 1, 1]
    for n_levels in (1, 3):
        turns = np.full(n_levels * sum(n_words), 2**64 - 1, np.uint64)
        at = 0
        for count, words in zip(counts.tolist(), n_words, strict=True):
            for _ in range(n_levels):
                at += words
                if count % 64:
                    turns[at - 1] = 2 ** (count % 64) - 1
        assert is_padded_with_zeros(turns, counts, n_levels)
        for place, bit in ((1, 6), (len(turns) - 1, 1), (len(turns) - 1, 63)):
            wrong = turns.copy()
            wrong[place] |= np.uint64(1 << bit)
            assert not is_padded_with_zeros(wrong, counts, n_levels)

"""Going down four levels at a time: two bytes per row from each owner.

A *block* is an inner node and the inner nodes of the three levels below it, fifteen slots in all:

    level 0            0             slot k has the children 2k + 1 (left) and 2k + 2 (right)
    level 1      1           2
    level 2    3   4       5   6
    level 3   7 8 9 10  11 12 13 14

An owner says fifteen bits for a row that stands at a block: bit k is set where the row can reach
slot k by the owner's splits, the split there is the owner's, and the row goes left. The bits of all
owners together hold the row's way, four turns, which are its code (see `positions.py`).

All slots are compared at once, without asking which are needed: that is cheaper than guessing one
branch wrong.

Worth (`benchmarks/ablations.py`): predictions take 1.5 to 2.9 times as long without.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedforest.kernels.bits.byte_lanes import WORD, test_word
from fedforest.kernels.jit import kernel
from fedforest.kernels.prediction.positions import NOWHERE
from fedforest.kernels.prediction.slots import (
    CARD_BYTES,
    GROUP_BYTES,
    PLACES,
    SET_CARD_BYTES,
    SLOTS,
    has_set,
    say_slots,
    say_slots_and_sets,
    write_card,
    write_sets,
)

LEAP = 4  # levels
CODES = 16  # of four turns

_ONE = np.uint64(1)
_ZERO = np.uint64(0)
_FOUR = np.uint64(4)
# of four bytes, as many of which as can be are handled at once
_BIT = np.uint32(1)
_PAIR = np.uint32(2)
_TRIPLE = np.uint32(3)
_BYTE = np.uint32(8)
_HALF = np.uint32(16)


class Blocks(NamedTuple):
    """The blocks of a forest that begin at every fourth level."""

    root: NDArray[np.int32]  # flat over all trees
    landing: NDArray[np.int32]  # sixteen codes each: the next block, or ~leaf
    block_of: NDArray[np.int32]  # of each node, -1 where no block begins


class OwnSlots(NamedTuple):
    """One owner's splits in blocks: a card for each (see `kernels/prediction/slots.py`)."""

    cards: NDArray[np.uint8]
    column: NDArray[np.unsignedinteger]  # beside the cards, or empty, of one byte
    set_start: NDArray[np.int64]  # where each block's sets start; empty for owners without sets
    sets: NDArray[np.uint8]


class OwnerSlots(NamedTuple):
    """The owners of the slots of blocks."""

    own: NDArray[np.uint16]  # (owners, blocks): a bit for each slot
    halves: NDArray[np.uint32]  # the first owner's; above them, from bit 16 on, those of all others


@kernel
def list_blocks(left_child, first_level):
    """Blocks that begin at levels first_level, first_level + 4, ...; children follow parents."""
    n_nodes = left_child.shape[0]
    level = np.zeros(n_nodes, np.int32)
    block_of = np.full(n_nodes, -1, np.int32)
    root = np.empty(n_nodes, np.int32)
    n_blocks = 0
    for node in range(n_nodes):
        child = left_child[node]
        if child < 0:
            continue
        level[child] = level[child + 1] = level[node] + 1
        if level[node] % LEAP == first_level % LEAP:
            block_of[node], root[n_blocks] = n_blocks, node
            n_blocks += 1
    landing = np.full(n_blocks * CODES, NOWHERE, np.int32)
    for block in range(n_blocks):
        write_landings(left_child, block_of, root[block], landing[block * CODES :])
    return Blocks(root[:n_blocks].copy(), landing, block_of)


@kernel
def write_landings(left_child, block_of, root, landing):
    """landing[code] for one block."""
    node, code = np.empty(2 * CODES - 1, np.int32), np.zeros(2 * CODES - 1, np.int32)
    node[0] = root
    for slot in range(2 * CODES - 1):
        here, level = node[slot], (slot > 0) + (slot > 2) + (slot > 6) + (slot > 14)
        if here < 0:  # behind a leaf
            node_left, node_right = NOWHERE, NOWHERE
        elif left_child[here] < 0:
            landing[code[slot]] = ~here
            node_left, node_right = NOWHERE, NOWHERE
        elif level == LEAP:
            landing[code[slot]] = block_of[here]
            continue
        else:
            node_left, node_right = left_child[here], left_child[here] + 1
        if level < LEAP:
            node[2 * slot + 1], code[2 * slot + 1] = node_left, code[slot] | 1 << level
            node[2 * slot + 2], code[2 * slot + 2] = node_right, code[slot]


@kernel
def list_slot_nodes(left_child, root, node):
    """node[slot] = inner node of each slot of a block, -1 without."""
    node[:] = -1
    node[0] = root
    for slot in range(SLOTS // 2):
        for side in range(2):
            child = left_child[node[slot]] + side if node[slot] >= 0 else -1
            if child >= 0 and left_child[child] >= 0:
                node[2 * slot + 1 + side] = child


@kernel
def list_own_slots(blocks, splits, last_lane, column):
    """Return the slots of one owner; `column`, sixteen for each block or empty, becomes part."""
    n_blocks, n_sets = blocks.root.shape[0], splits.left_set.shape[0]
    cards = np.empty(n_blocks * CARD_BYTES, np.uint8)
    set_start = np.zeros(n_blocks if n_sets > 0 else 0, np.int64)
    node, sets, at = np.full(SLOTS, -1, np.int32), np.empty(0, np.uint8), 0
    if n_sets > 0:
        sets = np.empty((n_blocks + 1) * SET_CARD_BYTES + (n_sets + 1) * GROUP_BYTES, np.uint8)
        at = write_sets(splits, node, sets, np.empty(CARD_BYTES, np.uint8))
    for block in range(n_blocks):
        list_slot_nodes(splits.left_child, blocks.root[block], node)
        card = cards[block * CARD_BYTES : (block + 1) * CARD_BYTES]
        beside = column[block * PLACES : (block + 1) * PLACES]
        write_card(splits, node, last_lane, card, beside)
        if has_set(splits, node):
            set_start[block] = at
            at += write_sets(splits, node, sets[at:], card)
        else:
            card[CARD_BYTES - 1] = n_sets > 0  # the empty sets that come first
    return OwnSlots(cards, column, set_start, sets[:at].copy())


@kernel
def list_owner_slots(left_child, owner, blocks, n_owners):
    """Return the slots of each owner."""
    n_blocks = blocks.root.shape[0]
    own, halves = np.zeros((n_owners, n_blocks), np.uint16), np.zeros(n_blocks, np.uint32)
    node = np.empty(SLOTS, np.int32)
    for block in range(n_blocks):
        list_slot_nodes(left_child, blocks.root[block], node)
        for slot in range(SLOTS):
            if node[slot] >= 0:
                number = owner[node[slot]]
                own[number, block] |= np.uint16(1 << slot)
                halves[block] |= np.uint32(1 << slot + (16 if number > 0 else 0))
    return OwnerSlots(own, halves)


@kernel
def say_leap(slots, lanes, first_row, standing, said, said_start, first, last):
    """Two bytes for each row of trees first..last; those of a tree start at said_start[tree].

    Rows count from `first_row` in `lanes`, which is (rows, lanes).
    """
    cards, column, set_start, sets = slots
    rows, place, start, count = standing
    has_sets = set_start.shape[0] > 0
    flat, width = lanes.reshape(-1), np.uint64(lanes.shape[1])
    for tree in range(first, last):
        to = np.uint64(said_start[tree])
        for i in range(np.uint64(start[tree]), np.uint64(start[tree] + count[tree])):
            base = (np.uint64(rows[i]) - np.uint64(first_row)) * width
            block = np.uint64(place[i])
            if has_sets:
                at = np.uint64(set_start[block])
                said[to] = say_slots_and_sets(flat, base, cards, column, block, sets, at)
            else:
                said[to] = say_slots(flat, base, cards, column, block)
            to += _ONE


@kernel
def join_said(said, slots, standing, said_start, joined, first, last):
    """Add to `joined` what one more owner says of rows of trees first..last, of its slots only.

    Both are bytes, two for a row; those of a tree start at row said_start[tree].
    """
    _, place, start, count = standing
    for tree in range(first, last):
        begin, at = np.uint64(start[tree]), np.uint64(said_start[tree]) << _ONE
        for k in range(np.uint64(count[tree])):
            own, to = slots[np.uint64(place[begin + k])], at + (k << _ONE)
            joined[to] |= said[to] & np.uint8(own)
            joined[to + _ONE] |= said[to + _ONE] & np.uint8(own >> _BYTE)


@kernel
def find_codes(slots, one, two, at, place, begin, n, mine, codes):
    """Set codes[k] to the four turns of row k of n, from two owners' bits about their slots.

    The bits are in one[at:] and two[at:], two bytes for each row; the rows' blocks are
    place[begin:]. Scattered loads come first: the rest is done for many rows at once.
    """
    codes[n:] = 0
    for k in range(n):
        mine[k] = slots[np.uint64(place[begin + k])]
    for k in range(n):
        low, own = at + (k << _ONE), mine[k]
        high = low + _ONE
        left = (np.uint32(one[low]) | np.uint32(one[high]) << _BYTE) & own
        left |= (np.uint32(two[low]) | np.uint32(two[high]) << _BYTE) & own >> _HALF
        turn = left & _BIT
        code, slot = turn, _PAIR - turn
        turn = left >> slot & _BIT
        code, slot = code | turn << _BIT, slot + slot + _PAIR - turn
        turn = left >> slot & _BIT
        code, slot = code | turn << _PAIR, slot + slot + _PAIR - turn
        codes[k] = np.uint8(code | (left >> slot & _BIT) << _TRIPLE)


@kernel
def land_rows(landing, codes, source, begin, n, target, kept, leaves, base):
    """The source's n rows from `begin` on go where their codes lead, unless to leaves.

    They stand from `kept` on in the target; returns where the next belongs. leaves[row], less
    `base`, is noted in any case: that saves a branch, and is noted again where the row arrives.
    """
    from_rows, from_place, _, _ = source
    rows, place, _, _ = target
    for k in range(n):
        row, block = from_rows[begin + k], np.uint64(from_place[begin + k])
        reached = landing[block << _FOUR | np.uint64(codes[k])]
        leaves[np.uint64(row)] = ~reached - base
        rows[kept] = row
        place[kept] = reached
        kept += np.uint64(reached >= 0)
    return kept


@kernel
def settle_leap(
    blocks,
    slots,
    one,
    two,
    said_start,
    turns,
    turns_start,
    source,
    target,
    tree_start,
    leaf_of,
    first,
    last,
):
    """Rows of trees first..last take the four turns that two tell.

    They may speak of the lower and the upper sixteen slots[block]; what they say is in bytes, as
    in `find_codes`, and that of a tree starts at row said_start[tree]. Rows that reach a leaf are
    noted in `leaf_of` and not in `target`.
    """
    _, place, start, from_count = source
    mine, codes = np.empty(WORD, np.uint32), np.empty(WORD, np.uint8)
    for tree in range(first, last):
        n, begin = np.uint64(from_count[tree]), np.uint64(start[tree])
        kept, at = begin, np.uint64(said_start[tree])
        to, n_words = np.uint64(turns_start[tree]), (n + np.uint64(WORD - 1)) // np.uint64(WORD)
        base, leaves = np.int32(tree_start[tree]), leaf_of[tree]
        for done in range(_ZERO, n, np.uint64(WORD)):
            n_here, here = min(np.uint64(WORD), n - done), begin + done
            find_codes(slots, one, two, at + done << _ONE, place, here, n_here, mine, codes)
            kept = land_rows(
                blocks.landing, codes, source, here, n_here, target, kept, leaves, base
            )
            for level in range(np.uint64(LEAP)):
                turns[to + level * n_words] = test_word(codes, _ZERO, np.uint8(_ONE << level))
            to += _ONE
        target.counts[tree] = np.int64(kept - begin)

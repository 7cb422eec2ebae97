"""Going down three levels at a time: a byte per row from each owner.

A *block* is an inner node and the inner nodes of the two levels below it, seven slots in all:

    level 0         0             slot k has the children 2k + 1 (left) and 2k + 2 (right)
    level 1     1       2
    level 2    3 4     5 6

An owner says one byte for a row that stands at a block: bit k is set where the row can reach slot
k by the owner's splits, the split there is the owner's, and the row goes left. The bytes of all
owners together hold the row's way, three turns, which are its code (see `kernels/standing.py`).

All slots are compared at once, without asking which are needed: that is cheaper than guessing one
branch wrong.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedforest.kernels.bitsets import in_set
from fedforest.kernels.byte_lanes import SLOTS, WORD, compare_slots, test_word
from fedforest.kernels.jit import inlined, kernel
from fedforest.kernels.standing import NOWHERE

LEAP = 3  # levels
CODES = 8  # of three turns

_ONE = np.uint64(1)
_ZERO = np.uint64(0)
_EIGHT = np.uint64(8)
_SEVEN = np.uint64(7)


def _keep_reached(own: int, right: int) -> int:
    """What an owner with these slots says, if rows at them go right where `right` says."""
    said, waiting = 0, [0]
    while waiting:
        slot = waiting.pop()
        turns_right, is_own = (right >> slot) & 1, (own >> slot) & 1
        said |= (1 - turns_right) << slot if is_own else 0
        if slot < SLOTS // 2:
            children = [2 * slot + 1, 2 * slot + 2]
            waiting += [children[turns_right]] if is_own else children
    return said


def _find_code(left: int) -> int:
    """The three turns of a row, given what all slots on its way say."""
    slot, code = 0, 0
    for level in range(LEAP):
        turn = (left >> slot) & 1
        code |= turn << level
        slot = 2 * slot + 2 - turn
    return code


_REACHED = np.array([_keep_reached(own, o) for own in range(128) for o in range(128)], np.uint8)
_CODE_OF = np.array([_find_code(left) for left in range(128)] * 2, np.uint8)


class Blocks(NamedTuple):
    """The blocks of a forest that begin at every third level."""

    root: NDArray[np.int32]  # flat over all trees
    landing: NDArray[np.int32]  # eight codes each: the next block, or ~leaf
    block_of: NDArray[np.int32]  # of each node, -1 where no block begins


class OwnSlots(NamedTuple):
    """One owner's splits in blocks, eight entries each."""

    lane: NDArray[np.unsignedinteger]  # of `lay_side_by_side`; the eighth: slots split by a set
    cut: NDArray[np.uint8]  # the eighth: own slots


@kernel
def list_blocks(left_child, first_level):
    """Blocks that begin at levels first_level, first_level + 3, ...; children follow parents."""
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
        here, level = node[slot], (slot > 0) + (slot > 2) + (slot > 6)
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
def list_own_slots(blocks, splits, lane):
    """The slots of one owner; `lane`, zeros of a type that holds every lane, becomes part."""
    left_child, feature, cut, missing_left, set_index, _ = splits
    own_cut = np.zeros(blocks.root.shape[0] * CODES, np.uint8)
    node = np.empty(SLOTS, np.int32)
    for block in range(blocks.root.shape[0]):
        list_slot_nodes(left_child, blocks.root[block], node)
        own, by_set = 0, 0
        for slot in range(SLOTS):
            here = node[slot]
            if here < 0 or feature[here] < 0:
                continue
            own |= 1 << slot
            if set_index[here] >= 0:
                by_set |= 1 << slot
            else:
                shift = missing_left[here] & 1
                lane[block * CODES + slot] = 2 * feature[here] + shift
                own_cut[block * CODES + slot] = np.uint8(cut[here] + shift)
        lane[block * CODES + SLOTS], own_cut[block * CODES + SLOTS] = by_set, own
    return OwnSlots(lane, own_cut)


@kernel
def list_owner_slots(left_child, owner, blocks, n_owners):
    """(blocks, owners): a byte with the slots of each owner."""
    slots = np.zeros((blocks.root.shape[0], n_owners), np.uint8)
    node = np.empty(SLOTS, np.int32)
    for block in range(blocks.root.shape[0]):
        list_slot_nodes(left_child, blocks.root[block], node)
        for slot in range(SLOTS):
            if node[slot] >= 0:
                slots[block, owner[node[slot]]] |= np.uint8(1 << slot)
    return slots


@kernel
def ask_sets(splits, root, by_set, lanes, base):
    """What the slots split by a set say, of a row whose lanes start at `base`."""
    left_child, feature, _, _, set_index, left_set = splits
    node = np.empty(SLOTS, np.int32)
    list_slot_nodes(left_child, root, node)
    left = _ZERO
    for slot in range(SLOTS):
        if (by_set >> slot) & 1:
            here = node[slot]
            code = np.uint64(lanes[base + np.uint64(2 * feature[here])])
            left |= in_set(left_set, set_index[here], code) << np.uint64(slot)
    return left


@kernel
def say_leap(slots, splits, root, lanes, first_row, standing, said, said_start, first, last):
    """A byte for each row of trees first..last; those of a tree start at said_start[tree].

    Rows count from `first_row` in `lanes`, which is (rows, lanes).
    """
    lane, cut = slots
    rows, place, start, count = standing
    has_sets = splits.left_set.shape[0] > 0
    flat, width = lanes.reshape(-1), np.uint64(lanes.shape[1])
    for tree in range(first, last):
        to = np.uint64(said_start[tree])
        for i in range(np.uint64(start[tree]), np.uint64(start[tree] + count[tree])):
            base = (np.uint64(rows[i]) - np.uint64(first_row)) * width
            at = np.uint64(place[i]) * _EIGHT
            right = compare_slots(flat, base, lane, cut, at)
            if has_sets and lane[at + _SEVEN]:
                by_set = np.uint64(lane[at + _SEVEN])
                left = ask_sets(splits, root[place[i]], by_set, flat, base)
                right = (right & ~by_set) | (by_set & ~left)
            said[to] = _REACHED[np.uint64(cut[at + _SEVEN]) << _SEVEN | right]
            to += _ONE


@inlined
def put_together(slots, said, at, place, begin, n, together):
    """together[k] = what all owners say about the k-th of n rows, each of its own slots only.

    Owners' bytes are said[owner, at:], the rows' blocks place[begin:]; the rest of the 64 is zero.
    """
    together[:] = 0
    n_owners, flat = np.uint64(slots.shape[1]), slots.reshape(-1)
    for owner in range(n_owners):
        own = said[owner]
        for k in range(n):
            mine = flat[np.uint64(place[begin + k]) * n_owners + owner]
            together[k] |= own[at + k] & mine


@kernel
def settle_leap(
    blocks,
    slots,
    said,
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
    """Rows of trees first..last take the three turns that the bytes said[owner] tell.

    slots[block, owner] are the slots an owner may speak of. Rows that reach a leaf are noted in
    `leaf_of` and not in `target`.
    """
    from_rows, from_place, start, from_count = source
    rows, place, _, count = target
    landing = blocks.landing
    code = np.empty(WORD, np.uint8)
    for tree in range(first, last):
        n, begin = np.uint64(from_count[tree]), np.uint64(start[tree])
        kept, at = begin, np.uint64(said_start[tree])
        to, n_words = np.uint64(turns_start[tree]), (n + np.uint64(WORD - 1)) // np.uint64(WORD)
        base, leaves = np.int32(tree_start[tree]), leaf_of[tree]
        for done in range(_ZERO, n, np.uint64(WORD)):
            n_here = min(np.uint64(WORD), n - done)
            put_together(slots, said, at + done, from_place, begin + done, n_here, code)
            for k in range(n_here):
                row, block = from_rows[begin + done + k], np.uint64(from_place[begin + done + k])
                code[k] = _CODE_OF[code[k]]
                reached = landing[block * _EIGHT + np.uint64(code[k])]
                # noted in any case: that saves a branch, and is noted again where the row arrives
                leaves[row] = ~reached - base
                rows[kept] = row
                place[kept] = reached
                kept += np.uint64(reached >= 0)
            for level in range(LEAP):
                plane = to + np.uint64(level) * n_words
                turns[plane] = test_word(code, _ZERO, np.uint8(1 << level))
            to += _ONE
        count[tree] = np.int64(kept - begin)

"""Rows that go down trees one level per exchange, with the fewest bits there can be.

Rows stand at nodes as in `positions.py`. A *step* is what a role must know of a node, in one
load:

    an owner          | own 63 | missing left 62 | cut 54..61 | column 32..53 | left child 0..31 |
    the coordinator   | owner 32..63                                          | left child 0..31 |

A leaf names itself as left child and is nobody's own.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedforest.kernels.bits.bitsets import in_set
from fedforest.kernels.jit import kernel

_ONE = np.uint64(1)
_ZERO = np.uint64(0)
_THREE = np.uint64(3)
_SIX = np.uint64(6)
_SEVEN = np.uint64(7)
_LAST_BIT = np.uint64(63)
CHILD = np.uint64(0xFFFFFFFF)
COLUMN_SHIFT = np.uint64(32)
COLUMN = np.uint64((1 << 22) - 1)
BIN_SHIFT = np.uint64(54)
MISSING_SHIFT = np.uint64(62)
OWN_SHIFT = np.uint64(63)
_OWNER_SHIFT = np.uint64(32)


class OwnSteps(NamedTuple):
    """An owner's steps, and the sets of its categorical splits."""

    steps: NDArray[np.uint64]
    set_index: NDArray[np.int32]
    left_set: NDArray[np.uint64]


@kernel
def write_own_steps(left_child, feature, cut, missing_left):
    """The steps of an owner, whose `feature` is negative elsewhere."""
    steps = np.empty(left_child.shape[0], np.uint64)
    for node in range(left_child.shape[0]):
        child = np.uint64(left_child[node]) if left_child[node] >= 0 else np.uint64(node)
        steps[node] = child
        if feature[node] >= 0:
            shift = np.uint64(missing_left[node] & 1)
            steps[node] |= np.uint64(feature[node]) << COLUMN_SHIFT
            steps[node] |= ((np.uint64(cut[node]) + shift) & np.uint64(255)) << BIN_SHIFT
            steps[node] |= shift << MISSING_SHIFT
            steps[node] |= _ONE << OWN_SHIFT
    return steps


@kernel
def write_owner_steps(left_child, owner):
    """The steps of the coordinator; `owner` counts from 0 and is anything at leaves."""
    steps = np.empty(left_child.shape[0], np.uint64)
    for node in range(left_child.shape[0]):
        is_leaf = left_child[node] < 0
        child = np.uint64(node) if is_leaf else np.uint64(left_child[node])
        mine = _ZERO if is_leaf else np.uint64(owner[node])
        steps[node] = mine << _OWNER_SHIFT | child
    return steps


@kernel
def count_inner_nodes(left_child, depth):
    """Inner nodes of each level, over all trees; children lie behind their parents."""
    counts = np.zeros(depth + 1, np.int64)
    level = np.zeros(left_child.shape[0], np.int32)
    for node in range(left_child.shape[0]):
        child = left_child[node]
        if child >= 0:
            counts[level[node]] += 1
            level[child] = level[child + 1] = level[node] + 1
    return counts


@kernel
def say_step(own, standing, bins, n_rows, said, said_start, n_bits, first, last):
    """One bit for each row of trees first..last that stands at an own split, set if it goes left.

    The words of a tree start at said_start[tree]; n_bits[tree] counts its bits.
    """
    steps, set_index, left_set = own
    rows, place, start, count = standing
    has_sets = left_set.shape[0] > 0
    for tree in range(first, last):
        word, filled, to = _ZERO, _ZERO, said_start[tree]
        for i in range(np.uint64(start[tree]), np.uint64(start[tree] + count[tree])):
            here = np.uint64(place[i])
            step = steps[here]
            is_own = step >> OWN_SHIFT
            code = bins[((step >> COLUMN_SHIFT) & COLUMN) * n_rows + np.uint64(rows[i])]
            if has_sets and set_index[here] >= 0:
                left = in_set(left_set, set_index[here], np.uint64(code))
            else:
                shift = np.uint8((step >> MISSING_SHIFT) & _ONE)
                cut = np.uint8((step >> BIN_SHIFT) & np.uint64(255))
                left = np.uint64(np.uint8(code + shift) <= cut)
            word |= (left & is_own) << filled
            filled += is_own
            if filled == np.uint64(64):
                said[to] = word
                word, filled, to = _ZERO, _ZERO, to + 1
        if filled > _ZERO:
            said[to] = word
        n_bits[tree] = 64 * (to - said_start[tree]) + np.int64(filled)


@kernel
def take_step(steps, turns, turns_start, source, target, first, last):
    """Rows of trees first..last take one turn each, unless to a leaf."""
    from_rows, from_place, start, from_count = source
    rows, place, _, count = target
    for tree in range(first, last):
        begin, words = np.uint64(start[tree]), np.uint64(turns_start[tree])
        kept = begin
        for k in range(np.uint64(from_count[tree])):
            turn = (turns[words + (k >> _SIX)] >> (k & _LAST_BIT)) & _ONE
            here = (steps[np.uint64(from_place[begin + k])] & CHILD) + _ONE - turn
            rows[kept] = from_rows[begin + k]
            place[kept] = np.int32(here)
            kept += np.uint64((steps[here] & CHILD) != here)
        count[tree] = np.int64(kept - begin)


@kernel
def settle_step(
    steps, said, cursor, end, turns, turns_start, source, target, tree_start, leaf_of, first, last
):
    """Rows of trees first..last take the turns that the owners of their nodes say.

    Owner p said of tree t the bits cursor[t, p] to end[t, p] of `said`; cursors move on. Rows that
    reach a leaf are noted in `leaf_of` and not in `target`. Returns -1, or the owner that said too
    little.
    """
    from_rows, from_place, start, from_count = source
    rows, place, _, count = target
    for tree in range(first, last):
        begin, to = np.uint64(start[tree]), np.uint64(turns_start[tree])
        kept, word = begin, _ZERO
        at, limit, leaves = cursor[tree], end[tree], leaf_of[tree]
        base = np.uint64(tree_start[tree])
        n = np.uint64(from_count[tree])
        for k in range(n):
            row, step = from_rows[begin + k], steps[np.uint64(from_place[begin + k])]
            mine = step >> _OWNER_SHIFT
            bit = at[mine]
            if bit >= limit[mine]:
                return np.int64(mine)
            at[mine] = bit + _ONE
            turn = np.uint64(said[bit >> _THREE] >> np.uint8(bit & _SEVEN)) & _ONE
            word |= turn << (k & _LAST_BIT)
            if k & _LAST_BIT == _LAST_BIT or k + _ONE == n:
                turns[to] = word
                word, to = _ZERO, to + _ONE
            here = (step & CHILD) + _ONE - turn
            # noted in any case: that saves a branch, and is noted again where the row arrives
            leaves[row] = np.int32(here - base)
            rows[kept] = row
            place[kept] = np.int32(here)
            kept += np.uint64((steps[here] & CHILD) != here)
        count[tree] = np.int64(kept - begin)
    return np.int64(-1)

"""Check that the turns in a coordinator's message are those that an owner's splits took.

An owner lets rows move on only if they are. Otherwise a coordinator could lead a row to splits that
the row cannot reach, and hear what they do with it. Turns at others' splits may be anything.

Every function looks at some trees, from first to last, and moves nothing. Replies to sweeps, leaps
and single steps are compared as they were written. A reply about several levels holds both children
of others' nodes: there, the owner's splits on the way are evaluated again.
"""

import numpy as np
from numpy.typing import NDArray

from fedforest.kernels.bits.bitsets import in_set
from fedforest.kernels.bits.byte_lanes import WORD, gather_codes
from fedforest.kernels.jit import kernel
from fedforest.kernels.prediction.leap import CODES, LEAP, list_slot_nodes
from fedforest.kernels.prediction.slots import SLOTS
from fedforest.kernels.prediction.stepping import (
    BIN_SHIFT,
    CHILD,
    COLUMN,
    COLUMN_SHIFT,
    MISSING_SHIFT,
    OWN_SHIFT,
)

_WORDS = 16  # that a sweep handles together, so that they fit into vectors
_ZERO = np.uint64(0)
_ONE = np.uint64(1)
_SIX = np.uint64(6)
_LAST_BIT = np.uint64(63)


def _follow_codes() -> tuple[NDArray[np.uint16], NDArray[np.uint16]]:
    """The slots of a block that each code passes, and those of them where it goes left."""
    way, left = np.zeros((2, CODES), np.uint16)
    for code in range(CODES):
        slot = 0
        for level in range(LEAP):
            turn = code >> level & 1
            way[code] |= 1 << slot
            left[code] |= turn << slot
            slot = 2 * slot + 2 - turn
    return way, left


_WAY, _LEFT = _follow_codes()


@kernel
def agree_with_sweep(upper, own_first, feature, said, turns, n_rows, first_tree, last_tree):
    """Whether `turns` are what `say_upper` said; rows that it did not let through reach nothing.

    `own_first` counts the owner's splits among the upper nodes; `feature` is that of all nodes,
    negative where a split is not the owner's.
    """
    first, node, level, source, _ = upper
    reached = np.empty((2 * level.shape[0] + 1, _WORDS), np.uint64)
    last_level, n_words = turns.shape[1] - 1, turns.shape[2]
    differs = _ZERO
    for tree in range(first_tree, last_tree):
        for begin in range(0, n_words, _WORDS):
            n = min(_WORDS, n_words - begin)
            for word in range(n):
                left_over = min(WORD, n_rows - WORD * (begin + word))
                reached[0, word] = ~_ZERO >> np.uint64(WORD - left_over)
            spoken = own_first[tree]
            for k in range(first[tree], first[tree + 1]):
                is_own = feature[node[k]] >= 0
                come, told = reached[source[k]], turns[tree, level[k], begin : begin + n]
                if is_own:
                    for word in range(n):
                        differs |= (told[word] ^ said[begin + word, spoken]) & come[word]
                    spoken += 1
                if level[k] < last_level:
                    left, right = reached[2 * (k - first[tree]) + 1 :][:2]
                    for word in range(n):
                        left[word] = told[word] & come[word]
                        right[word] = come[word] & ~told[word]
    return differs == _ZERO


@kernel
def list_own_bits(left_child, feature, root):
    """For each block, a bit for each slot that the owner splits."""
    own, node = np.zeros(root.shape[0], np.uint16), np.empty(SLOTS, np.int32)
    for block in range(root.shape[0]):
        list_slot_nodes(left_child, root[block], node)
        for slot in range(SLOTS):
            if node[slot] >= 0 and feature[node[slot]] >= 0:
                own[block] |= np.uint16(1 << slot)
    return own


@kernel
def agree_with_leap(own, said, said_start, turns, turns_start, standing, first, last):
    """Whether turns are what `say_leap` said of slots of its own; own[block] are these."""
    _, place, start, count = standing
    codes, differs = np.empty(WORD, np.uint8), np.uint16(0)
    levels, size = np.uint64(LEAP), np.uint64(WORD)
    for tree in range(first, last):
        n, begin = np.uint64(count[tree]), np.uint64(start[tree])
        at, heard = np.uint64(turns_start[tree]), np.uint64(said_start[tree])
        n_words = (n + _LAST_BIT) >> _SIX
        for done in range(_ZERO, n, size):
            gather_codes(turns, at + (done >> _SIX), n_words, levels, codes)
            for k in range(min(size, n - done)):
                code, mine = np.uint64(codes[k]), own[np.uint64(place[begin + done + k])]
                differs |= (said[heard + done + k] ^ _LEFT[code]) & _WAY[code] & mine
    return differs == 0


@kernel
def agree_with_step(steps, said, turns, turns_start, standing, first, last):
    """Whether turns are what `say_step` said; its words start where those of the turns do."""
    _, place, start, count = standing
    differs = _ZERO
    for tree in range(first, last):
        begin, words, heard = np.uint64(start[tree]), np.uint64(turns_start[tree]), _ZERO
        for k in range(np.uint64(count[tree])):
            turn = turns[words + (k >> _SIX)] >> (k & _LAST_BIT)
            own = said[words + (heard >> _SIX)] >> (heard & _LAST_BIT)
            is_own = steps[np.uint64(place[begin + k])] >> OWN_SHIFT
            differs |= is_own & (own ^ turn)
            heard += is_own
    return differs == _ZERO


@kernel
def agree_with_splits(own, bins, n_rows, turns, turns_start, n_levels, standing, first, last):
    """Whether turns of several levels are those of own splits; `bins` are of the whole table."""
    steps, set_index, left_set = own
    rows, place, start, count = standing
    has_sets, differs = left_set.shape[0] > 0, _ZERO
    for tree in range(first, last):
        begin, n = np.uint64(start[tree]), np.uint64(count[tree])
        words, n_words = np.uint64(turns_start[tree]), (n + _LAST_BIT) >> _SIX
        for k in range(n):
            here, row = np.uint64(place[begin + k]), np.uint64(rows[begin + k])
            for level in range(np.uint64(n_levels)):
                step = steps[here]
                turn = turns[words + level * n_words + (k >> _SIX)] >> (k & _LAST_BIT) & _ONE
                code = bins[((step >> COLUMN_SHIFT) & COLUMN) * n_rows + row]
                if has_sets and set_index[here] >= 0:
                    left = in_set(left_set, set_index[here], np.uint64(code))
                else:
                    shift = np.uint8((step >> MISSING_SHIFT) & _ONE)
                    left = np.uint64(np.uint8(code + shift) <= np.uint8(step >> BIN_SHIFT))
                differs |= step >> OWN_SHIFT & (turn ^ left)
                child = step & CHILD
                here = child + (_ONE - turn & np.uint64(child != here))  # a leaf is its own child
    return differs == _ZERO

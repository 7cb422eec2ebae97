"""Rows on their way down trees: where they stand, and where their turns lead.

Of every tree, `rows` and `place` hold, from start[tree] on, the count[tree] rows that have not
reached a leaf, in the order of the table. A place is a node, flat over all trees, or a block of
nodes (see `leap.py`). Where turns lead is looked up in a *landing* table: a place, ~leaf
for a leaf, NOWHERE for turns that no row can take.

Turns are told tree by tree and level by level, a bit for each row, set where it went left, in words
of 64 rows; turns behind a leaf are zero. A row's turns over some levels are its *code*.

Rows move from one pair of arrays to another: written back in place, every row would wait for the
one before.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedforest.kernels.bits.byte_lanes import WORD, gather_codes
from fedforest.kernels.jit import kernel

NOWHERE = -(2**31)

_ZERO = np.uint64(0)
_SIX = np.uint64(6)
_WORD = np.uint64(WORD)
_LAST_BIT = np.uint64(63)


class Standing(NamedTuple):
    """Rows that have not reached a leaf, and where they stand."""

    rows: NDArray[np.uint32]
    place: NDArray[np.int32]
    start: NDArray[np.int64]
    counts: NDArray[np.int64]


@kernel
def rename_places(standing, names):
    """A place p becomes names[p]."""
    _, place, start, count = standing
    for tree in range(count.shape[0]):
        for i in range(np.uint64(start[tree]), np.uint64(start[tree] + count[tree])):
            place[i] = names[np.uint64(place[i])]


@kernel
def is_padded_with_zeros(turns, count, n_levels):
    """Return whether the words of turns have no bit behind the last row of their tree."""
    is_padded = True
    at = 0
    for tree in range(count.shape[0]):
        n_words = (count[tree] + 63) >> 6
        for _ in range(n_levels):
            at += n_words
            if count[tree] & 63:
                is_padded &= turns[at - 1] >> np.uint64(count[tree] & 63) == _ZERO
    return is_padded


@kernel
def land_from_roots(turns, landing, first_row, n_rows, target, first, last):
    """Rows of trees first..last stand where their turns from the root lead, unless at leaves.

    turns[tree, level, word]; landing[tree, code]. Returns whether all turns lead somewhere.
    """
    rows, place, start, count = target
    n_levels, n_words = np.uint64(turns.shape[1]), np.uint64(turns.shape[2])
    words, n = turns.reshape(-1), np.uint64(n_rows)
    codes = np.empty(WORD, np.uint8)
    least = np.int32(0)
    for tree in range(first, last):
        at, places = np.uint64(tree) * n_levels * n_words, landing[tree]
        kept = np.uint64(start[tree])
        for begin in range(_ZERO, n, _WORD):
            gather_codes(words, at + (begin >> _SIX), n_words, n_levels, codes)
            for k in range(min(_WORD, n - begin)):
                reached = places[np.uint64(codes[k])]
                rows[kept] = np.uint64(first_row) + begin + k
                place[kept] = reached
                least = min(least, reached)
                kept += np.uint64(reached >= 0)
        count[tree] = np.int64(kept) - start[tree]
    return least > NOWHERE


@kernel
def has_leaves(landing):
    """Return whether any code leads to a leaf."""
    found = False
    for code in range(landing.shape[0]):
        found |= NOWHERE < landing[code] < 0
    return found


@kernel
def note_landings(turns, landing, first_row, n_rows, tree_start, leaf_of, first, last):
    """leaf_of[tree, row] = the leaf of rows that arrive at one; rows that go on get anything."""
    n_levels, n_words = np.uint64(turns.shape[1]), np.uint64(turns.shape[2])
    words, n = turns.reshape(-1), np.uint64(n_rows)
    codes = np.empty(WORD, np.uint8)
    for tree in range(first, last):
        if not has_leaves(landing[tree]):
            continue
        at, leaves = np.uint64(tree) * n_levels * n_words, leaf_of[tree, first_row:]
        numbers = ~landing[tree] - np.int32(tree_start[tree])
        for begin in range(_ZERO, n, _WORD):
            gather_codes(words, at + (begin >> _SIX), n_words, n_levels, codes)
            for k in range(min(_WORD, n - begin)):
                leaves[begin + k] = numbers[np.uint64(codes[k])]


@kernel
def land_from_places(turns, turns_start, n_levels, landing, source, target, first, last):
    """Rows of trees first..last go from their places to where their turns lead, unless to leaves.

    Place p and a code lead to landing[p << n_levels | code]. Returns whether all lead somewhere.
    """
    from_rows, from_place, start, from_count = source
    rows, place, _, count = target
    levels, codes = np.uint64(n_levels), np.empty(WORD, np.uint8)
    least = np.int32(0)
    for tree in range(first, last):
        at, begin = np.uint64(turns_start[tree]), np.uint64(start[tree])
        n = np.uint64(from_count[tree])
        n_words = (n + _LAST_BIT) >> _SIX
        kept = begin
        for done in range(_ZERO, n, _WORD):
            gather_codes(turns, at + (done >> _SIX), n_words, levels, codes)
            for k in range(min(_WORD, n - done)):
                row, here = from_rows[begin + done + k], np.uint64(from_place[begin + done + k])
                reached = landing[here << levels | np.uint64(codes[k])]
                rows[kept] = row
                place[kept] = reached
                least = min(least, reached)
                kept += np.uint64(reached >= 0)
        count[tree] = np.int64(kept - begin)
    return least > NOWHERE

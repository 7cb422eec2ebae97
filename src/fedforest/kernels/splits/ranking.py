"""The rows of a small node in order of their bins.

A row is its bin and its position in the node, so that no two are equal; its rank is how many are
smaller. Counting those takes n^2 comparisons but no branch, sixteen at a time in vector registers:
up to `RANKED_NODE` rows that is faster than any sort. Beyond, the bins are counted.
"""

import numpy as np

from fedforest.kernels.jit import borrowing, embedded, kernel
from fedforest.kernels.layout import MISSING_BIN, N_CODES

RANKED_NODE = 48  # rows; up to here they are ranked
ORDERED_NODE = 128  # rows; up to here ordering them always beats adding them up by bin
SORTED_NODE = 256  # rows; the largest node whose rows can be ordered
POSITION_BITS = 8
POSITIONS = (1 << POSITION_BITS) - 1
_LANES = 16
_MIDDLE = 1 << 15  # keys are moved by this to fit int16, which vectors can compare
_LAST = np.int16(_MIDDLE - 1)  # no key is larger
_END = np.int32(-1)  # behind the last row: of another bin than any


@kernel
def make_keys():
    """Space for the keys of a node, in whole vector registers."""
    return np.zeros(SORTED_NODE + _LANES, np.int16)


@kernel
def make_ordered():
    """Space for ordered rows, one more to mark their end, and as many to turn them round."""
    return np.zeros(2 * SORTED_NODE + 1, np.int32)


@embedded
def fetch_keys(bins, base, rows, n, keys):
    """Make the keys of n rows in the column that begins at `base`; return whether bins differ."""
    first, others = bins[base + rows[0]], np.uint8(0)
    for i in range(n):
        code = bins[base + rows[i]]
        others |= code ^ first
        keys[i] = ((np.int64(code) << POSITION_BITS) | i) - _MIDDLE
    for i in range(n, (n + _LANES - 1) & -_LANES):
        keys[i] = _LAST
    return others != 0


@embedded
def rank_keys(keys, n, ordered):
    """Order up to `RANKED_NODE` rows by counting smaller keys."""
    n_lanes = (n + _LANES - 1) & -_LANES
    for i in range(n):
        key = keys[i]
        rank = np.int16(0)
        for j in range(n_lanes):
            rank = np.int16(rank + np.int16(keys[j] < key))
        ordered[np.uint64(rank)] = np.int32(key) + _MIDDLE
    ordered[n] = _END


@borrowing
def sort_keys(keys, n, counts, ordered):
    """Order more rows by counting their bins; `counts` is zero before and after."""
    for i in range(n):
        counts[np.uint64((np.int64(keys[i]) + _MIDDLE) >> POSITION_BITS)] += 1
    start = 0
    for code in range(N_CODES):
        count = counts[code]
        counts[code] = start
        start += count
    for i in range(n):
        key = np.int64(keys[i]) + _MIDDLE
        code = np.uint64(key >> POSITION_BITS)
        ordered[np.uint64(counts[code])] = key
        counts[code] += 1
    counts[:] = 0
    ordered[n] = _END


@embedded
def ends_missing(ordered, n):
    """Return whether some of n ordered rows have no value: these come last."""
    return ordered[n - 1] >> POSITION_BITS == MISSING_BIN


@borrowing
def turn_missing(ordered, n):
    """Move the rows without a value from the end to the front; returns how many there are."""
    n_present = n
    while n_present > 0 and ends_missing(ordered, n_present):
        n_present -= 1
    for i in range(n):
        ordered[SORTED_NODE + 1 + i] = ordered[i]
    for i in range(n):
        place = i + n_present if i + n_present < n else i + n_present - n
        ordered[i] = ordered[SORTED_NODE + 1 + place]
    return n - n_present

"""The rows of a small node in order of their bins.

A row's key is its bin and its position in the node, so keys differ; its rank is how many keys are
smaller. Counting them takes n^2 comparisons but no branch, sixteen at a time in vector registers:
up to `RANKED_NODE` rows that is faster than any sort.
"""

import numpy as np

from fedforest.kernels.jit import borrowing, kernel
from fedforest.kernels.layout import MISSING_BIN

RANKED_NODE = 64  # rows; the largest node whose rows are ranked
POSITION_BITS = 7
POSITIONS = (1 << POSITION_BITS) - 1
_LANES = 16
_LAST = np.int16(32767)  # no key is larger: bins and positions have 15 bits
END = np.int16(-1)  # behind the last key: of another bin than any


@kernel
def make_keys():
    """Space for the keys of a node, whole vector registers and one more."""
    return np.zeros(RANKED_NODE + _LANES, np.int16)


@borrowing
def fetch_keys(bins, base, rows, n, keys):
    """The keys of n rows in the column that begins at `base`."""
    for i in range(n):
        keys[i] = (np.int64(bins[base + rows[i]]) << POSITION_BITS) | i
    for i in range(n, (n + _LANES - 1) & -_LANES):
        keys[i] = _LAST


@borrowing
def rank_keys(keys, n, ordered):
    """Put the n keys in ascending order, and END behind them."""
    n_lanes = (n + _LANES - 1) & -_LANES
    for i in range(n):
        key = keys[i]
        rank = np.int16(0)
        for j in range(n_lanes):
            rank = np.int16(rank + np.int16(keys[j] < key))
        ordered[np.uint64(rank)] = key
    ordered[n] = END


@borrowing
def count_present(ordered, n):
    """How many of n ranked rows have a value; those without are the last."""
    count = n
    while count > 0 and ordered[count - 1] >> POSITION_BITS == MISSING_BIN:
        count -= 1
    return count

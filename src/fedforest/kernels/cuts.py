"""The possible cuts of a column in one node, as rows of a small float64 array.

    cuts[ROWS, k]    rows left of cut k; 0 where it is no cut at all
    cuts[SCORE, k]   how good it is
    cuts[WEIGHT, k]  and further rows: whatever the score is computed from

Integers below 2^53 are exact here. One plain array, because inner loops should not take arrays out
of tuples: that counts a reference, atomically.
"""

import numpy as np

from fedforest.kernels.jit import kernel
from fedforest.kernels.layout import N_CODES, NO_SPLIT, SORTED_NODE

ROWS, SCORE, WEIGHT, LEFT, RIGHT = 0, 1, 2, 3, 4


@kernel
def make_cuts():
    """Space for a cut after each bin, or after each row of a node small enough to be sorted."""
    return np.zeros((5, max(N_CODES, SORTED_NODE)))


@kernel
def pick_cut(cuts, count, n_rows, min_rows_leaf):
    """(score, position) of the best valid cut, the first of equals."""
    most = np.float64(n_rows - min_rows_leaf)
    least = np.float64(min_rows_leaf)
    for k in range(count):
        valid = (cuts[ROWS, k] >= least) & (cuts[ROWS, k] <= most)
        cuts[SCORE, k] = cuts[SCORE, k] if valid else NO_SPLIT
    best = NO_SPLIT
    where = 0
    for k in range(count):
        if cuts[SCORE, k] > best:
            best = cuts[SCORE, k]
            where = k
    return best, where

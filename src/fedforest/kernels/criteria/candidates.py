"""The possible cuts of a column in one node, as rows of a small float64 array.

    cuts[ROWS, k] rows left of cut k; 0 where it is no cut at all cuts[SCORE, k] how good it is
    cuts[WEIGHT, k] and further rows: the numbers that the score is computed from

Integers below 2^53 are exact here. One plain array, because inner loops should not take arrays out
of tuples: that counts a reference, atomically.
"""

import numpy as np

from fedforest.kernels.jit import borrowing, embedded, kernel
from fedforest.kernels.layout import N_CODES, NO_SPLIT

ROWS, SCORE, WEIGHT, LEFT, RIGHT = 0, 1, 2, 3, 4
_LOWEST = np.int64(-(2**63))
_MAGNITUDE = np.int64(2**63 - 1)
_SIGN = np.int64(63)


@kernel
def make_cuts():
    """Space for a cut after each bin, or after each row of a node small enough to be sorted."""
    return np.zeros((5, N_CODES))


@embedded
def order_of(score):
    """Return an integer that compares as the score does; NaN is not expected."""
    bits = np.float64(score).view(np.int64)
    return bits ^ ((bits >> _SIGN) & _MAGNITUDE)


@borrowing
def pick_cut(cuts, count, least, most):
    """(score, position) of the best cut with `least` to `most` rows left, the first of equals.

    The largest of many floats is found one by one, of integers in vector registers.
    """
    best = _LOWEST
    for k in range(count):
        valid = (cuts[ROWS, k] >= np.float64(least)) & (cuts[ROWS, k] <= np.float64(most))
        score = cuts[SCORE, k] if valid else NO_SPLIT
        cuts[SCORE, k] = score
        best = max(best, order_of(score))
    for k in range(count):
        if order_of(cuts[SCORE, k]) == best:
            return cuts[SCORE, k], k
    return NO_SPLIT, 0


@borrowing
def rule_out_light(cuts, count, least, most):
    """Make cuts that leave less than `least` or more than `most` weight on the left no cuts."""
    for k in range(count):
        if cuts[WEIGHT, k] < np.float64(least) or cuts[WEIGHT, k] > np.float64(most):
            cuts[ROWS, k] = 0.0

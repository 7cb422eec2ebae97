"""Best cut of a node of at most four rows.

Its rows have sixteen subsets, whatever the column. Their scores, as left sides, are computed once
per node; a column then only has to say which rows are not above each of the four. Nodes with fewer
rows repeat their first row with weight zero, which changes nothing.

Scores are compared as integers that order like them: choosing between integers takes no branch.
"""

import numpy as np

from fedforest.kernels.criteria.candidates import order_of
from fedforest.kernels.jit import embedded
from fedforest.kernels.layout import MISSING_BIN, UNSEEN

FEW_ROWS = 4
N_SUBSETS = 1 << FEW_ROWS
ALL_ROWS = N_SUBSETS - 1
_NONE = np.int64(0)
_MISSING = np.int64(MISSING_BIN)


@embedded
def order_subsets(scores, orders):
    """Make integers that compare as the scores of the subsets do."""
    for subset in range(N_SUBSETS):
        orders[subset] = order_of(scores[subset])


@embedded
def rows_up_to(key, keys):
    """The subset of rows whose key is not above `key`."""
    a, b, c, d = keys
    return np.int64(a <= key) | (b <= key) << 1 | (c <= key) << 2 | (d <= key) << 3


@embedded
def better_of(one, other):
    """The higher (order, key, subset); of equal orders the one with the lower key."""
    better = (other[0] > one[0]) | ((other[0] == one[0]) & (other[1] < one[1]))
    order = other[0] if better else one[0]
    key = other[1] if better else one[1]
    subset = other[2] if better else one[2]
    return order, key, subset


@embedded
def offer_cut(key, keys, added, orders):
    """(order, key, subset) of the cut after `key`; after a missing value there is none."""
    subset = (rows_up_to(key, keys) | added) if key != _MISSING else _NONE
    return orders[np.uint64(subset)], key, subset


@embedded
def best_of_four(keys, added, orders):
    """(order, key, subset) of the best cut; the subset `added` is on the left of every cut."""
    a, b, c, d = keys
    low = better_of(offer_cut(a, keys, added, orders), offer_cut(b, keys, added, orders))
    high = better_of(offer_cut(c, keys, added, orders), offer_cut(d, keys, added, orders))
    return better_of(low, high)


@embedded
def cut_few(bins, base, rows, scores, orders):
    """(score, bin, side of missing values) of the best cut, given the scores of all subsets."""
    keys = (
        np.int64(bins[base + rows[0]]),
        np.int64(bins[base + rows[1]]),
        np.int64(bins[base + rows[2]]),
        np.int64(bins[base + rows[3]]),
    )
    order, key, subset = best_of_four(keys, _NONE, orders)
    missing = rows_up_to(_MISSING, keys) ^ rows_up_to(_MISSING - 1, keys)
    if missing == _NONE:
        return scores[np.uint64(subset)], key, UNSEEN
    other, there, subset_there = best_of_four(keys, missing, orders)
    if other > order:
        return scores[np.uint64(subset_there)], there, 1
    return scores[np.uint64(subset)], key, 0

"""Best split by first moments: regression, and two classes with row weights.

Per bin three integers: weight, sum of (weight times target), rows. With a and s on the left of a
node of weight n and sum m, the score (s n - m a)^2 / (a (n - a)) orders splits by the decrease of
variance (score / n^2) and, for targets 0 and 1, of gini impurity (2 score / n^2).
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedforest.kernels.bitsets import list_bins, list_candidates, mark_bin
from fedforest.kernels.category_order import keep_categories, sort_by_key
from fedforest.kernels.gather import gather_bins, split_entries
from fedforest.kernels.jit import kernel
from fedforest.kernels.layout import (
    GATHERED,
    MISSING_BIN,
    N_CODES,
    NO_SPLIT,
    SMALL_NODE,
    UNSEEN,
)

STRIDE = np.uint64(4)  # a bin is four int64: weight, sum, rows, padding to half a cache line
SUM = np.uint64(1)
ROWS = np.uint64(2)
_ONE = np.uint64(1)
_MULTIPLICITY = np.uint64(15)


class MomentScratch(NamedTuple):
    """Work space of one search, allocated once per kernel call."""

    histogram: NDArray[np.int64]  # flat, STRIDE per bin, all zero between columns
    occupied: NDArray[np.uint64]
    visit: NDArray[np.uint64]
    keys: NDArray[np.float64]


@kernel
def make_moment_scratch():
    """Zeroed work space."""
    return MomentScratch(
        np.zeros(N_CODES * 4, np.int64),
        np.zeros(4, np.uint64),
        np.zeros(N_CODES, np.uint64),
        np.zeros(N_CODES, np.float64),
    )


@kernel
def moments_of(histogram, code):
    """(weight, sum, rows) of one bin; `code` is uint64."""
    at = code * STRIDE
    return histogram[at], histogram[at + SUM], histogram[at + ROWS]


@kernel
def add_moments(histogram, code, weight, total):
    """Add one row to its bin; `code` is uint64."""
    at = code * STRIDE
    histogram[at] += weight
    histogram[at + SUM] += total
    histogram[at + ROWS] += 1


@kernel
def scan_moments(histogram, visit, count, first, node, min_rows_leaf):
    """Best cut after a position of `visit`, with the moments `first` on the left already."""
    weight, total = np.float64(node[0]), np.float64(node[1])
    rows = node[2]
    left, left_total, left_rows = first
    best = NO_SPLIT
    where = -1
    for position in range(count):
        added = moments_of(histogram, visit[position])
        left += added[0]
        left_total += added[1]
        left_rows += added[2]
        if left_rows >= min_rows_leaf and rows - left_rows >= min_rows_leaf:
            a = np.float64(left)
            numerator = np.float64(left_total) * weight - total * a
            score = numerator * numerator / (a * (weight - a))
            if score > best:
                best = score
                where = position
    return best, where


@kernel
def cut_numeric(histogram, visit, count, node, min_rows_leaf):
    """(score, position, side of missing values) of the best cut of a numeric column."""
    none = (0, 0, 0)
    if count == 0 or visit[count - 1] != MISSING_BIN:
        score, where = scan_moments(histogram, visit, count, none, node, min_rows_leaf)
        return score, where, UNSEEN
    missing = moments_of(histogram, np.uint64(MISSING_BIN))
    score, where = scan_moments(histogram, visit, count - 1, none, node, min_rows_leaf)
    other, there = scan_moments(histogram, visit, count - 1, missing, node, min_rows_leaf)
    if other > score:
        return other, there, 1
    return score, where, 0


@kernel
def cut_categories(scratch, count, node, min_rows_leaf):
    """Order the categories by their mean, then cut; (score, position)."""
    histogram, _, visit, keys = scratch
    for position in range(count):
        weight, total, _ = moments_of(histogram, visit[position])
        keys[visit[position]] = np.float64(total) / np.float64(weight)
    sort_by_key(visit, keys, count)
    return scan_moments(histogram, visit, count, (0, 0, 0), node, min_rows_leaf)


@kernel
def is_left_larger(scratch, where, rows):
    """Whether the visited bins up to a position hold more than half of the rows."""
    left_rows = 0
    for position in range(where + 1):
        left_rows += moments_of(scratch.histogram, scratch.visit[position])[2]
    return 2 * left_rows > rows


@kernel
def offer_column(columns, feature, scratch, total, min_rows_leaf, found, node, best):
    """Search the column whose histogram and occupied bins lie in `scratch`; empty both.

    Stores the split if it beats `best`; returns the better score.
    """
    histogram, occupied, visit, _ = scratch
    count = list_bins(occupied, visit)
    if columns.is_categorical[feature]:
        cut = cut_categories(scratch, count, total, min_rows_leaf)
        if cut[0] > best:
            larger_is_left = is_left_larger(scratch, cut[1], total[2])
            best = keep_categories(found, node, cut, feature, visit, count, larger_is_left)
    else:
        score, where, side = cut_numeric(histogram, visit, count, total, min_rows_leaf)
        if score > best:
            best = keep_numeric(found, node, feature, (score, visit[where], side))
    for position in range(count):
        at = visit[position] * STRIDE
        histogram[at] = 0
        histogram[at + SUM] = 0
        histogram[at + ROWS] = 0
    return best


@kernel
def keep_numeric(found, node, feature, cut):
    """Store a numeric cut (score, bin, side of missing values); return its score."""
    found.feature[node] = feature
    found.bin[node] = cut[1]
    found.missing_left[node] = cut[2]
    return cut[0]


@kernel
def row_moments(targets, row, code):
    """(weight, weight times target) of one drawn row."""
    multiplicity = np.int64(code & _MULTIPLICITY)
    weight = multiplicity
    if targets.weights.shape[0] > 0:
        weight *= targets.weights[row]
    return weight, multiplicity * targets.values[row]


@kernel
def weigh_moments(order, start, stop, targets):
    """(weight, sum, rows) of a node."""
    row_mask = (_ONE << order.row_bits) - _ONE
    weight = 0
    total = 0
    for i in range(start, stop):
        entry = np.uint64(order.entries[i])
        added = row_moments(targets, entry & row_mask, entry >> order.row_bits)
        weight += added[0]
        total += added[1]
    return weight, total, stop - start


@kernel
def fill_moments(columns, feature, order, start, stop, targets, scratch):
    """Histogram of one column over the rows of a large node."""
    row_mask = (_ONE << order.row_bits) - _ONE
    base = feature * columns.n_rows
    for i in range(start, stop):
        entry = np.uint64(order.entries[i])
        row = entry & row_mask
        weight, total = row_moments(targets, row, entry >> order.row_bits)
        add_moments(scratch.histogram, np.uint64(columns.bins[base + row]), weight, total)
    for code in range(N_CODES):
        if scratch.histogram[np.uint64(code) * STRIDE + ROWS] > 0:
            mark_bin(scratch.occupied, np.uint64(code))


@kernel
def find_by_moments(columns, order, targets, candidates, rules, found, first, last):
    """Best split of the nodes first..last among their candidate columns."""
    features = np.zeros(candidates.shape[1] * 8 + 1, np.uint64)
    scratch = make_moment_scratch()
    rows = np.zeros(SMALL_NODE, np.uint64)
    codes = np.zeros(SMALL_NODE, np.uint64)
    weights = np.zeros(SMALL_NODE, np.int64)
    totals = np.zeros(SMALL_NODE, np.int64)
    fetched = np.zeros((GATHERED, SMALL_NODE), np.uint8)
    leaf = rules.min_rows_leaf
    for node in range(first, last):
        start, stop = order.start[node], order.stop[node]
        n_features = list_candidates(candidates, node, features)
        total = weigh_moments(order, start, stop, targets)
        best = NO_SPLIT
        found.feature[node] = -1
        if stop - start >= SMALL_NODE:
            for j in range(n_features):
                fill_moments(columns, features[j], order, start, stop, targets, scratch)
                best = offer_column(columns, features[j], scratch, total, leaf, found, node, best)
            found.score[node] = best
            continue
        n = stop - start
        split_entries(order, start, stop, rows, codes)
        for i in range(n):
            weights[i], totals[i] = row_moments(targets, rows[i], codes[i])
        for low in range(0, n_features, GATHERED):
            count = min(GATHERED, n_features - low)
            gather_bins(columns, features, low, count, rows, n, fetched)
            for j in range(count):
                for i in range(n):
                    code = np.uint64(fetched[j, i])
                    add_moments(scratch.histogram, code, weights[i], totals[i])
                    mark_bin(scratch.occupied, code)
                f = features[low + j]
                best = offer_column(columns, f, scratch, total, leaf, found, node, best)
        found.score[node] = best

"""Best split for any number of classes, by gini or entropy, with or without row weights.

A histogram is (bins, classes) of integer weights, flat; small nodes renumber the classes they hold,
so that a thousand classes cost a node of five rows no more than five. With l, r the class weights on
either side and |l|, |r| their sums, the score is

    gini     sum l^2 / |l| + sum r^2 / |r|
    entropy  sum l log2 l - |l| log2 |l| + the same for r

always summed over the classes in ascending order (an absent class adds an exact zero).
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedforest.kernels.bitsets import list_bins, list_candidates, lowest_bit, mark_bin
from fedforest.kernels.category_order import keep_categories, sort_by_key
from fedforest.kernels.entropy import x_log2_x
from fedforest.kernels.gather import gather_bins, split_entries
from fedforest.kernels.jit import kernel
from fedforest.kernels.layout import (
    GATHERED,
    GINI,
    MISSING_BIN,
    MULTIPLICITY_BITS,
    N_CODES,
    NO_SPLIT,
    SMALL_NODE,
    UNSEEN,
)
from fedforest.kernels.moment_split import keep_numeric

_ONE = np.uint64(1)
_ZERO = np.uint64(0)
_MULTIPLICITY = np.uint64(15)
_CLASS_SHIFT = np.uint64(MULTIPLICITY_BITS)


class ClassScratch(NamedTuple):
    """Work space of one search, allocated once per kernel call."""

    histogram: NDArray[np.int64]  # bin b, class c at b * width + c; all zero between columns
    bin_rows: NDArray[np.int64]
    occupied: NDArray[np.uint64]
    visit: NDArray[np.uint64]
    keys: NDArray[np.float64]
    total: NDArray[np.float64]  # class weights of the node
    left: NDArray[np.float64]  # class weights left of the cut
    present: NDArray[np.uint64]  # set of the classes of a small node
    local: NDArray[np.int64]  # class -> its number among those present


@kernel
def make_class_scratch(n_classes):
    """Zeroed work space."""
    return ClassScratch(
        np.zeros(N_CODES * n_classes, np.int64),
        np.zeros(N_CODES, np.int64),
        np.zeros(4, np.uint64),
        np.zeros(N_CODES, np.uint64),
        np.zeros(N_CODES, np.float64),
        np.zeros(n_classes, np.float64),
        np.zeros(n_classes, np.float64),
        np.zeros(n_classes // 64 + 1, np.uint64),
        np.zeros(n_classes, np.int64),
    )


@kernel
def score_cut(total, left, width, criterion):
    """The score of the module docstring for the class weights `left` out of `total`."""
    left_weight = 0.0
    right_weight = 0.0
    left_sum = 0.0
    right_sum = 0.0
    if criterion == GINI:
        for c in range(width):
            right = total[c] - left[c]
            left_weight += left[c]
            right_weight += right
            left_sum += left[c] * left[c]
            right_sum += right * right
        return left_sum / left_weight + right_sum / right_weight
    for c in range(width):
        right = total[c] - left[c]
        left_weight += left[c]
        right_weight += right
        left_sum += x_log2_x(left[c])
        right_sum += x_log2_x(right)
    return left_sum - x_log2_x(left_weight) + (right_sum - x_log2_x(right_weight))


@kernel
def add_bin_to_left(scratch, code, width):
    """Move a bin to the left of the cut; return its rows."""
    at = code * np.uint64(width)
    for c in range(width):
        scratch.left[c] += scratch.histogram[at + np.uint64(c)]
    return scratch.bin_rows[code]


@kernel
def scan_classes(scratch, count, width, n_rows, rules, missing_first):
    """Best cut after a position of `visit`; missing values start on the left if asked to."""
    scratch.left[:width] = 0.0
    left_rows = 0
    if missing_first:
        left_rows = add_bin_to_left(scratch, np.uint64(MISSING_BIN), width)
    best = NO_SPLIT
    where = -1
    for position in range(count):
        left_rows += add_bin_to_left(scratch, scratch.visit[position], width)
        if left_rows >= rules.min_rows_leaf and n_rows - left_rows >= rules.min_rows_leaf:
            score = score_cut(scratch.total, scratch.left, width, rules.criterion)
            if score > best:
                best = score
                where = position
    return best, where


@kernel
def cut_numeric_classes(scratch, count, width, n_rows, rules):
    """(score, position, side of missing values) of the best cut of a numeric column."""
    if count == 0 or scratch.visit[count - 1] != MISSING_BIN:
        score, where = scan_classes(scratch, count, width, n_rows, rules, False)
        return score, where, UNSEEN
    score, where = scan_classes(scratch, count - 1, width, n_rows, rules, False)
    other, there = scan_classes(scratch, count - 1, width, n_rows, rules, True)
    if other > score:
        return other, there, 1
    return score, where, 0


@kernel
def sort_by_majority(scratch, count, width):
    """Order the visited categories by their share of the node's majority class."""
    majority = 0
    for c in range(1, width):
        if scratch.total[c] > scratch.total[majority]:
            majority = c
    for position in range(count):
        code = scratch.visit[position]
        at = code * np.uint64(width)
        weight = 0
        for c in range(width):
            weight += scratch.histogram[at + np.uint64(c)]
        share = scratch.histogram[at + np.uint64(majority)]
        scratch.keys[code] = np.float64(share) / np.float64(weight)
    sort_by_key(scratch.visit, scratch.keys, count)


@kernel
def offer_classes(columns, feature, scratch, width, n_rows, rules, found, node, best):
    """Search the column whose histogram lies in `scratch`, empty it, keep the split if better."""
    count = list_bins(scratch.occupied, scratch.visit)
    if columns.is_categorical[feature]:
        sort_by_majority(scratch, count, width)
        cut = scan_classes(scratch, count, width, n_rows, rules, False)
        if cut[0] > best:
            left_rows = 0
            for position in range(cut[1] + 1):
                left_rows += scratch.bin_rows[scratch.visit[position]]
            larger_is_left = 2 * left_rows > n_rows
            best = keep_categories(found, node, cut, feature, scratch.visit, count, larger_is_left)
    else:
        score, where, side = cut_numeric_classes(scratch, count, width, n_rows, rules)
        if score > best:
            best = keep_numeric(found, node, feature, (score, scratch.visit[where], side))
    for position in range(count):
        code = scratch.visit[position]
        scratch.bin_rows[code] = 0
        at = code * np.uint64(width)
        for c in range(width):
            scratch.histogram[at + np.uint64(c)] = 0
    return best


@kernel
def row_weight(targets, row, code):
    """Multiplicity times sample weight of one drawn row."""
    weight = np.int64(code & _MULTIPLICITY)
    if targets.weights.shape[0] > 0:
        weight *= targets.weights[row]
    return weight


@kernel
def number_classes(codes, n, scratch):
    """Number the classes of a small node in ascending order; return how many there are."""
    for i in range(n):
        mark_bin(scratch.present, codes[i] >> _CLASS_SHIFT)
    width = 0
    for word in range(scratch.present.shape[0]):
        bits = scratch.present[word]
        scratch.present[word] = _ZERO
        while bits != _ZERO:
            scratch.local[np.uint64(word * 64) + lowest_bit(bits)] = width
            bits &= bits - _ONE
            width += 1
    return width


@kernel
def weigh_classes(order, node, targets, total):
    """Class weights of a node."""
    row_mask = (_ONE << order.row_bits) - _ONE
    total[:] = 0.0
    for i in range(order.start[node], order.stop[node]):
        entry = np.uint64(order.entries[i])
        code = entry >> order.row_bits
        total[code >> _CLASS_SHIFT] += row_weight(targets, entry & row_mask, code)


@kernel
def fill_classes(columns, feature, order, node, targets, scratch):
    """Histogram of one column over the rows of a large node."""
    row_mask = (_ONE << order.row_bits) - _ONE
    base = feature * columns.n_rows
    width = np.uint64(targets.n_classes)
    for i in range(order.start[node], order.stop[node]):
        entry = np.uint64(order.entries[i])
        row = entry & row_mask
        code = entry >> order.row_bits
        at = np.uint64(columns.bins[base + row])
        scratch.histogram[at * width + (code >> _CLASS_SHIFT)] += row_weight(targets, row, code)
        scratch.bin_rows[at] += 1
    for code in range(N_CODES):
        if scratch.bin_rows[code] > 0:
            mark_bin(scratch.occupied, np.uint64(code))


@kernel
def search_large_classes(columns, order, targets, features, n_features, rules, scratch, found, node):
    """Best split of a large node: one pass over its rows per column."""
    n = order.stop[node] - order.start[node]
    width = targets.n_classes
    weigh_classes(order, node, targets, scratch.total)
    best = NO_SPLIT
    for j in range(n_features):
        f = features[j]
        fill_classes(columns, f, order, node, targets, scratch)
        best = offer_classes(columns, f, scratch, width, n, rules, found, node, best)
    return best


@kernel
def search_small_classes(columns, order, targets, features, n_features, rules, scratch, found, node):
    """Best split of a small node: bins are fetched together, classes renumbered."""
    n = order.stop[node] - order.start[node]
    rows = np.empty(SMALL_NODE, np.uint64)
    codes = np.empty(SMALL_NODE, np.uint64)
    weights = np.empty(SMALL_NODE, np.int64)
    fetched = np.empty((GATHERED, SMALL_NODE), np.uint8)
    split_entries(order, order.start[node], order.stop[node], rows, codes)
    width = number_classes(codes, n, scratch)
    scratch.total[:width] = 0.0
    for i in range(n):
        weights[i] = row_weight(targets, rows[i], codes[i])
        codes[i] = np.uint64(scratch.local[codes[i] >> _CLASS_SHIFT])
        scratch.total[codes[i]] += weights[i]
    best = NO_SPLIT
    for low in range(0, n_features, GATHERED):
        count = min(GATHERED, n_features - low)
        gather_bins(columns, features, low, count, rows, n, fetched)
        for j in range(count):
            f = features[low + j]
            for i in range(n):
                at = np.uint64(fetched[j, i])
                scratch.histogram[at * np.uint64(width) + codes[i]] += weights[i]
                scratch.bin_rows[at] += 1
                mark_bin(scratch.occupied, at)
            best = offer_classes(columns, f, scratch, width, n, rules, found, node, best)
    return best


@kernel
def find_by_classes(columns, order, targets, candidates, rules, found, first, last):
    """Best split of the nodes first..last among their candidate columns."""
    features = np.zeros(candidates.shape[1] * 8, np.uint64)
    scratch = make_class_scratch(targets.n_classes)
    for node in range(first, last):
        found.feature[node] = -1
        n_features = list_candidates(candidates, node, features)
        if order.stop[node] - order.start[node] < SMALL_NODE:
            found.score[node] = search_small_classes(
                columns, order, targets, features, n_features, rules, scratch, found, node
            )
        else:
            found.score[node] = search_large_classes(
                columns, order, targets, features, n_features, rules, scratch, found, node
            )

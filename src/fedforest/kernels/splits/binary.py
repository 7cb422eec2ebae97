"""Best gini split for two classes without row weights: the fast path of the forest.

Histograms hold three small integers to a word (`binary_histogram`).
The score is that of least squares with the class as target (`criteria/squared_error`). Nodes too
heavy for 21-bit fields, categorical columns, and missing values in small nodes take the road
through wide integers.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedforest.kernels.bits.bitsets import empty_set, list_candidates, lowest_bit
from fedforest.kernels.criteria.candidates import make_cuts
from fedforest.kernels.criteria.squared_error import SquaredError, score_squares
from fedforest.kernels.jit import borrowing, kernel
from fedforest.kernels.layout import (
    MAX_MULTIPLICITY,
    MISSING_BIN,
    N_CODES,
    NO_SPLIT,
    SET_WORDS,
    SMALL_NODE,
    UNSEEN,
)
from fedforest.kernels.splits.best import keep_numeric
from fedforest.kernels.splits.binary_histogram import (
    FIELD_BITS,
    FIELD_MASK,
    ROWS_SHIFT,
    fill_columns,
    fill_one,
    mark_columns,
    pack_increments,
)
from fedforest.kernels.splits.moment_histogram import (
    BIN_ROWS,
    STRIDE,
    SUM,
    offer_histogram,
    visit_occupied,
)
from fedforest.kernels.sums.packed_moments import MomentNode

PACKED_LIMIT = 1 << 21  # weight of a node
HEAVY_BLOCK = 1 << 17  # rows; times the largest multiplicity they stay below the limit

_ZERO = np.uint64(0)
_ONE = np.uint64(1)


class BinaryScratch(NamedTuple):
    """Work space of one search, allocated once per kernel call.

    Inner loops get its arrays one by one: taking an array out of a tuple counts a reference, and
    counting is atomic.
    """

    histogram: NDArray[np.uint64]  # three columns, all zero between searches
    occupied: NDArray[np.uint64]  # their sets of occupied bins, four words each
    prefix: NDArray[np.uint64]
    scores: NDArray[np.float64]
    score_bits: NDArray[np.int64]  # the same memory as `scores`
    wide: NDArray[np.int64]  # one column in the layout of `moment_split`
    visit: NDArray[np.uint64]
    cuts: NDArray[np.float64]


@kernel
def make_binary_scratch():
    """Zeroed work space."""
    scores = np.zeros(N_CODES, np.float64)
    return BinaryScratch(
        np.zeros(3 * N_CODES, np.uint64),
        np.zeros(12, np.uint64),
        np.zeros(N_CODES, np.uint64),
        scores,
        scores.view(np.int64),
        np.zeros(N_CODES * 4, np.int64),
        np.zeros(N_CODES, np.uint64),
        make_cuts(),
    )


@kernel
def weigh_node(entries, span, row_bits):
    """Return (weight, weight of class 1, rows) of a node of any size."""
    weight = 0
    ones = 0
    for i in range(span[0], span[1]):
        code = np.uint64(entries[i]) >> row_bits
        multiplicity = np.int64(code & np.uint64(15))
        weight += multiplicity
        ones += multiplicity * np.int64(code >> np.uint64(4))
    return weight, ones, span[1] - span[0]


@kernel
def weigh_nodes(order, sums, first, last):
    """sums[node] = (weight of class 0, of class 1, rows) of whole nodes."""
    entries, row_bits, starts, stops = order
    for node in range(first, last):
        weight, ones, rows = weigh_node(entries, (starts[node], stops[node]), row_bits)
        sums[node, 0], sums[node, 1], sums[node, 2] = weight - ones, ones, rows


@kernel
def weigh_histogram(histogram):
    """Weigh a node whose first column's histogram is there."""
    packed = _ZERO
    for code in range(N_CODES):
        packed += histogram[code]
    weight = np.int64(packed & FIELD_MASK)
    ones = np.int64((packed >> FIELD_BITS) & FIELD_MASK)
    return weight, ones, np.int64(packed >> ROWS_SHIFT)


@kernel
def best_prefix(prefix, scores, score_bits, count, total, min_rows_leaf):
    """Return (score, position) of the best of the first `count` left sides in `prefix`.

    Separate short loops: the one that divides then runs in vector registers.
    """
    weight = np.float64(total[0])
    ones = np.float64(total[1])
    rows = np.int32(total[2])
    leaf = np.int32(min_rows_leaf)
    for k in range(count):
        left = prefix[k]
        a = np.float64(np.int32(left & FIELD_MASK))
        left_ones = np.float64(np.int32((left >> FIELD_BITS) & FIELD_MASK))
        left_rows = np.int32(left >> ROWS_SHIFT)
        score = score_squares(a, left_ones, weight, ones)
        valid = (left_rows >= leaf) & (np.int32(rows - left_rows) >= leaf)
        scores[k] = score if valid else -1.0
    # scores are -1 or not negative: their bits compare like integers, which vectorises
    best = np.int64(-1)
    for k in range(count):
        best = max(best, score_bits[k])
    if best >= 0:
        for k in range(count):
            if score_bits[k] == best:
                return scores[k], k
    return NO_SPLIT, 0


@kernel
def cut_dense(histogram, at, n_bins, total, min_rows_leaf, prefix, scores, score_bits):
    """Return (score, bin, side of missing values) of the best numeric cut; empties the histogram.

    With missing values every cut is tried twice: missing on the right, then on the left.
    """
    missing = histogram[at + np.uint64(MISSING_BIN)]
    left = _ZERO
    for code in range(n_bins):
        left += histogram[at + np.uint64(code)]
        prefix[code] = left
        histogram[at + np.uint64(code)] = _ZERO
    score, code = best_prefix(prefix, scores, score_bits, n_bins, total, min_rows_leaf)
    if missing == _ZERO:
        return score, code, UNSEEN
    histogram[at + np.uint64(MISSING_BIN)] = _ZERO
    for code_left in range(n_bins):
        prefix[code_left] += missing
    other, there = best_prefix(prefix, scores, score_bits, n_bins, total, min_rows_leaf)
    if other > score:
        return other, there, 1
    return score, code, 0


@kernel
def scan_occupied(histogram, occupied, slot, total, min_rows_leaf):
    """(score, bin) of the best cut over the occupied bins of one of three columns; empties both."""
    weight, ones, rows = np.float64(total[0]), np.float64(total[1]), total[2]
    at = np.uint64(slot * N_CODES)
    left = _ZERO
    best = NO_SPLIT
    where = _ZERO
    for word in range(4):
        bits = occupied[slot * 4 + word]
        occupied[slot * 4 + word] = _ZERO
        while bits != _ZERO:
            code = np.uint64(word * 64) + lowest_bit(bits)
            bits &= bits - _ONE
            left += histogram[at + code]
            histogram[at + code] = _ZERO
            left_rows = np.int64(left >> ROWS_SHIFT)
            if left_rows >= min_rows_leaf and rows - left_rows >= min_rows_leaf:
                a = np.float64(np.int64(left & FIELD_MASK))
                left_ones = np.float64(np.int64((left >> FIELD_BITS) & FIELD_MASK))
                score = score_squares(a, left_ones, weight, ones)
                if score > best:
                    best = score
                    where = code
    return best, np.int64(where), UNSEEN


@kernel
def widen(packed, slot, wide):
    """Move one of three packed histograms into wide integers, adding to them."""
    for code in range(N_CODES):
        at = slot * N_CODES + code
        value = packed[at]
        packed[at] = _ZERO
        if value != _ZERO:
            to = np.uint64(code) * STRIDE
            wide[to] += np.int64(value & FIELD_MASK)
            wide[to + SUM] += np.int64((value >> FIELD_BITS) & FIELD_MASK)
            wide[to + BIN_ROWS] += np.int64(value >> ROWS_SHIFT)


@borrowing
def widen_listed(packed, slot, visit, count, wide):
    """Move the listed bins of one of three packed histograms into wide integers."""
    first = np.uint64(slot * N_CODES)
    for position in range(count):
        at = first + visit[position]
        value, to = packed[at], visit[position] * STRIDE
        packed[at] = _ZERO
        wide[to] = np.int64(value & FIELD_MASK)
        wide[to + SUM] = np.int64((value >> FIELD_BITS) & FIELD_MASK)
        wide[to + BIN_ROWS] = np.int64(value >> ROWS_SHIFT)


@borrowing
def offer_few(columns, feature, slot, scratch, total, leaf, found, node, best):
    """Search one of the three histograms of a small node, by its few occupied bins."""
    wide, visit = scratch.wide, scratch.visit
    count = empty_set(scratch.occupied, slot * SET_WORDS, visit)
    widen_listed(scratch.histogram, slot, visit, count, wide)
    wide_node = MomentNode(total[0], total[1], total[2], leaf, 0, SquaredError())
    return offer_histogram(
        columns, feature, wide, visit, count, scratch.cuts, wide_node, found, node, best
    )


@kernel
def offer_wide(columns, feature, slot, scratch, total, leaf, found, node, best):
    """Search one of the three packed histograms by way of wide integers."""
    wide, visit = scratch.wide, scratch.visit
    widen(scratch.histogram, slot, wide)
    count = visit_occupied(wide, visit)
    wide_node = MomentNode(total[0], total[1], total[2], leaf, 0, SquaredError())
    return offer_histogram(
        columns, feature, wide, visit, count, scratch.cuts, wide_node, found, node, best
    )


@kernel
def search_heavy(columns, order, features, n_features, total, leaf, scratch, found, node):
    """Best split of a node whose sums do not fit the packed fields: add it up in blocks."""
    start, stop = order.start[node], order.stop[node]
    increments = pack_increments()
    best = NO_SPLIT
    for j in range(n_features):
        base = features[j] * columns.n_rows
        for begin in range(start, stop, HEAVY_BLOCK):
            span = (begin, min(stop, begin + HEAVY_BLOCK))
            fill_one(
                columns.bins,
                base,
                order.entries,
                span,
                order.row_bits,
                increments,
                scratch.histogram,
            )
            widen(scratch.histogram, 0, scratch.wide)
        best = offer_wide(columns, features[j], 0, scratch, total, leaf, found, node, best)
    return best


@kernel
def find_binary(columns, order, candidates, rules, found, first, last):
    """Best split of the nodes first..last among their candidate columns."""
    bins, n_rows, n_bins, is_categorical, _ = columns
    entries, row_bits, starts, stops = order
    leaf = rules.min_rows_leaf
    features = np.zeros(candidates.shape[1] * 8, np.uint64)
    increments = pack_increments()
    scratch = make_binary_scratch()
    histogram, occupied, prefix, scores, score_bits = scratch[:5]
    for node in range(first, last):
        span = (starts[node], stops[node])
        n = span[1] - span[0]
        small = n < SMALL_NODE
        # a large node is weighed by its first histogram, if that is sure to hold it
        is_weighed = small or n * MAX_MULTIPLICITY >= PACKED_LIMIT
        total = weigh_node(entries, span, row_bits) if is_weighed else (0, 0, 0)
        best = NO_SPLIT
        found.feature[node] = -1
        n_features = list_candidates(candidates, node, features)
        if total[0] >= PACKED_LIMIT:
            found.score[node] = search_heavy(
                columns, order, features, n_features, total, leaf, scratch, found, node
            )
            continue
        for low in range(0, n_features, 3):
            count = min(3, n_features - low)
            if small:
                mark_columns(
                    bins,
                    n_rows,
                    features,
                    low,
                    count,
                    entries,
                    span,
                    row_bits,
                    increments,
                    histogram,
                    occupied,
                )
            else:
                fill_columns(
                    bins,
                    n_rows,
                    features,
                    low,
                    count,
                    entries,
                    span,
                    row_bits,
                    increments,
                    histogram,
                )
            if low == 0 and not is_weighed:
                total = weigh_histogram(histogram)
            for slot in range(count):
                f = features[low + slot]
                at = np.uint64(slot * N_CODES)
                has_missing = histogram[at + np.uint64(MISSING_BIN)] != _ZERO
                if small and (is_categorical[f] or has_missing):
                    best = offer_few(columns, f, slot, scratch, total, leaf, found, node, best)
                    continue
                if is_categorical[f]:
                    best = offer_wide(columns, f, slot, scratch, total, leaf, found, node, best)
                    continue
                if small:
                    cut = scan_occupied(histogram, occupied, slot, total, leaf)
                else:
                    cut = cut_dense(
                        histogram, at, n_bins[f], total, leaf, prefix, scores, score_bits
                    )
                if cut[0] > best:
                    best = keep_numeric(found, node, f, cut)
        found.score[node] = best

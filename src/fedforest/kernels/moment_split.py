"""Best split by first moments: regression, and two classes with row weights.

A row is a weight and a sum (weight times target). With a and s on the left of a node of weight n
and sum m, the score (s n - m a)^2 / (a (n - a)) orders splits by the decrease of variance
(score / n^2) and, for targets 0 and 1, of gini impurity (2 score / n^2).

Small nodes rank their rows by bin, others add them up per bin (`packed_moments`). Categorical
columns, and large nodes with sample weights, take the road through wide integers. Inner loops get
arrays one by one: taking an array out of a tuple counts a reference, atomically.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedforest.kernels.bitsets import list_candidates
from fedforest.kernels.category_order import sort_by_key
from fedforest.kernels.cuts import LEFT, RIGHT, ROWS, SCORE, WEIGHT, make_cuts, pick_cut
from fedforest.kernels.few_rows import FEW_ROWS, N_SUBSETS, cut_few, order_subsets
from fedforest.kernels.jit import borrowing, embedded, kernel
from fedforest.kernels.keep import keep_categories, keep_numeric
from fedforest.kernels.layout import (
    MISSING_BIN,
    N_CODES,
    NO_SPLIT,
    UNSEEN,
)
from fedforest.kernels.packed_moments import (
    COLUMN_WORDS,
    PACKED_BLOCK,
    PACKED_COLUMNS,
    MomentNode,
    cut_histogram,
    cut_ranked,
    fill_columns,
    fill_one,
    read_packed,
    repeat_first,
    row_moments,
    rows_shift,
    score_subsets,
)
from fedforest.kernels.ranking import RANKED_NODE, fetch_keys, make_keys, make_ordered, rank_keys

__all__ = [
    "BIN_ROWS",
    "STRIDE",
    "SUM",
    "MomentNode",
    "find_by_moments",
    "offer_histogram",
    "row_moments",
]

STRIDE = np.uint64(4)  # a bin is four int64: weight, sum, rows, padding to half a cache line
SUM = np.uint64(1)
BIN_ROWS = np.uint64(2)
PADDING = np.uint64(3)
_ONE = np.uint64(1)
_TWO = np.uint64(2)
_ZERO = np.uint64(0)


@borrowing
def score_moments(cuts, count, node):
    """Score all cuts, in vector registers."""
    weight, total = np.float64(node.weight), np.float64(node.total)
    for k in range(count):
        a = cuts[WEIGHT, k]
        numerator = cuts[LEFT, k] * weight - total * a
        cuts[SCORE, k] = numerator * numerator / (a * (weight - a))


@borrowing
def best_cut(cuts, count, node):
    """(score, position) of the best of `count` cuts."""
    score_moments(cuts, count, node)
    return pick_cut(cuts, count, node.min_rows_leaf, node.n_rows - node.min_rows_leaf)


@borrowing
def sweep_bins(histogram, visit, count, first, cuts):
    """The cuts after each visited bin, the moments `first` being on the left already."""
    weight, total, rows = first
    for position in range(count):
        at = visit[position] * STRIDE
        weight += histogram[at]
        total += histogram[at + SUM]
        rows += histogram[at + BIN_ROWS]
        cuts[WEIGHT, position] = np.float64(weight)
        cuts[LEFT, position] = np.float64(total)
        cuts[ROWS, position] = np.float64(rows)


@borrowing
def visit_occupied(histogram, visit):
    """List the bins that hold rows; return how many there are."""
    count = 0
    for code in range(N_CODES):
        if histogram[np.uint64(code) * STRIDE + BIN_ROWS] > 0:
            visit[count] = np.uint64(code)
            count += 1
    return count


@borrowing
def sort_by_mean(histogram, visit, count, keys):
    """Order the visited categories by their mean target, kept in `keys`."""
    for position in range(count):
        at = visit[position] * STRIDE
        keys[visit[position]] = np.float64(histogram[at + SUM]) / np.float64(histogram[at])
    sort_by_key(visit, keys, count)


@borrowing
def offer_histogram(columns, feature, histogram, visit, cuts, node, found, k, best):
    """Search a column given by its histogram, which is emptied; keep a split that is better."""
    count = visit_occupied(histogram, visit)
    is_categorical = columns.is_categorical[feature]
    has_missing = visit[count - 1] == MISSING_BIN
    n_cuts = count - 1 if has_missing and not is_categorical else count
    if is_categorical:
        sort_by_mean(histogram, visit, count, cuts[RIGHT])
    sweep_bins(histogram, visit, n_cuts, (0, 0, 0), cuts)
    cut, where = best_cut(cuts, n_cuts, node)
    if cut > best and is_categorical:
        larger_is_left = 2.0 * cuts[ROWS, where] > node.n_rows
        best = keep_categories(found, k, feature, (cut, where), visit, count, larger_is_left)
    elif cut > best:
        side = 0 if has_missing else UNSEEN
        best = keep_numeric(found, k, feature, (cut, visit[where], side))
    if has_missing and not is_categorical:
        at = np.uint64(MISSING_BIN) * STRIDE
        missing = (histogram[at], histogram[at + SUM], histogram[at + BIN_ROWS])
        sweep_bins(histogram, visit, n_cuts, missing, cuts)
        cut, where = best_cut(cuts, n_cuts, node)
        if cut > best:
            best = keep_numeric(found, k, feature, (cut, visit[where], 1))
    histogram[:] = 0
    return best


@borrowing
def read_block(entries, begin, count, row_bits, weights, values, rows, moments):
    """Decode entries into row indices and moments (weight, sum, 1, 0); returns (weight, sum)."""
    row_mask = (_ONE << row_bits) - _ONE
    weight, total = 0, 0
    for i in range(count):
        entry = np.uint64(entries[begin + i])
        row = entry & row_mask
        added = row_moments(entry >> row_bits, row, weights, values)
        rows[i] = row
        moments[i, 0] = added[0]
        moments[i, 1] = added[1]
        weight += added[0]
        total += added[1]
    return weight, total


@borrowing
def fill_moments(bins, base, rows, moments, count, histogram):
    """Add a block of rows to the histogram of the column that begins at `base`.

    The four integers of a bin are read, then added, then written: one vector operation each.
    """
    for i in range(count):
        at = np.uint64(bins[base + rows[i]]) * STRIDE
        a, b, c, d = moments[i, 0], moments[i, 1], moments[i, 2], moments[i, 3]
        e, f = histogram[at], histogram[at + SUM]
        g, h = histogram[at + BIN_ROWS], histogram[at + PADDING]
        histogram[at], histogram[at + SUM] = a + e, b + f
        histogram[at + BIN_ROWS], histogram[at + PADDING] = c + g, d + h


@borrowing
def widen(packed, at, shift, wide):
    """Move one packed histogram, which begins at `at`, into wide integers."""
    weight_mask = (1 << shift) - 1
    for code in range(N_CODES):
        a = at + np.uint64(code) * _TWO
        to = np.uint64(code) * STRIDE
        wide[to] = packed[a] & weight_mask
        wide[to + SUM] = packed[a + _ONE]
        wide[to + BIN_ROWS] = packed[a] >> shift
        packed[a] = 0
        packed[a + _ONE] = 0


class MomentScratch(NamedTuple):
    """Work space of one search, allocated once per kernel call."""

    features: NDArray[np.uint64]  # candidates of a node
    rows: NDArray[np.uint64]  # a block of decoded rows
    moments: NDArray[np.int64]  # and what they are packed into
    wide_moments: NDArray[np.int64]  # weight, sum, one row, padding
    histogram: NDArray[np.int64]  # packed columns; all zero between searches
    wide: NDArray[np.int64]  # one column; all zero between searches
    visit: NDArray[np.uint64]
    lefts: NDArray[np.int64]
    cuts: NDArray[np.float64]
    keys: NDArray[np.int16]
    ordered: NDArray[np.int32]
    scores: NDArray[np.float64]  # of the subsets of few rows
    orders: NDArray[np.int64]


@kernel
def make_moment_scratch(n_features):
    """Zeroed work space."""
    wide_moments = np.zeros((PACKED_BLOCK, 4), np.int64)
    wide_moments[:, 2] = 1
    return MomentScratch(
        np.zeros(n_features, np.uint64),
        np.zeros(PACKED_BLOCK, np.uint64),
        np.zeros((PACKED_BLOCK, 2), np.int64),
        wide_moments,
        np.zeros(PACKED_COLUMNS * COLUMN_WORDS, np.int64),
        np.zeros(N_CODES * 4, np.int64),
        np.zeros(N_CODES, np.uint64),
        np.zeros(N_CODES, np.int64),
        make_cuts(),
        make_keys(),
        make_ordered(),
        np.zeros(N_SUBSETS),
        np.zeros(N_SUBSETS, np.int64),
    )


@borrowing
def search_wide(columns, order, targets, n_features, span, leaf, scratch, found, k):
    """Best split of a node too heavy for packed moments, column by column."""
    bins, n_rows, _, _ = columns
    entries, row_bits, _, _ = order
    _, weights, values, _ = targets
    rows, moments, histogram = scratch.rows, scratch.wide_moments, scratch.wide
    best = NO_SPLIT
    for j in range(n_features):
        f = scratch.features[j]
        weight, total = 0, 0
        for begin in range(span[0], span[1], PACKED_BLOCK):
            count = min(PACKED_BLOCK, span[1] - begin)
            added = read_block(entries, begin, count, row_bits, weights, values, rows, moments)
            weight += added[0]
            total += added[1]
            fill_moments(bins, f * n_rows, rows, moments, count, histogram)
        node = MomentNode(weight, total, span[1] - span[0], leaf)
        best = offer_histogram(
            columns, f, histogram, scratch.visit, scratch.cuts, node, found, k, best
        )
    return best


@borrowing
def offer_category(columns, feature, at, node, shift, scratch, found, k, best):
    """Search a categorical column given by its packed histogram, which is emptied."""
    wide = scratch.wide
    widen(scratch.histogram, at, shift, wide)
    return offer_histogram(
        columns, feature, wide, scratch.visit, scratch.cuts, node, found, k, best
    )


@borrowing
def search_packed(columns, order, targets, n_features, span, leaf, shift, scratch, found, k):
    """Best split of a node of many rows: blocks of them are added to packed histograms."""
    bins, n_rows, n_bins, is_categorical = columns
    entries, row_bits, _, _ = order
    _, weights, values, _ = targets
    features, rows, moments, histogram = (
        scratch.features,
        scratch.rows,
        scratch.moments,
        scratch.histogram,
    )
    best = NO_SPLIT
    for low in range(0, n_features, PACKED_COLUMNS):
        high = min(low + PACKED_COLUMNS, n_features)
        packed, total = 0, 0
        for begin in range(span[0], span[1], PACKED_BLOCK):
            block = (begin, min(span[1], begin + PACKED_BLOCK))
            added = read_packed(entries, block, row_bits, weights, values, shift, rows, moments)
            packed += added[0]
            total += added[1]
            count = block[1] - block[0]
            fill_columns(bins, n_rows, features, low, high, rows, moments, count, histogram)
        node = MomentNode(packed & ((1 << shift) - 1), total, span[1] - span[0], leaf)
        for j in range(low, high):
            f = features[j]
            at = np.uint64((j - low) * COLUMN_WORDS)
            if is_categorical[f]:
                best = offer_category(columns, f, at, node, shift, scratch, found, k, best)
                continue
            cut = cut_histogram(histogram, at, n_bins[f], node, shift, scratch.lefts, scratch.cuts)
            if cut[0] > best:
                best = keep_numeric(found, k, f, cut)
        histogram[: (high - low) * COLUMN_WORDS] = 0
    return best


@embedded
def search_small(columns, order, targets, n_features, span, leaf, shift, scratch, found, k):
    """Best split of a node of so few rows that they are ranked, or their subsets scored."""
    bins, n_rows, _, is_categorical = columns
    entries, row_bits, _, _ = order
    _, weights, values, _ = targets
    features, rows, moments, _, histogram, _, _, lefts, cuts, keys, ordered, scores, orders = (
        scratch
    )
    n = span[1] - span[0]
    packed, total = read_packed(entries, span, row_bits, weights, values, shift, rows, moments)
    node = MomentNode(packed & ((1 << shift) - 1), total, n, leaf)
    if n <= FEW_ROWS:
        repeat_first(rows, moments, n)
        score_subsets(moments, node, shift, scores)
        order_subsets(scores, orders)
    best = NO_SPLIT
    for j in range(n_features):
        f = features[j]
        base = f * n_rows
        if is_categorical[f]:
            fill_one(bins, base, rows, moments, n, histogram, _ZERO)
            best = offer_category(columns, f, _ZERO, node, shift, scratch, found, k, best)
            continue
        if n <= FEW_ROWS:
            cut = cut_few(bins, base, rows, scores, orders)
        else:
            fetch_keys(bins, base, rows, n, keys)
            rank_keys(keys, n, ordered)
            cut = cut_ranked(ordered, moments, node, shift, lefts, cuts)
        if cut[0] > best:
            best = keep_numeric(found, k, f, cut)
    return best


@kernel
def find_by_moments(columns, order, targets, candidates, rules, found, first, last):
    """Best split of the nodes first..last among their candidate columns."""
    _, _, starts, stops = order
    weights, leaf = targets.weights, rules.min_rows_leaf
    found_score, found_feature = found.score, found.feature
    scratch = make_moment_scratch(candidates.shape[1] * 8)
    features = scratch.features
    for k in range(first, last):
        span = (starts[k], stops[k])
        n = span[1] - span[0]
        shift = rows_shift(n, weights)
        n_features = list_candidates(candidates, k, features)
        found_feature[k] = -1
        if shift == 0:
            best = search_wide(columns, order, targets, n_features, span, leaf, scratch, found, k)
        elif n > RANKED_NODE:
            best = search_packed(
                columns, order, targets, n_features, span, leaf, shift, scratch, found, k
            )
        else:
            best = search_small(
                columns, order, targets, n_features, span, leaf, shift, scratch, found, k
            )
        found_score[k] = best

"""Best split by first moments: regression, and two classes with row weights.

A row is a weight and a sum (weight times target). With a and s on the left of a node of weight n
and sum m, the score (s n - m a)^2 / (a (n - a)) orders splits by the decrease of variance
(score / n^2) and, for targets 0 and 1, of gini impurity (2 score / n^2).

Small nodes sort their rows by bin, others add them up per bin; either way the sums left of each
possible cut end up in short arrays over which the scores are computed in one go. Inner loops get
arrays one by one: taking an array out of a tuple counts a reference, atomically.
"""

from typing import NamedTuple

import numpy as np

from fedforest.kernels.bitsets import list_candidates
from fedforest.kernels.category_order import sort_by_key
from fedforest.kernels.cuts import LEFT, ROWS, SCORE, WEIGHT, make_cuts, pick_cut
from fedforest.kernels.jit import inlined, kernel
from fedforest.kernels.keep import keep_categories, keep_numeric
from fedforest.kernels.layout import (
    BLOCK_ROWS,
    COLUMNS_TOGETHER,
    FEW_ROWS,
    MISSING_BIN,
    N_CODES,
    NO_SPLIT,
    SORTED_NODE,
    UNSEEN,
)
from fedforest.kernels.row_sort import (
    fetch_keys,
    holds_missing,
    mark_real_cuts,
    sort_rows,
)

STRIDE = np.uint64(4)  # a bin is four int64: weight, sum, rows, padding to half a cache line
SUM = np.uint64(1)
BIN_ROWS = np.uint64(2)
PADDING = np.uint64(3)
_ONE = np.uint64(1)
_MULTIPLICITY = np.uint64(15)


class MomentNode(NamedTuple):
    """What stays the same while the columns of a node are searched."""

    weight: int
    total: int
    n_rows: int
    min_rows_leaf: int


@kernel
def score_moments(cuts, count, node):
    """Score all cuts, in vector registers."""
    weight, total = np.float64(node.weight), np.float64(node.total)
    for k in range(count):
        a = cuts[WEIGHT, k]
        numerator = cuts[LEFT, k] * weight - total * a
        cuts[SCORE, k] = numerator * numerator / (a * (weight - a))


@kernel
def best_cut(cuts, count, node):
    """(score, position) of the best of `count` cuts."""
    score_moments(cuts, count, node)
    return pick_cut(cuts, count, node.n_rows, node.min_rows_leaf)


@kernel
def cut_few(keys, n, moments, node, order):
    """(score, bin) of the best cut of a node of so few rows that sorting by hand is fastest."""
    for i in range(n):
        slot = i
        while slot > 0 and keys[order[slot - 1]] > keys[i]:
            order[slot] = order[slot - 1]
            slot -= 1
        order[slot] = i
    weight, total = np.float64(node.weight), np.float64(node.total)
    left, left_total = 0, 0
    best = NO_SPLIT
    where = 0
    for i in range(n - 1):
        at = order[i]
        left += moments[at, 0]
        left_total += moments[at, 1]
        if keys[at] == keys[order[i + 1]]:
            continue
        if i + 1 < node.min_rows_leaf or n - i - 1 < node.min_rows_leaf:
            continue
        a = np.float64(left)
        numerator = np.float64(left_total) * weight - total * a
        score = numerator * numerator / (a * (weight - a))
        if score > best:
            best = score
            where = at
    return best, keys[where]


@kernel
def sweep_rows(order, keys, moments, n, cuts):
    """The cuts between sorted rows; one between rows of the same bin is no cut."""
    weight, total = 0, 0
    for i in range(n):
        weight += moments[order[i], 0]
        total += moments[order[i], 1]
        cuts[WEIGHT, i] = np.float64(weight)
        cuts[LEFT, i] = np.float64(total)
    mark_real_cuts(keys, n, cuts)


@kernel
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


@kernel
def visit_occupied(histogram, visit):
    """List the bins that hold rows; return how many there are."""
    count = 0
    for code in range(N_CODES):
        if histogram[np.uint64(code) * STRIDE + BIN_ROWS] > 0:
            visit[count] = np.uint64(code)
            count += 1
    return count


@kernel
def sort_by_mean(histogram, visit, count):
    """Order the visited categories by their mean target."""
    keys = np.zeros(N_CODES)
    for position in range(count):
        at = visit[position] * STRIDE
        keys[visit[position]] = np.float64(histogram[at + SUM]) / np.float64(histogram[at])
    sort_by_key(visit, keys, count)


@kernel
def offer_histogram(columns, feature, histogram, visit, cuts, node, found, k, best):
    """Search a column given by its histogram, which is emptied; keep a split that is better."""
    count = visit_occupied(histogram, visit)
    is_categorical = columns.is_categorical[feature]
    has_missing = visit[count - 1] == MISSING_BIN
    n_cuts = count - 1 if has_missing and not is_categorical else count
    if is_categorical:
        sort_by_mean(histogram, visit, count)
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


@inlined
def row_moments(code, row, weights, values):
    """(weight, weight times target) of one drawn row."""
    multiplicity = np.int64(code & _MULTIPLICITY)
    weight = multiplicity
    if weights.shape[0] > 0:
        weight *= weights[row]
    return weight, multiplicity * values[row]


@kernel
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


@kernel
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


@kernel
def make_moments():
    """Space for the moments of a block: weight, sum, one row, padding."""
    moments = np.zeros((BLOCK_ROWS, 4), np.int64)
    moments[:, 2] = 1
    return moments


@kernel
def search_large(columns, order, targets, features, n_features, span, leaf, found, k):
    """Best split of a node with many rows: blocks of decoded rows are added to histograms."""
    bins, n_rows = columns.bins, columns.n_rows
    entries, row_bits = order.entries, order.row_bits
    weights, values = targets.weights, targets.values
    rows, moments = np.empty(BLOCK_ROWS, np.uint64), make_moments()
    histograms = np.zeros((COLUMNS_TOGETHER, N_CODES * 4), np.int64)
    visit, cuts = np.empty(N_CODES, np.uint64), make_cuts()
    best = NO_SPLIT
    for low in range(0, n_features, COLUMNS_TOGETHER):
        n_together = min(COLUMNS_TOGETHER, n_features - low)
        weight, total = 0, 0
        for begin in range(span[0], span[1], BLOCK_ROWS):
            count = min(BLOCK_ROWS, span[1] - begin)
            added = read_block(entries, begin, count, row_bits, weights, values, rows, moments)
            weight += added[0]
            total += added[1]
            for j in range(n_together):
                base = features[low + j] * n_rows
                fill_moments(bins, base, rows, moments, count, histograms[j])
        node = MomentNode(weight, total, span[1] - span[0], leaf)
        for j in range(n_together):
            f = features[low + j]
            best = offer_histogram(columns, f, histograms[j], visit, cuts, node, found, k, best)
    return best


@kernel
def find_by_moments(columns, order, targets, candidates, rules, found, first, last):
    """Best split of the nodes first..last among their candidate columns."""
    bins, n_rows, _, is_categorical = columns
    entries, row_bits, starts, stops = order
    weights, values = targets.weights, targets.values
    leaf = rules.min_rows_leaf
    features = np.zeros(candidates.shape[1] * 8, np.uint64)
    histogram, visit = np.zeros(N_CODES * 4, np.int64), np.empty(N_CODES, np.uint64)
    rows, moments, cuts = np.empty(BLOCK_ROWS, np.uint64), make_moments(), make_cuts()
    keys, sorted_keys = np.empty(SORTED_NODE, np.uint8), np.empty(SORTED_NODE, np.uint8)
    sorted_rows, counts = np.empty(SORTED_NODE, np.int32), np.zeros(N_CODES, np.int32)
    for k in range(first, last):
        span = (starts[k], stops[k])
        n = span[1] - span[0]
        n_features = list_candidates(candidates, k, features)
        found.feature[k] = -1
        if n >= SORTED_NODE:
            found.score[k] = search_large(
                columns, order, targets, features, n_features, span, leaf, found, k
            )
            continue
        weight, total = read_block(entries, span[0], n, row_bits, weights, values, rows, moments)
        node = MomentNode(weight, total, n, leaf)
        best = NO_SPLIT
        for j in range(n_features):
            f = features[j]
            base = f * n_rows
            fetch_keys(bins, base, rows, n, keys)
            if is_categorical[f] or holds_missing(keys, n):
                fill_moments(bins, base, rows, moments, n, histogram)
                best = offer_histogram(columns, f, histogram, visit, cuts, node, found, k, best)
                continue
            if n < FEW_ROWS:
                cut, code = cut_few(keys, n, moments, node, sorted_rows)
            else:
                sort_rows(keys, n, counts, sorted_rows, sorted_keys)
                sweep_rows(sorted_rows, sorted_keys, moments, n, cuts)
                cut, where = best_cut(cuts, n, node)
                code = sorted_keys[where]
            if cut > best:
                best = keep_numeric(found, k, f, (cut, code, UNSEEN))
        found.score[k] = best

"""Moments per bin in wide integers: any column, any weight.

The general way: categorical columns, nodes whose moments do not fit the two words of
`packed_moments`, and all nodes where children must have some weight.
"""

import numpy as np

from fedforest.kernels.bits.bitsets import empty_set
from fedforest.kernels.criteria.candidates import (
    LEFT,
    RIGHT,
    ROWS,
    SCORE,
    WEIGHT,
    pick_cut,
    rule_out_light,
)
from fedforest.kernels.criteria.dispatch import score_moments
from fedforest.kernels.jit import borrowing
from fedforest.kernels.layout import MISSING_BIN, N_CODES, UNSEEN
from fedforest.kernels.splits.best import keep_categories, keep_numeric
from fedforest.kernels.splits.category_order import sort_by_key
from fedforest.kernels.sums.packed_moments import row_moments

STRIDE = np.uint64(4)  # a bin is four int64: weight, sum, rows, padding to half a cache line
SUM = np.uint64(1)
BIN_ROWS = np.uint64(2)
PADDING = np.uint64(3)
_ONE = np.uint64(1)
_TWO = np.uint64(2)
_SIX = np.uint64(6)
_LOW_SIX = np.uint64(63)


@borrowing
def score_cuts(cuts, count, node):
    """Score all cuts, in vector registers."""
    weight, total = np.float64(node.weight), np.float64(node.total)
    for k in range(count):
        cuts[SCORE, k] = score_moments(node.formula, cuts[WEIGHT, k], cuts[LEFT, k], weight, total)


@borrowing
def best_cut(cuts, count, node):
    """Return (score, position) of the best of `count` cuts."""
    score_cuts(cuts, count, node)
    if node.least_weight > 0:
        rule_out_light(cuts, count, node.least_weight, node.weight - node.least_weight)
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
    count = np.uint64(0)
    for code in range(N_CODES):
        visit[count] = np.uint64(code)
        count += np.uint64(histogram[np.uint64(code) * STRIDE + BIN_ROWS] > 0)
    return np.int64(count)


@borrowing
def sort_by_mean(histogram, visit, count, keys):
    """Order the visited categories by their mean target, kept in `keys`."""
    for position in range(count):
        at = visit[position] * STRIDE
        keys[visit[position]] = np.float64(histogram[at + SUM]) / np.float64(histogram[at])
    sort_by_key(visit, keys, count)


@borrowing
def offer_histogram(columns, feature, histogram, visit, count, cuts, node, found, k, best):
    """Search a column given by its histogram, which is emptied; keep a split that is better.

    `visit` lists its `count` occupied bins, ascending.
    """
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
    for position in range(count):
        at = visit[position] * STRIDE
        histogram[at], histogram[at + SUM], histogram[at + BIN_ROWS] = 0, 0, 0
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
def fill_few(bins, base, rows, moments, n, shift, occupied, visit, histogram):
    """Add the packed moments of a small node's rows; list the bins that they occupy."""
    weight_mask = (1 << shift) - 1
    for i in range(n):
        code = np.uint64(bins[base + rows[i]])
        at = code * STRIDE
        histogram[at] += moments[i, 0] & weight_mask
        histogram[at + SUM] += moments[i, 1]
        histogram[at + BIN_ROWS] += 1
        occupied[code >> _SIX] |= _ONE << (code & _LOW_SIX)
    return empty_set(occupied, 0, visit)


@borrowing
def widen(packed, at, shift, visit, wide):
    """Move one packed histogram, which begins at `at`, into wide integers; list occupied bins."""
    weight_mask = (1 << shift) - 1
    count = np.uint64(0)
    for code in range(N_CODES):
        a = at + np.uint64(code) * _TWO
        to = np.uint64(code) * STRIDE
        wide[to] = packed[a] & weight_mask
        wide[to + SUM] = packed[a + _ONE]
        wide[to + BIN_ROWS] = packed[a] >> shift
        visit[count] = np.uint64(code)
        count += np.uint64(packed[a] != 0)
        packed[a] = 0
        packed[a + _ONE] = 0
    return np.int64(count)

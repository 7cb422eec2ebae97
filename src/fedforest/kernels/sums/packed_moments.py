"""Moments of rows and bins in two words, and the cuts of a numeric column from them.

    | rows, from bit `shift` | weight |   and   | sum of weighted targets |

Half a cache line less than separate integers, so that adding a row to its bin is one vector
operation. Weights without sample weights are counts: the rows begin at bit 32. Sample weights of
all rows add up to less than 2^52, which leaves the rows of small nodes the bits above.
"""

from typing import NamedTuple

import numpy as np

from fedforest.kernels.criteria.candidates import LEFT, SCORE, WEIGHT
from fedforest.kernels.criteria.dispatch import score_moments
from fedforest.kernels.jit import borrowing, embedded, inlined
from fedforest.kernels.layout import MISSING_BIN, MULTIPLICITY_BITS, N_CODES, NO_SPLIT, UNSEEN

COUNT_SHIFT, COUNT_LIMIT = 32, 1 << (32 - MULTIPLICITY_BITS - 1)
WEIGHT_SHIFT, WEIGHT_LIMIT = 52, 1 << 11
PACKED_COLUMNS = 6  # columns whose histograms are filled from one decoded block
PACKED_BLOCK = 256  # rows decoded together; with the histograms they fit the first cache
COLUMN_WORDS = 2 * N_CODES

_ONE = np.uint64(1)
_TWO = np.uint64(2)
_MULTIPLICITY = np.uint64(15)
_SECOND = np.uint64(COLUMN_WORDS)
_THIRD = np.uint64(2 * COLUMN_WORDS)


class MomentNode(NamedTuple):
    """The constants of a node while its columns are searched."""

    weight: int
    total: int
    n_rows: int
    min_rows_leaf: int
    least_weight: int  # of a side; looked at by the general search alone
    formula: NamedTuple  # of the criterion


@embedded
def rows_shift(n_rows, weights):
    """Return the shift of a node's rows in a packed word; 0 if they do not fit."""
    if weights.shape[0] == 0:
        return COUNT_SHIFT if n_rows < COUNT_LIMIT else 0
    return WEIGHT_SHIFT if n_rows < WEIGHT_LIMIT else 0


@inlined
def row_moments(code, row, weights, values):
    """Return (weight, weight times target) of one drawn row."""
    multiplicity = np.int64(code & _MULTIPLICITY)
    weight = multiplicity
    if weights.shape[0] > 0:
        weight *= weights[row]
    return weight, multiplicity * values[row]


@embedded
def read_packed(order, targets, span, shift, row_step, rows, moments):
    """Decode the entries of a span into places of rows and packed moments; returns their sums."""
    entries, row_bits, _, _ = order
    _, weights, values, _ = targets
    row_mask = (_ONE << row_bits) - _ONE
    one_row = 1 << shift
    packed, total = 0, 0
    for i in range(span[1] - span[0]):
        entry = np.uint64(entries[span[0] + i])
        row = entry & row_mask
        weight, value = row_moments(entry >> row_bits, row, weights, values)
        rows[i] = row * row_step
        moments[i, 0] = weight + one_row
        moments[i, 1] = value
        packed += weight + one_row
        total += value
    return packed, total


@borrowing
def fill_one(bins, base, rows, moments, count, histogram, at):
    """Add rows to the histogram, beginning at `at`, of one column."""
    for i in range(count):
        a = np.uint64(bins[base + rows[i]]) * _TWO + at
        packed, total = moments[i, 0], moments[i, 1]
        p, t = histogram[a], histogram[a + _ONE]
        histogram[a], histogram[a + _ONE] = p + packed, t + total


@borrowing
def fill_three(bins, bases, rows, moments, count, histogram, at):
    """Add rows to three histograms that follow one another: their loads overlap."""
    first, second, third = bases
    for i in range(count):
        row = rows[i]
        packed, total = moments[i, 0], moments[i, 1]
        a = np.uint64(bins[first + row]) * _TWO + at
        b = np.uint64(bins[second + row]) * _TWO + (at + _SECOND)
        c = np.uint64(bins[third + row]) * _TWO + (at + _THIRD)
        p, t = histogram[a], histogram[a + _ONE]
        histogram[a], histogram[a + _ONE] = p + packed, t + total
        p, t = histogram[b], histogram[b + _ONE]
        histogram[b], histogram[b + _ONE] = p + packed, t + total
        p, t = histogram[c], histogram[c + _ONE]
        histogram[c], histogram[c + _ONE] = p + packed, t + total


@borrowing
def fill_columns(bins, n_rows, features, low, high, rows, moments, count, histogram):
    """Add rows to the histograms of the candidate columns low..high, by threes and then singly."""
    slot = low
    while slot + 3 <= high:
        bases = (
            features[slot] * n_rows,
            features[slot + 1] * n_rows,
            features[slot + 2] * n_rows,
        )
        at = np.uint64((slot - low) * COLUMN_WORDS)
        fill_three(bins, bases, rows, moments, count, histogram, at)
        slot += 3
    while slot < high:
        at = np.uint64((slot - low) * COLUMN_WORDS)
        fill_one(bins, features[slot] * n_rows, rows, moments, count, histogram, at)
        slot += 1


@borrowing
def sweep_packed(histogram, at, n_bins, first, shift, lefts, cuts):
    """Sum what is left of the cut after each bin, the moments `first` being there already.

    After an empty bin this repeats the cut before it, which then wins the tie.
    """
    weight_mask = (1 << shift) - 1
    packed, total = first
    for code in range(n_bins):
        packed += histogram[at + np.uint64(2 * code)]
        total += histogram[at + np.uint64(2 * code + 1)]
        lefts[code] = packed
        cuts[WEIGHT, code] = np.float64(packed & weight_mask)
        cuts[LEFT, code] = np.float64(total)


@embedded
def best_packed(lefts, cuts, count, node, shift, always_left):
    """Return (score, position) of the best of `count` cuts, the first of equals.

    A cut has more on the left than what is `always_left` there, the missing values.

    The rows are the high bits of a packed word, so that one comparison tells whether there are
    enough. Cuts that are not valid score below zero; bits of the other scores compare like
    integers, in vector registers.
    """
    weight, total = np.float64(node.weight), np.float64(node.total)
    least = max(node.min_rows_leaf << shift, always_left + 1)
    most = (node.n_rows - node.min_rows_leaf + 1) << shift
    best = np.float64(-1.0).view(np.int64)
    for k in range(count):
        a = cuts[WEIGHT, k]
        score = score_moments(node.formula, a, cuts[LEFT, k], weight, total)
        valid = (lefts[k] >= least) & (lefts[k] < most)
        score = score if valid else -1.0
        cuts[SCORE, k] = score
        best = max(best, np.float64(score).view(np.int64))
    if best >= 0:
        for k in range(count):
            if np.float64(cuts[SCORE, k]).view(np.int64) == best:
                return cuts[SCORE, k], k
    return NO_SPLIT, 0


@borrowing
def cut_histogram(histogram, at, n_bins, node, shift, lefts, cuts):
    """Return (score, bin, side of missing values) of the best cut of a numeric column."""
    sweep_packed(histogram, at, n_bins, (0, 0), shift, lefts, cuts)
    score, code = best_packed(lefts, cuts, n_bins, node, shift, 0)
    missing = at + np.uint64(2 * MISSING_BIN)
    if histogram[missing] == 0:
        return score, code, UNSEEN
    first = (histogram[missing], histogram[missing + _ONE])
    sweep_packed(histogram, at, n_bins, first, shift, lefts, cuts)
    other, there = best_packed(lefts, cuts, n_bins, node, shift, first[0])
    if other > score:
        return other, there, 1
    return score, code, 0

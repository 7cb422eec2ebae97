"""Gini cuts of a numeric column from a histogram with several classes per word.

A word holds the weights of 8, 4 or 2 neighbouring classes in fields of 8, 16 or 32 bits, as many
as the weight of the node allows, so that no field can overflow into the next. A column is as many
runs of 256 words as its classes need, one word per bin:

    | classes 0..3 of bin 0 | ... of bin 255 | classes 4..7 of bin 0 | ...

Adding up a run from bin to bin adds up all its classes; squares are then taken class by class, in
vector registers. Worth (`benchmarks/ablations.py`): 13 % of a training on 100,000 rows.
"""

import numpy as np

from fedforest.kernels.criteria.classes import CLASS_SHIFT, best_gini, row_weight
from fedforest.kernels.jit import borrowing
from fedforest.kernels.layout import MISSING_BIN, N_CODES, UNSEEN

PACKED_BLOCK = 256  # rows decoded together
TOGETHER = 3  # columns filled from one decoded block
WIDEST_FIELD = 5  # log2 of its bits

_ONE = np.uint64(1)
_RUN_BITS = np.uint64(8)
_WORD_BITS = 6


@borrowing
def field_size(weight):
    """log2 of the bits that hold any weight up to that of the node."""
    return 3 if weight < 1 << 8 else (4 if weight < 1 << 16 else 5)


@borrowing
def count_runs(n_classes, size):
    """Words per bin; classes come by fours."""
    fields = 1 << (_WORD_BITS - size)
    return (n_classes + fields - 1) // fields


@borrowing
def read_classes(entries, span, row_bits, weights, size, rows, places, added):
    """Decode the entries of a span into row indices and what they add to which run of words."""
    row_mask = (_ONE << row_bits) - _ONE
    field_bits = np.uint64(_WORD_BITS - size)
    field_mask = (_ONE << field_bits) - _ONE
    for i in range(span[1] - span[0]):
        entry = np.uint64(entries[span[0] + i])
        row, code = entry & row_mask, entry >> row_bits
        label = code >> CLASS_SHIFT
        rows[i] = row
        places[i] = (label >> field_bits) << _RUN_BITS
        weight = np.uint64(row_weight(code, row, weights))
        added[i] = weight << ((label & field_mask) << np.uint64(size))


@borrowing
def fill_three(bins, bases, rows, places, added, count, cells, stride):
    """Add rows to the histograms of three columns; they begin `stride` words apart."""
    first, second, third = bases
    for i in range(count):
        row, place, word = rows[i], places[i], added[i]
        a = np.uint64(bins[first + row]) + place
        b = np.uint64(bins[second + row]) + (place + stride)
        c = np.uint64(bins[third + row]) + (place + stride + stride)
        cells[a] += word
        cells[b] += word
        cells[c] += word


@borrowing
def fill_one(bins, base, rows, places, added, count, cells, at):
    """Add rows to the histogram, beginning at `at`, of one column."""
    for i in range(count):
        cells[np.uint64(bins[base + rows[i]]) + (places[i] + at)] += added[i]


@borrowing
def fill_columns(
    bins, n_rows, features, low, n_together, rows, places, added, count, cells, stride
):
    """Add rows to the histograms of the candidate columns from `low` on."""
    if n_together == TOGETHER:
        first, second, third = features[low], features[low + 1], features[low + 2]
        bases = (first * n_rows, second * n_rows, third * n_rows)
        fill_three(bins, bases, rows, places, added, count, cells, np.uint64(stride))
        return
    for slot in range(n_together):
        base, at = features[low + slot] * n_rows, np.uint64(slot * stride)
        fill_one(bins, base, rows, places, added, count, cells, at)


@borrowing
def count_rows(bins, n_rows, features, low, n_together, rows, count, counts):
    """Count rows per bin in the candidate columns from `low` on."""
    for slot in range(n_together):
        base, at = features[low + slot] * n_rows, np.uint64(slot * N_CODES)
        for i in range(count):
            counts[np.uint64(bins[base + rows[i]]) + at] += _ONE


@borrowing
def add_up(run, n_bins):
    """Turn the words of a run into sums over all bins up to theirs."""
    word = np.uint64(0)
    for code in range(n_bins):
        word += run[code]
        run[code] = word


@borrowing
def square_four(low, high, n_bins, shifts, mask, in_node, sums):
    """Add four classes to the weights, squares and products left of each cut.

    Two are in the run `low`, two in `high`; fields have at most 32 bits, which vector registers
    multiply at once.
    """
    first, second, third, fourth = shifts
    n0, n1, n2, n3 = in_node
    for code in range(n_bins):
        a = np.uint64(np.uint32(low[code] >> first) & mask)
        b = np.uint64(np.uint32(low[code] >> second) & mask)
        c = np.uint64(np.uint32(high[code] >> third) & mask)
        d = np.uint64(np.uint32(high[code] >> fourth) & mask)
        sums[0, code] += np.int64(a + b + c + d)
        sums[1, code] += np.int64(a * a + b * b + c * c + d * d)
        sums[2, code] += np.int64(a * n0 + b * n1 + c * n2 + d * n3)


@borrowing
def run_of(c, size):
    """Return the start of the run of words that holds class c."""
    return (c >> (_WORD_BITS - size)) * N_CODES


@borrowing
def shift_of(c, size):
    """Return the shift of the field of class c in its word."""
    return np.uint64((c & ((1 << (_WORD_BITS - size)) - 1)) << size)


@borrowing
def sum_classes(cells, at, n_bins, size, in_node, sums):
    """Weights, squares and products of all classes left of each cut, from runs added up."""
    mask = np.uint32((1 << (1 << size)) - 1)
    sums[:3, :n_bins] = 0
    for c in range(0, in_node.shape[0], 4):
        shifts = (
            shift_of(c, size),
            shift_of(c + 1, size),
            shift_of(c + 2, size),
            shift_of(c + 3, size),
        )
        weights = (
            np.uint64(np.uint32(in_node[c])),
            np.uint64(np.uint32(in_node[c + 1])),
            np.uint64(np.uint32(in_node[c + 2])),
            np.uint64(np.uint32(in_node[c + 3])),
        )
        first, second = at + run_of(c, size), at + run_of(c + 2, size)
        low, high = cells[first : first + N_CODES], cells[second : second + N_CODES]
        square_four(low, high, n_bins, shifts, mask, weights, sums)


@borrowing
def put_left(run, n_bins):
    """Put the missing values of a run on the left of every cut."""
    missing = run[MISSING_BIN]
    for code in range(n_bins):
        run[code] += missing


@borrowing
def weigh_missing(cells, at, n_classes, size):
    """Return the weight of the rows without a value."""
    mask = np.uint64((1 << (1 << size)) - 1)
    weight = 0
    for c in range(n_classes):
        word = cells[at + run_of(c, size) + MISSING_BIN]
        weight += np.int64((word >> shift_of(c, size)) & mask)
    return weight


@borrowing
def best_packed(cells, at, n_bins, size, counts, node, in_node, first, sums, scores):
    """(score, bin) of the best cut of runs added up; `first` is what missing values put left.

    Where a child needs more than one row, `counts` has the rows left of each cut.
    """
    sum_classes(cells, at, n_bins, size, in_node, sums)
    by_rows = node.min_rows_leaf > 1
    for code in range(n_bins):
        sums[3, code] = np.int64(counts[code]) if by_rows else sums[0, code]
    least = max(node.min_rows_leaf, first + 1)
    most = node.n_rows - node.min_rows_leaf + 1 if by_rows else node.weight
    return best_gini(sums, n_bins, node, least, most, scores)


@borrowing
def cut_packed(cells, at, n_bins, size, counts, node, in_node, sums, scores):
    """(score, bin, side of missing values) of the best cut of a column; spoils its histogram."""
    n_runs = count_runs(in_node.shape[0], size)
    for run in range(n_runs):
        add_up(cells[at + run * N_CODES : at + (run + 1) * N_CODES], n_bins)
    if node.min_rows_leaf > 1:
        add_up(counts, n_bins)
    score, code = best_packed(cells, at, n_bins, size, counts, node, in_node, 0, sums, scores)
    missing = weigh_missing(cells, at, in_node.shape[0], size)
    if missing == 0:
        return score, code, UNSEEN
    for run in range(n_runs):
        put_left(cells[at + run * N_CODES : at + (run + 1) * N_CODES], n_bins)
    put_left(counts, n_bins)
    first = missing if node.min_rows_leaf == 1 else np.int64(counts[MISSING_BIN])
    other, there = best_packed(cells, at, n_bins, size, counts, node, in_node, first, sums, scores)
    if other > score:
        return other, there, 1
    return score, code, 0

"""Histograms of a shard's rows, in wide integers that can be added to those of other shards.

    moments  cells[pair, bin] = (weight, sum of weighted targets, rows)
    classes  cells[pair, bin] = (weight of each class ..., rows)

Pairs are listed node by node (`node_start`); only nodes of many rows are searched this way. Rows
are added up in the words of the fast searches, and widened before these could overflow.
"""

import numpy as np

from fedforest.kernels.criteria.classes import CLASS_SHIFT, row_weight
from fedforest.kernels.jit import borrowing, kernel
from fedforest.kernels.layout import N_CODES
from fedforest.kernels.splits.binary import HEAVY_BLOCK
from fedforest.kernels.splits.binary_histogram import (
    FIELD_BITS,
    FIELD_MASK,
    ROWS_SHIFT,
    pack_increments,
)
from fedforest.kernels.splits.binary_histogram import fill_columns as fill_binary_columns
from fedforest.kernels.sums.packed_moments import (
    COLUMN_WORDS,
    COUNT_LIMIT,
    COUNT_SHIFT,
    PACKED_BLOCK,
    PACKED_COLUMNS,
    WEIGHT_LIMIT,
    WEIGHT_SHIFT,
    fill_columns,
    read_packed,
)

MOMENT_CELLS = 3  # numbers of a bin

_ZERO = np.uint64(0)
_ONE = np.uint64(1)


@kernel
def widen_binary(histogram, count, cells, pair):
    """Move the packed histograms of `count` columns to the cells of as many pairs."""
    for slot in range(count):
        for code in range(N_CODES):
            at = slot * N_CODES + code
            value = histogram[at]
            histogram[at] = _ZERO
            cells[pair + slot, code, 0] += np.int64(value & FIELD_MASK)
            cells[pair + slot, code, 1] += np.int64((value >> FIELD_BITS) & FIELD_MASK)
            cells[pair + slot, code, 2] += np.int64(value >> ROWS_SHIFT)


@kernel
def fill_binary_cells(columns, order, node_start, features, cells, first, last):
    """Add up two classes without row weights, the second as the number 1."""
    entries, row_bits, starts, stops = order
    histogram, increments = np.zeros(3 * N_CODES, np.uint64), pack_increments()
    for node in range(first, last):
        end = node_start[node + 1]
        for low in range(node_start[node], end, 3):
            count = min(3, end - low)
            for begin in range(starts[node], stops[node], HEAVY_BLOCK):
                span = (begin, min(stops[node], begin + HEAVY_BLOCK))
                fill_binary_columns(
                    columns.bins,
                    columns.n_rows,
                    features,
                    low,
                    count,
                    entries,
                    span,
                    row_bits,
                    increments,
                    histogram,
                )
                widen_binary(histogram, count, cells, low)


@borrowing
def widen_moments(histogram, count, shift, cells, pair):
    """Move the packed histograms of `count` columns to the cells of as many pairs."""
    weight_mask = (1 << shift) - 1
    for slot in range(count):
        for code in range(N_CODES):
            at = slot * COLUMN_WORDS + 2 * code
            packed = histogram[at]
            cells[pair + slot, code, 0] += packed & weight_mask
            cells[pair + slot, code, 1] += histogram[at + 1]
            cells[pair + slot, code, 2] += packed >> shift
            histogram[at] = 0
            histogram[at + 1] = 0


@kernel
def fill_moment_cells(columns, order, targets, node_start, features, cells, first, last):
    """Add up weights and weighted targets, in spans of rows whose words cannot overflow."""
    starts, stops = order.start, order.stop
    is_weighted = targets.weights.shape[0] > 0
    shift = WEIGHT_SHIFT if is_weighted else COUNT_SHIFT
    limit = WEIGHT_LIMIT if is_weighted else COUNT_LIMIT
    rows, moments = np.zeros(PACKED_BLOCK, np.uint64), np.zeros((PACKED_BLOCK, 2), np.int64)
    histogram = np.zeros(PACKED_COLUMNS * COLUMN_WORDS, np.int64)
    for node in range(first, last):
        end = node_start[node + 1]
        for low in range(node_start[node], end, PACKED_COLUMNS):
            high = min(low + PACKED_COLUMNS, end)
            n_packed = 0
            for begin in range(starts[node], stops[node], PACKED_BLOCK):
                block = (begin, min(stops[node], begin + PACKED_BLOCK))
                read_packed(order, targets, block, shift, _ONE, rows, moments)
                count = block[1] - block[0]
                fill_columns(
                    columns.bins,
                    columns.n_rows,
                    features,
                    low,
                    high,
                    rows,
                    moments,
                    count,
                    histogram,
                )
                n_packed += count
                if n_packed + PACKED_BLOCK >= limit or block[1] == stops[node]:
                    widen_moments(histogram, high - low, shift, cells, low)
                    n_packed = 0


@kernel
def fill_class_cells(columns, order, weights, node_start, features, cells, first, last):
    """Add up the weight of every class."""
    bins, n_rows = columns.bins, columns.n_rows
    entries, row_bits, starts, stops = order
    row_mask, rows_at = (_ONE << row_bits) - _ONE, cells.shape[2] - 1
    for node in range(first, last):
        for pair in range(node_start[node], node_start[node + 1]):
            base, own = features[pair] * n_rows, cells[pair]
            for i in range(starts[node], stops[node]):
                entry = np.uint64(entries[i])
                row, code = entry & row_mask, entry >> row_bits
                at = np.uint64(bins[base + row])
                own[at, code >> CLASS_SHIFT] += row_weight(code, row, weights)
                own[at, rows_at] += 1

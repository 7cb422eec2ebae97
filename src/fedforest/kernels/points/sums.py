"""Sums of encrypted rows per bin, and running sums over bins. Everything here is public.

    rows   (n_rows * n_components, 15)   addends: what was encrypted for row 0, for row 1, ...
    cells  (nodes, candidates, bins, components, 20)   points; the last bin is of missing values

A cell starts as the neutral point. A row that the bootstrap drew m times is added m times.
"""

import numpy as np

from fedforest.kernels.jit import borrowing, embedded
from fedforest.kernels.layout import MAX_MULTIPLICITY, MISSING_BIN
from fedforest.kernels.points.curve import (
    NEUTRAL,
    add_addend,
    add_point,
    double,
    load_addend,
    load_point,
    negate_point,
    store_point,
)

_MULTIPLICITY = np.uint64(MAX_MULTIPLICITY)
_1 = np.uint64(1)


@borrowing
def clear(points):
    """Make every point the neutral one."""
    for i in range(np.uint64(points.shape[0])):
        store_point(points, i, NEUTRAL)


@embedded
def add_row(cells, cell, rows, row, times):
    """Add a row's addends to the points of a cell."""
    n_components = np.uint64(cells.shape[1])
    for component in range(n_components):
        addend = load_addend(rows, row * n_components + component)
        total = load_point(cells[cell], component)
        for _ in range(times):
            total = add_addend(total, addend)
        store_point(cells[cell], component, total)


@borrowing
def add_rows(cells, rows, columns, order, candidates):
    """Add the rows of every open node to their bins' cells, in its candidate columns."""
    row_mask = (_1 << order.row_bits) - _1
    last = np.uint64(cells.shape[2] - 1)
    for node in range(candidates.shape[0]):
        for candidate in range(candidates.shape[1]):
            column = np.uint64(candidates[node, candidate]) * columns.n_rows
            for at in range(order.start[node], order.stop[node]):
                entry = np.uint64(order.entries[at])
                row = entry & row_mask
                code = columns.bins[column + row]
                cell = last if code == MISSING_BIN else np.uint64(code)
                times = (entry >> order.row_bits) & _MULTIPLICITY
                add_row(cells[node, candidate], cell, rows, row, times)


@borrowing
def run_sums(cells, n_bins):
    """Make each cell the sum of all cells up to it, in each row of the first `n_bins` cells."""
    for row in range(np.uint64(cells.shape[0])):
        for component in range(np.uint64(cells.shape[2])):
            total = load_point(cells[row, 0], component)
            for cell in range(_1, np.uint64(n_bins)):
                total = add_point(total, load_point(cells[row, cell], component))
                store_point(cells[row, cell], component, total)


@borrowing
def pack_points(points, bits, count, packed):
    """Put `count` points after the first one into one: P + 2^bits Q + 4^bits R + ..., and so on.

    Of each row of (n, 1 + m, 20) points, into (n, 1 + m / count rounded up, 20).
    """
    m = np.int64(points.shape[1])
    for i in range(np.uint64(points.shape[0])):
        store_point(packed[i], np.uint64(0), load_point(points[i], np.uint64(0)))
        for group in range(1, packed.shape[1]):
            first = 1 + (group - 1) * count
            last = min(m, first + count) - 1
            total = load_point(points[i], np.uint64(last))
            for component in range(last - 1, first - 1, -1):
                for _ in range(bits):
                    total = double(total)
                total = add_point(total, load_point(points[i], np.uint64(component)))
            store_point(packed[i], np.uint64(group), total)


@borrowing
def add_points(totals, points):
    """Add points to points, one by one."""
    for i in range(np.uint64(totals.shape[0])):
        store_point(totals, i, add_point(load_point(totals, i), load_point(points, i)))


@borrowing
def subtract_points(totals, points):
    """Take points away from points, one by one."""
    for i in range(np.uint64(totals.shape[0])):
        opposite = negate_point(load_point(points, i))
        store_point(totals, i, add_point(load_point(totals, i), opposite))

"""Fetching the rows of small nodes.

The bins of a small node lie scattered over memory; reading those of several columns before any of
them is used lets the loads overlap, which more than halves the time of grown-out trees.
"""

import numpy as np

from fedforest.kernels.jit import kernel

_ONE = np.uint64(1)


@kernel
def split_entries(order, start, stop, rows, codes):
    """Separate the entries of a node into row indices and codes (class and multiplicity)."""
    row_mask = (_ONE << order.row_bits) - _ONE
    for i in range(stop - start):
        entry = np.uint64(order.entries[start + i])
        rows[i] = entry & row_mask
        codes[i] = entry >> order.row_bits


@kernel
def gather_bins(columns, features, low, count, rows, n_rows, fetched):
    """fetched[j, i] = bin of row i in column features[low + j]."""
    for j in range(count):
        base = features[low + j] * columns.n_rows
        for i in range(n_rows):
            fetched[j, i] = columns.bins[base + rows[i]]

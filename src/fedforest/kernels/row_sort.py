"""Sorting the rows of a small node by bin.

A sorted node is cut by one sweep over its rows; that beats a histogram as long as a node has fewer
rows than the histogram has cells.
"""

import numpy as np

from fedforest.kernels.cuts import ROWS
from fedforest.kernels.jit import kernel
from fedforest.kernels.layout import MISSING_BIN, N_CODES

_ONE = np.uint64(1)


@kernel
def split_entries(entries, span, row_bits, rows, codes):
    """Separate the entries of a node into row indices and codes (class and multiplicity)."""
    row_mask = (_ONE << row_bits) - _ONE
    for i in range(span[1] - span[0]):
        entry = np.uint64(entries[span[0] + i])
        rows[i] = entry & row_mask
        codes[i] = entry >> row_bits


@kernel
def fetch_keys(bins, base, rows, n, keys):
    """keys[i] = bin of row i in the column that begins at `base`."""
    for i in range(n):
        keys[i] = bins[base + rows[i]]


@kernel
def holds_missing(keys, n):
    """Whether a row of the node has no value."""
    missing = False
    for i in range(n):
        missing |= keys[i] == MISSING_BIN
    return missing


@kernel
def sort_rows(keys, n, counts, order, sorted_keys):
    """Put the n rows in order of their keys; `counts` (one per key) is zero before and after."""
    for i in range(n):
        counts[keys[i]] += 1
    start = 0
    for key in range(N_CODES):
        count = counts[key]
        counts[key] = start
        start += count
    for i in range(n):
        to = counts[keys[i]]
        counts[keys[i]] = to + 1
        order[to] = i
        sorted_keys[to] = keys[i]
    counts[:] = 0


@kernel
def mark_real_cuts(sorted_keys, n, cuts):
    """Rows left of each cut between sorted rows; none where both rows are of the same bin."""
    for i in range(n - 1):
        same = sorted_keys[i] == sorted_keys[i + 1]
        cuts[ROWS, i] = 0.0 if same else np.float64(i + 1)
    cuts[ROWS, n - 1] = np.float64(n)

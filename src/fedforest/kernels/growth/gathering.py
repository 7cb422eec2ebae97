"""Copying the rows of some nodes out of a shard, and into a table of such rows."""

import numpy as np

from fedforest.kernels.jit import kernel

_ONE = np.uint64(1)
_BLOCK = 1024  # rows whose places stay in the cache while all columns are copied


@kernel
def copy_nodes(bins, n_rows, order, nodes, copied, codes, rows):
    """Copy the bins of the nodes' rows to copied[column, k], node by node.

    codes[k] becomes what the entry of a row holds beside it, rows[k] the row itself.
    """
    entries, row_bits, starts, stops = order
    row_mask = (_ONE << row_bits) - _ONE
    n_columns, at = np.uint64(copied.shape[0]), 0
    for i in range(nodes.shape[0]):
        for begin in range(starts[nodes[i]], stops[nodes[i]], _BLOCK):
            n = min(_BLOCK, stops[nodes[i]] - begin)
            for k in range(n):
                entry = np.uint64(entries[begin + k])
                rows[at + k] = np.int64(entry & row_mask)
                codes[at + k] = np.uint16(entry >> row_bits)
            for column in range(n_columns):
                base, own = np.uint64(column) * n_rows, copied[column]
                for k in range(n):
                    own[at + k] = bins[base + np.uint64(rows[at + k])]
            at += n


@kernel
def place_nodes(copied, sizes, starts, target):
    """Copy spans of `sizes` columns' values, one after the other, to starts[i] of `target`."""
    for column in range(target.shape[0]):
        source, own, at = copied[column], target[column], 0
        for i in range(sizes.shape[0]):
            to = starts[i]
            for k in range(sizes[i]):
                own[to + k] = source[at + k]
            at += sizes[i]

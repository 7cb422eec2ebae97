"""Row bits on their way between roles: moving the bits of some nodes, and counting them.

The bits of a node start on a whole byte, so bits of several nodes move as ranges of bytes.
"""

import numpy as np

from fedforest.kernels.bitsets import count_ones
from fedforest.kernels.jit import kernel


@kernel
def copy_ranges(source, source_start, target, target_start, lengths):
    """Copy range i, `lengths[i]` bytes, from one place to the other."""
    for i in range(lengths.shape[0]):
        a, b = source_start[i], target_start[i]
        for k in range(lengths[i]):
            target[b + k] = source[a + k]


@kernel
def count_bits(bits, start, sizes, counts):
    """counts[i] = set bits among the first `sizes[i]` of those that start at byte `start[i]`.

    Returns whether all bits behind them, up to the end of the last byte, are zero.
    """
    padding_is_zero = True
    for i in range(sizes.shape[0]):
        total = np.int64(0)
        whole = sizes[i] >> 3
        for k in range(start[i], start[i] + whole):
            total += np.int64(count_ones(bits[k]))
        rest = sizes[i] & 7
        if rest:
            last = bits[start[i] + whole]
            kept = last & np.uint8((1 << rest) - 1)
            padding_is_zero &= kept == last
            total += np.int64(count_ones(kept))
        counts[i] = total
    return padding_is_zero


@kernel
def place_bits_of_nodes(source, nodes, sizes, start, target, left_rows):
    """Copy the bits of nodes, given one after the other, to where each starts; count them.

    Returns the number of bytes read, -1 where `source` is too short, and -2 where a node's last
    byte is not padded with zeros.
    """
    at = 0
    for i in range(nodes.shape[0]):
        node = nodes[i]
        n, to = sizes[node], start[node]
        n_bytes = (n + 7) >> 3
        if at + n_bytes > source.shape[0]:
            return -1
        total = np.int64(0)
        for k in range(n_bytes):
            byte = source[at + k]
            target[to + k] = byte
            total += np.int64(count_ones(byte))
        if n & 7 and source[at + n_bytes - 1] >> np.uint8(n & 7):
            return -2
        left_rows[node] = total
        at += n_bytes
    return at


@kernel
def take_bits_of_nodes(source, nodes, start, lengths, target):
    """Copy the bits of nodes, one after the other, from where each starts."""
    at = 0
    for i in range(nodes.shape[0]):
        a = start[nodes[i]]
        for k in range(lengths[nodes[i]]):
            target[at + k] = source[a + k]
        at += lengths[nodes[i]]

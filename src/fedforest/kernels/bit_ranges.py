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
def locate_bits(bits, at, is_chosen, sizes, least, offsets, left_rows):
    """Find and count the bits of the chosen nodes, which lie one after the other from `at` on.

    offsets[node] becomes the byte at which a node's bits start, left_rows[node] how many are set.
    Returns the byte behind the last, -1 where `bits` is too short, -2 where a node's last byte is
    not padded with zeros, and -3 where a child has fewer than `least` rows.
    """
    for node in range(is_chosen.shape[0]):
        if not is_chosen[node]:
            continue
        n = sizes[node]
        end = at + ((n + 7) >> 3)
        if end > bits.shape[0]:
            return -1
        total = np.int64(0)
        for k in range(at, end):
            total += np.int64(count_ones(bits[k]))
        if n & 7 and bits[end - 1] >> np.uint8(n & 7):
            return -2
        if total < least or n - total < least:
            return -3
        offsets[node], left_rows[node] = at, total
        at = end
    return at


@kernel
def take_bits(bits, is_chosen, sizes, offsets):
    """A copy of the bits of the chosen nodes, one after the other."""
    n_bytes = 0
    for node in range(is_chosen.shape[0]):
        n_bytes += ((sizes[node] + 7) >> 3) * is_chosen[node]
    taken = np.empty(n_bytes, np.uint8)
    at = 0
    for node in range(is_chosen.shape[0]):
        if is_chosen[node]:
            for k in range(offsets[node], offsets[node] + ((sizes[node] + 7) >> 3)):
                taken[at] = bits[k]
                at += 1
    return taken

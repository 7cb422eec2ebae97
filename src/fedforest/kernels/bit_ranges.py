"""Row bits on their way between roles: moving the bits of some nodes, and counting them.

The bits of a node start on a whole byte, so bits of several nodes move as ranges of bytes.
"""

import numpy as np

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
            total += _count_byte(bits[k])
        rest = sizes[i] & 7
        if rest:
            last = bits[start[i] + whole]
            kept = last & np.uint8((1 << rest) - 1)
            padding_is_zero &= kept == last
            total += _count_byte(kept)
        counts[i] = total
    return padding_is_zero


@kernel
def _count_byte(byte):
    """Set bits of one byte, by adding neighbours."""
    pairs = (byte & np.uint8(0x55)) + ((byte >> np.uint8(1)) & np.uint8(0x55))
    fours = (pairs & np.uint8(0x33)) + ((pairs >> np.uint8(2)) & np.uint8(0x33))
    return np.int64((fours & np.uint8(0x0F)) + (fours >> np.uint8(4)))

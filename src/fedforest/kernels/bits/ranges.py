"""Row bits on their way between roles: moving the bits of some nodes, and counting them.

The bits of a node start on a whole byte, so bits of several nodes move as ranges of bytes.
"""

import numpy as np

from fedforest.kernels.bits.bitsets import count_ones
from fedforest.kernels.bits.instructions import load_word, store_word
from fedforest.kernels.jit import kernel
from fedforest.kernels.layout import NO_GROUP

SPARE_BYTES = 8  # behind bits that are read in words

_ONE = np.uint64(1)


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
def locate_bits(bits, span, nodes, sizes, least, offsets, left_rows):
    """Find and count the bits of some nodes, which lie one after the other in the bytes `span`.

    offsets[node] becomes the byte at which a node's bits start, left_rows[node] how many are set.
    Returns the byte behind the last, -1 where `span` is too short, -2 where a node's last byte is
    not padded with zeros, and -3 where a child has fewer than `least` rows. Behind the span
    `SPARE_BYTES` are read, too: most nodes are one word, and a loop over bytes is not foreseen.
    """
    at, end = span
    for i in range(nodes.shape[0]):
        node = nodes[i]
        n = sizes[node]
        stop = at + ((n + 7) >> 3)
        if stop > end:
            return -1
        n_words, rest = n >> 6, np.uint64(n & 63)
        total = count_ones(load_word(bits, at + 8 * n_words) & ((_ONE << rest) - _ONE))
        for k in range(n_words):
            total += count_ones(load_word(bits, at + 8 * k))
        if n & 7 and bits[stop - 1] >> np.uint8(n & 7):
            return -2
        left = np.int64(total)
        if left < least or n - left < least:
            return -3
        offsets[node], left_rows[node] = at, left
        at = stop
    return at


@kernel
def find_smallest(nodes, sizes, left_rows):
    """Return rows of the smallest child of some nodes."""
    smallest = np.int64(NO_GROUP)
    for i in range(nodes.shape[0]):
        left = left_rows[nodes[i]]
        smallest = min(smallest, left, sizes[nodes[i]] - left)
    return smallest


@kernel
def count_bytes(sizes, nodes):
    """Count the bytes that the bits of some nodes take."""
    n_bytes = 0
    for i in range(nodes.shape[0]):
        n_bytes += (sizes[nodes[i]] + 7) >> 3
    return n_bytes


@kernel
def take_bits(bits, nodes, sizes, offsets):
    """Return a copy of the bits of some nodes, one after the other; `bits` ends with `SPARE_BYTES`.

    Whole words are copied: the bits of the next node overwrite those beyond a node's end.
    """
    n_bytes = count_bytes(sizes, nodes)
    taken = np.empty(n_bytes + SPARE_BYTES, np.uint8)
    at = 0
    for i in range(nodes.shape[0]):
        n, start = (sizes[nodes[i]] + 7) >> 3, offsets[nodes[i]]
        for k in range(0, n, 8):
            store_word(taken, at + k, load_word(bits, start + k))
        at += n
    return taken[:n_bytes]


@kernel
def list_foreign(owner, number, is_wanted):
    """The nodes that somebody else than owner `number` split, of those that are wanted at all."""
    nodes, at = np.empty(owner.shape[0] + 1, np.int64), 0
    for k in range(owner.shape[0]):
        nodes[at] = k
        at += (owner[k] >= 0) & (owner[k] != number) & (is_wanted[k] > 0)
    return nodes[:at]

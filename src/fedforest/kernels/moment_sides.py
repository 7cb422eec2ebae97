"""The sides of small nodes, by moments, noted while the search has their rows in the cache.

Whoever splits a node needs a bit per row and the sums of the left child. Later both would cost
another visit to rows that lie far apart.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedforest.kernels.jit import embedded, kernel
from fedforest.kernels.partition import find_pure_sides

_ONE = np.uint64(1)
_ZERO = np.uint64(0)


class Sides(NamedTuple):
    """What the best splits do to the rows of open nodes; without nodes, nothing is noted."""

    bits: NDArray[np.uint8]  # of node k from byte start[k] on
    start: NDArray[np.int64]
    left: NDArray[np.int64]  # as `sum_left_moments` writes it
    is_known: NDArray[np.bool_]


@kernel
def make_sides(starts, stops):
    """Space for open nodes whose rows lie at starts[k]:stops[k], nothing being known yet."""
    n_nodes = starts.shape[0]
    start = np.empty(n_nodes, np.int64)
    at = 0
    for k in range(n_nodes):
        start[k] = at
        at += (stops[k] - starts[k] + 7) >> 3
    bits, left = np.empty(at, np.uint8), np.empty((n_nodes, 4), np.int64)
    return Sides(bits, start, left, np.zeros(n_nodes, np.bool_))


@embedded
def note_sides(columns, order, levels, scratch, shift, found, sides, k):
    """Note the sides of a node whose rows were sorted, if a numeric column splits it."""
    feature = np.uint64(found.feature[k])
    if columns.is_categorical[feature]:
        return
    by_row, rows, moments, bits = columns.by_row, scratch.rows, scratch.flat, sides.bits
    span = (order.start[k], order.stop[k])
    n = span[1] - span[0]
    wraps = np.uint8(found.missing_left[k] & 1)  # see `write_numeric_bits`
    cut = np.uint8(found.bin[k] + wraps)
    packed, total = 0, 0
    at = np.uint64(sides.start[k])
    for begin in range(0, n, 8):
        byte = _ZERO
        for i in range(begin, min(begin + 8, n)):
            place = np.uint64(i)
            goes_left = np.uint64(np.uint8(by_row[rows[place] + feature] + wraps) <= cut)
            chosen = -np.int64(goes_left)
            packed += moments[place << _ONE] & chosen
            total += moments[(place << _ONE) + _ONE] & chosen
            byte |= goes_left << np.uint64(i - begin)
        bits[at] = np.uint8(byte)
        at += _ONE
    left = sides.left
    left[k, 0], left[k, 1], left[k, 2] = packed & ((1 << shift) - 1), total, packed >> shift
    row_mask = (_ONE << order.row_bits) - _ONE
    left[k, 3] = find_pure_sides(order.entries, span, row_mask, levels, bits, sides.start[k])
    sides.is_known[k] = True


@kernel
def take_known(sides, nodes, offsets, bits, left, first, last):
    """Copy what is known of the split nodes first..last; returns which of the list are not known.

    The bits of nodes[i] go to byte offsets[i].
    """
    unknown = np.empty(last - first, np.int64)
    n_unknown = 0
    for i in range(first, last):
        node = nodes[i]
        if not sides.is_known[node]:
            unknown[n_unknown] = i
            n_unknown += 1
            continue
        source = sides.start[node]
        for k in range(offsets[i + 1] - offsets[i]):
            bits[offsets[i] + k] = sides.bits[source + k]
        for c in range(4):
            left[i, c] = sides.left[node, c]
    return unknown[:n_unknown]

"""What the rows of whole nodes add up to, whatever cuts would divide them.

sums[i] belongs to nodes[i], and is zero before: class weights, or weight and weighted targets, then
rows where there is room for one integer more.
"""

import numpy as np

from fedforest.kernels.criteria.classes import CLASS_SHIFT, row_weight
from fedforest.kernels.cuts.sides import BLOCK
from fedforest.kernels.cuts.sums import COUNT_BITS, pack_counts
from fedforest.kernels.jit import inlined, kernel
from fedforest.kernels.sums.packed_moments import row_moments

_ZERO, _ONE = np.uint64(0), np.uint64(1)
_FIELD_BITS, _FIELD = np.uint64(COUNT_BITS), np.uint64((1 << COUNT_BITS) - 1)


@inlined
def add_in_words(entries, start, stop, row_bits, table, sums, i):
    """Count the rows start..stop of a few classes, side by side in one word."""
    for begin in range(start, stop, BLOCK):
        word = _ZERO
        for place in range(begin, min(stop, begin + BLOCK)):
            word += table[np.uint64(entries[place]) >> row_bits]
        for c in range(sums.shape[1]):
            sums[i, c] += np.int64(word & _FIELD)
            word >>= _FIELD_BITS


@kernel
def count_few_classes(order, nodes, n_classes, sums, first, last):
    """What `weigh_classes` does where rows weigh one and a word has room for a side's integers."""
    entries, row_bits, starts, stops = order
    table = pack_counts(n_classes, sums.shape[1])[0]
    for i in range(first, last):
        start, stop = np.uint64(starts[nodes[i]]), np.uint64(stops[nodes[i]])
        add_in_words(entries, start, stop, row_bits, table, sums, i)


@kernel
def weigh_classes(order, weights, nodes, n_classes, sums, first, last):
    """Add up the weight of each class in nodes[first:last]."""
    entries, row_bits, starts, stops = order
    row_mask = (_ONE << row_bits) - _ONE
    for i in range(first, last):
        start, stop = starts[nodes[i]], stops[nodes[i]]
        for place in range(start, stop):
            entry = np.uint64(entries[place])
            code = entry >> row_bits
            sums[i, code >> CLASS_SHIFT] += row_weight(code, entry & row_mask, weights)
        if sums.shape[1] > n_classes:
            sums[i, n_classes] = stop - start


@kernel
def weigh_targets(order, targets, nodes, sums, first, last):
    """Add up weights and weighted targets in nodes[first:last]."""
    entries, row_bits, starts, stops = order
    row_mask = (_ONE << row_bits) - _ONE
    weights, values = targets.weights, targets.values
    for i in range(first, last):
        start, stop = starts[nodes[i]], stops[nodes[i]]
        for place in range(start, stop):
            entry = np.uint64(entries[place])
            weight, total = row_moments(entry >> row_bits, entry & row_mask, weights, values)
            sums[i, 0] += weight
            sums[i, 1] += total
        if sums.shape[1] > 2:
            sums[i, 2] = stop - start

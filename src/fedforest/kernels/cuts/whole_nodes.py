"""The sums of whole nodes, whatever cuts would divide them.

sums[i] belongs to nodes[i], and is zero before: class weights, or weight and weighted targets, then
rows where there is room for one integer more.
"""

import numpy as np

from fedforest.kernels.criteria.classes import CLASS_SHIFT, row_weight
from fedforest.kernels.jit import kernel
from fedforest.kernels.sums.packed_moments import row_moments

_ONE = np.uint64(1)


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

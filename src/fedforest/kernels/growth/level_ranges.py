"""The least and the largest target on both sides of a split, in the rows of one shard.

From those of all shards follows which children have only equal targets.
"""

import numpy as np

from fedforest.kernels.growth.partition import OPEN_LEFT, OPEN_RIGHT, bit_at
from fedforest.kernels.jit import kernel

LEFT_LEAST, LEFT_LARGEST, RIGHT_LEAST, RIGHT_LARGEST = 0, 1, 2, 3
NOTHING_SEEN = (2**62, -(2**62), 2**62, -(2**62))  # of a side without rows

_ONE = np.uint64(1)


@kernel
def find_ranges(order, levels, nodes, offsets, bits, ranges, first, last):
    """Narrow ranges[i] to the targets of the rows of nodes[i], for the nodes first..last."""
    entries, row_bits, starts, stops = order
    row_mask = (_ONE << row_bits) - _ONE
    for i in range(first, last):
        start = starts[nodes[i]]
        for k in range(stops[nodes[i]] - start):
            level = levels[np.uint64(entries[start + k]) & row_mask]
            side = LEFT_LEAST if bit_at(bits, offsets[i], k) == _ONE else RIGHT_LEAST
            ranges[i, side] = min(ranges[i, side], level)
            ranges[i, side + 1] = max(ranges[i, side + 1], level)


@kernel
def find_pure(least, largest, pure):
    """pure[i] = the children of node i whose targets are all equal, or that have none."""
    for i in range(pure.shape[0]):
        left = least[i, LEFT_LEAST] >= largest[i, LEFT_LARGEST]
        right = least[i, RIGHT_LEAST] >= largest[i, RIGHT_LARGEST]
        pure[i] = (OPEN_LEFT if left else 0) | (OPEN_RIGHT if right else 0)

"""Rows going down finished trees together: what becomes of the nodes they stand at."""

import numpy as np

from fedforest.kernels.jit import kernel
from fedforest.kernels.partition import OPEN_LEFT, OPEN_RIGHT


@kernel
def look_down(tree_start, left_child, tree, node, sizes, left_rows):
    """(left child, fate) of inner nodes: children stay open that are inner and have rows."""
    lefts = np.empty(tree.shape[0], np.int32)
    fate = np.empty(tree.shape[0], np.uint8)
    for k in range(tree.shape[0]):
        base = tree_start[tree[k]]
        left = left_child[base + node[k]]
        opens_left = (left_child[base + left] >= 0) & (left_rows[k] > 0)
        opens_right = (left_child[base + left + 1] >= 0) & (left_rows[k] < sizes[k])
        lefts[k] = left
        fate[k] = opens_left * OPEN_LEFT + opens_right * OPEN_RIGHT
    return lefts, fate

"""What leaves say about rows whose leaves are known."""

import numpy as np

from fedforest.kernels.jit import kernel
from fedforest.kernels.walk import add_leaves

BLOCK_ROWS = 512  # rows whose votes stay in cache from tree to tree


@kernel
def sum_leaf_votes(leaves, tree_start, leaf_of, votes, hard, first, last):
    """votes[row] += what the row's leaf of every tree says, tree after tree; rows first..last."""
    place = np.empty(BLOCK_ROWS, np.uint32)
    for begin in range(first, last, BLOCK_ROWS):
        rows = np.arange(begin, min(last, begin + BLOCK_ROWS))
        n = len(rows)
        for tree in range(leaf_of.shape[0]):
            for i in range(n):
                place[i] = tree_start[tree] + leaf_of[tree, begin + i]
            add_leaves(leaves, place[:n], rows, votes, hard)

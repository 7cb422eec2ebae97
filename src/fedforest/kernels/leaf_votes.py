"""What leaves say about rows whose leaves are known."""

from fedforest.kernels.jit import kernel
from fedforest.kernels.walk import add_leaf


@kernel
def sum_leaf_votes(leaves, tree_start, leaf_of, votes, hard, first, last):
    """votes[row] += what the row's leaf of every tree says, tree after tree; rows first..last."""
    start, label, value = leaves
    for tree in range(leaf_of.shape[0]):
        base = tree_start[tree]
        for row in range(first, last):
            add_leaf(start, label, value, base + leaf_of[tree, row], votes, row, hard)

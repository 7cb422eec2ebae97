"""What leaves say about rows whose leaves are known.

Votes are added tree after tree, as `kernels/walk.py` adds them, so that sums are the same bits.
"""

import numpy as np

from fedforest.kernels.jit import kernel
from fedforest.kernels.walk import add_leaves

BLOCK_ROWS = 4096  # rows whose votes stay in cache from tree to tree, beside a tree's leaves

_ONE = np.uint64(1)
_TWO = np.uint64(2)


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


@kernel
def spread_votes(leaves, hard, votes):
    """votes[node, class] = what a leaf says of each class; inner nodes say nothing."""
    place, row = np.empty(1, np.uint32), np.zeros(1, np.int64)
    for node in range(votes.shape[0]):
        votes[node] = 0.0
        if leaves.start[node] < leaves.start[node + 1]:
            place[0] = node
            add_leaves(leaves, place, row, votes[node : node + 1], hard)


@kernel
def add_pairs(said, leaves, base, summed, first, last):
    """Add what the leaves of rows first..last say of two classes; all uint64."""
    for row in range(first, last):
        leaf = (base + np.uint64(leaves[row])) * _TWO
        summed[row * _TWO] += said[leaf]
        summed[row * _TWO + _ONE] += said[leaf + _ONE]


@kernel
def add_all(said, leaves, base, n_classes, summed, first, last):
    """The same for any number of classes."""
    for row in range(first, last):
        leaf = (base + np.uint64(leaves[row])) * n_classes
        for label in range(n_classes):
            summed[row * n_classes + label] += said[leaf + label]


@kernel
def sum_spread_votes(spread, tree_start, leaf_of, votes, first, last):
    """As `sum_leaf_votes`, from what `spread_votes` wrote: one load finds all a leaf says."""
    n_classes = np.uint64(votes.shape[1])
    said, summed = spread.reshape(-1), votes.reshape(-1)
    for block in range(first, last, BLOCK_ROWS):
        begin, end = np.uint64(block), np.uint64(min(last, block + BLOCK_ROWS))
        for tree in range(leaf_of.shape[0]):
            base, leaves = np.uint64(tree_start[tree]), leaf_of[tree]
            if n_classes == _TWO:
                add_pairs(said, leaves, base, summed, begin, end)
            else:
                add_all(said, leaves, base, n_classes, summed, begin, end)

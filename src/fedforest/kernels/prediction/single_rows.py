"""Walking few rows through a forest at once, without preparing a table for them.

A server answers one row in a few microseconds only if nothing is done per row but the walk itself.
Here rows lie as float64 beside each other, a node has its threshold in float64, whatever it was in
training, and a row walks down a tree to its leaf before the next row does. For many rows the walk
by blocks (`walk.py`) is as fast; both add the votes of trees in the same order.

A *link* is one uint64 per node:

    | categorical 63 | missing left 62 | column 32..53 | left child, flat over all trees 0..31 |

Children are neighbours, and a leaf is its own left child. At a categorical node the threshold is
the number of its set; the codes of a categorical column are 0..254, and 255 for missing values,
whose bit of the set says where they go.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedforest.kernels.bits.bitsets import in_set
from fedforest.kernels.jit import kernel

TILE = 64  # rows whose values stay in cache from tree to tree

_CHILD = np.uint64(0xFFFFFFFF)
_COLUMN_SHIFT = np.uint64(32)
_COLUMN = np.uint64((1 << 22) - 1)
_MISSING_SHIFT = np.uint64(62)
_CATEGORICAL_SHIFT = np.uint64(63)
_ONE = np.uint64(1)
_ZERO = np.uint64(0)


class LinkedForest(NamedTuple):
    """A forest whose nodes are links and thresholds; `sets` has a row for each categorical node."""

    link: NDArray[np.uint64]
    threshold: NDArray[np.float64]
    sets: NDArray[np.uint64]  # (categorical nodes, 4)
    root: NDArray[np.int64]  # of each tree


@kernel
def link_nodes(tree_start, left_child, feature, missing_left, set_index, link):
    """Write the link of every node."""
    for tree in range(tree_start.shape[0] - 1):
        for node in range(tree_start[tree], tree_start[tree + 1]):
            if left_child[node] < 0:
                link[node] = np.uint64(node)
                continue
            joined = np.uint64(tree_start[tree] + left_child[node])
            joined |= np.uint64(feature[node]) << _COLUMN_SHIFT
            joined |= np.uint64(missing_left[node] & 1) << _MISSING_SHIFT
            joined |= np.uint64(set_index[node] >= 0) << _CATEGORICAL_SHIFT
            link[node] = joined


@kernel
def find_leaf(forest, values, row, root):
    """Return the leaf, numbered over all trees, that a row reaches from a root."""
    node = np.uint64(root)
    link = forest.link[node]
    while (link & _CHILD) != node:
        value = values[row, (link >> _COLUMN_SHIFT) & _COLUMN]
        if link >> _CATEGORICAL_SHIFT:
            left = in_set(forest.sets, np.int64(forest.threshold[node]), np.uint64(value))
        elif value != value:
            left = (link >> _MISSING_SHIFT) & _ONE
        else:
            left = np.uint64(value <= forest.threshold[node])
        node = (link & _CHILD) + (_ONE - left)
        link = forest.link[node]
    return node


@kernel
def add_votes(leaves, leaf, votes, row, hard):
    """Add what a leaf says to the votes of a row."""
    start, label, value = leaves
    first, last = start[leaf], start[leaf + _ONE]
    if label.shape[0] == 0:
        votes[row, 0] += value[first]
    elif hard:
        best = first
        for entry in range(first + 1, last):
            if value[entry] > value[best]:
                best = entry
        votes[row, label[best]] += 1.0
    else:
        for entry in range(first, last):
            votes[row, label[entry]] += value[entry]


@kernel
def vote_on_rows(forest, leaves, values, votes, hard):
    """votes[row] = mean of what the leaves of all trees say, summed tree after tree."""
    n_rows, n_trees = values.shape[0], forest.root.shape[0]
    votes[:] = 0.0
    for first in range(0, n_rows, TILE):
        last = min(n_rows, first + TILE)
        for tree in range(n_trees):
            root = forest.root[tree]
            for row in range(first, last):
                add_votes(leaves, find_leaf(forest, values, row, root), votes, row, hard)
    votes /= n_trees

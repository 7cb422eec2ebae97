"""From records per (tree, node) to flat arrays over all nodes of a batch of trees.

Tree t starts at offsets[t].
"""

import numpy as np

from fedforest.kernels.jit import kernel


@kernel
def scatter(offsets, tree, node, values, flat):
    """Write values[i] to the place of node[i] of tree[i]."""
    for i in range(tree.shape[0]):
        flat[offsets[tree[i]] + node[i]] = values[i]


@kernel
def scatter_ones(offsets, tree, node, flat):
    """Write 1 to the place of node[i] of tree[i]."""
    for i in range(tree.shape[0]):
        flat[offsets[tree[i]] + node[i]] = 1


@kernel
def starts_of(count):
    """Place each node's entries when node i has count[i]; the last element is the total."""
    start = np.empty(count.shape[0] + 1, np.int64)
    total = 0
    for i in range(count.shape[0]):
        start[i] = total
        total += count[i]
    start[count.shape[0]] = total
    return start


@kernel
def place_values(position, values, placed):
    """Copy the entries of leaves, one each, to where they belong."""
    offsets, start, tree, node = position
    for i in range(tree.shape[0]):
        placed[start[offsets[tree[i]] + node[i]]] = values[i]


@kernel
def place_shares(position, count, label, share, placed_label, placed_share):
    """Copy the entries of leaves, count[i] of leaf i one after the other."""
    offsets, start, tree, node = position
    entry = 0
    for i in range(tree.shape[0]):
        at = start[offsets[tree[i]] + node[i]]
        for k in range(np.int64(count[i])):
            placed_label[at + k] = label[entry + k]
            placed_share[at + k] = share[entry + k]
        entry += np.int64(count[i])

"""Short loops over the integers that describe nodes: (class weights ..., rows) per node.

numpy reduces a narrow last axis slowly; with hundreds of thousands of nodes that shows.
"""

import numpy as np

from fedforest.kernels.jit import kernel


@kernel
def weigh_nodes(sums):
    """Total class weight of each node; the last column is rows."""
    weight = np.zeros(sums.shape[0], np.int64)
    for i in range(sums.shape[0]):
        for c in range(sums.shape[1] - 1):
            weight[i] += sums[i, c]
    return weight


@kernel
def hold_one_class(sums):
    """Whether each node holds at most one class."""
    pure = np.zeros(sums.shape[0], np.bool_)
    for i in range(sums.shape[0]):
        present = 0
        for c in range(sums.shape[1] - 1):
            present += sums[i, c] > 0
        pure[i] = present <= 1
    return pure


@kernel
def list_shares(sums):
    """Every class a node holds, as (node, class, share of the node's weight), node by node."""
    count = 0
    for i in range(sums.shape[0]):
        for c in range(sums.shape[1] - 1):
            count += sums[i, c] > 0
    node, label, share = np.empty(count, np.int64), np.empty(count, np.uint16), np.empty(count)
    weight = weigh_nodes(sums)
    at = 0
    for i in range(sums.shape[0]):
        for c in range(sums.shape[1] - 1):
            if sums[i, c] > 0:
                node[at], label[at] = i, c
                share[at] = np.float64(sums[i, c]) / np.float64(weight[i])
                at += 1
    return node, label, share


@kernel
def place_entries(position, at):
    """Where each entry goes when node i's entries start at at[i] and keep their order.

    `at` is used up.
    """
    place = np.empty(position.shape[0], np.int64)
    for k in range(position.shape[0]):
        place[k] = at[position[k]]
        at[position[k]] += 1
    return place

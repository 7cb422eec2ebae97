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
def scale_scores(scores, sums, n_weights, factor):
    """The decrease `factor` * score / weight^2 of each node; zero where there is no valid split.

    A node's weight is the sum of its first `n_weights` integers.
    """
    scaled = np.zeros(scores.shape[0])
    for k in range(scores.shape[0]):
        total = 0
        for c in range(n_weights):
            total += sums[k, c]
        weight = np.float64(total)
        if np.isfinite(scores[k]):
            scaled[k] = factor * scores[k] / (weight * weight)
    return scaled


@kernel
def decrease_by_gini(scores, sums):
    """The decrease of gini impurity of each node from the score of its split (`class_scores`)."""
    decrease = np.empty(scores.shape[0])
    for k in range(scores.shape[0]):
        total, squares = 0, 0.0
        for c in range(sums.shape[1] - 1):
            part = np.float64(sums[k, c])
            total += sums[k, c]
            squares += part * part
        weight = np.float64(total)
        decrease[k] = max(scores[k] - squares / weight, 0.0) / weight
    return decrease


@kernel
def share_in_tree(decrease, sums, n_weights, tree, root_weight):
    """Multiply each node's decrease by the share of its tree's weight that the node holds."""
    for k in range(decrease.shape[0]):
        total = 0
        for c in range(n_weights):
            total += sums[k, c]
        decrease[k] *= np.float64(total) / root_weight[tree[k]]


@kernel
def list_shares(sums, codes):
    """The classes each node holds: (how many, then node by node class and share of the weight).

    The weight of class c is in column codes[c], in column c if there are no codes.
    """
    n_classes = sums.shape[1] - 1
    encoded = codes.shape[0] > 0
    count = np.empty(sums.shape[0], np.uint16)
    total = 0
    for i in range(sums.shape[0]):
        present = 0
        for c in range(n_classes):
            present += sums[i, c] > 0
        count[i] = present
        total += present
    label, share = np.empty(total, np.uint16), np.empty(total)
    at = 0
    for i in range(sums.shape[0]):
        weight = 0
        for c in range(n_classes):
            weight += sums[i, c]
        for c in range(n_classes):
            part = sums[i, codes[c]] if encoded else sums[i, c]
            if part > 0:
                label[at] = c
                share[at] = np.float64(part) / np.float64(weight)
                at += 1
    return count, label, share

"""Impurity decreases of a flat forest's splits, tree by tree."""

import numpy as np

from fedforest.kernels.jit import kernel


@kernel
def spread_in_trees(tree_start, feature, decrease, n_features):
    """Per node the mean decrease of its column's splits in its tree; zero where it is no split.

    Sums are in node order.
    """
    spread = np.zeros(feature.shape[0])
    mean, n_splits = np.empty(n_features), np.empty(n_features, np.int64)
    for tree in range(tree_start.shape[0] - 1):
        first, last = tree_start[tree], tree_start[tree + 1]
        mean[:], n_splits[:] = 0.0, 0
        for node in range(first, last):
            if feature[node] >= 0:
                mean[feature[node]] += decrease[node]
                n_splits[feature[node]] += 1
        for column in range(n_features):
            mean[column] /= max(n_splits[column], 1)
        for node in range(first, last):
            if feature[node] >= 0:
                spread[node] = mean[feature[node]]
    return spread


@kernel
def sum_trees(tree_start, decrease):
    """The decrease of all nodes of each tree, summed up in node order."""
    totals = np.zeros(tree_start.shape[0] - 1)
    for tree in range(totals.shape[0]):
        for node in range(tree_start[tree], tree_start[tree + 1]):
            totals[tree] += decrease[node]
    return totals

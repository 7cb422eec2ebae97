"""Impurity decreases of a flat forest's splits, tree by tree.

Leaves decrease nothing. They are added up like splits, for a column behind the last: whether a node
is a leaf is as often guessed wrong as right.
"""

import numpy as np

from fedforest.kernels.jit import inlined, kernel


@inlined
def column_of(feature, n_features):
    """The column of a split, `n_features` where there is none."""
    return feature if feature >= 0 else n_features


@kernel
def spread_in_trees(tree_start, feature, decrease, n_features, spread, first, last):
    """Per node of trees first..last the mean decrease of its column's splits in its tree.

    It is zero where there is no split. Sums are in node order.
    """
    mean, n_splits = np.empty(n_features + 1), np.empty(n_features + 1, np.int64)
    for tree in range(first, last):
        mean[:], n_splits[:] = 0.0, 0
        for node in range(tree_start[tree], tree_start[tree + 1]):
            column = column_of(feature[node], n_features)
            mean[column] += decrease[node]
            n_splits[column] += 1
        for column in range(n_features):
            mean[column] /= max(n_splits[column], 1)
        mean[n_features] = 0.0
        for node in range(tree_start[tree], tree_start[tree + 1]):
            spread[node] = mean[column_of(feature[node], n_features)]


@kernel
def sum_trees(tree_start, decrease):
    """The decrease of all nodes of each tree, summed up in node order."""
    totals = np.zeros(tree_start.shape[0] - 1)
    for tree in range(totals.shape[0]):
        for node in range(tree_start[tree], tree_start[tree + 1]):
            totals[tree] += decrease[node]
    return totals


@kernel
def sum_importances(tree_start, feature, decrease, n_features):
    """(shares, trees): per column its shares of the trees' decreases, summed up in node order.

    Trees that decrease nothing are not counted.
    """
    importances, n_trees = np.zeros(n_features + 1), 0
    totals = sum_trees(tree_start, decrease)
    for tree in range(totals.shape[0]):
        if totals[tree] > 0.0:
            n_trees += 1
            for node in range(tree_start[tree], tree_start[tree + 1]):
                importances[column_of(feature[node], n_features)] += decrease[node] / totals[tree]
    return importances[:n_features], n_trees

"""Impurity decreases of a flat forest's splits, tree by tree.

Leaves decrease nothing. They are added up like splits, for a column behind the last: whether a node
is a leaf is as often guessed wrong as right.
"""

import numpy as np

from fedforest.kernels.jit import inlined, kernel


@inlined
def column_of(feature, n_features):
    """Return the column of a split, `n_features` where there is none."""
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
    """Return the decrease of all nodes of each tree, summed up in node order."""
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


@kernel
def tabulate_decreases(start, feature, decrease, table):
    """Whether all splits of a column in a tree decrease the same; if so, how much (trees, columns).

    The splits of tree t are start[t]:start[t + 1]. Decreases are compared as bits.
    """
    is_known = np.empty(table.shape[1], np.bool_)
    for tree in range(table.shape[0]):
        table[tree], is_known[:] = 0, False
        for split in range(start[tree], start[tree + 1]):
            column = feature[split]
            if not is_known[column]:
                table[tree, column], is_known[column] = decrease[split], True
            if table[tree, column] != decrease[split]:
                return False
    return True


@kernel
def mark_used(start, feature, is_used):
    """Note (trees, columns) which columns have splits start[t]:start[t + 1] of which tree."""
    for tree in range(is_used.shape[0]):
        for split in range(start[tree], start[tree + 1]):
            is_used[tree, feature[split]] = True


@kernel
def look_up_decreases(tree_start, feature, table, decrease):
    """Per node the decrease of its column in its tree; zero where there is no split."""
    n_features = table.shape[1]
    known = np.zeros(n_features + 1)
    for tree in range(table.shape[0]):
        known[:n_features] = table[tree]
        for node in range(tree_start[tree], tree_start[tree + 1]):
            decrease[node] = known[column_of(feature[node], n_features)]

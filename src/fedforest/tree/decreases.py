"""How much splits decreased impurity, told no finer than importances need.

The decrease of one split depends on the row counts of its node and, with the shares of its leaves,
could give them away. Its column's decrease in the whole tree is what importances are made of.
"""

from dataclasses import replace

import numpy as np

from fedforest.tree.forest import Forest


def spread_decreases(forest: Forest) -> Forest:
    """The same forest, with each column's decrease in a tree spread evenly over its splits there.

    Importances stay the same but for rounding; doing it twice changes nothing more.
    """
    inner = np.flatnonzero(forest.splits.feature >= 0)
    tree = forest.shape.tree_of_node()[inner]
    column_in_tree = tree * forest.n_features + forest.splits.feature[inner]
    n_splits = np.bincount(column_in_tree)
    total = np.bincount(column_in_tree, forest.decrease[inner])
    decrease = np.zeros_like(forest.decrease)
    decrease[inner] = (total / np.maximum(n_splits, 1))[column_in_tree]
    return replace(forest, decrease=decrease)

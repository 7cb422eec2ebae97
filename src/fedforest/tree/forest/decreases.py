"""Impurity decreases of splits, made no finer than importances need.

The decrease of one split depends on the row counts of its node and, with the fractions of its
leaves, could reveal them. Importances need only a column's decrease in the whole tree.
"""

from dataclasses import replace

import numpy as np

from fedforest.kernels.files.decreases import spread_in_trees
from fedforest.tree.forest.forest import Forest
from fedforest.tree.workers import ALONE, Workers


def spread_decreases(forest: Forest, workers: Workers = ALONE) -> Forest:
    """Return the forest with each column's decrease in a tree spread evenly over its splits.

    Importances stay the same but for rounding; doing it twice changes nothing more.
    """
    starts, feature, decrease = forest.shape.tree_start, forest.splits.feature, forest.decrease
    spread, n_features = np.empty_like(decrease), forest.n_features

    def write(trees: tuple[int, int]) -> None:
        spread_in_trees(starts, feature, decrease, n_features, spread, *trees)

    workers.run(write, forest.shape.ranges(workers))
    return replace(forest, decrease=spread)

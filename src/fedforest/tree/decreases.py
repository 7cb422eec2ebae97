"""How much splits decreased impurity, told no finer than importances need.

The decrease of one split depends on the row counts of its node and, with the shares of its leaves,
could give them away. Its column's decrease in the whole tree is what importances are made of.
"""

from dataclasses import replace

from fedforest.kernels.decreases import spread_in_trees
from fedforest.tree.forest import Forest


def spread_decreases(forest: Forest) -> Forest:
    """The same forest, with each column's decrease in a tree spread evenly over its splits there.

    Importances stay the same but for rounding; doing it twice changes nothing more.
    """
    starts, feature = forest.shape.tree_start, forest.splits.feature
    spread = spread_in_trees(starts, feature, forest.decrease, forest.n_features)
    return replace(forest, decrease=spread)

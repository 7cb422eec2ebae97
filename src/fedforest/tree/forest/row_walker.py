"""A forest prepared for single rows: what a server keeps of a model between requests.

Rows are float64, with the codes of categories where a column is categorical
(`tree/table/plain_rows.py`). Bins become the edges they end at, so that no row is binned; a value
goes left by an edge exactly where its bin goes left by the cut.
"""

import numpy as np
from numpy.typing import NDArray

from fedforest.errors import DamagedModelError
from fedforest.kernels.prediction.single_rows import LinkedForest, link_nodes, vote_on_rows
from fedforest.kernels.prediction.walk import MAX_WALK_COLUMNS
from fedforest.tree.forest.forest import LEAF, Forest
from fedforest.tree.table.bins import Bins

_HIGHEST_BIN = np.uint64(1 << 63)  # in the last word of a set


class RowWalker:
    """Predicts rows with one forest; building it once pays for many requests."""

    def __init__(self, forest: Forest, bins: Bins) -> None:
        forest.shape.depths()  # raises where nodes are no trees
        if forest.n_features > MAX_WALK_COLUMNS:
            raise DamagedModelError(f"The model claims {forest.n_features} columns.")
        self._leaves = forest.leaves
        self._n_outputs = max(1, forest.n_classes)
        shape, splits = forest.shape, forest.splits
        link = np.empty(shape.n_nodes, np.uint64)
        link_nodes(
            shape.tree_start,
            shape.left_child,
            splits.feature,
            splits.missing_left,
            splits.set_index,
            link,
        )
        roots = shape.tree_start[:-1].copy()
        self._linked = LinkedForest(link, _thresholds(forest, bins), _sets(forest), roots)

    def votes(self, values: NDArray[np.float64], *, hard: bool = False) -> NDArray[np.float64]:
        """Return (rows, classes) mean votes, or (rows, 1) means, for rows of float64 values."""
        votes = np.empty((len(values), self._n_outputs))
        vote_on_rows(self._linked, self._leaves, values, votes, hard)
        return votes


def _thresholds(forest: Forest, bins: Bins) -> NDArray[np.float64]:
    """Return the highest value that goes left at each node; the number of the set where one does.

    Beyond its last edge a column has one bin more, in which all larger values are.
    """
    splits = forest.splits
    inner = forest.shape.left_child != LEAF
    threshold = np.zeros(forest.shape.n_nodes)
    if splits.cut.dtype == np.float32:
        threshold[inner] = splits.cut[inner]
    else:
        for feature in np.unique(splits.feature[inner]).tolist():
            at = np.flatnonzero(inner & (splits.feature == feature))
            highest = np.append(bins.edges(feature), np.inf)
            threshold[at] = highest[np.minimum(splits.cut[at], len(highest) - 1)]
    by_set = splits.nodes_by_set()
    threshold[by_set] = splits.set_index[by_set]
    return threshold


def _sets(forest: Forest) -> NDArray[np.uint64]:
    """Return the sets of codes that go left, where the highest code stands for missing values."""
    splits = forest.splits
    if splits.cut.dtype != np.float32:
        return splits.left_set
    sets, goes_left = splits.left_set.copy(), splits.missing_left[splits.nodes_by_set()] & 1
    sets[:, -1] &= ~_HIGHEST_BIN
    sets[:, -1] |= goes_left * _HIGHEST_BIN
    return sets

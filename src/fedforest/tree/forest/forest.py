"""A forest as flat arrays: shape, splits, leaves. Immutable once built.

Nodes of all trees lie one after the other; tree t owns nodes tree_start[t]:tree_start[t + 1]. Node
numbers inside a tree count from its root, 0; the right child is always the left child's number
plus one.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedforest.errors import DamagedModelError
from fedforest.kernels.files.decreases import sum_importances, sum_trees
from fedforest.kernels.prediction.short_sets import find_limits, shorten_sets
from fedforest.kernels.prediction.walk import (
    BLOCK,
    MAX_WALK_COLUMNS,
    Leaves,
    Paths,
    find_leaves,
    measure_depths,
    sum_votes,
    write_steps,
)
from fedforest.tree.workers import ALONE, Workers

LEAF = -1  # as left child or feature
MIN_WALK_ROWS = 1024  # fewer rows are not worth a range of their own

_HIGHEST_BIN = np.uint64(1 << 63)  # in the last word of a set


@dataclass(frozen=True, slots=True, eq=False)
class Shape:
    """The left child of every node."""

    tree_start: NDArray[np.int64]
    left_child: NDArray[np.int32]  # number within the tree, LEAF for leaves

    @property
    def n_trees(self) -> int:
        """Trees."""
        return len(self.tree_start) - 1

    @property
    def n_nodes(self) -> int:
        """Nodes of all trees."""
        return len(self.left_child)

    def tree_of_node(self) -> NDArray[np.int64]:
        """Return the tree each node belongs to."""
        return np.repeat(np.arange(self.n_trees), np.diff(self.tree_start))

    def children_of(self, tree: int) -> NDArray[np.int32]:
        """Return the left children of one tree's nodes."""
        return self.left_child[self.tree_start[tree] : self.tree_start[tree + 1]]

    def ranges(self, workers: Workers) -> list[tuple[int, int]]:
        """Divide the trees into consecutive ranges of about as many nodes."""
        return workers.ranges(np.diff(self.tree_start))

    def first_trees(self, n_trees: int) -> tuple["Shape", int]:
        """Return the shape of the first trees, and how many nodes they have."""
        n_nodes = int(self.tree_start[n_trees])
        return Shape(self.tree_start[: n_trees + 1], self.left_child[:n_nodes]), n_nodes

    def depths(self, workers: Workers = ALONE) -> NDArray[np.int32]:
        """Return the depth of each tree; raises `DamagedModelError` where this is not a forest."""
        starts, consistent = self.tree_start, are_starts(self.tree_start, self.n_nodes)
        depth = np.zeros(max(self.n_trees, 0), np.int32)
        are_trees: list[bool] = []

        def measure(trees: tuple[int, int]) -> None:
            first, last = trees
            own = starts[first : last + 1]
            children = self.left_child[own[0] : own[-1]]
            are_trees.append(measure_depths(own - own[0], children, depth[first:last]))

        if consistent:
            workers.run(measure, self.ranges(workers))
        if not consistent or not all(are_trees):
            raise inconsistent()
        return depth


def are_starts(starts: NDArray[np.int64], n_nodes: int) -> bool:
    """Return whether trees with these starts cover all nodes and none is empty."""
    return (
        starts.ndim == 1
        and len(starts) > 0
        and bool(starts[0] == 0)
        and bool(starts[-1] == n_nodes)
        and bool((starts[:-1] < starts[1:]).all())  # a difference could overflow
    )


def inconsistent() -> DamagedModelError:
    """Return the error for nodes that do not form trees."""
    return DamagedModelError(
        "The model's trees are inconsistent: a child is out of place, or a node is not the child "
        "of exactly one other."
    )


@dataclass(frozen=True, slots=True, eq=False)
class Splits:
    """The split of each inner node, as arrays over all nodes; leaves and FOREIGN hold defaults."""

    feature: NDArray[np.int32]  # LEAF or FOREIGN (see partial.py) where there is no split
    cut: NDArray[Any]  # uint8: value bins <= cut go left; float32: values <= cut go left
    missing_left: NDArray[np.uint8]
    set_index: NDArray[np.int32]  # row of left_set for categorical splits, else -1
    left_set: NDArray[np.uint64]  # (categorical splits, 4), in node order

    def first_nodes(self, n_nodes: int) -> "Splits":
        """Return the splits of the first nodes only."""
        set_index = self.set_index[:n_nodes]
        n_sets = int(set_index.max(initial=-1)) + 1
        return Splits(
            self.feature[:n_nodes],
            self.cut[:n_nodes],
            self.missing_left[:n_nodes],
            set_index,
            self.left_set[:n_sets],
        )

    def nodes_by_set(self) -> NDArray[np.int64]:
        """Return the categorical nodes, one for each set."""
        return np.flatnonzero(self.set_index >= 0)

    def sets_of_values(self) -> NDArray[np.uint64]:
        """Return the sets of raw categories, with the highest bin where missing values go right.

        `missing_left` says where they go, and, unlike among bins, no comparison finds them.
        """
        sets, goes_right = self.left_set.copy(), self.missing_left[self.nodes_by_set()] == 0
        sets[:, -1] &= ~_HIGHEST_BIN
        sets[:, -1] |= goes_right * _HIGHEST_BIN
        return sets


@dataclass(frozen=True, slots=True, eq=False)
class Forest:
    """Shape, splits and leaves, with the impurity decrease of every split."""

    shape: Shape
    splits: Splits
    leaves: Leaves
    decrease: NDArray[np.float64]
    n_classes: int  # 0 for regression
    n_features: int

    def paths(self, workers: Workers = ALONE) -> Paths:
        """Prepare the forest for prediction."""
        shape, splits = self.shape, self.splits
        depth = shape.depths(workers)
        if self.n_features > MAX_WALK_COLUMNS:
            raise DamagedModelError(f"The model claims {self.n_features} columns.")
        is_raw = splits.cut.dtype == np.float32
        bins = np.zeros(shape.n_nodes, np.uint8) if is_raw else splits.cut
        steps = np.empty(shape.n_nodes, np.uint64)

        def write(trees: tuple[int, int]) -> None:
            write_steps(
                shape.tree_start[trees[0] : trees[1] + 1],
                shape.left_child,
                splits.feature,
                bins,
                splits.missing_left,
                splits.set_index,
                steps,
            )

        workers.run(write, shape.ranges(workers))
        threshold = np.zeros(0, np.float32)
        if is_raw:
            threshold = np.where(shape.left_child == LEAF, np.float32(np.inf), splits.cut)
        set_at, sets = np.zeros(0, np.uint32), np.zeros(0, np.uint32)
        if len(splits.left_set):
            by_set = splits.nodes_by_set()
            whole = splits.sets_of_values() if is_raw else splits.left_set
            sets, starts = shorten_sets(whole, splits.feature[by_set], self.limits())
            # thresholds make room for where sets start: a visit loads one of them
            set_at = threshold.view(np.uint32) if is_raw else np.zeros(shape.n_nodes, np.uint32)
            set_at[by_set] = starts
        return Paths(steps, set_at, sets, shape.tree_start, depth, threshold)

    def limits(self) -> NDArray[np.uint8]:
        """Return the limit of the short sets of each column."""
        limits = np.empty(self.n_features, np.uint8)
        find_limits(self.splits.left_set, self.splits.feature[self.splits.nodes_by_set()], limits)
        return limits

    def importances(self) -> NDArray[np.float64]:
        """Return the mean decrease in impurity per column, summing to one (or all zero)."""
        return importances_of(self.shape, self.splits.feature, self.decrease, self.n_features)


def importances_of(
    shape: Shape,
    feature: NDArray[np.int32],
    decrease: NDArray[np.float64],
    n_features: int,
) -> NDArray[np.float64]:
    """Return importances: those of a tree sum to one, then the mean over trees that split."""
    summed, n_trees = sum_importances(shape.tree_start, feature, decrease, n_features)
    importances: NDArray[np.float64] = summed / max(1, n_trees)
    return importances


def tree_totals(shape: Shape, decrease: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the impurity decrease of each tree."""
    totals: NDArray[np.float64] = sum_trees(shape.tree_start, decrease)
    return totals


def share_out(
    tree: NDArray[np.int64],
    feature: NDArray[np.int32],
    decrease: NDArray[np.float64],
    totals: NDArray[np.float64],
    n_features: int,
) -> NDArray[np.float64]:
    """Return the importances of columns from their splits, which are given in node order.

    A column's importance depends on its own splits and the trees' totals alone and is summed up in
    node order, so it is the same number wherever the other columns are.
    """
    of_tree = totals[tree]
    share = np.divide(decrease, of_tree, out=np.zeros_like(decrease), where=of_tree > 0)
    return np.bincount(feature, share, minlength=n_features) / max(1, int((totals > 0).sum()))


class ForestWalker:
    """Predicts with one forest; building it once pays for many predictions.

    Tables are (columns, rows): uint8 bins, or float32 values for thresholds on raw values.
    """

    def __init__(self, forest: Forest, workers: Workers = ALONE) -> None:
        self.forest = forest
        self.paths = forest.paths(workers)
        self._categorical = np.unique(forest.splits.feature[forest.splits.nodes_by_set()])
        self._limits = forest.limits()[self._categorical, None]

    def votes(
        self, table: NDArray[Any], workers: Workers, *, hard: bool = False
    ) -> NDArray[np.float64]:
        """Return (rows, classes) sums over all trees; (rows, 1) for regression."""
        n_rows = table.shape[1]
        votes = np.zeros((n_rows, max(1, self.forest.n_classes)))
        flat = self.prepare(table)

        def add(rows: tuple[int, int]) -> None:
            sum_votes(self.paths, self.forest.leaves, flat, np.uint64(n_rows), votes, hard, *rows)

        workers.run(add, self._row_ranges(n_rows, workers))
        return votes

    def apply(self, table: NDArray[Any], workers: Workers) -> NDArray[np.int64]:
        """Return (rows, trees): the number, within its tree, of the leaf each row reaches."""
        n_rows = table.shape[1]
        leaves = np.empty((n_rows, self.forest.shape.n_trees), np.int64)
        flat = self.prepare(table)

        def find(rows: tuple[int, int]) -> None:
            find_leaves(self.paths, flat, np.uint64(n_rows), leaves, *rows)

        workers.run(find, self._row_ranges(n_rows, workers))
        return leaves

    def prepare(self, table: NDArray[Any]) -> tuple[NDArray[np.uint8], NDArray[np.float32]]:
        """Convert a table for the kernels: (bins, values), one of them empty."""
        if table.shape[0] != self.forest.n_features:
            raise DamagedModelError("The table does not have the columns of the forest.")
        is_raw = self.forest.splits.cut.dtype == np.float32
        is_read = bool(self.paths.depth.any())  # single leaves look at no value
        if is_read and table.dtype != (np.float32 if is_raw else np.uint8):
            raise DamagedModelError("The table is not in the form the forest was trained on.")
        table = self._number_bits(table)
        # a forest of single leaves over no columns still reads the first column
        flat = table.reshape(-1) if table.shape[0] else np.zeros(table.shape[1], table.dtype)
        if table.dtype == np.uint8:
            return flat, np.zeros(0, np.float32)
        return np.zeros(0, np.uint8), flat

    def _number_bits(self, table: NDArray[Any]) -> NDArray[Any]:
        """Replace the categories in a table by their bit numbers in short sets."""
        if not len(self._categorical):
            return table
        numbered, codes = table.copy(), table[self._categorical]
        if table.dtype == np.uint8:
            numbered[self._categorical] = np.minimum(codes + np.uint8(1), self._limits)
        else:
            bits = np.where(np.isnan(codes), np.float32(0), codes + np.float32(1))
            numbered.view(np.uint32)[self._categorical] = np.minimum(bits, self._limits)
        return numbered

    @staticmethod
    def _row_ranges(n_rows: int, workers: Workers) -> list[tuple[int, int]]:
        blocks_each = -(-n_rows // (BLOCK * workers.count))
        size = max(MIN_WALK_ROWS, -(-n_rows // (max(2, blocks_each) * workers.count)))
        return [(start, min(n_rows, start + size)) for start in range(0, n_rows, size)]


def concatenate_forests(forests: list[Forest]) -> Forest:
    """Join the trees of several forests over the same columns, in order."""
    if len(forests) == 1:
        return forests[0]
    return Forest(
        concatenate_shapes([f.shape for f in forests]),
        concatenate_splits([f.splits for f in forests]),
        concatenate_leaves([f.leaves for f in forests]),
        np.concatenate([f.decrease for f in forests]),
        forests[0].n_classes,
        forests[0].n_features,
    )


def concatenate_shapes(shapes: Sequence[Shape]) -> Shape:
    """Join the trees of several shapes, in order."""
    starts = _join_starts([shape.tree_start for shape in shapes])
    return Shape(starts, np.concatenate([shape.left_child for shape in shapes]))


def concatenate_splits(parts: Sequence[Splits]) -> Splits:
    """Join the splits of several batches of trees, in order; their sets are renumbered."""
    set_index, first = [], 0
    for part in parts:
        numbers = part.set_index
        set_index.append(
            np.where(numbers >= 0, numbers + np.int32(first), -1) if first else numbers
        )
        first += len(part.left_set)
    return Splits(
        np.concatenate([part.feature for part in parts]),
        np.concatenate([part.cut for part in parts]),
        np.concatenate([part.missing_left for part in parts]),
        np.concatenate(set_index),
        np.concatenate([part.left_set for part in parts]),
    )


def concatenate_leaves(parts: Sequence[Leaves]) -> Leaves:
    """Join the leaves of several batches of trees, in order."""
    return Leaves(
        _join_starts([part.start for part in parts]),
        np.concatenate([part.label for part in parts]),
        np.concatenate([part.value for part in parts]),
    )


def _join_starts(parts: list[NDArray[np.int64]]) -> NDArray[np.int64]:
    """Join arrays of start positions, each counted on from the end of the one before."""
    joined = np.zeros(1 + sum(len(starts) - 1 for starts in parts), np.int64)
    at = 0
    for starts in parts:
        following = joined[at + 1 : at + len(starts)]
        np.add(starts[1:], joined[at] - starts[0], out=following)
        at += len(following)
    return joined

"""Partial forests: each role's part of a forest grown over several owners of columns.

An owner keeps the shape of every tree and its own splits; the coordinator keeps the shape, the
owner of each split, and the leaf values. Only together are they the forest: `divide` and `union`
are exact inverses. Owners are numbered in the order of their columns, which follow each other.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedforest.errors import DataError
from fedforest.kernels.prediction.walk import Leaves
from fedforest.tree.forest.forest import (
    LEAF,
    Forest,
    Shape,
    Splits,
    concatenate_leaves,
    concatenate_shapes,
    concatenate_splits,
    share_out,
    tree_totals,
)

FOREIGN = -2  # as feature: an inner node that another owner split
NOBODY = -1  # as owner: a leaf
MAX_OWNERS = 2**15


@dataclass(frozen=True, slots=True, eq=False)
class PartialForest:
    """One owner's splits, its columns numbered from 0; without the values of leaves."""

    shape: Shape
    splits: Splits  # FOREIGN where another owner split
    n_features: int

    def first_trees(self, n_trees: int) -> "PartialForest":
        """Return the partial forest of the first trees only."""
        shape, n_nodes = self.shape.first_trees(n_trees)
        return PartialForest(shape, self.splits.first_nodes(n_nodes), self.n_features)

    def own_nodes(self) -> NDArray[np.int64]:
        """Return the nodes this owner split, flat over all trees, ascending."""
        return np.flatnonzero(self.splits.feature >= 0)

    def own_per_tree(self) -> NDArray[np.int64]:
        """Count the nodes of each tree that this owner split."""
        tree = np.searchsorted(self.shape.tree_start, self.own_nodes(), side="right") - 1
        return np.bincount(tree, minlength=self.shape.n_trees)


@dataclass(frozen=True, slots=True, eq=False)
class ForestOutline:
    """The coordinator's part of a forest: the owner of each node and the leaves, but no split."""

    shape: Shape
    owner: NDArray[np.int16]  # per node, NOBODY at leaves
    leaves: Leaves
    decrease: NDArray[np.float64]
    n_classes: int  # 0 for regression

    @property
    def n_outputs(self) -> int:
        """Numbers that say what a leaf predicts."""
        return max(1, self.n_classes)

    def with_leaves_of(self, other: "ForestOutline | None") -> "ForestOutline":
        """Return the same trees with the leaves that only the label party knows, if it has some."""
        return self if other is None else replace(other, owner=self.owner)

    @property
    def has_leaves(self) -> bool:
        """Whether it says what leaves predict; if labels are encrypted, the label party's does."""
        return len(self.leaves.value) > 0

    def first_trees(self, n_trees: int) -> "ForestOutline":
        """Return the outline of the first trees only."""
        shape, n = self.shape.first_trees(n_trees)
        start = self.leaves.start[: n + 1]
        n_entries = int(start[-1])
        leaves = Leaves(start, self.leaves.label[:n_entries], self.leaves.value[:n_entries])
        return ForestOutline(shape, self.owner[:n], leaves, self.decrease[:n], self.n_classes)

    def tree_totals(self) -> NDArray[np.float64]:
        """Return the impurity decrease of each tree, which every owner may know."""
        return tree_totals(self.shape, self.decrease)

    def decrease_of(self, owner: int) -> NDArray[np.float64]:
        """Return the impurity decreases of one owner's splits, in node order, for it alone."""
        return self.decrease[np.flatnonzero(self.owner == owner)]


def no_trees(n_features: int) -> PartialForest:
    """Return the partial forest of an owner that has no tree."""
    nodes, sets = np.full(0, LEAF, np.int32), np.zeros((0, 4), np.uint64)
    nothing = np.zeros(0, np.uint8)
    splits = Splits(nodes, nothing, nothing, nodes, sets)
    return PartialForest(Shape(np.zeros(1, np.int64), nodes), splits, n_features)


def no_leaves(n_nodes: int) -> Leaves:
    """Return the leaves of trees of which nobody says what they predict."""
    return Leaves(np.zeros(n_nodes + 1, np.int64), np.zeros(0, np.uint16), np.zeros(0))


def divide(
    forest: Forest, columns_per_owner: Sequence[int]
) -> tuple[ForestOutline, list[PartialForest]]:
    """Divide a forest into outline and partial forests; owners have consecutive columns."""
    counts = np.array(columns_per_owner, np.int64)
    if len(counts) > MAX_OWNERS:
        raise DataError(f"{len(counts)} owners of columns; at most {MAX_OWNERS} are supported")
    if (counts < 0).any() or counts.sum() != forest.n_features:
        raise DataError(
            f"the columns of the owners do not add up to the {forest.n_features} of the forest"
        )
    feature = forest.splits.feature
    ends = np.cumsum(counts)
    owner = np.searchsorted(ends, feature, side="right").astype(np.int16)
    owner[feature == LEAF] = NOBODY
    partials = [
        PartialForest(forest.shape, _own_splits(forest.splits, owner == number, int(first)), int(n))
        for number, (first, n) in enumerate(zip(ends - counts, counts, strict=True))
    ]
    outline = ForestOutline(forest.shape, owner, forest.leaves, forest.decrease, forest.n_classes)
    return outline, partials


def union(outline: ForestOutline, partials: Sequence[PartialForest]) -> Forest:
    """Rebuild the forest from its outline and all its partial forests.

    Raises `DataError`, naming the tree, where they do not belong to one forest.
    """
    _check_owners(outline, partials)
    n_nodes = outline.shape.n_nodes
    feature = np.full(n_nodes, LEAF, np.int32)
    cut = np.zeros(n_nodes, np.result_type(np.uint8, *(p.splits.cut for p in partials)))
    missing_left = np.zeros(n_nodes, np.uint8)
    n_features = 0
    for partial in partials:
        own, splits = partial.own_nodes(), partial.splits
        feature[own] = splits.feature[own] + np.int32(n_features)
        cut[own] = splits.cut[own]
        missing_left[own] = splits.missing_left[own]
        n_features += partial.n_features
    whole = Splits(feature, cut, missing_left, *_unite_sets(n_nodes, partials))
    leaves, decrease = outline.leaves, outline.decrease
    return Forest(outline.shape, whole, leaves, decrease, outline.n_classes, n_features)


def concatenate_partials(partials: Sequence[PartialForest]) -> PartialForest:
    """Join one owner's partial forests of several batches of trees, in order."""
    if len(partials) == 1:
        return partials[0]
    shape = concatenate_shapes([partial.shape for partial in partials])
    splits = concatenate_splits([partial.splits for partial in partials])
    return PartialForest(shape, splits, partials[0].n_features)


def concatenate_outlines(outlines: Sequence[ForestOutline]) -> ForestOutline:
    """Join the outlines of several batches of trees, in order."""
    if len(outlines) == 1:
        return outlines[0]
    return ForestOutline(
        concatenate_shapes([outline.shape for outline in outlines]),
        np.concatenate([outline.owner for outline in outlines]),
        concatenate_leaves([outline.leaves for outline in outlines]),
        np.concatenate([outline.decrease for outline in outlines]),
        outlines[0].n_classes,
    )


def _unite_sets(
    n_nodes: int, partials: Sequence[PartialForest]
) -> tuple[NDArray[np.int32], NDArray[np.uint64]]:
    """Return (set_index, left_set) of all owners; sets lie in node order over all owners."""
    places, sets = [np.zeros(0, np.int64)], [np.zeros((0, 4), np.uint64)]
    for partial in partials:
        own = partial.own_nodes()
        by_set = own[partial.splits.set_index[own] >= 0]
        places.append(by_set)
        sets.append(partial.splits.left_set[partial.splits.set_index[by_set]])
    place = np.concatenate(places)
    in_node_order = np.argsort(place)
    set_index = np.full(n_nodes, -1, np.int32)
    set_index[place[in_node_order]] = np.arange(len(place), dtype=np.int32)
    return set_index, np.concatenate(sets)[in_node_order]


def own_importances(
    partial: PartialForest,
    own_decrease: NDArray[np.float64],
    totals: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Return the importances of an owner's columns among the columns of all owners.

    `own_decrease` are the impurity decreases of `partial.own_nodes()`, `totals` those of whole
    trees. Put side by side, the owners' importances are exactly `Forest.importances()`.
    """
    own = partial.own_nodes()
    if own_decrease.shape != own.shape or totals.shape != (partial.shape.n_trees,):
        raise DataError.stating(
            "importances need one decrease for each own split and one for each tree"
        )
    tree = partial.shape.tree_of_node()[own]
    return share_out(tree, partial.splits.feature[own], own_decrease, totals, partial.n_features)


def _own_splits(splits: Splits, is_own: NDArray[np.bool_], first_column: int) -> Splits:
    """Return the splits of one owner, its columns and sets numbered from 0."""
    own = np.flatnonzero(is_own)
    feature = np.where(splits.feature == LEAF, np.int32(LEAF), np.int32(FOREIGN))
    feature[own] = splits.feature[own] - np.int32(first_column)
    own_by_set = own[splits.set_index[own] >= 0]
    set_index = np.full_like(splits.set_index, -1)
    set_index[own_by_set] = np.arange(len(own_by_set), dtype=np.int32)
    return Splits(
        feature,
        _zero_elsewhere(splits.cut, own),
        _zero_elsewhere(splits.missing_left, own),
        set_index,
        splits.left_set[splits.set_index[own_by_set]],
    )


def _zero_elsewhere(values: NDArray[Any], nodes: NDArray[np.int64]) -> NDArray[Any]:
    kept = np.zeros_like(values)
    kept[nodes] = values[nodes]
    return kept


def _check_owners(outline: ForestOutline, partials: Sequence[PartialForest]) -> None:
    """Require that every inner node was split by exactly the owner that the outline names."""
    is_inner = outline.shape.left_child != LEAF
    n_claims = np.zeros(outline.shape.n_nodes, np.int64)
    claimed_by = np.full(outline.shape.n_nodes, NOBODY, np.int16)
    for number, partial in enumerate(partials):
        _check_partial(outline.shape, partial, number)
        own = partial.own_nodes()
        n_claims[own] += 1
        claimed_by[own] = number
    _refuse(is_inner & (n_claims == 0), outline.shape, "has a split that no owner keeps")
    _refuse(n_claims > 1, outline.shape, "has a split that more than one owner keeps")
    _refuse(
        claimed_by != outline.owner,
        outline.shape,
        "was split by other owners than the coordinator's share of the model says",
    )


def _check_partial(shape: Shape, partial: PartialForest, number: int) -> None:
    """Require that a partial forest has these trees, and splits at inner nodes only."""
    if partial.n_features == 0 and partial.shape.n_trees == 0:
        return  # an owner without columns has no splits and need not know the trees
    other = _find_other_tree(shape, partial.shape)
    if other is not None:
        raise DataError(f"tree {other} has another shape at owner {number} than at the coordinator")
    feature, is_leaf = partial.splits.feature, shape.left_child == LEAF
    in_range = (feature >= FOREIGN) & (feature < partial.n_features)
    misplaced = ~in_range | ((feature == LEAF) != is_leaf)
    _refuse(misplaced, shape, f"and the splits of owner {number} do not fit together")


def _find_other_tree(one: Shape, other: Shape) -> int | None:
    """Return the first tree in which two shapes differ."""
    if np.array_equal(one.tree_start, other.tree_start) and np.array_equal(
        one.left_child, other.left_child
    ):
        return None
    n_trees = min(one.n_trees, other.n_trees)
    same = (np.array_equal(one.children_of(t), other.children_of(t)) for t in range(n_trees))
    return next((tree for tree, is_same in enumerate(same) if not is_same), n_trees)


def _refuse(is_wrong: NDArray[np.bool_], shape: Shape, reason: str) -> None:
    nodes = np.flatnonzero(is_wrong)
    if len(nodes):
        tree = int(np.searchsorted(shape.tree_start, nodes[0], side="right")) - 1
        raise DataError(f"the shares are not of one forest: tree {tree} {reason}")

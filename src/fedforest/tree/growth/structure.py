"""The structure of a batch of trees: its open nodes, and the numbers that new nodes get.

Coordinator and parties keep one each and stay in step, because numbers follow from the order of the
open nodes alone: within a tree nodes are numbered as their parents are split, left before right.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedforest.kernels.growth.children import grow
from fedforest.kernels.growth.flat import scatter


@dataclass(frozen=True, slots=True)
class OpenNodes:
    """Open nodes, ordered by tree."""

    tree: NDArray[np.int32]  # index of the tree within the batch
    node: NDArray[np.int32]  # number of the node within its tree
    depth: NDArray[np.int32]

    def __len__(self) -> int:
        return len(self.tree)


@dataclass(frozen=True, slots=True)
class GrowthStep:
    """The effect of one step on the nodes that were open before it (arrays over them).

    `source` tells for each node open after the step which node it came from, and `is_right`
    whether it is that node's right child.
    """

    before: OpenNodes
    is_split: NDArray[np.bool_]
    fate: NDArray[np.uint8]
    left_child: NDArray[np.int32]  # number within the tree, -1 where not split
    source: NDArray[np.int64]
    is_right: NDArray[np.bool_]

    @property
    def nothing_left(self) -> bool:
        """Whether no node is open any more."""
        return len(self.source) == 0


class Structure:
    """Grows the shape of a batch of trees step by step."""

    def __init__(self, n_trees: int) -> None:
        self.n_trees = n_trees
        trees = np.arange(n_trees, dtype=np.int32)
        zeros = np.zeros(n_trees, np.int32)
        self.open = OpenNodes(trees, zeros, zeros)
        self.node_count = np.ones(n_trees, np.int32)
        # (tree, node, left child) of the nodes each step split
        self._splits: list[tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int32]]] = []

    def advance(self, is_split: NDArray[np.bool_], fate: NDArray[np.uint8]) -> GrowthStep:
        """Split the marked nodes, open the children that `fate` names, number them."""
        before = self.open
        left_child = np.empty(len(is_split), np.int32)
        nodes = before.tree, before.node, before.depth
        split, after = grow(nodes, is_split, fate, self.node_count, left_child)
        self._splits.append(split)
        tree, node, depth, source, is_right = after
        self.open = OpenNodes(tree, node, depth)
        return GrowthStep(before, is_split, fate, left_child, source, is_right)

    def copy(self) -> "Structure":
        """Return an independent copy."""
        other = Structure(self.n_trees)
        other.open, other.node_count = self.open, self.node_count.copy()
        other._splits = self._splits.copy()
        return other

    def last_split(self) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """Return (tree, node) of the nodes that the last step split."""
        tree, node, _ = self._splits[-1]
        return tree, node

    def tree_offsets(self) -> NDArray[np.int64]:
        """Return where each tree starts in flat arrays over all nodes of the batch."""
        return np.concatenate([[0], np.cumsum(self.node_count, dtype=np.int64)])

    def flat_children(self) -> NDArray[np.int32]:
        """Return each node's left child, flat; -1 for leaves. The right child is the next node."""
        offsets = self.tree_offsets()
        flat = np.full(int(offsets[-1]), -1, np.int32)
        for tree, node, left in self._splits:
            scatter(offsets, tree, node, left, flat)
        return flat

    def flat_values(self, values_by_step: list[NDArray[np.float64]]) -> NDArray[np.float64]:
        """Spread the values of the nodes each step split over all nodes; zero at leaves."""
        offsets = self.tree_offsets()
        flat = np.zeros(int(offsets[-1]))
        for (tree, node, _), values in zip(self._splits, values_by_step, strict=True):
            scatter(offsets, tree, node, values, flat)
        return flat

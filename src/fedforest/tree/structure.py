"""Who is whose child: the open nodes of a batch of trees and the numbers new nodes get.

Coordinator and parties keep one each and stay in step, because numbers follow from the order of the
open nodes alone: within a tree nodes are numbered as their parents are split, left before right.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedforest.kernels.partition import OPEN_LEFT, OPEN_RIGHT, STAYS


@dataclass(frozen=True, slots=True)
class OpenNodes:
    """Open nodes, ordered by tree."""

    tree: NDArray[np.int32]  # index of the tree within the batch
    node: NDArray[np.int32]  # number of the node within its tree
    depth: NDArray[np.int32]

    def __len__(self) -> int:
        return len(self.tree)


@dataclass(frozen=True, slots=True)
class Step:
    """What one step did to the nodes that were open before it (arrays over them).

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
        self._split_tree: list[NDArray[np.int32]] = []
        self._split_node: list[NDArray[np.int32]] = []
        self._split_left: list[NDArray[np.int32]] = []

    def advance(self, is_split: NDArray[np.bool_], fate: NDArray[np.uint8]) -> Step:
        """Split the marked nodes, open the children that `fate` names, number them."""
        before = self.open
        left_child = self._number_children(is_split)
        source, is_right = _trace_children(fate)
        is_child = fate[source] != STAYS
        self.open = OpenNodes(
            before.tree[source],
            np.where(is_child, left_child[source] + is_right, before.node[source]),
            before.depth[source] + is_child.astype(np.int32),
        )
        return Step(before, is_split, fate, left_child, source, is_right)

    def copy(self) -> "Structure":
        """The same shape, to be grown apart."""
        other = Structure(self.n_trees)
        other.open, other.node_count = self.open, self.node_count.copy()
        other._split_tree = self._split_tree.copy()
        other._split_node = self._split_node.copy()
        other._split_left = self._split_left.copy()
        return other

    def _number_children(self, is_split: NDArray[np.bool_]) -> NDArray[np.int32]:
        tree, node = self.open.tree[is_split], self.open.node[is_split]
        first_of_tree = np.searchsorted(tree, tree, side="left")
        rank = np.arange(len(tree)) - first_of_tree
        numbers = (self.node_count[tree] + 2 * rank).astype(np.int32)
        self.node_count += 2 * np.bincount(tree, minlength=self.n_trees).astype(np.int32)
        self._split_tree.append(tree)
        self._split_node.append(node)
        self._split_left.append(numbers)
        left_child = np.full(len(is_split), -1, np.int32)
        left_child[is_split] = numbers
        return left_child

    def tree_offsets(self) -> NDArray[np.int64]:
        """Where each tree starts in flat arrays over all nodes of the batch."""
        return np.concatenate([[0], np.cumsum(self.node_count, dtype=np.int64)])

    def flat_children(self) -> NDArray[np.int32]:
        """Left child of every node (its right child is the next number), -1 for leaves; flat."""
        offsets = self.tree_offsets()
        flat = np.full(int(offsets[-1]), -1, np.int32)
        for tree, node, left in zip(
            self._split_tree, self._split_node, self._split_left, strict=True
        ):
            flat[offsets[tree] + node] = left
        return flat


def _trace_children(fate: NDArray[np.uint8]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    opens_first = (fate & (OPEN_LEFT | STAYS)) > 0
    opens_right = (fate & OPEN_RIGHT) > 0
    n_open = opens_first.astype(np.int64) + opens_right
    source = np.repeat(np.arange(len(fate)), n_open)
    is_right = (opens_right & ~opens_first)[source]
    last_of_source = np.cumsum(n_open) - 1
    is_right[last_of_source[n_open == 2]] = True
    return source, is_right

"""The shape of trees as model files keep it: a bit per node, and children out of order.

Trees number children in the order of their parents unless a node waited for another step before it
was split. Then their left children are kept too, one for every split.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedforest.errors import ModelFileError
from fedforest.kernels.files.packed_nodes import keep_some
from fedforest.kernels.files.packed_trees import are_trees, find_order, place_children
from fedforest.tree.files.arrays import Arrays, read_bits, read_vector, require, write_bits
from fedforest.tree.forest.forest import LEAF, Shape, are_starts, inconsistent
from fedforest.tree.workers import ALONE, Workers

SHAPE_ARRAYS = {"tree_start", "is_split", "is_in_order", "left_child"}


@dataclass(frozen=True, slots=True, eq=False)
class PackedShape:
    """The shape of trees, checked to be trees."""

    tree_start: NDArray[np.int64]
    is_split: NDArray[np.bool_]  # per node
    is_in_order: NDArray[np.bool_]  # per tree
    left_child: NDArray[np.int32]  # per split of trees that are not in order
    n_splits: int

    @property
    def n_trees(self) -> int:
        """Trees."""
        return len(self.is_in_order)

    @property
    def n_nodes(self) -> int:
        """Nodes of all trees."""
        return len(self.is_split)

    @property
    def n_leaves(self) -> int:
        """Nodes that were not split."""
        return self.n_nodes - self.n_splits

    def split_start(self) -> NDArray[np.int64]:
        """Return where each tree's splits start among all splits; a tree has one leaf more."""
        starts: NDArray[np.int64] = (self.tree_start - np.arange(self.n_trees + 1)) >> 1
        return starts

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Return the arrays that a model file keeps."""
        return {
            "tree_start": self.tree_start,
            "is_split": write_bits(self.is_split),
            "is_in_order": self.is_in_order,
            "left_child": self.left_child,
        }

    def expand(self) -> Shape:
        """Restore the left child of every node."""
        left_child = np.empty(self.n_nodes, np.int32)
        place_children(
            self.tree_start, self.is_split, self.is_in_order, self.left_child, left_child
        )
        return Shape(self.tree_start.copy(), left_child)


def pack_shape(shape: Shape, workers: Workers = ALONE) -> PackedShape:
    """Pack a shape for a model file; raises `ModelFileError` where it is not one of trees."""
    starts, is_in_order = shape.tree_start, np.empty(max(shape.n_trees, 0), np.bool_)
    are_found = [are_starts(starts, shape.n_nodes)]

    def find(trees: tuple[int, int]) -> None:
        first, last = trees
        own = starts[first : last + 1]
        are_found.append(find_order(own, shape.left_child, is_in_order[first:last]))

    if all(are_found):
        workers.run(find, shape.ranges(workers))
    if not all(are_found):
        raise ModelFileError("cannot store the model: its trees are inconsistent")
    is_split = shape.left_child != LEAF
    left_child = np.empty(0, np.int32)
    if not is_in_order.all():
        is_kept = is_split & np.repeat(~is_in_order, np.diff(starts))
        left_child = np.empty(is_kept.sum(), np.int32)
        keep_some(is_kept, shape.left_child, left_child)
    return PackedShape(starts, is_split, is_in_order, left_child, int(np.count_nonzero(is_split)))


def check_length(of_nodes: NDArray[Any], length: int) -> None:
    """Require one entry per node: kernels index the array by the shape, without a check."""
    if of_nodes.shape != (length,):
        raise ModelFileError("cannot store the model: its arrays are not about the same nodes")


def read_shape(arrays: Arrays, least_trees: int = 1) -> PackedShape:
    """Read the shape of a file; raises `DamagedModelError` where it is not one of trees."""
    starts = read_vector(arrays, "tree_start", np.int64)
    require(len(starts) > least_trees, "trees", "there are none")
    if not are_starts(starts, int(starts[-1])):
        raise inconsistent()
    is_split = read_bits(arrays, "is_split", int(starts[-1]))
    is_in_order = read_vector(arrays, "is_in_order", np.bool_, len(starts) - 1)
    n_kept = int((np.diff(starts)[~is_in_order] >> 1).sum())
    left_child = read_vector(arrays, "left_child", np.int32, n_kept)
    # a left child of zero or less is invalid: its split would be taken for a leaf
    if not (left_child > 0).all() or not are_trees(starts, is_split, is_in_order, left_child):
        raise inconsistent()
    return PackedShape(starts, is_split, is_in_order, left_child, int(np.count_nonzero(is_split)))

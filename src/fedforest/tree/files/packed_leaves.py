"""Leaves as model files keep them: number of classes, the classes, and fractions of several.

Where a leaf's entries start follows from the numbers of entries, and a class alone in its leaf has
the fraction 1. Leaves of regression have one value each, and no class.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedforest.errors import ModelFileError
from fedforest.kernels.files.packed_nodes import (
    ascend_in_leaves,
    count_entries,
    keep_shares,
    place_shares_of_leaves,
    place_starts,
)
from fedforest.kernels.prediction.walk import Leaves
from fedforest.tree.files.arrays import Arrays, narrowest, read_vector, require
from fedforest.tree.files.packed_shape import PackedShape, check_length

LEAF_ARRAYS = {"leaf_entries", "leaf_label", "leaf_value"}


@dataclass(frozen=True, slots=True, eq=False)
class PackedLeaves:
    """Arrays over leaves, in the order of their nodes, or over their entries."""

    entries: NDArray[np.uint16]  # classes of each leaf; none for regression
    label: NDArray[np.uint16]  # classes of all leaves
    value: NDArray[
        np.float64
    ]  # fractions in leaves of several classes; for regression a mean per leaf
    n_classes: int

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Return the arrays that a model file keeps."""
        width = narrowest(self.n_classes)
        return {
            "leaf_entries": self.entries.astype(width),
            "leaf_label": self.label.astype(width),
            "leaf_value": self.value,
        }

    def expand(self, shape: PackedShape) -> Leaves:
        """Restore where every node's entries start, and every fraction."""
        start = np.empty(shape.n_nodes + 1, np.int64)
        if self.n_classes == 0:
            place_starts(shape.is_split, np.ones(shape.n_leaves, np.uint16), start)
            return Leaves(start, self.label.copy(), self.value.copy())
        place_starts(shape.is_split, self.entries, start)
        value = np.empty(len(self.label), np.float64)
        place_shares_of_leaves(self.entries, self.value, value)
        return Leaves(start, self.label.copy(), value)


def pack_leaves(leaves: Leaves, shape: PackedShape, n_classes: int) -> PackedLeaves:
    """Pack leaves for a model file; raises `ModelFileError` where they do not fit this form."""
    check_length(leaves.start, shape.n_nodes + 1)
    entries = np.empty(shape.n_leaves, np.uint16)
    count_entries(shape.is_split, leaves.start, entries)
    n_alone = int(np.count_nonzero(entries == 1))
    n_entries = int(entries.sum(dtype=np.int64))
    fits = len(leaves.value) == n_entries and len(leaves.label) == (n_entries if n_classes else 0)
    if not fits or (n_classes == 0 and n_alone < shape.n_leaves):
        raise ModelFileError("cannot store the model: the entries of its leaves do not add up")
    if n_classes == 0:
        return PackedLeaves(entries[:0], leaves.label, leaves.value, 0)
    shares = np.empty(n_entries - n_alone)
    if not keep_shares(entries, leaves.value, shares):
        raise ModelFileError("cannot store the model: a class alone in its leaf has not all of it")
    return PackedLeaves(entries, leaves.label, shares, n_classes)


def read_leaves(arrays: Arrays, shape: PackedShape, n_classes: int) -> PackedLeaves:
    """Read the leaves of a file; raises `DamagedModelError` where they are invalid."""
    width = narrowest(n_classes)
    n_counted = shape.n_leaves if n_classes else 0
    stored = read_vector(arrays, "leaf_entries", width, n_counted)
    are_counts = (stored > 0).all() and (stored <= n_classes).all()
    require(are_counts, "leaves", "one has no class, or more than there are")
    n_entries, n_alone = int(stored.sum(dtype=np.int64)), int(np.count_nonzero(stored == 1))
    label = read_vector(arrays, "leaf_label", width, n_entries).astype(np.uint16)
    n_values = n_entries - n_alone if n_classes else shape.n_leaves
    value = read_vector(arrays, "leaf_value", np.float64, n_values)
    require(np.isfinite(value).all(), "leaves", "a value is not finite")
    entries = stored.astype(np.uint16)
    if n_classes:
        require((label < n_classes).all(), "leaves", "a class is out of range")
        in_order = ascend_in_leaves(entries, label)
        require(in_order, "leaves", "the classes of one are out of order")
        are_shares = ((value >= 0.0) & (value <= 1.0)).all()
        require(are_shares, "leaves", "a share of a class is no share")
    return PackedLeaves(entries, label, value, n_classes)

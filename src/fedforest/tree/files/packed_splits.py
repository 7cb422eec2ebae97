"""Splits as model files keep them: one entry per split, columns in the fewest bytes.

Which splits are by category follows from their columns, and their sets lie in the order of nodes.
A split of another owner has the number of columns as its column, and no cut.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedforest.errors import ModelFileError
from fedforest.kernels.files.packed_nodes import keep_some, place_some
from fedforest.kernels.layout import SET_WORDS
from fedforest.tree.files.arrays import (
    Arrays,
    narrowest,
    read_array,
    read_bits,
    read_vector,
    require,
    write_bits,
)
from fedforest.tree.files.packed_shape import PackedShape, check_length
from fedforest.tree.forest.forest import LEAF, Splits
from fedforest.tree.forest.partial import FOREIGN
from fedforest.tree.table.bins import Bins
from fedforest.tree.workers import ALONE, Workers

SPLIT_ARRAYS = {"feature", "cut", "missing_left", "left_set"}
_NO_SETS = np.zeros(0, np.int32)


@dataclass(frozen=True, slots=True, eq=False)
class PackedSplits:
    """Arrays over the splits of all trees, in the order of their nodes."""

    feature: NDArray[np.int32]  # the number of columns where another owner split
    cut: NDArray[Any]
    missing_left: NDArray[np.bool_]
    left_set: NDArray[np.uint64]
    n_features: int

    @property
    def has_bins(self) -> bool:
        """Whether splits compare bins, not raw values."""
        return len(self.cut) > 0 and self.cut.dtype == np.uint8

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Return the arrays that a model file keeps."""
        return {
            "feature": self.feature.astype(narrowest(self.n_features)),
            "cut": self.cut,
            "missing_left": write_bits(self.missing_left),
            "left_set": self.left_set,
        }

    def expand(
        self, shape: PackedShape, is_categorical: NDArray[np.bool_], workers: Workers = ALONE
    ) -> Splits:
        """Restore the arrays over all nodes."""
        is_foreign = self.feature == self.n_features
        feature = np.where(is_foreign, np.int32(FOREIGN), self.feature)
        by_set = _are_by_set(self.feature, is_categorical)
        set_index = np.where(by_set, np.cumsum(by_set, dtype=np.int32) - np.int32(1), np.int32(-1))
        missing_left = self.missing_left.view(np.uint8)
        of_splits = {"feature": (feature, LEAF), "cut": (self.cut, 0)}
        of_splits |= {"missing_left": (missing_left, 0), "set_index": (set_index, -1)}
        of_nodes: dict[str, NDArray[Any]] = {}

        def place(name: str) -> None:
            of_nodes[name] = expand_splits(shape, *of_splits[name])

        workers.run(place, of_splits)
        return Splits(left_set=self.left_set.copy(), **of_nodes)


def pack_splits(splits: Splits, shape: PackedShape, n_features: int) -> PackedSplits:
    """Pack splits for a model file; raises `ModelFileError` where one has no valid column."""
    feature = keep_splits(shape, splits.feature)
    feature[feature == FOREIGN] = n_features
    if feature.min(initial=0) < 0 or feature.max(initial=0) > n_features:
        raise ModelFileError("cannot store the model: a split is of a column that it has not")
    set_index = splits.set_index[splits.set_index >= 0] if len(splits.left_set) else _NO_SETS
    return PackedSplits(
        feature,
        keep_splits(shape, splits.cut),
        keep_splits(shape, splits.missing_left) != 0,
        splits.left_set[set_index],
        n_features,
    )


def read_splits(
    arrays: Arrays, shape: PackedShape, bins: Bins, *, may_be_foreign: bool = False
) -> PackedSplits:
    """Read the splits of a file by these columns; raises `DamagedModelError` if one is invalid."""
    n_splits, n_features = shape.n_splits, bins.n_features
    stored = read_vector(arrays, "feature", narrowest(n_features), n_splits)
    feature = stored.astype(np.int32)
    require((feature < n_features + may_be_foreign).all(), "features", "one is out of range")
    cut_type = np.float32 if arrays["cut"].dtype.kind == "f" else np.uint8
    cut = read_vector(arrays, "cut", cut_type, n_splits)
    missing_left = read_bits(arrays, "missing_left", n_splits)
    _check_cuts(feature, cut, bins)
    if may_be_foreign:
        is_foreign = feature == n_features
        is_used = cut[is_foreign].any() or missing_left[is_foreign].any()
        require(not is_used, "cuts", "a node that is not split here has one")
    n_sets = int(_are_by_set(feature, bins.is_categorical).sum())
    left_set = read_array(arrays, "left_set", np.uint64, (n_sets, SET_WORDS))
    return PackedSplits(feature, cut, missing_left, left_set, n_features)


def keep_splits(shape: PackedShape, of_nodes: NDArray[Any]) -> NDArray[Any]:
    """Return the entries of splits among those of all nodes."""
    check_length(of_nodes, shape.n_nodes)
    kept = np.empty(shape.n_splits, of_nodes.dtype)
    keep_some(shape.is_split, of_nodes, kept)
    return kept


def expand_splits(shape: PackedShape, of_splits: NDArray[Any], default: float) -> NDArray[Any]:
    """Undo `keep_splits`; leaves have the default."""
    of_nodes = np.empty(shape.n_nodes, of_splits.dtype)
    place_some(shape.is_split, of_splits, of_nodes.dtype.type(default), of_nodes)
    return of_nodes


def _check_cuts(feature: NDArray[np.int32], cut: NDArray[Any], bins: Bins) -> None:
    if cut.dtype == np.float32:
        are_cuts = cut < np.inf  # NaN fails, too
    else:
        are_cuts = cut < np.append(bins.n_bins, np.int16(1))[feature]  # another owner's is 0
    require(are_cuts.all(), "cuts", "one is no number, or beyond the bins of its column")


def _are_by_set(feature: NDArray[np.int32], is_categorical: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return which splits are by category; those of other owners are not."""
    if not is_categorical.any():
        return np.zeros(len(feature), np.bool_)
    return np.append(is_categorical, np.False_)[feature]

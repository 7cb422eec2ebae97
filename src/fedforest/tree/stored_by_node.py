"""Files of before: forests stored with one entry per node.

They are still read, and no longer written (`docs/decisions/0018`). Nodes that have nothing to say
hold defaults there, which are checked like everything else: no index of a stranger's file is
followed before it was found right.
"""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from fedforest.kernels.forest_checks import (
    DECREASE_OF_LEAF,
    MANY_VALUES,
    MIXED_UP,
    NO_CLASS,
    NO_COLUMN,
    NO_CUT,
    NO_DECREASE,
    NO_LEAF,
    NO_ORDER,
    NO_SEQUENCE,
    NO_SHARE,
    NO_SIDE,
    NOT_FINITE,
    OTHER_SETS,
    USELESS_CUT,
    StoredLeaves,
    StoredSplits,
    judge_cuts,
    judge_entries,
    judge_nodes,
    judge_splits,
)
from fedforest.kernels.layout import SET_WORDS
from fedforest.kernels.walk import Leaves
from fedforest.tree.bins import Bins
from fedforest.tree.forest import LEAF, Forest, Shape, Splits
from fedforest.tree.partial import FOREIGN, NOBODY, ForestOutline, PartialForest
from fedforest.tree.stored_arrays import Arrays, read_array, read_vector, require

_SHAPE = {"tree_start", "left_child"}
_SPLITS = {"feature", "cut", "missing_left", "set_index", "left_set"}
_LEAVES = {"leaf_start", "leaf_label", "leaf_value", "decrease"}
FOREST_ARRAYS = {*_SHAPE, *_SPLITS, *_LEAVES}
PARTIAL_ARRAYS = {*_SHAPE, *_SPLITS}
OUTLINE_ARRAYS = {*_SHAPE, "owner", *_LEAVES}

_WRONG_SPLITS = {
    NO_COLUMN: ("features", "one is out of range"),
    MIXED_UP: ("features", "leaves and splits are mixed up"),
    NO_CUT: ("cuts", "one is no number, or beyond the bins of its column"),
    NO_SIDE: ("sides of missing values", "one is neither left nor right"),
    USELESS_CUT: ("cuts", "a node that is not split here has one"),
    OTHER_SETS: ("sets", "they are not those of the categorical splits"),
}
_WRONG_LEAVES = {
    NO_SEQUENCE: ("leaves", "their entries do not follow each other"),
    NO_LEAF: ("leaves", "one is empty, or no leaf"),
    NOT_FINITE: ("leaves", "a value is not finite"),
    NO_CLASS: ("leaves", "a class is out of range"),
    NO_ORDER: ("leaves", "the classes of one are out of order"),
    NO_SHARE: ("leaves", "a share of a class is no share"),
    MANY_VALUES: ("leaves", "one has more than one value"),
    NO_DECREASE: ("decreases", "one is no decrease"),
    DECREASE_OF_LEAF: ("decreases", "one belongs to a leaf"),
}


def read_forest(arrays: Arrays, bins: Bins, n_classes: int) -> Forest:
    """A whole forest over these columns."""
    shape = _read_shape(arrays)
    splits = _read_splits(arrays, shape, bins)
    leaves, decrease = _read_leaves(arrays, shape, n_classes)
    return Forest(shape, splits, leaves, decrease, n_classes, bins.n_features)


def read_partial(arrays: Arrays, bins: Bins, least_trees: int) -> PartialForest:
    """The share of an owner of these columns."""
    shape = _read_shape(arrays, least_trees)
    splits = _read_splits(arrays, shape, bins, least_feature=FOREIGN)
    return PartialForest(shape, splits, bins.n_features)


def read_outline(arrays: Arrays, n_classes: int) -> ForestOutline:
    """The share of the coordinator."""
    shape = _read_shape(arrays)
    owner = read_vector(arrays, "owner", np.int16, shape.n_nodes)
    is_leaf = shape.left_child == LEAF
    require((owner >= NOBODY).all(), "owners", "one is out of range")
    require(((owner == NOBODY) == is_leaf).all(), "owners", "leaves and splits are mixed up")
    leaves, decrease = _read_leaves(arrays, shape, n_classes)
    return ForestOutline(shape, owner, leaves, decrease, n_classes)


def _read_shape(arrays: Arrays, least_trees: int = 1) -> Shape:
    shape = Shape(
        read_vector(arrays, "tree_start", np.int64), read_vector(arrays, "left_child", np.int32)
    )
    require(shape.n_trees >= least_trees, "trees", "there are none")
    shape.depths()  # raises where these are no trees
    return shape


def _read_splits(arrays: Arrays, shape: Shape, bins: Bins, least_feature: int = LEAF) -> Splits:
    """Splits of these columns; from `least_feature` to -1, features say that there is none."""
    is_raw = arrays["cut"].dtype.kind == "f"
    cut_type = np.dtype(np.float32 if is_raw else np.uint8)
    splits = StoredSplits(
        read_vector(arrays, "feature", np.int32, shape.n_nodes),
        read_vector(arrays, "cut", cut_type, shape.n_nodes),
        read_vector(arrays, "missing_left", np.uint8, shape.n_nodes),
        read_vector(arrays, "set_index", np.int32, shape.n_nodes),
    )
    wrong, n_sets = judge_splits(shape.left_child, splits, bins.n_features, least_feature), 0
    if not wrong & NO_COLUMN:
        n_bins = bins.n_bins[:0] if is_raw else bins.n_bins
        more, n_sets = judge_cuts(splits, bins.is_categorical, n_bins)
        wrong |= more
    _refuse(wrong, _WRONG_SPLITS)
    return Splits(*splits, read_array(arrays, "left_set", np.uint64, (n_sets, SET_WORDS)))


def _read_leaves(
    arrays: Arrays, shape: Shape, n_classes: int
) -> tuple[Leaves, NDArray[np.float64]]:
    value = read_vector(arrays, "leaf_value", np.float64)
    leaves = StoredLeaves(
        read_vector(arrays, "leaf_start", np.int64, shape.n_nodes + 1),
        read_vector(arrays, "leaf_label", np.uint16, len(value) if n_classes else 0),
        value,
        read_vector(arrays, "decrease", np.float64, shape.n_nodes),
    )
    wrong = judge_nodes(shape.left_child, leaves, n_classes)
    # entries are looked at where nodes lead to them
    wrong |= 0 if wrong & NO_SEQUENCE else judge_entries(leaves, n_classes)
    _refuse(wrong, _WRONG_LEAVES)
    return Leaves(leaves.start, leaves.label, leaves.value), leaves.decrease


def _refuse(wrong: int, reasons: Mapping[int, tuple[str, str]]) -> None:
    """Name the first of the things that are wrong."""
    for flag, (part, reason) in reasons.items():
        require(not wrong & flag, part, reason)

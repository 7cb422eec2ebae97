"""Whether the arrays of a stranger's forest with one entry per node (`tree/stored_by_node.py`) fit.

What is wrong is told as a sum of flags, so that whoever asked can name the first. No index is
followed that was not found right before.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedforest.kernels.jit import kernel

# of splits
NO_COLUMN, MIXED_UP, NO_CUT, NO_SIDE, USELESS_CUT, OTHER_SETS = 1, 2, 4, 8, 16, 32
# of leaves
NO_SEQUENCE, NO_LEAF, NOT_FINITE, NO_CLASS, NO_ORDER, NO_SHARE, MANY_VALUES = 1, 2, 4, 8, 16, 32, 64
NO_DECREASE, DECREASE_OF_LEAF = 128, 256

_LEAF = -1


class StoredSplits(NamedTuple):
    """What a file says about the split of every node."""

    feature: NDArray[np.int32]
    cut: NDArray[np.float32] | NDArray[np.uint8]
    missing_left: NDArray[np.uint8]
    set_index: NDArray[np.int32]


class StoredLeaves(NamedTuple):
    """What a file says about the leaf of every node, and how much its split decreased impurity."""

    start: NDArray[np.int64]
    label: NDArray[np.uint16]
    value: NDArray[np.float64]
    decrease: NDArray[np.float64]


@kernel
def judge_splits(left_child, splits, n_columns, least_feature):
    """What is wrong with the splits, whatever their columns are.

    Nodes that are not split here have features from `least_feature` to -1.
    """
    feature, cut, missing_left, set_index = splits
    wrong = 0
    for node in range(left_child.shape[0]):
        column = feature[node]
        is_used = (missing_left[node] != 0) | (cut[node] != 0)
        wrong |= NO_COLUMN * ((column < least_feature) | (column >= n_columns))
        wrong |= MIXED_UP * ((column == _LEAF) != (left_child[node] == _LEAF))
        wrong |= NO_CUT * (not cut[node] < np.inf)
        wrong |= NO_SIDE * (missing_left[node] > 1)
        wrong |= USELESS_CUT * ((column < 0) & is_used)
        wrong |= OTHER_SETS * ((column < 0) & (set_index[node] != -1))
    return wrong


@kernel
def judge_cuts(splits, is_categorical, n_bins):
    """(flags, sets): what is wrong with splits of known columns, and how many sets they need.

    Without `n_bins`, cuts are thresholds.
    """
    feature, cut, _, set_index = splits
    wrong, n_sets = 0, 0
    for node in range(feature.shape[0]):
        if feature[node] >= 0:
            by_set = is_categorical[feature[node]]
            wrong |= OTHER_SETS * (set_index[node] != (n_sets if by_set else -1))
            n_sets += by_set
            if n_bins.shape[0] > 0:
                wrong |= NO_CUT * (cut[node] >= n_bins[feature[node]])
    return wrong, n_sets


@kernel
def judge_nodes(left_child, leaves, n_classes):
    """What is wrong with the places of the leaves' entries and with the decreases."""
    start, _, value, decrease = leaves
    n_nodes = left_child.shape[0]
    wrong = NO_SEQUENCE * ((start[0] != 0) | (start[n_nodes] != value.shape[0]))
    most = 1 if n_classes == 0 else value.shape[0]
    for node in range(n_nodes):
        is_leaf = left_child[node] == _LEAF
        wrong |= NO_SEQUENCE * (start[node + 1] < start[node])  # a difference could overflow
        wrong |= NO_LEAF * (is_leaf != (start[node + 1] > start[node]))
        wrong |= MANY_VALUES * (start[node + 1] - start[node] > most)
        wrong |= NO_DECREASE * (not ((decrease[node] >= 0.0) & (decrease[node] < np.inf)))
        wrong |= DECREASE_OF_LEAF * (is_leaf & (decrease[node] != 0.0))
    return wrong


@kernel
def judge_entries(leaves, n_classes):
    """What is wrong with the entries of leaves, whose places are right.

    Classes of a leaf ascend: as often as they do not, another leaf begins.
    """
    start, label, value, _ = leaves
    wrong, n_falls = 0, 0
    for entry in range(value.shape[0]):
        wrong |= NOT_FINITE * (not abs(value[entry]) < np.inf)
    if n_classes == 0:
        return wrong
    for entry in range(value.shape[0]):
        wrong |= NO_CLASS * (label[entry] >= n_classes)
        wrong |= NO_SHARE * (not ((value[entry] >= 0.0) & (value[entry] <= 1.0)))
        n_falls += label[max(entry - 1, 0)] >= label[entry]
    for node in range(start.shape[0] - 1):
        first, is_leaf = start[node], start[node + 1] > start[node]
        before, here = max(first - 1, 0), min(first, value.shape[0] - 1)
        n_falls -= is_leaf & (label[before] >= label[here])
    return wrong | NO_ORDER * (n_falls != 0)

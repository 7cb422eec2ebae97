"""The checks of a stranger's forest: every fault is flagged, alone and by its own flag."""

from typing import Any

import numpy as np
import pytest

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

# a root split by number, its left child by category; three leaves, the second of two classes
LEFT_CHILD = np.array([1, 3, -1, -1, -1], np.int32)
IS_CATEGORICAL, N_BINS = np.array([False, True]), np.array([3, 2], np.int16)


def splits(**changes: Any) -> StoredSplits:
    right = {
        "feature": np.array([0, 1, -1, -1, -1], np.int32),
        "cut": np.array([2, 0, 0, 0, 0], np.uint8),
        "missing_left": np.array([1, 0, 0, 0, 0], np.uint8),
        "set_index": np.array([-1, 0, -1, -1, -1], np.int32),
    }
    return StoredSplits(**_change(right, changes))


def leaves(**changes: Any) -> StoredLeaves:
    right = {
        "start": np.array([0, 0, 0, 1, 3, 4]),
        "label": np.array([1, 0, 1, 0], np.uint16),
        "value": np.array([1.0, 0.25, 0.75, 1.0]),
        "decrease": np.array([0.5, 0.25, 0.0, 0.0, 0.0]),
    }
    return StoredLeaves(**_change(right, changes))


def _change(arrays: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    for name, (place, value) in changes.items():
        arrays[name][place] = value
    return arrays


def test_what_is_right_has_no_flag() -> None:
    assert judge_splits(LEFT_CHILD, splits(), 2, -1) == 0
    assert judge_cuts(splits(), IS_CATEGORICAL, N_BINS) == (0, 1)
    assert judge_nodes(LEFT_CHILD, leaves(), 2) == 0
    assert judge_entries(leaves(), 2) == 0
    assert judge_entries(leaves(), 0) == 0


@pytest.mark.parametrize(
    ("changes", "flag"),
    [
        ({"feature": (0, 2)}, NO_COLUMN),
        ({"feature": (0, -1), "missing_left": (0, 0), "cut": (0, 0)}, MIXED_UP),
        ({"missing_left": (0, 2)}, NO_SIDE),
        ({"missing_left": (3, 1)}, USELESS_CUT),
        ({"cut": (2, 1)}, USELESS_CUT),
        ({"set_index": (4, 1)}, OTHER_SETS),
    ],
)
def test_a_wrong_split_is_flagged(changes: dict[str, Any], flag: int) -> None:
    assert judge_splits(LEFT_CHILD, splits(**changes), 2, -1) == flag


def test_a_foreign_split_is_allowed_only_where_it_is_expected() -> None:
    foreign = splits(feature=(0, -2), missing_left=(0, 0), cut=(0, 0))
    assert judge_splits(LEFT_CHILD, foreign, 2, -1) == NO_COLUMN
    assert judge_splits(LEFT_CHILD, foreign, 2, -2) == 0


@pytest.mark.parametrize("threshold", [np.nan, np.inf])
def test_a_threshold_that_nothing_is_above_is_flagged(threshold: float) -> None:
    raw = splits()._replace(cut=np.array([threshold, 0, 0, 0, 0], np.float32))
    assert judge_splits(LEFT_CHILD, raw, 2, -1) == NO_CUT
    raw.cut[0] = -np.inf
    assert judge_splits(LEFT_CHILD, raw, 2, -1) == 0
    assert judge_cuts(raw, IS_CATEGORICAL, N_BINS[:0]) == (0, 1)


def test_cuts_beyond_their_bins_and_sets_of_others_are_flagged() -> None:
    assert judge_cuts(splits(cut=(0, 3)), IS_CATEGORICAL, N_BINS) == (NO_CUT, 1)
    assert judge_cuts(splits(set_index=(1, 1)), IS_CATEGORICAL, N_BINS) == (OTHER_SETS, 1)
    assert judge_cuts(splits(set_index=(0, 0)), IS_CATEGORICAL, N_BINS) == (OTHER_SETS, 1)


@pytest.mark.parametrize(
    ("changes", "flag"),
    [
        ({"start": (0, -1)}, NO_SEQUENCE | NO_LEAF),
        ({"start": (5, 5)}, NO_SEQUENCE),
        ({"start": (3, 4)}, NO_SEQUENCE | NO_LEAF),
        ({"start": (1, 1)}, NO_SEQUENCE | NO_LEAF),
        ({"start": (3, 0)}, NO_LEAF),
        ({"decrease": (0, -0.5)}, NO_DECREASE),
        ({"decrease": (0, np.nan)}, NO_DECREASE),
        ({"decrease": (2, 0.5)}, DECREASE_OF_LEAF),
    ],
)
def test_a_wrong_place_or_decrease_is_flagged(changes: dict[str, Any], flag: int) -> None:
    assert judge_nodes(LEFT_CHILD, leaves(**changes), 2) == flag


def test_a_regression_leaf_of_several_values_is_flagged() -> None:
    assert judge_nodes(LEFT_CHILD, leaves(), 0) == MANY_VALUES


@pytest.mark.parametrize(
    ("changes", "flag"),
    [
        ({"label": (2, 2)}, NO_CLASS),
        ({"label": (2, 0)}, NO_ORDER),
        ({"value": (1, 1.5)}, NO_SHARE),
        ({"value": (1, -0.5)}, NO_SHARE),
        ({"value": (1, np.nan)}, NOT_FINITE | NO_SHARE),
        ({"value": (1, np.inf)}, NOT_FINITE | NO_SHARE),
    ],
)
def test_a_wrong_entry_is_flagged(changes: dict[str, Any], flag: int) -> None:
    assert judge_entries(leaves(**changes), 2) == flag

"""What is refused about splits that were told."""

import numpy as np
import pytest

from fedforest.kernels.growth.split_checks import (
    NO_COLUMN,
    NO_NUMBER,
    NO_SIDE,
    find_wrong_split,
)

N_COLUMNS = 5


@pytest.mark.parametrize(
    ("column", "threshold", "side", "wrong"),
    [
        (0, -np.inf, 0, 0),
        (4, 1.0, 1, 0),
        (5, 1.0, 0, NO_COLUMN),
        (-1, 1.0, 0, NO_COLUMN),
        (0, np.nan, 0, NO_NUMBER),
        (0, 1.0, 2, NO_SIDE),
        (9, np.nan, 2, NO_COLUMN),
        (0, np.nan, 2, NO_NUMBER),
    ],
)
@pytest.mark.parametrize("place", [0, 2])
def test_one_wrong_split_among_others_is_found(
    column: int, threshold: float, side: int, wrong: int, place: int
) -> None:
    feature, cut = np.arange(3, dtype=np.int32), np.zeros(3, np.float32)
    missing_left = np.ones(3, np.uint8)
    feature[place], cut[place], missing_left[place] = column, threshold, side
    assert find_wrong_split(feature, cut, missing_left, N_COLUMNS) == wrong


def test_no_split_is_not_wrong() -> None:
    nothing = np.zeros(0, np.int32), np.zeros(0, np.float32), np.zeros(0, np.uint8)
    assert find_wrong_split(*nothing, N_COLUMNS) == 0

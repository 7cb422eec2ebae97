"""The side of a cut that each row is on: a mark per row.

Values are compared where they were kept. Sets of categories, and missing values that go left, need
more than a comparison: values that stand in for these are compared instead.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedforest.kernels.bits.bitsets import in_set
from fedforest.kernels.jit import embedded

BLOCK = np.uint64(1024)  # rows that are marked together: they stay in the first cache

_ZERO = np.uint64(0)
_ONE = np.uint64(1)
_LEFT, _RIGHT, BETWEEN = np.float32(-1.0), np.float32(1.0), np.float32(0.0)


class Asked(NamedTuple):
    """The cuts of all nodes, one per pair, and where the sums of a node's asked pairs start."""

    node_start: NDArray[np.int64]
    feature: NDArray[np.int32]
    threshold: NDArray[np.float32]
    missing_left: NDArray[np.uint8]
    set_index: NDArray[np.int32]
    left_set: NDArray[np.uint64]
    asked_start: NDArray[np.int64]


@embedded
def stand_in(values, at, width, n, threshold, sets, index, missing_left, turned):
    """-1 for values that go left, 1 for others; categories, if index >= 0, by that set.

    The values are `width` apart.
    """
    for i in range(n):
        value = values[at + i * width]
        if value != value:
            left = missing_left == 1
        elif index >= 0:
            left = in_set(sets, index, np.uint64(value)) == _ONE
        else:
            left = value <= threshold
        turned[i] = _LEFT if left else _RIGHT


@embedded
def compares(kept, asked, pair):
    """Return whether a comparison tells the side of every value of a pair."""
    misses = asked.missing_left[pair] == 1 and kept.may_miss[asked.feature[pair]]
    return asked.set_index[pair] < 0 and not misses


@embedded
def is_plain_set(kept, asked, pair):
    """Return whether a set of categories alone tells the side of every value of a pair."""
    return asked.set_index[pair] >= 0 and not kept.may_miss[asked.feature[pair]]


@embedded
def stand_in_for(kept, at, width, n, asked, pair, turned):
    """Write stand-ins for n values of a pair that are `width` apart."""
    index, missing_left = asked.set_index[pair], asked.missing_left[pair]
    threshold, sets = asked.threshold[pair], asked.left_set
    stand_in(kept.values, at, width, n, threshold, sets, index, missing_left, turned)


@embedded
def read_pair(kept, at, n, asked, pair, turned):
    """Return (values, place of the first, threshold): of n rows, those not above it go left."""
    if compares(kept, asked, pair):
        return kept.values, at, asked.threshold[pair]
    stand_in_for(kept, at, _ONE, n, asked, pair, turned)
    return turned, _ZERO, BETWEEN


@embedded
def mark_below(values, at, n, threshold, marks):
    """marks[i] = 1 where a value is not above the threshold, else 0."""
    for i in range(n):
        marks[i] = np.uint8(values[at + i] <= threshold)


@embedded
def count_marks(marks, n):
    """Count those of n rows that are marked."""
    rows = _ZERO
    for i in range(n):
        rows += np.uint64(marks[i])
    return np.int64(rows)

"""Which side of a cut each row is on: a mark per row, then a bit per row.

Values are compared where they were kept. Sets of categories, and missing values that go left, need
more than a comparison: values that stand in for these are compared instead.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedforest.kernels.bitsets import count_ones, in_set
from fedforest.kernels.jit import embedded, kernel
from fedforest.kernels.kept_values import gather_one

BLOCK = np.uint64(1024)  # rows that are marked together: they stay in the first cache

_ZERO = np.uint64(0)
_ONE = np.uint64(1)
_THREE = np.uint64(3)
_LOW_THREE = np.uint64(7)
_TO_TOP_BYTE = np.uint64(0x0102040810204080)  # moves the lowest bit of byte i to bit 56 + i
_TOP_BYTE = np.uint64(56)
_LEFT, _RIGHT, _BETWEEN = np.float32(-1.0), np.float32(1.0), np.float32(0.0)


class Asked(NamedTuple):
    """The cuts of all nodes, one per pair, and where the sums of a node's asked pairs start."""

    node_start: NDArray[np.int64]
    feature: NDArray[np.int32]
    threshold: NDArray[np.float32]
    missing_left: NDArray[np.uint8]
    set_index: NDArray[np.int32]
    left_set: NDArray[np.uint64]
    asked_start: NDArray[np.int64]


class Chosen(NamedTuple):
    """The cut of each split node."""

    node: NDArray[np.int64]
    feature: NDArray[np.int32]
    threshold: NDArray[np.float32]
    missing_left: NDArray[np.uint8]
    left_set: NDArray[np.uint64]  # (splits, 4), or (0, 4) without categorical columns


@embedded
def stand_in(values, at, n, threshold, sets, index, missing_left, turned):
    """-1 for values that go left, 1 for others; categories, if index >= 0, by that set."""
    for i in range(n):
        value = values[at + i]
        if value != value:
            left = missing_left == 1
        elif index >= 0:
            left = in_set(sets, index, np.uint64(value)) == _ONE
        else:
            left = value <= threshold
        turned[i] = _LEFT if left else _RIGHT


@embedded
def read_pair(kept, at, n, asked, pair, turned):
    """(values, place of the first, threshold): of n rows, those not above it go left."""
    index, missing_left = asked.set_index[pair], asked.missing_left[pair]
    threshold = asked.threshold[pair]
    if index < 0 and not (missing_left == 1 and kept.may_miss[asked.feature[pair]]):
        return kept.values, at, threshold
    stand_in(kept.values, at, n, threshold, asked.left_set, index, missing_left, turned)
    return turned, _ZERO, _BETWEEN


@embedded
def mark_below(values, at, n, threshold, marks):
    """marks[i] = 1 where a value is not above the threshold, else 0."""
    for i in range(n):
        marks[i] = np.uint8(values[at + i] <= threshold)


@embedded
def count_marks(marks, n):
    """How many of n rows are marked."""
    rows = _ZERO
    for i in range(n):
        rows += np.uint64(marks[i])
    return np.int64(rows)


@embedded
def write_marks(marks, eight_marks, n, bits, at):
    """Write the marks of n rows as bits, eight rows to a byte; returns how many are marked.

    `eight_marks` is the same memory as `marks`, eight of them to a word.
    """
    for i in range(n, (n + _LOW_THREE) & ~_LOW_THREE):
        marks[i] = 0
    rows = 0
    for i in range((n + _LOW_THREE) >> _THREE):
        byte = np.uint8((eight_marks[i] * _TO_TOP_BYTE) >> _TOP_BYTE)
        bits[at + i] = byte
        rows += np.int64(count_ones(byte))
    return rows


@embedded
def find_pair(node_start, feature, node, wanted):
    """Position of a column among a node's pairs, -1 if it is none of them."""
    for pair in range(node_start[node], node_start[node + 1]):
        if feature[pair] == wanted:
            return pair - node_start[node]
    return -1


@embedded
def write_sides(values, at, n, cut, sets, index, turned, marks, eight_marks, bits, to):
    """Bits of n rows of a node, from byte `to` on; returns how many go left.

    `cut` is the threshold, the side of missing values, and whether a comparison is not enough.
    """
    threshold, missing_left, needs_more = cut
    rows = 0
    for begin in range(_ZERO, n, BLOCK):
        count = min(BLOCK, n - begin)
        if needs_more:
            stand_in(values, at + begin, count, threshold, sets, index, missing_left, turned)
            mark_below(turned, _ZERO, count, _BETWEEN, marks)
        else:
            mark_below(values, at + begin, count, threshold, marks)
        rows += write_marks(marks, eight_marks, count, bits, to + (begin >> _THREE))
    return rows


@kernel
def write_cut_bits(columns, order, pairs, kept, chosen, offsets, bits, left_rows, first, last):
    """Bits of the rows of the split nodes first..last of a list (layout as in `partition`).

    Where a node has kept values of its column these are read, else the column itself; `pairs` of
    no nodes mean that nothing was kept. left_rows[node] becomes how many rows go left.
    """
    values, n_rows, is_categorical = columns
    entries, row_bits, starts, stops = order
    node_start, pair_feature = pairs
    place, kept_values, may_miss = kept
    nodes, feature, threshold, missing_left, left_set = chosen
    row_mask = (_ONE << row_bits) - _ONE
    gathered, turned = np.empty(BLOCK, np.float32), np.empty(BLOCK, np.float32)
    eight_marks = np.empty(BLOCK >> _THREE, np.uint64)
    marks = eight_marks.view(np.uint8)
    for i in range(first, last):
        node, f, to = nodes[i], feature[i], np.uint64(offsets[i])
        n = np.uint64(stops[node] - starts[node])
        index = i if is_categorical[f] else -1
        needs_more = is_categorical[f] or (missing_left[i] == 1 and may_miss[f])
        cut = (threshold[i], missing_left[i], needs_more)
        slot = find_pair(node_start, pair_feature, node, f) if node_start.shape[0] > 1 else -1
        if slot >= 0:
            at = place[node] + np.uint64(slot) * n
            left_rows[node] = write_sides(
                kept_values, at, n, cut, left_set, index, turned, marks, eight_marks, bits, to
            )
            continue
        base, rows = np.uint64(f) * n_rows, 0
        for begin in range(_ZERO, n, BLOCK):
            start, count = np.uint64(starts[node]) + begin, min(BLOCK, n - begin)
            gather_one(values, base, entries, start, count, row_mask, gathered, _ZERO)
            at = to + (begin >> _THREE)
            rows += write_sides(
                gathered, _ZERO, count, cut, left_set, index, turned, marks, eight_marks, bits, at
            )
        left_rows[node] = rows

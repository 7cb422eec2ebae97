"""Rows on their way to the children of their nodes, by the cuts that were chosen.

Only the owner of the rows needs to know their side, so no bits are written. The rows of a node stay
within its range

    | rows of the left child, in order | rows of the right child, in order |

and where a child is closed, its part is used no more: to close gaps, all nodes' sides would have to
be counted before the first row is moved. Which side a row is on is told by the marks that counting
left, if it did, else by kept values, else by the column itself. Worth (`benchmarks/ablations.py`)
in a training: these marks up to 10 %, eight rows at once up to 6 %, small nodes by eights 8 %.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedforest.kernels.bits.bitsets import count_ones
from fedforest.kernels.bits.entry_lanes import LANE_ORDER, pack_lanes, packs_lanes
from fedforest.kernels.cuts.kept_values import gather_one
from fedforest.kernels.cuts.sides import BETWEEN, stand_in
from fedforest.kernels.cuts.tile_lanes import LANES, read_marks
from fedforest.kernels.cuts.tiles import place_in_tile
from fedforest.kernels.growth.partition import OPEN_LEFT, OPEN_RIGHT, STAYS
from fedforest.kernels.jit import embedded, kernel

_ZERO = np.uint64(0)
_ONE = np.uint64(1)
_LANES = np.uint64(LANES)
_BYTE = np.uint64(0xFF)
_LOWEST = np.uint64(0x0101010101010101)  # bit of each byte
_COLLECT = np.uint64(0x0102040810204080)  # the lowest bit of byte i to bit i of the highest byte
_HIGHEST_BYTE = np.uint64(56)
MOST_EIGHTS = np.uint64(128)  # rows; in larger nodes it pays to count before rows are moved


class Chosen(NamedTuple):
    """The cut of each split node, nodes ascending."""

    node: NDArray[np.int64]
    feature: NDArray[np.int32]
    threshold: NDArray[np.float32]
    missing_left: NDArray[np.uint8]
    left_set: NDArray[np.uint64]  # (splits, 4), or (0, 4) without categorical columns


class Marked(NamedTuple):
    """The cuts of all pairs by which counting has marked rows; none if it has not."""

    threshold: NDArray[np.float32]
    missing_left: NDArray[np.uint8]


@embedded
def find_pair(node_start, feature, node, wanted):
    """Position of a column among a node's pairs, -1 if it is none of them."""
    for pair in range(node_start[node], node_start[node + 1]):
        if feature[pair] == wanted:
            return pair - node_start[node]
    return -1


@embedded
def count_below(values, at, n, threshold):
    """Count those of n values that are not above the threshold."""
    rows = _ZERO
    for i in range(n):
        rows += np.uint64(values[at + i] <= threshold)
    return rows


@embedded
def part_rows(values, at, n, threshold, source, start, target):
    """Rows whose value is not above the threshold first, then the others; how many are first."""
    n_left = count_below(values, at, n, threshold)
    to_left, to_right = start, start + n_left
    for i in range(n):
        bit = np.uint64(values[at + i] <= threshold)
        target[to_right ^ ((to_left ^ to_right) & (_ZERO - bit))] = source[start + i]
        to_left += bit
        to_right += _ONE - bit
    return np.int64(n_left)


@embedded
def lefts_of_eight(marks, at, lane, n):
    """Bit i is set if the i-th of up to eight rows, n of which there are, is marked."""
    byte = (((read_marks(marks, at) >> lane) & _LOWEST) * _COLLECT) >> _HIGHEST_BYTE
    return byte & (_BYTE >> (_LANES - min(n, _LANES)))


@embedded
def part_eights(marks, mark, lane, n, source, start, target):
    """Part rows as `part_marked`, faster in small nodes: up to eight entries behind it are lost."""
    to = start
    for i in range(_ZERO, n, _LANES):
        byte = lefts_of_eight(marks, mark + i, lane, n - i)
        pack_lanes(source, start + i, byte, LANE_ORDER, target, to)
        to += count_ones(byte)
    n_left = to - start
    for i in range(_ZERO, n, _LANES):
        byte = lefts_of_eight(marks, mark + i, lane, n - i)
        pack_lanes(source, start + i, byte ^ _BYTE, LANE_ORDER, target, to)
        to += min(n - i, _LANES) - count_ones(byte)
    return np.int64(n_left)


@embedded
def count_marked(marks, mark, lane, n):
    """Count those of n rows that are marked."""
    rows, whole = _ZERO, n & ~(_LANES - _ONE)
    for i in range(_ZERO, whole, _LANES):
        rows += count_ones((read_marks(marks, mark + i) >> lane) & _LOWEST)
    for i in range(whole, n):
        rows += (np.uint64(marks[mark + i]) >> lane) & _ONE
    return rows


@embedded
def part_marked(marks, mark, lane, n, source, start, target):
    """Rows that are marked first, then the others; how many are first.

    As long as both sides have room for eight more, eight are moved at once.
    """
    n_left = count_marked(marks, mark, lane, n)
    to_left, to_right = start, start + n_left
    last_left, last_right = to_right, start + n
    i = _ZERO
    if packs_lanes(source):
        while to_left + _LANES <= last_left and to_right + _LANES <= last_right:
            byte = lefts_of_eight(marks, mark + i, lane, _LANES)
            pack_lanes(source, start + i, byte, LANE_ORDER, target, to_left)
            pack_lanes(source, start + i, byte ^ _BYTE, LANE_ORDER, target, to_right)
            to_left += count_ones(byte)
            to_right += _LANES - count_ones(byte)
            i += _LANES
    while i < n:
        bit = (np.uint64(marks[mark + i]) >> lane) & _ONE
        target[to_right ^ ((to_left ^ to_right) & (_ZERO - bit))] = source[start + i]
        to_left += bit
        to_right += _ONE - bit
        i += _ONE
    return np.int64(n_left)


@embedded
def find_largest(starts, stops, first, last):
    """Return rows of the largest of the nodes first..last."""
    largest = 0
    for node in range(first, last):
        largest = max(largest, stops[node] - starts[node])
    return largest


@embedded
def copy_lane(values, at, width, n, copied):
    """Copy n values that are `width` apart."""
    for i in range(n):
        copied[i] = values[at + i * width]


@embedded
def part_by_values(columns, order, node, slot, n_pairs, kept, chosen, i, scratch, target):
    """Part the rows of a node by values: kept ones, or of the column where slot < 0."""
    values, n_rows, is_categorical = columns
    entries, row_bits, starts, stops = order
    start, n = np.uint64(starts[node]), np.uint64(stops[node] - starts[node])
    gathered, turned = scratch
    f, cut, missing_left = chosen.feature[i], chosen.threshold[i], chosen.missing_left[i]
    seen, at = gathered, _ZERO
    if slot < 0:
        row_mask = (_ONE << row_bits) - _ONE
        gather_one(values, np.uint64(f) * n_rows, _ONE, entries, start, n, row_mask, seen, at)
    elif kept.is_tiled:
        place, width = place_in_tile(kept.first[node], np.uint64(slot), n, np.uint64(n_pairs))
        copy_lane(kept.values, place, width, n, seen)
    else:
        seen, at = kept.values, kept.first[node] + np.uint64(slot) * n
    if is_categorical[f] or (missing_left == 1 and kept.may_miss[f]):
        index = i if is_categorical[f] else -1
        stand_in(seen, at, _ONE, n, cut, chosen.left_set, index, missing_left, turned)
        seen, at, cut = turned, _ZERO, BETWEEN
    return part_rows(seen, at, n, cut, entries, start, target)


@embedded
def part_by_marks(order, node, slot, kept, end, target):
    """Part the rows of a node by the marks of a pair.

    Entries between the node and `end` may be overwritten: they are written later.
    """
    entries, _, starts, stops = order
    start, n, lane = np.uint64(starts[node]), np.uint64(stops[node] - starts[node]), slot % _LANES
    mark = slot // _LANES * kept.per_tile + start
    if packs_lanes(entries) and n <= MOST_EIGHTS and stops[node] + LANES <= end:
        return part_eights(kept.marks, mark, lane, n, entries, start, target)
    return part_marked(kept.marks, mark, lane, n, entries, start, target)


@embedded
def is_same_cut(columns, kept, marked, pair, chosen, i):
    """Return whether rows are marked by the i-th chosen cut; where none misses, no side is told."""
    f = chosen.feature[i]
    if marked.threshold.shape[0] == 0 or columns.is_categorical[f]:
        return False
    is_same_side = not kept.may_miss[f] or marked.missing_left[pair] == chosen.missing_left[i]
    return is_same_side and marked.threshold[pair] == chosen.threshold[i]


@kernel
def move_by_cuts(columns, order, pairs, kept, marked, chosen, fate, target, left_rows, first, last):
    """Move the rows of the nodes first..last that stay open, or whose children do, to `target`.

    `pairs` of no nodes mean that nothing was kept. left_rows[node] becomes how many rows go left.
    Marks count only if they are of the very cut that was chosen.
    """
    entries, _, starts, stops = order
    node_start, feature = pairs
    nodes = chosen.node
    largest = find_largest(starts, stops, first, last)
    scratch = (np.empty(largest, np.float32), np.empty(largest, np.float32))
    end = stops[last - 1] if last > first else 0
    i = np.searchsorted(nodes, first)
    for node in range(first, last):
        if i == nodes.shape[0] or nodes[i] != node:
            if fate[node] == STAYS:
                start, stop = starts[node], stops[node]
                target[start:stop] = entries[start:stop]
            continue
        if fate[node] != 0:
            slot, n_pairs = -1, 0
            if node_start.shape[0] > 1:
                slot = find_pair(node_start, feature, node, chosen.feature[i])
                n_pairs = node_start[node + 1] - node_start[node]
            if slot >= 0 and is_same_cut(columns, kept, marked, node_start[node] + slot, chosen, i):
                n_left = part_by_marks(order, node, np.uint64(slot), kept, end, target)
            else:
                n_left = part_by_values(
                    columns, order, node, slot, n_pairs, kept, chosen, i, scratch, target
                )
            left_rows[node] = n_left
        i += 1


@kernel
def place_children(starts, stops, fate, left_rows, n_open):
    """(start, stop) of the nodes open after a step, within the ranges of those they came from.

    Written without a branch, as `plan_move`: one spare position is needed at the end.
    """
    start, stop = np.empty(n_open + 1, np.int64), np.empty(n_open + 1, np.int64)
    k = 0
    for node in range(fate.shape[0]):
        middle = stops[node] if fate[node] == STAYS else starts[node] + left_rows[node]
        start[k], stop[k] = starts[node], middle
        k += fate[node] & (OPEN_LEFT | STAYS) != 0
        start[k], stop[k] = middle, stops[node]
        k += fate[node] & OPEN_RIGHT != 0
    return start[:n_open], stop[:n_open]

"""Rows on their way to the children of their nodes, by the cuts that were chosen.

Nobody but the owner of the rows needs to know which side they are on, so no bits are written. The
rows of a node stay within its range

    | rows of the left child, in order | rows of the right child, in order |

and where a child is closed, its part is used no more: to close gaps, all nodes' sides would have to
be counted before the first row is moved.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedforest.kernels.cut_sides import BETWEEN, stand_in
from fedforest.kernels.jit import embedded, kernel
from fedforest.kernels.kept_values import gather_one
from fedforest.kernels.partition import OPEN_LEFT, OPEN_RIGHT, STAYS

_ZERO = np.uint64(0)
_ONE = np.uint64(1)


class Chosen(NamedTuple):
    """The cut of each split node, nodes ascending."""

    node: NDArray[np.int64]
    feature: NDArray[np.int32]
    threshold: NDArray[np.float32]
    missing_left: NDArray[np.uint8]
    left_set: NDArray[np.uint64]  # (splits, 4), or (0, 4) without categorical columns


@embedded
def find_pair(node_start, feature, node, wanted):
    """Position of a column among a node's pairs, -1 if it is none of them."""
    for pair in range(node_start[node], node_start[node + 1]):
        if feature[pair] == wanted:
            return pair - node_start[node]
    return -1


@embedded
def count_below(values, at, n, threshold):
    """How many of n values are not above the threshold."""
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
def find_largest(starts, stops, first, last):
    """Rows of the largest of the nodes first..last."""
    largest = 0
    for node in range(first, last):
        largest = max(largest, stops[node] - starts[node])
    return largest


@kernel
def move_by_cuts(columns, order, pairs, kept, chosen, fate, target, left_rows, first, last):
    """Move the rows of the nodes first..last that stay open, or whose children do, to `target`.

    Where a node has kept values of its column these are read, else the column itself; `pairs` of
    no nodes mean that nothing was kept. left_rows[node] becomes how many rows go left.
    """
    values, n_rows, is_categorical = columns
    entries, row_bits, starts, stops = order
    node_start, pair_feature = pairs
    place, kept_values, may_miss = kept
    nodes, feature, threshold, missing_left, left_set = chosen
    row_mask = (_ONE << row_bits) - _ONE
    largest = find_largest(starts, stops, first, last)
    gathered, turned = np.empty(largest, np.float32), np.empty(largest, np.float32)
    i = np.searchsorted(nodes, first)
    for node in range(first, last):
        start, n = np.uint64(starts[node]), np.uint64(stops[node] - starts[node])
        if i == nodes.shape[0] or nodes[i] != node:
            if fate[node] == STAYS:
                target[start : start + n] = entries[start : start + n]
            continue
        if fate[node] != 0:
            f, cut, seen, at = feature[i], threshold[i], gathered, _ZERO
            slot = find_pair(node_start, pair_feature, node, f) if node_start.shape[0] > 1 else -1
            if slot >= 0:
                seen, at = kept_values, place[node] + np.uint64(slot) * n
            else:
                base = np.uint64(f) * n_rows
                gather_one(values, base, _ONE, entries, start, n, row_mask, seen, at)
            if is_categorical[f] or (missing_left[i] == 1 and may_miss[f]):
                index = i if is_categorical[f] else -1
                stand_in(seen, at, n, cut, left_set, index, missing_left[i], turned)
                seen, at, cut = turned, _ZERO, BETWEEN
            left_rows[node] = part_rows(seen, at, n, cut, entries, start, target)
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

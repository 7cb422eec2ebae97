"""Cuts of a small node by moments, row by row.

Its rows are sorted in up to eight columns at once (`sorted_columns`). All valid cuts of these go
into one list, which is scored in one loop, in vector registers.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedforest.kernels.bits.instructions import LANES
from fedforest.kernels.criteria.dispatch import score_moments
from fedforest.kernels.jit import borrowing, embedded, kernel
from fedforest.kernels.layout import MISSING_BIN, NO_SPLIT, UNSEEN
from fedforest.kernels.splits.sorted_columns import (
    LARGEST_SORTED,
    bin_in,
    key_at,
    position_in,
    share_bin,
)

_LANE_SHIFT = np.uint32(18)
_SIDE_SHIFT = np.uint32(16)
_SIDE = np.uint32(3)
_ONE = np.uint64(1)


class CutList(NamedTuple):
    """Cuts in the order in which the first of equals wins."""

    weight: NDArray[np.float64]  # on the left
    total: NDArray[np.float64]  # on the left
    score: NDArray[np.float64]
    name: NDArray[np.uint32]  # | lane | side of missing values | key of the last row on the left |


@kernel
def make_cut_list():
    """Space for all cuts of a node in eight columns, and one more."""
    size = 2 * LANES * LARGEST_SORTED + 1
    return CutList(np.zeros(size), np.zeros(size), np.zeros(size), np.zeros(size, np.uint32))


@embedded
def list_cuts(keys, lane, ranks, side, left, moments, shift, cuts, count):
    """List the cuts after the rows of these ranks, the moments `left` being left of all of them.

    A cut inside a bin is none: the next overwrites it. Returns how many are listed now.
    """
    weights, totals, _, names = cuts
    weight_mask = (1 << shift) - 1
    name = (np.uint32(lane) << _LANE_SHIFT) | (np.uint32(side) << _SIDE_SHIFT)
    packed, total = left
    for rank in range(ranks[0]):
        position = position_in(key_at(keys, rank, lane)) << _ONE
        packed += moments[position]
        total += moments[position + _ONE]
    at = np.uint64(count)
    key = key_at(keys, ranks[0], lane)
    for rank in range(ranks[0], ranks[1]):
        following = key_at(keys, rank + 1, lane)
        position = position_in(key) << _ONE
        packed += moments[position]
        total += moments[position + _ONE]
        weights[at] = np.float64(packed & weight_mask)
        totals[at] = np.float64(total)
        names[at] = name | np.uint16(key)
        at += np.uint64(not share_bin(key, following))
        key = following
    return np.int64(at)


@borrowing
def sum_missing(keys, lane, n, moments):
    """Return (moments of the rows without a value, how many there are)."""
    packed, total, n_missing = 0, 0, 0
    while n_missing < n and bin_in(key_at(keys, n - 1 - n_missing, lane)) == MISSING_BIN:
        n_missing += 1
        position = position_in(key_at(keys, n - n_missing, lane)) << _ONE
        packed += moments[position]
        total += moments[position + _ONE]
    return (packed, total), n_missing


@embedded
def list_column(keys, lane, moments, node, shift, cuts, count):
    """List the cuts of one column: missing values, which come last, go right, and then left."""
    n, leaf = node.n_rows, node.min_rows_leaf
    ranks = (leaf - 1, n - leaf)
    if bin_in(key_at(keys, n - 1, lane)) != MISSING_BIN:
        return list_cuts(keys, lane, ranks, UNSEEN, (0, 0), moments, shift, cuts, count)
    count = list_cuts(keys, lane, ranks, 0, (0, 0), moments, shift, cuts, count)
    left, n_missing = sum_missing(keys, lane, n, moments)
    ranks = (max(0, ranks[0] - n_missing), max(0, ranks[1] - n_missing))
    return list_cuts(keys, lane, ranks, 1, left, moments, shift, cuts, count)


@borrowing
def list_columns(keys, n_lanes, moments, node, shift, cuts):
    """List the cuts that leave enough rows on either side; returns how many there are.

    `moments` are two integers per row. Not compiled into its caller, which leaves no registers.
    """
    count = 0
    if node.n_rows >= 2 * node.min_rows_leaf:
        for lane in range(n_lanes):
            count = list_column(keys, lane, moments, node, shift, cuts, count)
    return count


@borrowing
def pick_listed(cuts, count, node):
    """Return (score, lane, bin, side of missing values) of the best of the listed cuts.

    Scores of allowed cuts are not negative: their bits compare like integers, in vector registers.
    """
    weights, totals, scores, names = cuts
    weight, total = np.float64(node.weight), np.float64(node.total)
    for k in range(count):
        scores[k] = score_moments(node.formula, weights[k], totals[k], weight, total)
    best = np.int64(-1)
    for k in range(count):
        best = max(best, np.float64(scores[k]).view(np.int64))
    for k in range(count):
        if np.float64(scores[k]).view(np.int64) == best:
            name = names[k]
            side = (name >> _SIDE_SHIFT) & _SIDE
            return scores[k], np.int64(name >> _LANE_SHIFT), bin_in(np.int16(name)), np.int64(side)
    return NO_SPLIT, 0, 0, 0

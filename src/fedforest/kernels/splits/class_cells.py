"""Cuts by classes from a (bins, classes) histogram of wide integers: any column, any weight.

The general way: categorical columns, large nodes by other criteria than gini, nodes too heavy for
exact sums, and all nodes where children must have some weight.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedforest.kernels.bits.bitsets import empty_set
from fedforest.kernels.criteria.candidates import (
    LEFT,
    RIGHT,
    ROWS,
    SCORE,
    WEIGHT,
    pick_cut,
    rule_out_light,
)
from fedforest.kernels.criteria.classes import CLASS_SHIFT, EXACT_WEIGHT, row_weight
from fedforest.kernels.criteria.dispatch import (
    heavy_part,
    is_squares,
    part,
    score_classes,
    score_heavy_classes,
)
from fedforest.kernels.criteria.gini import score_purity
from fedforest.kernels.jit import borrowing
from fedforest.kernels.layout import MISSING_BIN, UNSEEN
from fedforest.kernels.splits.best import keep_categories, keep_numeric
from fedforest.kernels.splits.category_order import sort_by_key

IN_NODE, ON_LEFT = 0, 1  # rows of a tally: class weights of the node and left of the cut
_ONE = np.uint64(1)
_SIX = np.uint64(6)
_LOW_SIX = np.uint64(63)


class ClassCells(NamedTuple):
    """The histogram of a node; zero between columns."""

    weight: NDArray[np.int64]  # (bins, classes)
    rows: NDArray[np.int64]
    occupied: NDArray[np.uint64]  # the set of bins that hold rows


@borrowing
def fill_cells(bins, base, entries, span, row_bits, weights, cells):
    """Histogram, over the rows of a node, of the column that begins at `base`."""
    cell_weight, cell_rows, occupied = cells
    row_mask = (_ONE << row_bits) - _ONE
    for i in range(span[0], span[1]):
        entry = np.uint64(entries[i])
        row = entry & row_mask
        code = entry >> row_bits
        at = np.uint64(bins[base + row])
        cell_weight[at, code >> CLASS_SHIFT] += row_weight(code, row, weights)
        cell_rows[at] += 1
        occupied[at >> _SIX] |= _ONE << (at & _LOW_SIX)


@borrowing
def sort_by_majority(cell_weight, tally, visit, count, keys):
    """Order the visited categories by their share of the node's majority class, in `keys`."""
    majority = 0
    for c in range(tally.shape[1]):
        if tally[IN_NODE, c] > tally[IN_NODE, majority]:
            majority = c
    for position in range(count):
        code = visit[position]
        weight = 0
        for c in range(tally.shape[1]):
            weight += cell_weight[code, c]
        keys[code] = np.float64(cell_weight[code, majority]) / np.float64(weight)
    sort_by_key(visit, keys, count)


@borrowing
def move_cells_gini(cell_weight, code, tally):
    """Move a bin from right to left; (its weight, S of the left, S of the right).

    Squares are taken of 32 bits, which vector registers can do.
    """
    weight, left_sum, right_sum = 0, 0, 0
    for c in range(tally.shape[1]):
        added = cell_weight[code, c]
        left = tally[ON_LEFT, c] + added
        right = tally[IN_NODE, c] - left
        tally[ON_LEFT, c] = left
        weight += added
        short_left, short_right = np.int64(np.int32(left)), np.int64(np.int32(right))
        left_sum += short_left * short_left
        right_sum += short_right * short_right
    return weight, left_sum, right_sum


@borrowing
def move_cells(cell_weight, code, tally, formula, table):
    """Move a bin from right to left; (its weight, how much S of the left and of the right change).

    By any criterion; only classes that the bin has are looked at.
    """
    weight, left_change, right_change = 0, 0, 0
    for c in range(tally.shape[1]):
        added = cell_weight[code, c]
        if added == 0:
            continue
        left = tally[ON_LEFT, c]
        right = tally[IN_NODE, c] - left
        tally[ON_LEFT, c] = left + added
        weight += added
        left_change += part(formula, left + added, table) - part(formula, left, table)
        right_change += part(formula, right - added, table) - part(formula, right, table)
    return weight, left_change, right_change


@borrowing
def move_cells_heavy(cell_weight, code, tally):
    """Move a bin from right to left where S would overflow; returns its weight."""
    weight = 0
    for c in range(tally.shape[1]):
        tally[ON_LEFT, c] += cell_weight[code, c]
        weight += cell_weight[code, c]
    return weight


@borrowing
def score_heavy(tally, formula):
    """Return the score of a node too heavy for exact integers, class after class in float64."""
    weight, rest = 0.0, 0.0
    left_sum, right_sum = 0.0, 0.0
    for c in range(tally.shape[1]):
        a = np.float64(tally[ON_LEFT, c])
        b = np.float64(tally[IN_NODE, c] - tally[ON_LEFT, c])
        weight += a
        rest += b
        left_sum += heavy_part(formula, a)
        right_sum += heavy_part(formula, b)
    return score_heavy_classes(formula, left_sum, right_sum, weight, rest)


@borrowing
def sweep_gini(cell_weight, visit, count, tally, cuts):
    """Weight and S of both sides of the cut after each visited bin."""
    weight = 0
    for position in range(count):
        added, left_sum, right_sum = move_cells_gini(cell_weight, visit[position], tally)
        weight += added
        cuts[WEIGHT, position] = np.float64(weight)
        cuts[LEFT, position] = np.float64(left_sum)
        cuts[RIGHT, position] = np.float64(right_sum)


@borrowing
def score_gini(cuts, count, node):
    """The gini score of all cuts, in vector registers."""
    weight = np.float64(node.weight)
    for k in range(count):
        a = cuts[WEIGHT, k]
        cuts[SCORE, k] = score_purity(cuts[LEFT, k], a, cuts[RIGHT, k], weight - a)


@borrowing
def sweep_cells(cell_weight, visit, count, node, tally, table, cuts):
    """Score the cut after each visited bin by any criterion."""
    weight, left_sum, right_sum = 0, 0, node.whole
    for position in range(count):
        moved = move_cells(cell_weight, visit[position], tally, node.formula, table)
        weight += moved[0]
        left_sum += moved[1]
        right_sum += moved[2]
        rest = node.weight - weight
        cuts[SCORE, position] = score_classes(
            node.formula, left_sum, right_sum, weight, rest, table
        )


@borrowing
def sweep_heavy(cell_weight, visit, count, tally, formula, cuts):
    """Score the cut after each visited bin in float64."""
    for position in range(count):
        move_cells_heavy(cell_weight, visit[position], tally)
        cuts[SCORE, position] = score_heavy(tally, formula)


@borrowing
def weigh_lefts(cell_weight, visit, count, cuts):
    """The weight on the left of the cut after each visited bin."""
    weight = 0
    for position in range(count):
        for c in range(cell_weight.shape[1]):
            weight += cell_weight[visit[position], c]
        cuts[WEIGHT, position] = np.float64(weight)


@borrowing
def best_visited(cells, visit, span, node, tally, table, cuts):
    """Return (score, position) of the best cut after the visited bins span[0]..span[1].

    Bins before them are on the left of every cut.
    """
    cell_weight, cell_rows, _ = cells
    begin, count = span
    if node.weight >= EXACT_WEIGHT:
        sweep_heavy(cell_weight, visit, count, tally, node.formula, cuts)
    elif is_squares(node.formula):
        sweep_gini(cell_weight, visit, count, tally, cuts)
        score_gini(cuts, count, node)
    else:
        sweep_cells(cell_weight, visit, count, node, tally, table, cuts)
    tally[ON_LEFT] = 0
    rows = 0
    for position in range(count):
        rows += cell_rows[visit[position]]
        cuts[ROWS, position] = np.float64(rows) if position >= begin else 0.0
    if node.least_weight > 0:
        weigh_lefts(cell_weight, visit, count, cuts)
        rule_out_light(cuts, count, node.least_weight, node.weight - node.least_weight)
    return pick_cut(cuts, count, node.min_rows_leaf, node.n_rows - node.min_rows_leaf)


@borrowing
def put_last_first(visit, count):
    """Turn the visited bins by one place: the missing bin comes first."""
    last = visit[count - 1]
    for position in range(count - 1, 0, -1):
        visit[position] = visit[position - 1]
    visit[0] = last


@borrowing
def offer_cells(is_categorical, feature, cells, visit, node, tally, table, cuts, found, k, best):
    """Search a column given by its histogram, which is emptied; keep a split that is better."""
    cell_weight, cell_rows, occupied = cells
    count = empty_set(occupied, 0, visit)
    has_missing = visit[count - 1] == MISSING_BIN and not is_categorical
    if is_categorical:
        sort_by_majority(cell_weight, tally, visit, count, cuts[RIGHT])
    n_cuts = count - 1 if has_missing else count
    score, where = best_visited(cells, visit, (0, n_cuts), node, tally, table, cuts)
    if score > best and is_categorical:
        larger_is_left = 2.0 * cuts[ROWS, where] > node.n_rows
        best = keep_categories(found, k, feature, (score, where), visit, count, larger_is_left)
    elif score > best:
        side = 0 if has_missing else UNSEEN
        best = keep_numeric(found, k, feature, (score, visit[where], side))
    if has_missing:
        put_last_first(visit, count)
        score, where = best_visited(cells, visit, (1, count), node, tally, table, cuts)
        if score > best:
            best = keep_numeric(found, k, feature, (score, visit[where], 1))
    for position in range(count):
        cell_rows[visit[position]] = 0
        cell_weight[visit[position]] = 0
    return best

"""Cuts by classes from a (bins, classes) histogram of wide integers: any column, any weight.

The general way: categorical columns, entropy in large nodes, nodes too heavy for exact sums, and
all nodes where children must have some weight.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedforest.kernels.category_order import sort_by_key
from fedforest.kernels.class_scores import (
    CLASS_SHIFT,
    EXACT_WEIGHT,
    part,
    row_weight,
    score_entropy,
)
from fedforest.kernels.cuts import LEFT, RIGHT, ROWS, SCORE, WEIGHT, pick_cut, rule_out_light
from fedforest.kernels.entropy import x_log2_x
from fedforest.kernels.jit import borrowing
from fedforest.kernels.keep import keep_categories, keep_numeric
from fedforest.kernels.layout import ENTROPY, GINI, MISSING_BIN, N_CODES, UNSEEN

IN_NODE, ON_LEFT = 0, 1  # rows of a tally: class weights of the node and left of the cut
_ONE = np.uint64(1)


class Cells(NamedTuple):
    """The histogram of a node; zero between columns."""

    weight: NDArray[np.int64]  # (bins, classes)
    rows: NDArray[np.int64]


@borrowing
def fill_cells(bins, base, entries, span, row_bits, weights, cells):
    """Histogram, over the rows of a node, of the column that begins at `base`."""
    cell_weight, cell_rows = cells
    row_mask = (_ONE << row_bits) - _ONE
    for i in range(span[0], span[1]):
        entry = np.uint64(entries[i])
        row = entry & row_mask
        code = entry >> row_bits
        at = bins[base + row]
        cell_weight[at, code >> CLASS_SHIFT] += row_weight(code, row, weights)
        cell_rows[at] += 1


@borrowing
def visit_occupied(cell_rows, visit):
    """List the bins that hold rows; return how many there are."""
    count = np.uint64(0)
    for code in range(N_CODES):
        visit[count] = np.uint64(code)
        count += np.uint64(cell_rows[code] > 0)
    return np.int64(count)


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
def move_cells_entropy(cell_weight, code, tally, entropy):
    """Move a bin from right to left; (its weight, by how much S of both sides changes)."""
    weight, change = 0, 0
    for c in range(tally.shape[1]):
        added = cell_weight[code, c]
        if added == 0:
            continue
        left = tally[ON_LEFT, c]
        right = tally[IN_NODE, c] - left
        tally[ON_LEFT, c] = left + added
        weight += added
        change += part(left + added, ENTROPY, entropy) - part(left, ENTROPY, entropy)
        change += part(right - added, ENTROPY, entropy) - part(right, ENTROPY, entropy)
    return weight, change


@borrowing
def move_cells_heavy(cell_weight, code, tally):
    """Move a bin from right to left where S would overflow; returns its weight."""
    weight = 0
    for c in range(tally.shape[1]):
        tally[ON_LEFT, c] += cell_weight[code, c]
        weight += cell_weight[code, c]
    return weight


@borrowing
def score_heavy(tally, criterion):
    """The score of a node too heavy for exact integers, class after class in float64."""
    left_weight, right_weight = 0.0, 0.0
    left_sum, right_sum = 0.0, 0.0
    for c in range(tally.shape[1]):
        a = np.float64(tally[ON_LEFT, c])
        b = np.float64(tally[IN_NODE, c] - tally[ON_LEFT, c])
        left_weight += a
        right_weight += b
        left_sum += a * a if criterion == GINI else x_log2_x(a)
        right_sum += b * b if criterion == GINI else x_log2_x(b)
    if criterion == GINI:
        return left_sum / left_weight + right_sum / right_weight
    return left_sum - x_log2_x(left_weight) + (right_sum - x_log2_x(right_weight))


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
        cuts[SCORE, k] = cuts[LEFT, k] / a + cuts[RIGHT, k] / (weight - a)


@borrowing
def sweep_entropy(cell_weight, visit, count, node, tally, entropy, cuts):
    """Score the cut after each visited bin by entropy."""
    weight, both_sums = 0, node.whole
    for position in range(count):
        added, change = move_cells_entropy(cell_weight, visit[position], tally, entropy)
        weight += added
        both_sums += change
        cuts[SCORE, position] = score_entropy(weight, both_sums, node, entropy)


@borrowing
def sweep_heavy(cell_weight, visit, count, tally, criterion, cuts):
    """Score the cut after each visited bin in float64."""
    for position in range(count):
        move_cells_heavy(cell_weight, visit[position], tally)
        cuts[SCORE, position] = score_heavy(tally, criterion)


@borrowing
def weigh_lefts(cell_weight, visit, count, cuts):
    """The weight on the left of the cut after each visited bin."""
    weight = 0
    for position in range(count):
        for c in range(cell_weight.shape[1]):
            weight += cell_weight[visit[position], c]
        cuts[WEIGHT, position] = np.float64(weight)


@borrowing
def best_visited(cells, visit, span, node, tally, entropy, cuts):
    """(score, position) of the best cut after the visited bins span[0]..span[1].

    Bins before them are on the left of every cut.
    """
    cell_weight, cell_rows = cells
    begin, count = span
    if node.weight >= EXACT_WEIGHT:
        sweep_heavy(cell_weight, visit, count, tally, node.criterion, cuts)
    elif node.criterion == GINI:
        sweep_gini(cell_weight, visit, count, tally, cuts)
        score_gini(cuts, count, node)
    else:
        sweep_entropy(cell_weight, visit, count, node, tally, entropy, cuts)
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
def offer_cells(is_categorical, feature, cells, visit, node, tally, entropy, cuts, found, k, best):
    """Search a column given by its histogram, which is emptied; keep a split that is better."""
    cell_weight, cell_rows = cells
    count = visit_occupied(cell_rows, visit)
    has_missing = visit[count - 1] == MISSING_BIN and not is_categorical
    if is_categorical:
        sort_by_majority(cell_weight, tally, visit, count, cuts[RIGHT])
    n_cuts = count - 1 if has_missing else count
    score, where = best_visited(cells, visit, (0, n_cuts), node, tally, entropy, cuts)
    if score > best and is_categorical:
        larger_is_left = 2.0 * cuts[ROWS, where] > node.n_rows
        best = keep_categories(found, k, feature, (score, where), visit, count, larger_is_left)
    elif score > best:
        side = 0 if has_missing else UNSEEN
        best = keep_numeric(found, k, feature, (score, visit[where], side))
    if has_missing:
        put_last_first(visit, count)
        score, where = best_visited(cells, visit, (1, count), node, tally, entropy, cuts)
        if score > best:
            best = keep_numeric(found, k, feature, (score, visit[where], 1))
    for position in range(count):
        cell_rows[visit[position]] = 0
        cell_weight[visit[position]] = 0
    return best

"""Cuts of a small node by classes, row by row.

Ranked rows move from right to left, one after the other.
"""

import numpy as np

from fedforest.kernels.criteria.candidates import ROWS, SCORE, pick_cut
from fedforest.kernels.criteria.classes import best_gini
from fedforest.kernels.criteria.dispatch import is_squares, part, score_classes
from fedforest.kernels.jit import borrowing, embedded
from fedforest.kernels.layout import NO_SPLIT, UNSEEN
from fedforest.kernels.splits.ranking import POSITION_BITS, POSITIONS, ends_missing, turn_missing


@embedded
def sweep_gini(ordered, n, labels, weights, in_node, on_left, sums):
    """Sums left of the cut after the last row of each bin; returns how many bins there are.

    The rows of `sums` are those of `best_gini`. `on_left` is zero before and after.
    """
    weight, squares, products = 0, 0, 0
    count = np.uint64(0)
    for i in range(n):
        key = np.int64(ordered[i])
        position = np.uint64(key & POSITIONS)
        label, moved = labels[position], weights[position]
        before = on_left[label]
        on_left[label] = before + moved
        weight += moved
        squares += moved * (2 * before + moved)
        products += moved * in_node[label]
        sums[0, count] = weight
        sums[1, count] = squares
        sums[2, count] = products
        sums[3, count] = i + 1
        count += np.uint64((np.int64(ordered[i + 1]) ^ key) >> POSITION_BITS != 0)
    for i in range(n):
        on_left[labels[i]] = 0
    return np.int64(count)


@borrowing
def sweep_rows(ordered, labels, weights, node, in_node, on_left, table, cuts):
    """Score the cut after the last row of each bin by any criterion; returns how many bins."""
    weight, left_sum, right_sum, formula = 0, 0, node.whole, node.formula
    count = np.uint64(0)
    for i in range(node.n_rows):
        key = np.int64(ordered[i])
        position = np.uint64(key & POSITIONS)
        label, moved = labels[position], weights[position]
        before = on_left[label]
        after = in_node[label] - before
        on_left[label] = before + moved
        weight += moved
        left_sum += part(formula, before + moved, table) - part(formula, before, table)
        right_sum += part(formula, after - moved, table) - part(formula, after, table)
        if (np.int64(ordered[i + 1]) ^ key) >> POSITION_BITS != 0:
            rest = node.weight - weight
            cuts[SCORE, count] = score_classes(formula, left_sum, right_sum, weight, rest, table)
            cuts[ROWS, count] = np.float64(i + 1)
            count += np.uint64(1)
    for i in range(node.n_rows):
        on_left[labels[i]] = 0
    return np.int64(count)


@embedded
def best_ordered(ordered, labels, weights, node, tally, table, least, sums, cuts):
    """(score, bin) of the best cut between ordered rows with at least `least` of them left."""
    in_node, on_left = tally[0], tally[1]
    n = node.n_rows
    if is_squares(node.formula):
        count = sweep_gini(ordered, n, labels, weights, in_node, on_left, sums)
        most = n - node.min_rows_leaf + 1
        score, where = best_gini(sums, count, node, least, most, cuts[SCORE])
        return score, ordered[sums[3, where] - 1] >> POSITION_BITS
    count = sweep_rows(ordered, labels, weights, node, in_node, on_left, table, cuts)
    score, where = pick_cut(cuts, count, least, n - node.min_rows_leaf)
    return score, ordered[np.int64(cuts[ROWS, where]) - 1] >> POSITION_BITS


@embedded
def cut_ordered(ordered, labels, weights, node, tally, table, sums, cuts):
    """Return (score, bin, side of missing values) of the best cut between ordered rows.

    Rows without a value come last, where no cut is valid behind them, and then first.
    """
    score, code, side = NO_SPLIT, 0, UNSEEN
    least = node.min_rows_leaf
    for turn in range(2):
        if turn == 1:
            if not ends_missing(ordered, node.n_rows):
                return score, code, UNSEEN
            least = max(least, turn_missing(ordered, node.n_rows) + 1)
        other, there = best_ordered(ordered, labels, weights, node, tally, table, least, sums, cuts)
        if other > score:
            score, code, side = other, there, turn
    return score, code, side

"""The best of the cuts asked about in each node, from the sums of their sides.

Scores are those of the criterion (`criteria/registry`). A side is what travels between parties:

    classes   | weight of class 0 | ... | of class C - 1 | rows |
    moments   | weight | sum of weighted targets | rows |

and ends before the rows where every row weighs one. Either the left side and the node are known, or
both sides of each cut: where noise was added, or parties sat out, they do not add up to the node.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedforest.kernels.criteria.classes import EXACT_WEIGHT
from fedforest.kernels.criteria.dispatch import (
    heavy_part,
    is_squares,
    make_table,
    part,
    score_classes,
    score_heavy_classes,
    score_moments,
)
from fedforest.kernels.jit import borrowing, embedded, kernel
from fedforest.kernels.layout import NO_GROUP, NO_SPLIT

_ZERO = np.uint64(0)
_HALF = np.uint64(32)
_LOW_HALF = np.uint64(0xFFFFFFFF)


class Sides(NamedTuple):
    """The sums of the asked pairs, those of node k in rows asked_start[k] to asked_start[k + 1]."""

    asked_start: NDArray[np.int64]
    sums: NDArray[np.int64]  # (asked, width) left sides, or (asked, 2 * width) with the right ones
    totals: NDArray[
        np.int64
    ]  # sums of whole nodes in their first `width` columns; unused with both
    width: int


class Choice(NamedTuple):
    """The best cut of each node."""

    score: NDArray[np.float64]  # NO_SPLIT where there is none
    asked: NDArray[np.int64]  # its row among the asked pairs, -1 where there is none
    gainless: NDArray[np.bool_]  # no cut gains anything, though some were valid
    fits: NDArray[np.bool_]  # no weight and no number of rows is negative, on either side


@embedded
def read_sides(sums, row, totals, node, width, c):
    """Return one integer of both sides of a cut."""
    left = sums[row, c]
    right = sums[row, width + c] if sums.shape[1] > width else totals[node, c] - left
    return left, right


@embedded
def least_weight_at(rules, node):
    """Return the weight that a side of a node's cuts must have; a side without any is none."""
    limits = rules.least_weight
    return max(np.int64(1), limits[node]) if limits.shape[0] > 0 else np.int64(1)


@embedded
def score_sides(sums, row, totals, node, width, n_classes, limits, table):
    """Return (score, least part) of a cut by class weights; NO_SPLIT if it is not valid.

    `limits` are the formula, and the rows and the weight that a side must have: at least one. A
    negative weight, which only noise makes, counts as nothing.
    """
    formula, leaf, least_weight = limits
    weight, rest, least, here, there = 0, 0, 0, 0, 0
    for c in range(n_classes):
        left, right = read_sides(sums, row, totals, node, width, c)
        least = min(least, left, right)
        weight, rest = weight + max(left, 0), rest + max(right, 0)
        if is_squares(formula):  # sooner had than a second look at the sides
            here += part(formula, max(left, 0), table)
            there += part(formula, max(right, 0), table)
    rows, other_rows = weight, rest
    if width > n_classes:
        rows, other_rows = read_sides(sums, row, totals, node, width, n_classes)
        least = min(least, rows, other_rows)
    if min(rows, other_rows) < leaf or min(weight, rest) < least_weight:
        return NO_SPLIT, least
    if weight + rest >= EXACT_WEIGHT:
        return score_heavy(sums, row, totals, node, width, n_classes, formula), least
    if not is_squares(formula):
        for c in range(n_classes):
            left, right = read_sides(sums, row, totals, node, width, c)
            here += part(formula, max(left, 0), table)
            there += part(formula, max(right, 0), table)
    return score_classes(formula, here, there, weight, rest, table), least


@borrowing
def score_heavy(sums, row, totals, node, width, n_classes, formula):
    """Score a cut in float64, for nodes too heavy for exact sums."""
    sum_here, sum_there, weight, rest = 0.0, 0.0, 0, 0
    for c in range(n_classes):
        left, right = read_sides(sums, row, totals, node, width, c)
        sum_here += heavy_part(formula, np.float64(max(left, 0)))
        sum_there += heavy_part(formula, np.float64(max(right, 0)))
        weight, rest = weight + max(left, 0), rest + max(right, 0)
    return score_heavy_classes(formula, sum_here, sum_there, np.float64(weight), np.float64(rest))


@kernel
def choose_by_classes(sides, n_classes, rules, choice, first, last):
    """The best cut of the nodes first..last; the first of equals, so the lowest column."""
    asked_start, sums, totals, width = sides
    best_score, best_asked, gainless, fits = choice
    table = make_table(rules.formula)
    for k in range(first, last):
        best, best_row, fits[k] = NO_SPLIT, -1, True
        limits = (rules.formula, rules.min_rows_leaf, least_weight_at(rules, k))
        for row in range(asked_start[k], asked_start[k + 1]):
            score, least = score_sides(sums, row, totals, k, width, n_classes, limits, table)
            fits[k] &= least >= 0
            if score > best:
                best, best_row = score, row
        best_score[k], best_asked[k], gainless[k] = best, best_row, False


@borrowing
def multiply_high(a, b):
    """Return the upper half of the product of two 64-bit words."""
    a_low, a_high, b_low, b_high = a & _LOW_HALF, a >> _HALF, b & _LOW_HALF, b >> _HALF
    middle = a_high * b_low + ((a_low * b_low) >> _HALF)
    carried = a_low * b_high + (middle & _LOW_HALF)
    return a_high * b_high + (middle >> _HALF) + (carried >> _HALF)


@borrowing
def same_product(a, b, c, d):
    """Return whether a * b == c * d, exactly, for int64 b and d that are not negative."""
    if a * b != c * d:  # both modulo 2^64: different for certain
        return False
    low, high = np.uint64(b), np.uint64(d)
    left = multiply_high(np.uint64(a), low) - (low if a < 0 else _ZERO)
    right = multiply_high(np.uint64(c), high) - (high if c < 0 else _ZERO)
    return left == right


@kernel
def choose_by_moments(sides, rules, choice, first, last):
    """The best cut of the nodes first..last among those that lower the impurity at all.

    A cut between sides of exactly the same mean gains nothing. A node with no other cuts is most
    often one of equal targets, which nobody sees here: it is marked `gainless`.
    """
    asked_start, sums, totals, width = sides
    best_score, best_asked, gainless, fits = choice
    leaf = rules.min_rows_leaf
    rows_at = 2 if width > 2 else 0
    for k in range(first, last):
        best, best_row, any_valid, fits[k] = NO_SPLIT, -1, False, True
        least_weight = least_weight_at(rules, k)
        for row in range(asked_start[k], asked_start[k + 1]):
            weight, rest = read_sides(sums, row, totals, k, width, 0)
            total, rest_total = read_sides(sums, row, totals, k, width, 1)
            rows, other_rows = read_sides(sums, row, totals, k, width, rows_at)
            fits[k] &= min(weight, rest, rows, other_rows) >= 0
            if min(rows, other_rows) < leaf or min(weight, rest) < least_weight:
                continue
            whole, whole_total = np.float64(weight + rest), np.float64(total + rest_total)
            score = score_moments(
                rules.formula, np.float64(weight), np.float64(total), whole, whole_total
            )
            if score == NO_SPLIT:
                continue
            any_valid = True
            if score > best and not same_product(total, rest, rest_total, weight):
                best, best_row = score, row
        best_score[k], best_asked[k] = best, best_row
        gainless[k] = any_valid and best_row < 0


@kernel
def take_sides(sums, chosen, n_classes, rows_apart):
    """Return the chosen sides as the integers that describe nodes; see `expand_sides`."""
    n_weights = n_classes if n_classes > 0 else 2
    expanded = np.zeros((chosen.shape[0], n_classes + 1 if n_classes > 0 else 4), np.int64)
    for i in range(chosen.shape[0]):
        rows = 0
        for c in range(n_weights):
            expanded[i, c] = sums[chosen[i], c]
            rows += sums[chosen[i], c]
        if rows_apart:
            rows = sums[chosen[i], n_weights]
        elif n_classes == 0:
            rows = sums[chosen[i], 0]
        expanded[i, n_weights] = rows
    return expanded


@kernel
def take_most_rows(nodes, left, totals, rows_at):
    """Per split node whether most of its rows go left, as 1 or 0; rows of the smallest side."""
    goes_left, smallest = np.empty(nodes.shape[0], np.uint8), NO_GROUP
    for i in range(nodes.shape[0]):
        left_rows, rows = left[i, rows_at], totals[nodes[i], rows_at]
        goes_left[i] = 2 * left_rows > rows
        smallest = min(smallest, left_rows, rows - left_rows)
    return goes_left, smallest


@kernel
def expand_sides(sums, n_classes, rows_apart):
    """Sides as the integers that describe nodes: (class weights ..., rows), or moments.

    Whether all targets of a node are equal is not known from its sums: no moments count as pure.
    """
    return take_sides(sums, np.arange(sums.shape[0]), n_classes, rows_apart)

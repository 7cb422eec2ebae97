"""The best of the cuts asked about where there are two classes, by gini: most forests are such.

The same choice, to the bit, as `cut_scores.choose_by_classes` makes for any number of classes. With
two of them a cut is four numbers. Most nodes have a few cuts and some ten rows, so the cuts of many
nodes are scored together, as vectors: up to `EXACT_ROWS`, squares of rows and their sums are whole
numbers in float64, too.
"""

import numpy as np

from fedforest.kernels.criteria.classes import EXACT_WEIGHT
from fedforest.kernels.criteria.gini import Gini, score_purity
from fedforest.kernels.cuts.scores import score_heavy
from fedforest.kernels.jit import embedded, kernel
from fedforest.kernels.layout import NO_SPLIT

EXACT_ROWS = 1 << 26  # of a node
CUTS_TOGETHER = 1024  # what is known of them stays in the first cache

_NO_ROWS = 0.0
_ONE, _TWO = np.uint64(1), np.uint64(2)


@embedded
def end_of_block(asked_start, totals, first, last):
    """Behind the last of the nodes from `first` on whose cuts can be scored together."""
    most = asked_start[first] + CUTS_TOGETHER
    k = first
    while k < last and asked_start[k + 1] <= most and totals[k, 0] + totals[k, 1] < EXACT_ROWS:
        k += 1
    return k


@embedded
def spread_totals(asked_start, totals, first, last, zeros, ones):
    """Put what a node has of each class beside every cut of it."""
    begin = np.uint64(asked_start[first])
    for k in range(np.uint64(first), np.uint64(last)):
        own_zeros, own_ones = np.float64(totals[k, 0]), np.float64(totals[k, 1])
        for row in range(np.uint64(asked_start[k]), np.uint64(asked_start[k + _ONE])):
            zeros[row - begin], ones[row - begin] = own_zeros, own_ones


@embedded
def score_together(flat_sums, begin, n_cuts, leaf, zeros, ones, score, least):
    """The scores of cuts, NO_SPLIT where a side has too few rows, and their smallest part.

    `flat_sums` has the two sums of each cut one after the other: so the compiler sees vectors.
    """
    for i in range(np.uint64(n_cuts)):
        at = _TWO * (np.uint64(begin) + i)
        a, b = np.float64(flat_sums[at]), np.float64(flat_sums[at + _ONE])
        c, d = zeros[i] - a, ones[i] - b
        here, there = a + b, c + d
        gain = score_purity(a * a + b * b, here, c * c + d * d, there)
        score[i] = gain if (here >= leaf) & (there >= leaf) else NO_SPLIT
        left, right = a if a < b else b, c if c < d else d
        least[i] = left if left < right else right


@embedded
def choose_scored(asked_start, score, least, choice, first, last):
    """The best of each node's cuts, the first among equals."""
    best_score, best_asked, gainless, fits = choice
    begin = np.uint64(asked_start[first])
    for k in range(np.uint64(first), np.uint64(last)):
        best, best_row, smallest = NO_SPLIT, np.int64(-1), _NO_ROWS
        for row in range(np.uint64(asked_start[k]), np.uint64(asked_start[k + _ONE])):
            is_better = score[row - begin] > best
            best = score[row - begin] if is_better else best
            best_row = np.int64(row) if is_better else best_row
            smallest = least[row - begin] if least[row - begin] < smallest else smallest
        best_score[k], best_asked[k] = best, best_row
        gainless[k], fits[k] = False, smallest >= _NO_ROWS


@embedded
def choose_alone(sides, leaf, choice, k):
    """The best cut of one node, however many rows and cuts it has."""
    asked_start, sums, totals, width = sides
    best_score, best_asked, gainless, fits = choice
    zeros, ones = totals[k, 0], totals[k, 1]
    best, best_row, least = NO_SPLIT, -1, 0
    for row in range(np.uint64(asked_start[k]), np.uint64(asked_start[k + 1])):
        a, b = sums[row, 0], sums[row, 1]
        c, d = zeros - a, ones - b
        here, there = a + b, c + d
        least = min(least, a, b, c, d)
        if min(here, there) < leaf:
            continue
        if zeros + ones >= EXACT_WEIGHT:
            score = score_heavy(sums, row, totals, k, width, 2, Gini())
        else:
            left, right = np.float64(a * a + b * b), np.float64(c * c + d * d)
            score = score_purity(left, np.float64(here), right, np.float64(there))
        if score > best:
            best, best_row = score, np.int64(row)
    best_score[k], best_asked[k] = best, best_row
    gainless[k], fits[k] = False, least >= 0


@kernel
def choose_by_two_classes(sides, min_rows_leaf, choice, first, last):
    """The best cut of the nodes first..last, whose left sides are known, every row weighing one.

    Where a side has less than no rows the choice says so (`fits`), and nothing else of it counts.
    """
    asked_start, sums, totals, _ = sides
    leaf, flat_sums = max(1, min_rows_leaf), sums.reshape(-1)
    zeros, ones = np.empty(CUTS_TOGETHER), np.empty(CUTS_TOGETHER)
    score, least = np.empty(CUTS_TOGETHER), np.empty(CUTS_TOGETHER)
    k = first
    while k < last:
        end = end_of_block(asked_start, totals, k, last)
        if end == k:
            choose_alone(sides, leaf, choice, k)
            end = k + 1
        else:
            n_cuts = asked_start[end] - asked_start[k]
            spread_totals(asked_start, totals, k, end, zeros, ones)
            score_together(
                flat_sums, asked_start[k], n_cuts, np.float64(leaf), zeros, ones, score, least
            )
            choose_scored(asked_start, score, least, choice, k, end)
        k = end

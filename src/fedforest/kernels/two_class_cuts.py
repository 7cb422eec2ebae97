"""The best of the cuts asked about where there are two classes, by gini: most forests are such.

The same choice, to the bit, as `cut_scores.choose_by_classes` makes for any number of classes. With
two of them a cut is four integers, which stay in registers: no loop over classes.
"""

import numpy as np

from fedforest.kernels.class_scores import EXACT_WEIGHT
from fedforest.kernels.cut_scores import score_heavy
from fedforest.kernels.jit import kernel
from fedforest.kernels.layout import GINI, NO_SPLIT


@kernel
def choose_by_two_classes(sides, min_rows_leaf, choice, first, last):
    """The best cut of the nodes first..last, whose left sides are known, every row weighing one.

    Where a side has less than no rows the choice says so (`fits`), and nothing else of it counts.
    """
    asked_start, sums, totals, width = sides
    best_score, best_asked, gainless, fits = choice
    leaf = max(1, min_rows_leaf)
    for k in range(first, last):
        zeros, ones = totals[k, 0], totals[k, 1]
        is_heavy = zeros + ones >= EXACT_WEIGHT
        best, best_row, least = NO_SPLIT, -1, 0
        for row in range(np.uint64(asked_start[k]), np.uint64(asked_start[k + 1])):
            a, b = sums[row, 0], sums[row, 1]
            c, d = zeros - a, ones - b
            here, there = a + b, c + d
            least = min(least, a, b, c, d)
            if min(here, there) < leaf:
                continue
            if is_heavy:
                score = score_heavy(sums, row, totals, k, width, 2, GINI)
            else:
                score = np.float64(a * a + b * b) / np.float64(here)
                score += np.float64(c * c + d * d) / np.float64(there)
            if score > best:
                best, best_row = score, np.int64(row)
        best_score[k], best_asked[k] = best, best_row
        gainless[k], fits[k] = False, least >= 0

"""All cuts of a node in a list: which there are, and what each is worth, instead of the best alone.

Where labels are encrypted, the owner of a column counts rows per bin, and the label party scores
cuts that it cannot tell apart. Scores are those of the criterion, from the same integers.
"""

import numpy as np

from fedforest.kernels.criteria.dispatch import make_table, score_moments
from fedforest.kernels.cuts.scores import least_weight_at, read_sides, score_sides
from fedforest.kernels.jit import borrowing, kernel
from fedforest.kernels.layout import MAX_MULTIPLICITY, MISSING_BIN, NO_SPLIT

_MULTIPLICITY = np.uint64(MAX_MULTIPLICITY)
_ONE = np.uint64(1)


@borrowing
def count_cells(columns, order, features, counts):
    """Count rows and draws per (pair, bin) into `counts`, (pairs, bins + 1, 2) zeros.

    Pair p is the open node p of `order` in column features[p]; the last bin is of missing values.
    """
    row_mask = (_ONE << order.row_bits) - _ONE
    last = np.uint64(counts.shape[1] - 1)
    for pair in range(features.shape[0]):
        column = np.uint64(features[pair]) * columns.n_rows
        for at in range(order.start[pair], order.stop[pair]):
            entry = np.uint64(order.entries[at])
            code = columns.bins[column + (entry & row_mask)]
            cell = last if code == MISSING_BIN else np.uint64(code)
            counts[pair, cell, 0] += 1
            counts[pair, cell, 1] += np.int64((entry >> order.row_bits) & _MULTIPLICITY)


@kernel
def score_list_by_classes(sides, n_classes, rules, scores):
    """scores[row] of every listed cut; NO_SPLIT where a side is too small."""
    asked_start, sums, totals, width = sides
    table = make_table(rules.formula)
    for k in range(asked_start.shape[0] - 1):
        limits = (rules.formula, rules.min_rows_leaf, least_weight_at(rules, k))
        for row in range(asked_start[k], asked_start[k + 1]):
            scores[row], _ = score_sides(sums, row, totals, k, width, n_classes, limits, table)


@kernel
def score_list_by_moments(sides, rules, scores):
    """The same of (weight, sum, rows)."""
    asked_start, sums, totals, width = sides
    for k in range(asked_start.shape[0] - 1):
        least_weight = least_weight_at(rules, k)
        for row in range(asked_start[k], asked_start[k + 1]):
            weight, rest = read_sides(sums, row, totals, k, width, 0)
            total, rest_total = read_sides(sums, row, totals, k, width, 1)
            rows, other_rows = read_sides(sums, row, totals, k, width, 2)
            whole, whole_total = np.float64(weight + rest), np.float64(total + rest_total)
            score = score_moments(
                rules.formula, np.float64(weight), np.float64(total), whole, whole_total
            )
            is_small = min(rows, other_rows) < rules.min_rows_leaf
            scores[row] = NO_SPLIT if is_small or min(weight, rest) < least_weight else score

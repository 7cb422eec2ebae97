"""The best split of nodes whose histograms were summed over shards (`shard_cells`).

It is the split that the searches over rows find, for they score equal sums by equal formulas; only
the way of adding up differs.
"""

import numpy as np

from fedforest.kernels.criteria.candidates import make_cuts
from fedforest.kernels.criteria.dispatch import make_table
from fedforest.kernels.jit import kernel
from fedforest.kernels.layout import N_CODES, NO_SPLIT, SET_WORDS
from fedforest.kernels.splits.class_cells import IN_NODE, ClassCells, offer_cells
from fedforest.kernels.splits.classes import describe_node
from fedforest.kernels.splits.moment_histogram import (
    BIN_ROWS,
    STRIDE,
    SUM,
    offer_histogram,
    visit_occupied,
)
from fedforest.kernels.sums.packed_moments import MomentNode

_ONE = np.uint64(1)
_SIX = np.uint64(6)
_LOW_SIX = np.uint64(63)


@kernel
def sum_moment_cells(cells):
    """Return (weight, sum, rows) of a node from one of its histograms."""
    weight, total, rows = 0, 0, 0
    for code in range(N_CODES):
        weight += cells[code, 0]
        total += cells[code, 1]
        rows += cells[code, 2]
    return weight, total, rows


@kernel
def find_in_moment_cells(columns, node_start, features, cells, rules, found, first, last):
    """Best split of the nodes first..last from the summed cells of their pairs."""
    wide, visit, cuts = np.zeros(N_CODES * 4, np.int64), np.zeros(N_CODES, np.uint64), make_cuts()
    leaf, formula = rules.min_rows_leaf, rules.formula
    is_limited = rules.least_weight.shape[0] > 0
    for k in range(first, last):
        best = NO_SPLIT
        found.feature[k] = -1
        weight, total, rows = 0, 0, 0
        least = rules.least_weight[k] if is_limited else 0
        for pair in range(node_start[k], node_start[k + 1]):
            own = cells[pair]
            if pair == node_start[k]:
                weight, total, rows = sum_moment_cells(own)
            for code in range(N_CODES):
                to = np.uint64(code) * STRIDE
                wide[to], wide[to + SUM] = own[code, 0], own[code, 1]
                wide[to + BIN_ROWS] = own[code, 2]
            count = visit_occupied(wide, visit)
            node = MomentNode(weight, total, rows, leaf, least, formula)
            best = offer_histogram(
                columns, features[pair], wide, visit, count, cuts, node, found, k, best
            )
        found.score[k] = best


@kernel
def copy_class_cells(own, n_classes, into):
    """Copy a summed histogram to where cuts are searched."""
    weight, rows, occupied = into
    for code in range(N_CODES):
        n = own[code, n_classes]
        if n == 0:
            continue
        rows[code] = n
        weight[code, :n_classes] = own[code, :n_classes]
        at = np.uint64(code)
        occupied[at >> _SIX] |= _ONE << (at & _LOW_SIX)


@kernel
def find_in_class_cells(columns, node_start, features, cells, rules, found, first, last):
    """Best split of the nodes first..last from the summed cells of their pairs."""
    n_classes = cells.shape[2] - 1
    width = (n_classes + 3) & ~3  # whole vector registers; the extra classes stay empty
    scratch = ClassCells(
        np.zeros((N_CODES, width), np.int64),
        np.zeros(N_CODES, np.int64),
        np.zeros(SET_WORDS, np.uint64),
    )
    tally, table = np.zeros((2, width), np.int64), make_table(rules.formula)
    visit, cuts = np.zeros(N_CODES, np.uint64), make_cuts()
    for k in range(first, last):
        best = NO_SPLIT
        found.feature[k] = -1
        weight, rows = 0, 0
        for pair in range(node_start[k], node_start[k + 1]):
            own = cells[pair]
            if pair == node_start[k]:
                tally[:] = 0
                for code in range(N_CODES):
                    for c in range(n_classes):
                        tally[IN_NODE, c] += own[code, c]
                        weight += own[code, c]
                    rows += own[code, n_classes]
            node = describe_node(tally, weight, rows, rules, k, table)
            copy_class_cells(own, n_classes, scratch)
            f = features[pair]
            best = offer_cells(
                columns.is_categorical[f],
                f,
                scratch,
                visit,
                node,
                tally,
                table,
                cuts,
                found,
                k,
                best,
            )
        found.score[k] = best

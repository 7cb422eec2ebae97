"""Best split for any number of classes, by any criterion, with or without row weights.

The criterion scores splits (`criteria/registry`). A small node orders its rows by bin, whatever the
number of classes; others add them up by bin and class, several classes to a word where possible and
in wide integers otherwise.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedforest.kernels.bits.bitsets import list_candidates
from fedforest.kernels.criteria.candidates import SCORE, make_cuts
from fedforest.kernels.criteria.classes import (
    CLASS_SHIFT,
    EXACT_WEIGHT,
    ClassNode,
    row_weight,
)
from fedforest.kernels.criteria.dispatch import is_squares, make_table, part
from fedforest.kernels.jit import borrowing, embedded, kernel
from fedforest.kernels.layout import N_CODES, NO_SPLIT, SET_WORDS
from fedforest.kernels.splits.best import keep_numeric
from fedforest.kernels.splits.class_cells import IN_NODE, ClassCells, fill_cells, offer_cells
from fedforest.kernels.splits.class_rows import cut_ordered
from fedforest.kernels.splits.packed_classes import (
    PACKED_BLOCK,
    TOGETHER,
    WIDEST_FIELD,
    count_rows,
    count_runs,
    cut_packed,
    field_size,
    fill_columns,
    read_classes,
)
from fedforest.kernels.splits.ranking import (
    ORDERED_NODE,
    RANKED_NODE,
    SORTED_NODE,
    fetch_keys,
    make_keys,
    make_ordered,
    rank_keys,
    sort_keys,
)

ROWS_PER_CLASS = 24  # rows; ordering them pays up to about that many per class
_ONE = np.uint64(1)


class ClassScratch(NamedTuple):
    """Work space of one search, allocated once per kernel call."""

    features: NDArray[np.uint64]  # candidates of a node
    tally: NDArray[np.int64]  # class weights in the node and left of a cut
    table: NDArray[np.int64]  # what the criterion looks up
    rows: NDArray[np.uint64]  # decoded rows,
    labels: NDArray[np.uint64]  # their classes, or the run of words these are in,
    weights: NDArray[np.int64]  # their weights,
    added: NDArray[np.uint64]  # or those as parts of packed words
    keys: NDArray[np.int16]
    ordered: NDArray[np.int32]
    counts: NDArray[np.int32]  # rows per bin; zero between uses
    sums: NDArray[np.int64]  # left of each cut; see `best_gini`
    words: NDArray[np.uint64]  # packed histograms; zero between uses
    word_rows: NDArray[np.uint64]  # rows per bin of these columns; zero between uses
    cuts: NDArray[np.float64]
    visit: NDArray[np.uint64]
    cells: ClassCells


@kernel
def make_class_scratch(n_features, n_classes, formula):
    """Zeroed work space."""
    width = (n_classes + 3) & ~3  # whole vector registers; the extra classes stay empty
    n_words = TOGETHER * N_CODES * count_runs(width, WIDEST_FIELD)
    return ClassScratch(
        np.zeros(n_features, np.uint64),
        np.zeros((2, width), np.int64),
        make_table(formula),
        np.zeros(PACKED_BLOCK, np.uint64),
        np.zeros(PACKED_BLOCK, np.uint64),
        np.zeros(PACKED_BLOCK, np.int64),
        np.zeros(PACKED_BLOCK, np.uint64),
        make_keys(),
        make_ordered(),
        np.zeros(N_CODES, np.int32),
        np.zeros((4, N_CODES), np.int64),
        np.zeros(n_words, np.uint64),
        np.zeros(TOGETHER * N_CODES, np.uint64),
        make_cuts(),
        np.zeros(N_CODES, np.uint64),
        ClassCells(
            np.zeros((N_CODES, width), np.int64),
            np.zeros(N_CODES, np.int64),
            np.zeros(SET_WORDS, np.uint64),
        ),
    )


@embedded
def read_labels(entries, span, row_bits, all_weights, rows, labels, weights):
    """Decode the entries of a small node into row indices, classes and weights."""
    row_mask = (_ONE << row_bits) - _ONE
    for i in range(span[1] - span[0]):
        entry = np.uint64(entries[span[0] + i])
        row, code = entry & row_mask, entry >> row_bits
        rows[i] = row
        labels[i] = code >> CLASS_SHIFT
        weights[i] = row_weight(code, row, all_weights)


@embedded
def weigh_classes(entries, span, row_bits, weights, tally):
    """Class weights of a node; returns their sum."""
    row_mask = (_ONE << row_bits) - _ONE
    tally[IN_NODE] = 0
    added = 0
    for i in range(span[0], span[1]):
        entry = np.uint64(entries[i])
        weight = row_weight(entry >> row_bits, entry & row_mask, weights)
        tally[IN_NODE, entry >> (row_bits + CLASS_SHIFT)] += weight
        added += weight
    return added


@embedded
def describe_node(tally, weight, n_rows, rules, k, table):
    """Collect the constants of a node while its columns are searched."""
    whole = 0
    if weight < EXACT_WEIGHT:
        for c in range(tally.shape[1]):
            whole += part(rules.formula, tally[IN_NODE, c], table)
    least_weight = rules.least_weight[k] if rules.least_weight.shape[0] > 0 else 0
    return ClassNode(n_rows, weight, whole, rules.formula, rules.min_rows_leaf, least_weight)


@borrowing
def offer_wide(columns, order, targets, feature, node, scratch, found, k, best):
    """Search one column by way of wide integers."""
    bins, n_rows, _, is_categorical, _ = columns
    span = (order.start[k], order.stop[k])
    cells = scratch.cells
    fill_cells(bins, feature * n_rows, order.entries, span, order.row_bits, targets.weights, cells)
    return offer_cells(
        is_categorical[feature],
        feature,
        cells,
        scratch.visit,
        node,
        scratch.tally,
        scratch.table,
        scratch.cuts,
        found,
        k,
        best,
    )


@borrowing
def search_wide(columns, order, targets, n_features, node, scratch, found, k):
    """Best split of a node too heavy for exact sums, or with limits, or large and not by gini."""
    best = NO_SPLIT
    for j in range(n_features):
        f = scratch.features[j]
        best = offer_wide(columns, order, targets, f, node, scratch, found, k, best)
    return best


@embedded
def search_ordered(columns, order, targets, n_features, node, scratch, found, k):
    """Best split of a small node, whose rows are put in order."""
    bins, n_rows, _, is_categorical, _ = columns
    rows, labels, weights = scratch.rows, scratch.labels, scratch.weights
    keys, ordered, counts = scratch.keys, scratch.ordered, scratch.counts
    tally, table, sums, cuts = scratch.tally, scratch.table, scratch.sums, scratch.cuts
    n = node.n_rows
    best = NO_SPLIT
    for j in range(n_features):
        f = scratch.features[j]
        if is_categorical[f]:
            best = offer_wide(columns, order, targets, f, node, scratch, found, k, best)
            continue
        if not fetch_keys(bins, f * n_rows, rows, n, keys):
            continue  # one bin has no cut
        if n <= RANKED_NODE:
            rank_keys(keys, n, ordered)
        else:
            sort_keys(keys, n, counts, ordered)
        cut = cut_ordered(ordered, labels, weights, node, tally, table, sums, cuts)
        if cut[0] > best:
            best = keep_numeric(found, k, f, cut)
    return best


@borrowing
def search_packed(columns, order, targets, n_features, node, scratch, found, k):
    """Best split of a large node by gini: blocks of its rows are added to packed histograms."""
    bins, n_rows, n_bins, is_categorical, _ = columns
    entries, row_bits, span = order.entries, order.row_bits, (order.start[k], order.stop[k])
    features, rows, places, added = scratch.features, scratch.rows, scratch.labels, scratch.added
    words, word_rows, sums = scratch.words, scratch.word_rows, scratch.sums
    in_node = scratch.tally[IN_NODE]
    size = field_size(node.weight)
    stride = count_runs(in_node.shape[0], size) * N_CODES
    best = NO_SPLIT
    for low in range(0, n_features, TOGETHER):
        n_together = min(TOGETHER, n_features - low)
        for begin in range(span[0], span[1], PACKED_BLOCK):
            block = (begin, min(span[1], begin + PACKED_BLOCK))
            read_classes(entries, block, row_bits, targets.weights, size, rows, places, added)
            count = block[1] - block[0]
            fill_columns(
                bins, n_rows, features, low, n_together, rows, places, added, count, words, stride
            )
            if node.min_rows_leaf > 1:
                count_rows(bins, n_rows, features, low, n_together, rows, count, word_rows)
        for slot in range(n_together):
            f = features[low + slot]
            if is_categorical[f]:
                best = offer_wide(columns, order, targets, f, node, scratch, found, k, best)
                continue
            counts = word_rows[slot * N_CODES : (slot + 1) * N_CODES]
            at = slot * stride
            cut = cut_packed(
                words, at, n_bins[f], size, counts, node, in_node, sums, scratch.cuts[SCORE]
            )
            if cut[0] > best:
                best = keep_numeric(found, k, f, cut)
        words[: n_together * stride] = 0
        word_rows[:] = 0
    return best


@kernel
def find_by_classes(columns, order, targets, candidates, rules, found, first, last):
    """Best split of the nodes first..last among their candidate columns."""
    entries, row_bits, starts, stops = order
    n_classes, all_weights = targets.n_classes, targets.weights
    by_squares = is_squares(rules.formula)
    found_score, found_feature = found.score, found.feature
    scratch = make_class_scratch(candidates.shape[1] * 8, n_classes, rules.formula)
    features, tally, table, rows, labels, weights = scratch[:6]
    most_ordered = min(SORTED_NODE, max(ORDERED_NODE, ROWS_PER_CLASS * n_classes))
    for k in range(first, last):
        span = (starts[k], stops[k])
        n = span[1] - span[0]
        n_features = list_candidates(candidates, k, features)
        found_feature[k] = -1
        if n <= most_ordered:
            read_labels(entries, span, row_bits, all_weights, rows, labels, weights)
        weight = weigh_classes(entries, span, row_bits, all_weights, tally)
        node = describe_node(tally, weight, n, rules, k, table)
        takes_wide = weight >= EXACT_WEIGHT or node.least_weight > 0
        if takes_wide or (n > most_ordered and not by_squares):
            best = search_wide(columns, order, targets, n_features, node, scratch, found, k)
        elif n > most_ordered:
            best = search_packed(columns, order, targets, n_features, node, scratch, found, k)
        else:
            best = search_ordered(columns, order, targets, n_features, node, scratch, found, k)
        found_score[k] = best

"""Best split by first moments: regression, and two classes with row weights.

A row is a weight and a sum (weight times target); two classes are the targets 0 and 1. Scores are
those of the criterion (`criteria/registry`).

A small node sorts its rows by bin (`moment_rows`), others add them up per bin (`packed_moments`).
Categorical columns, large nodes with sample weights, and nodes whose children must have some weight
take the road through wide integers (`moment_histogram`).
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedforest.kernels.bits.bitsets import list_candidates
from fedforest.kernels.bits.instructions import LANES, prefetch
from fedforest.kernels.criteria.candidates import make_cuts
from fedforest.kernels.jit import borrowing, embedded, kernel
from fedforest.kernels.layout import N_CODES, NO_SPLIT, SET_WORDS
from fedforest.kernels.splits.best import keep_numeric
from fedforest.kernels.splits.moment_histogram import (
    fill_few,
    fill_moments,
    offer_histogram,
    read_block,
    visit_occupied,
    widen,
)
from fedforest.kernels.splits.moment_rows import CutList, list_columns, make_cut_list, pick_listed
from fedforest.kernels.splits.sorted_columns import LARGEST_SORTED, make_keys, sort_rows
from fedforest.kernels.sums.packed_moments import (
    COLUMN_WORDS,
    PACKED_BLOCK,
    PACKED_COLUMNS,
    MomentNode,
    cut_histogram,
    fill_columns,
    read_packed,
    rows_shift,
)

ROWS_AHEAD = 24  # far enough for rows to arrive in the cache before they are needed
_ONE = np.uint64(1)


class MomentScratch(NamedTuple):
    """Work space of one search, allocated once per kernel call."""

    features: NDArray[np.uint64]  # candidates of a node
    rows: NDArray[np.uint64]  # a block of decoded rows
    moments: NDArray[np.int64]  # and what they are packed into
    flat: NDArray[np.int64]  # the same memory as `moments`
    wide_moments: NDArray[np.int64]  # weight, sum, one row, padding
    histogram: NDArray[np.int64]  # packed columns; all zero between searches
    wide: NDArray[np.int64]  # (columns, four per bin); all zero between searches
    visit: NDArray[np.uint64]
    occupied: NDArray[np.uint64]  # a set of bins; empty between uses
    lefts: NDArray[np.int64]
    cuts: NDArray[np.float64]
    keys: NDArray[np.int16]  # of sorted rows
    listed: CutList


@kernel
def make_moment_scratch(n_features):
    """Zeroed work space."""
    wide_moments = np.zeros((PACKED_BLOCK, 4), np.int64)
    wide_moments[:, 2] = 1
    moments = np.zeros((PACKED_BLOCK, 2), np.int64)
    return MomentScratch(
        np.zeros(n_features, np.uint64),
        np.zeros(PACKED_BLOCK, np.uint64),
        moments,
        moments.reshape(-1),
        wide_moments,
        np.zeros(PACKED_COLUMNS * COLUMN_WORDS, np.int64),
        np.zeros((PACKED_COLUMNS, N_CODES * 4), np.int64),
        np.zeros(N_CODES, np.uint64),
        np.zeros(SET_WORDS, np.uint64),
        np.zeros(N_CODES, np.int64),
        make_cuts(),
        make_keys(),
        make_cut_list(),
    )


@borrowing
def search_wide(columns, order, targets, n_features, span, limits, scratch, found, k):
    """Best split of a node too heavy for packed moments, or with limits.

    `limits` are the rows and the weight that a side must have, and the formula.
    """
    bins, n_rows, _, _, _ = columns
    entries, row_bits, _, _ = order
    _, weights, values, _ = targets
    features, rows, moments = scratch.features, scratch.rows, scratch.wide_moments
    wide, visit, cuts = scratch.wide, scratch.visit, scratch.cuts
    best = NO_SPLIT
    for low in range(0, n_features, PACKED_COLUMNS):
        high = min(low + PACKED_COLUMNS, n_features)
        weight, total = 0, 0
        for begin in range(span[0], span[1], PACKED_BLOCK):
            count = min(PACKED_BLOCK, span[1] - begin)
            added = read_block(entries, begin, count, row_bits, weights, values, rows, moments)
            weight += added[0]
            total += added[1]
            for j in range(low, high):
                fill_moments(bins, features[j] * n_rows, rows, moments, count, wide[j - low])
        node = MomentNode(weight, total, span[1] - span[0], limits[0], limits[1], limits[2])
        for j in range(low, high):
            listed = visit_occupied(wide[j - low], visit)
            best = offer_histogram(
                columns, features[j], wide[j - low], visit, listed, cuts, node, found, k, best
            )
    return best


@borrowing
def offer_category(columns, feature, at, node, shift, scratch, found, k, best):
    """Search a categorical column given by its packed histogram, which is emptied."""
    wide, visit = scratch.wide[0], scratch.visit
    count = widen(scratch.histogram, at, shift, visit, wide)
    return offer_histogram(columns, feature, wide, visit, count, scratch.cuts, node, found, k, best)


@borrowing
def search_packed(columns, order, targets, n_features, span, rules, shift, scratch, found, k):
    """Best split of a node of many rows: blocks of them are added to packed histograms."""
    bins, n_rows, n_bins, is_categorical, _ = columns
    features, rows, moments, histogram = (
        scratch.features,
        scratch.rows,
        scratch.moments,
        scratch.histogram,
    )
    best = NO_SPLIT
    for low in range(0, n_features, PACKED_COLUMNS):
        high = min(low + PACKED_COLUMNS, n_features)
        packed, total = 0, 0
        for begin in range(span[0], span[1], PACKED_BLOCK):
            block = (begin, min(span[1], begin + PACKED_BLOCK))
            added = read_packed(order, targets, block, shift, _ONE, rows, moments)
            packed += added[0]
            total += added[1]
            count = block[1] - block[0]
            fill_columns(bins, n_rows, features, low, high, rows, moments, count, histogram)
        leaf, formula, n = rules.min_rows_leaf, rules.formula, span[1] - span[0]
        node = MomentNode(packed & ((1 << shift) - 1), total, n, leaf, 0, formula)
        for j in range(low, high):
            f = features[j]
            at = np.uint64((j - low) * COLUMN_WORDS)
            if is_categorical[f]:
                best = offer_category(columns, f, at, node, shift, scratch, found, k, best)
                continue
            cut = cut_histogram(histogram, at, n_bins[f], node, shift, scratch.lefts, scratch.cuts)
            if cut[0] > best:
                best = keep_numeric(found, k, f, cut)
        histogram[: (high - low) * COLUMN_WORDS] = 0
    return best


@embedded
def fetch_ahead(columns, order, values, span):
    """Have rows that follow soon in the row order brought into the cache."""
    by_row, n_columns = columns.by_row, np.uint64(columns.n_bins.shape[0])
    entries, row_bits = order.entries, order.row_bits
    row_mask = (_ONE << row_bits) - _ONE
    last = entries.shape[0] - 1
    for i in range(span[0], span[1]):
        row = np.uint64(entries[min(i + ROWS_AHEAD, last)]) & row_mask
        prefetch(values, row)
        prefetch(by_row, row * n_columns)
        prefetch(by_row, row * n_columns + n_columns)


@embedded
def end_of_run(is_categorical, features, low, n_features):
    """Find the end of the run of numeric columns, at most eight, that begins at features[low]."""
    high = low + 1
    while high < min(low + LANES, n_features) and not is_categorical[features[high]]:
        high += 1
    return high


@embedded
def search_small(columns, order, targets, n_features, span, rules, shift, scratch, found, k):
    """Best split of a node of so few rows that they are sorted."""
    is_categorical, by_row = columns.is_categorical, columns.by_row
    row_size = np.uint64(is_categorical.shape[0])
    features, rows, moments, listed = (
        scratch.features,
        scratch.rows,
        scratch.moments,
        scratch.listed,
    )
    fetch_ahead(columns, order, targets.values, span)
    packed, total = read_packed(order, targets, span, shift, row_size, rows, moments)
    n = span[1] - span[0]
    leaf, formula = rules.min_rows_leaf, rules.formula
    node = MomentNode(packed & ((1 << shift) - 1), total, n, leaf, 0, formula)
    best = NO_SPLIT
    low = 0
    while low < n_features:
        f = features[low]
        if is_categorical[f]:
            wide, visit, occupied = scratch.wide[0], scratch.visit, scratch.occupied
            count = fill_few(by_row, f, rows, moments, n, shift, occupied, visit, wide)
            best = offer_histogram(
                columns, f, wide, visit, count, scratch.cuts, node, found, k, best
            )
            low += 1
            continue
        high = end_of_run(is_categorical, features, low, n_features)
        sort_rows(by_row, features, low, high, rows, n, scratch.keys)
        count = list_columns(scratch.keys, high - low, scratch.flat, node, shift, listed)
        score, lane, code, side = pick_listed(listed, count, node)
        if score > best:
            best = keep_numeric(found, k, features[low + lane], (score, code, side))
        low = high
    return best


@kernel
def find_by_moments(columns, order, targets, candidates, rules, found, first, last):
    """Best split of the nodes first..last among their candidate columns."""
    _, _, starts, stops = order
    weights, leaf = targets.weights, rules.min_rows_leaf
    least_weight, is_limited = rules.least_weight, rules.least_weight.shape[0] > 0
    found_score, found_feature = found.score, found.feature
    scratch = make_moment_scratch(candidates.shape[1] * 8)
    features = scratch.features
    for k in range(first, last):
        span = (starts[k], stops[k])
        n = span[1] - span[0]
        shift = rows_shift(n, weights)
        n_features = list_candidates(candidates, k, features)
        found_feature[k] = -1
        if shift == 0 or is_limited:
            limits = (leaf, least_weight[k] if is_limited else 0, rules.formula)
            best = search_wide(columns, order, targets, n_features, span, limits, scratch, found, k)
        elif n > LARGEST_SORTED:
            best = search_packed(
                columns, order, targets, n_features, span, rules, shift, scratch, found, k
            )
        else:
            best = search_small(
                columns, order, targets, n_features, span, rules, shift, scratch, found, k
            )
        found_score[k] = best

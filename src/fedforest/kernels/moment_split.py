"""Best split by first moments: regression, and two classes with row weights.

A row is a weight and a sum (weight times target). With a and s on the left of a node of weight n
and sum m, the score (s n - m a)^2 / (a (n - a)) orders splits by the decrease of variance
(score / n^2) and, for targets 0 and 1, of gini impurity (2 score / n^2).

A node of few rows scores their subsets, a small one orders its rows by bin, others add them up per
bin (`packed_moments`). Categorical columns, and large nodes with sample weights, take the road
through wide integers (`moment_histogram`).
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedforest.kernels.bitsets import list_candidates
from fedforest.kernels.cuts import make_cuts
from fedforest.kernels.few_rows import FEW_ROWS, N_SUBSETS, cut_few, order_subsets
from fedforest.kernels.jit import borrowing, embedded, kernel
from fedforest.kernels.keep import keep_numeric
from fedforest.kernels.layout import N_CODES, NO_SPLIT
from fedforest.kernels.moment_histogram import (
    BIN_ROWS,
    STRIDE,
    SUM,
    fill_moments,
    offer_histogram,
    read_block,
    widen,
)
from fedforest.kernels.packed_moments import (
    COLUMN_WORDS,
    PACKED_BLOCK,
    PACKED_COLUMNS,
    MomentNode,
    cut_histogram,
    cut_ranked,
    fill_columns,
    fill_one,
    read_packed,
    repeat_first,
    row_moments,
    rows_shift,
    score_subsets,
)
from fedforest.kernels.ranking import (
    ORDERED_NODE,
    RANKED_NODE,
    fetch_keys,
    make_keys,
    make_ordered,
    rank_keys,
    sort_keys,
)

__all__ = [
    "BIN_ROWS",
    "STRIDE",
    "SUM",
    "MomentNode",
    "find_by_moments",
    "offer_histogram",
    "row_moments",
]

_ZERO = np.uint64(0)


class MomentScratch(NamedTuple):
    """Work space of one search, allocated once per kernel call."""

    features: NDArray[np.uint64]  # candidates of a node
    rows: NDArray[np.uint64]  # a block of decoded rows
    moments: NDArray[np.int64]  # and what they are packed into
    wide_moments: NDArray[np.int64]  # weight, sum, one row, padding
    histogram: NDArray[np.int64]  # packed columns; all zero between searches
    wide: NDArray[np.int64]  # (columns, four per bin); all zero between searches
    visit: NDArray[np.uint64]
    lefts: NDArray[np.int64]
    cuts: NDArray[np.float64]
    keys: NDArray[np.int16]
    ordered: NDArray[np.int32]
    counts: NDArray[np.int32]  # rows per bin; zero between uses
    scores: NDArray[np.float64]  # of the subsets of few rows
    orders: NDArray[np.int64]


@kernel
def make_moment_scratch(n_features):
    """Zeroed work space."""
    wide_moments = np.zeros((PACKED_BLOCK, 4), np.int64)
    wide_moments[:, 2] = 1
    return MomentScratch(
        np.zeros(n_features, np.uint64),
        np.zeros(PACKED_BLOCK, np.uint64),
        np.zeros((PACKED_BLOCK, 2), np.int64),
        wide_moments,
        np.zeros(PACKED_COLUMNS * COLUMN_WORDS, np.int64),
        np.zeros((PACKED_COLUMNS, N_CODES * 4), np.int64),
        np.zeros(N_CODES, np.uint64),
        np.zeros(N_CODES, np.int64),
        make_cuts(),
        make_keys(),
        make_ordered(),
        np.zeros(N_CODES, np.int32),
        np.zeros(N_SUBSETS),
        np.zeros(N_SUBSETS, np.int64),
    )


@borrowing
def search_wide(columns, order, targets, n_features, span, leaf, scratch, found, k):
    """Best split of a node too heavy for packed moments."""
    bins, n_rows, _, _ = columns
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
        node = MomentNode(weight, total, span[1] - span[0], leaf)
        for j in range(low, high):
            best = offer_histogram(
                columns, features[j], wide[j - low], visit, cuts, node, found, k, best
            )
    return best


@borrowing
def offer_category(columns, feature, at, node, shift, scratch, found, k, best):
    """Search a categorical column given by its packed histogram, which is emptied."""
    wide = scratch.wide[0]
    widen(scratch.histogram, at, shift, wide)
    return offer_histogram(
        columns, feature, wide, scratch.visit, scratch.cuts, node, found, k, best
    )


@borrowing
def search_packed(columns, order, targets, n_features, span, leaf, shift, scratch, found, k):
    """Best split of a node of many rows: blocks of them are added to packed histograms."""
    bins, n_rows, n_bins, is_categorical = columns
    entries, row_bits, _, _ = order
    _, weights, values, _ = targets
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
            added = read_packed(entries, block, row_bits, weights, values, shift, rows, moments)
            packed += added[0]
            total += added[1]
            count = block[1] - block[0]
            fill_columns(bins, n_rows, features, low, high, rows, moments, count, histogram)
        node = MomentNode(packed & ((1 << shift) - 1), total, span[1] - span[0], leaf)
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
def search_small(columns, order, targets, n_features, span, leaf, shift, scratch, found, k):
    """Best split of a node of so few rows that they are ranked, or their subsets scored."""
    bins, n_rows, _, is_categorical = columns
    entries, row_bits, _, _ = order
    _, weights, values, _ = targets
    (
        features,
        rows,
        moments,
        _,
        histogram,
        _,
        _,
        lefts,
        cuts,
        keys,
        ordered,
        counts,
        scores,
        orders,
    ) = scratch
    n = span[1] - span[0]
    packed, total = read_packed(entries, span, row_bits, weights, values, shift, rows, moments)
    node = MomentNode(packed & ((1 << shift) - 1), total, n, leaf)
    if n <= FEW_ROWS:
        repeat_first(rows, moments, n)
        score_subsets(moments, node, shift, scores)
        order_subsets(scores, orders)
    best = NO_SPLIT
    for j in range(n_features):
        f = features[j]
        base = f * n_rows
        if is_categorical[f]:
            fill_one(bins, base, rows, moments, n, histogram, _ZERO)
            best = offer_category(columns, f, _ZERO, node, shift, scratch, found, k, best)
            continue
        if n <= FEW_ROWS:
            cut = cut_few(bins, base, rows, scores, orders)
        else:
            fetch_keys(bins, base, rows, n, keys)
            if n <= RANKED_NODE:
                rank_keys(keys, n, ordered)
            else:
                sort_keys(keys, n, counts, ordered)
            cut = cut_ranked(ordered, moments, node, shift, lefts, cuts)
        if cut[0] > best:
            best = keep_numeric(found, k, f, cut)
    return best


@kernel
def find_by_moments(columns, order, targets, candidates, rules, found, first, last):
    """Best split of the nodes first..last among their candidate columns."""
    _, _, starts, stops = order
    weights, leaf = targets.weights, rules.min_rows_leaf
    found_score, found_feature = found.score, found.feature
    scratch = make_moment_scratch(candidates.shape[1] * 8)
    features = scratch.features
    for k in range(first, last):
        span = (starts[k], stops[k])
        n = span[1] - span[0]
        shift = rows_shift(n, weights)
        n_features = list_candidates(candidates, k, features)
        found_feature[k] = -1
        if shift == 0:
            best = search_wide(columns, order, targets, n_features, span, leaf, scratch, found, k)
        elif n > ORDERED_NODE:
            best = search_packed(
                columns, order, targets, n_features, span, leaf, shift, scratch, found, k
            )
        else:
            best = search_small(
                columns, order, targets, n_features, span, leaf, shift, scratch, found, k
            )
        found_score[k] = best

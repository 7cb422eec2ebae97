"""Best gini split for two classes without row weights: the fast path of the forest.

What a row adds to its bin are three small integers packed into one uint64, so a histogram update is
one load and one add:

    | rows 42..62 | weight of class 1  21..41 | weight 0..20 |

The score is the one of `moment_split` with the class as target. Nodes too heavy for 21-bit fields,
categorical columns, and missing values in small nodes take the road through wide integers.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedforest.kernels.bitsets import list_candidates, lowest_bit, mark_bin
from fedforest.kernels.jit import kernel
from fedforest.kernels.layout import (
    MISSING_BIN,
    N_CODES,
    NO_SPLIT,
    SMALL_NODE,
    UNSEEN,
)
from fedforest.kernels.moment_split import (
    ROWS,
    STRIDE,
    SUM,
    MomentScratch,
    keep_numeric,
    make_moment_scratch,
    offer_column,
)

FIELD_BITS = np.uint64(21)
FIELD_MASK = np.uint64((1 << 21) - 1)
ROWS_SHIFT = np.uint64(42)
PACKED_LIMIT = 1 << 21  # weight of a node
HEAVY_BLOCK = 1 << 17  # rows; times the largest multiplicity they stay below the limit

_ZERO = np.uint64(0)
_ONE = np.uint64(1)
_SIX = np.uint64(6)
_LOW_SIX = np.uint64(63)
SECOND = np.uint64(N_CODES)
THIRD = np.uint64(2 * N_CODES)


class BinaryScratch(NamedTuple):
    """Work space of one search, allocated once per kernel call."""

    increments: NDArray[np.uint64]
    histogram: NDArray[np.uint64]  # three columns, all zero between searches
    occupied: NDArray[np.uint64]  # their sets of occupied bins, four words each
    prefix: NDArray[np.uint64]
    scores: NDArray[np.float64]
    score_bits: NDArray[np.int64]  # the same memory as `scores`
    wide: MomentScratch


@kernel
def make_binary_scratch():
    """Zeroed work space."""
    scores = np.zeros(N_CODES, np.float64)
    return BinaryScratch(
        pack_increments(),
        np.zeros(3 * N_CODES, np.uint64),
        np.zeros(12, np.uint64),
        np.zeros(N_CODES, np.uint64),
        scores,
        scores.view(np.int64),
        make_moment_scratch(),
    )


@kernel
def pack_increments():
    """What an entry's code (class and multiplicity) adds to a packed histogram."""
    increments = np.zeros(32, np.uint64)
    for code in range(32):
        multiplicity = np.uint64(code & 15)
        ones = multiplicity if code >= 16 else _ZERO
        increments[code] = multiplicity | (ones << FIELD_BITS) | (_ONE << ROWS_SHIFT)
    return increments


@kernel
def weigh_node(order, node):
    """(weight, weight of class 1, rows) of a node of any size."""
    weight = 0
    ones = 0
    for i in range(order.start[node], order.stop[node]):
        code = np.uint64(order.entries[i]) >> order.row_bits
        multiplicity = np.int64(code & np.uint64(15))
        weight += multiplicity
        ones += multiplicity * np.int64(code >> np.uint64(4))
    return weight, ones, order.stop[node] - order.start[node]


@kernel
def take_three(columns, features, low, n_features):
    """Where the next three columns begin, and a mask that silences those beyond the last.

    Columns are filled by threes: decoding an entry is shared and the loads overlap. A missing
    second or third repeats the first and adds zero.
    """
    first = features[low] * columns.n_rows
    has_second = low + 1 < n_features
    has_third = low + 2 < n_features
    second = features[low + 1] * columns.n_rows if has_second else first
    third = features[low + 2] * columns.n_rows if has_third else first
    return (first, second, third), (~_ZERO if has_second else _ZERO, ~_ZERO if has_third else _ZERO)


@kernel
def fill_three(bins, bases, masks, order, span, increments, histogram):
    """Add the rows of a span of entries to the histograms of three columns."""
    first, second, third = bases
    row_mask = (_ONE << order.row_bits) - _ONE
    for i in range(span[0], span[1]):
        entry = np.uint64(order.entries[i])
        row = entry & row_mask
        added = increments[entry >> order.row_bits]
        a = np.uint64(bins[first + row])
        b = np.uint64(bins[second + row])
        c = np.uint64(bins[third + row])
        histogram[a] += added
        histogram[b + SECOND] += added & masks[0]
        histogram[c + THIRD] += added & masks[1]


@kernel
def mark_three(bins, bases, masks, order, span, increments, histogram, occupied):
    """As `fill_three`, noting which bins are occupied."""
    first, second, third = bases
    row_mask = (_ONE << order.row_bits) - _ONE
    for i in range(span[0], span[1]):
        entry = np.uint64(order.entries[i])
        row = entry & row_mask
        added = increments[entry >> order.row_bits]
        a = np.uint64(bins[first + row])
        b = np.uint64(bins[second + row])
        c = np.uint64(bins[third + row])
        histogram[a] += added
        histogram[b + SECOND] += added & masks[0]
        histogram[c + THIRD] += added & masks[1]
        occupied[a >> _SIX] |= _ONE << (a & _LOW_SIX)
        occupied[np.uint64(4) + (b >> _SIX)] |= (_ONE << (b & _LOW_SIX)) & masks[0]
        occupied[np.uint64(8) + (c >> _SIX)] |= (_ONE << (c & _LOW_SIX)) & masks[1]


@kernel
def best_prefix(scratch, count, total, min_rows_leaf):
    """(score, position) of the best of the first `count` left sides in scratch.prefix.

    Separate short loops: the one that divides then runs in vector registers.
    """
    prefix, scores, score_bits = scratch.prefix, scratch.scores, scratch.score_bits
    weight = np.float64(total[0])
    ones = np.float64(total[1])
    rows = np.int32(total[2])
    leaf = np.int32(min_rows_leaf)
    for k in range(count):
        left = prefix[k]
        a = np.float64(np.int32(left & FIELD_MASK))
        left_ones = np.float64(np.int32((left >> FIELD_BITS) & FIELD_MASK))
        left_rows = np.int32(left >> ROWS_SHIFT)
        numerator = left_ones * weight - ones * a
        score = numerator * numerator / max(a * (weight - a), 1.0)
        valid = (left_rows >= leaf) & (np.int32(rows - left_rows) >= leaf)
        scores[k] = score if valid else -1.0
    # scores are -1 or not negative: their bits compare like integers, which vectorises
    best = np.int64(-1)
    for k in range(count):
        best = max(best, score_bits[k])
    if best >= 0:
        for k in range(count):
            if score_bits[k] == best:
                return scores[k], k
    return NO_SPLIT, 0


@kernel
def scan_dense(scratch, at, n_bins, first, total, min_rows_leaf):
    """Best cut over all value bins when `first` is already on the left; (score, bin)."""
    left = first
    for code in range(n_bins):
        left += scratch.histogram[at + np.uint64(code)]
        scratch.prefix[code] = left
    return best_prefix(scratch, n_bins, total, min_rows_leaf)


@kernel
def scan_occupied(histogram, occupied, slot, total, min_rows_leaf):
    """(score, bin) of the best cut over the occupied bins of one of three columns; empties both."""
    weight, ones, rows = total
    at = np.uint64(slot * N_CODES)
    left = _ZERO
    best = NO_SPLIT
    where = _ZERO
    for word in range(4):
        bits = occupied[slot * 4 + word]
        occupied[slot * 4 + word] = _ZERO
        while bits != _ZERO:
            code = np.uint64(word * 64) + lowest_bit(bits)
            bits &= bits - _ONE
            left += histogram[at + code]
            histogram[at + code] = _ZERO
            left_rows = np.int64(left >> ROWS_SHIFT)
            if left_rows >= min_rows_leaf and rows - left_rows >= min_rows_leaf:
                a = np.int64(left & FIELD_MASK)
                left_ones = np.int64((left >> FIELD_BITS) & FIELD_MASK)
                numerator = np.float64(left_ones * weight - ones * a)
                score = numerator * numerator / np.float64(a * (weight - a))
                if score > best:
                    best = score
                    where = code
    return best, where


@kernel
def cut_dense(scratch, at, n_bins, total, min_rows_leaf):
    """(score, bin, side of missing values) of the best numeric cut."""
    score, code = scan_dense(scratch, at, n_bins, _ZERO, total, min_rows_leaf)
    missing = scratch.histogram[at + np.uint64(MISSING_BIN)]
    if missing == _ZERO:
        return score, code, UNSEEN
    other, there = scan_dense(scratch, at, n_bins, missing, total, min_rows_leaf)
    if other > score:
        return other, there, 1
    return score, code, 0


@kernel
def widen(packed, at, wide):
    """Move the packed histogram that begins at `at` into wide integers, adding to them."""
    for code in range(N_CODES):
        value = packed[at + np.uint64(code)]
        packed[at + np.uint64(code)] = _ZERO
        if value != _ZERO:
            to = np.uint64(code) * STRIDE
            wide.histogram[to] += np.int64(value & FIELD_MASK)
            wide.histogram[to + SUM] += np.int64((value >> FIELD_BITS) & FIELD_MASK)
            wide.histogram[to + ROWS] += np.int64(value >> ROWS_SHIFT)
            mark_bin(wide.occupied, np.uint64(code))


@kernel
def offer_slot(columns, feature, slot, scratch, total, leaf, found, node, best):
    """Search one of the three packed histograms by way of wide integers."""
    scratch.occupied[slot * 4 : slot * 4 + 4] = _ZERO
    widen(scratch.histogram, np.uint64(slot * N_CODES), scratch.wide)
    return offer_column(columns, feature, scratch.wide, total, leaf, found, node, best)


@kernel
def search_heavy(columns, order, features, n_features, total, leaf, scratch, found, node):
    """Best split of a node whose sums do not fit the packed fields: add it up in blocks."""
    start, stop = order.start[node], order.stop[node]
    best = NO_SPLIT
    for j in range(n_features):
        bases, masks = take_three(columns, features, j, j + 1)
        for begin in range(start, stop, HEAVY_BLOCK):
            span = (begin, min(stop, begin + HEAVY_BLOCK))
            fill_three(
                columns.bins, bases, masks, order, span, scratch.increments, scratch.histogram
            )
            widen(scratch.histogram, _ZERO, scratch.wide)
        best = offer_column(columns, features[j], scratch.wide, total, leaf, found, node, best)
    return best


@kernel
def search_large(columns, order, features, n_features, total, leaf, scratch, found, node):
    """Best split of a node with many rows: all bins are scanned."""
    span = (order.start[node], order.stop[node])
    histogram = scratch.histogram
    best = NO_SPLIT
    for low in range(0, n_features, 3):
        bases, masks = take_three(columns, features, low, n_features)
        fill_three(columns.bins, bases, masks, order, span, scratch.increments, histogram)
        for slot in range(min(3, n_features - low)):
            f = features[low + slot]
            if columns.is_categorical[f]:
                best = offer_slot(columns, f, slot, scratch, total, leaf, found, node, best)
                continue
            at = np.uint64(slot * N_CODES)
            cut = cut_dense(scratch, at, columns.n_bins[f], total, leaf)
            if cut[0] > best:
                best = keep_numeric(found, node, f, cut)
            for code in range(N_CODES):
                histogram[at + np.uint64(code)] = _ZERO
    return best


@kernel
def search_small(columns, order, features, n_features, total, leaf, scratch, found, node):
    """Best split of a node with few rows: only the occupied bins are visited."""
    span = (order.start[node], order.stop[node])
    histogram, occupied = scratch.histogram, scratch.occupied
    best = NO_SPLIT
    for low in range(0, n_features, 3):
        bases, masks = take_three(columns, features, low, n_features)
        mark_three(
            columns.bins, bases, masks, order, span, scratch.increments, histogram, occupied
        )
        for slot in range(min(3, n_features - low)):
            f = features[low + slot]
            if columns.is_categorical[f] or histogram[slot * N_CODES + MISSING_BIN] != _ZERO:
                best = offer_slot(columns, f, slot, scratch, total, leaf, found, node, best)
                continue
            score, code = scan_occupied(histogram, occupied, slot, total, leaf)
            if score > best:
                best = keep_numeric(found, node, f, (score, np.int64(code), UNSEEN))
    return best


@kernel
def find_binary(columns, order, candidates, rules, found, first, last):
    """Best split of the nodes first..last among their candidate columns."""
    features = np.zeros(candidates.shape[1] * 8, np.uint64)
    scratch = make_binary_scratch()
    leaf = rules.min_rows_leaf
    for node in range(first, last):
        found.feature[node] = -1
        n_features = list_candidates(candidates, node, features)
        total = weigh_node(order, node)
        if total[2] < SMALL_NODE:
            found.score[node] = search_small(
                columns, order, features, n_features, total, leaf, scratch, found, node
            )
        elif total[0] < PACKED_LIMIT:
            found.score[node] = search_large(
                columns, order, features, n_features, total, leaf, scratch, found, node
            )
        else:
            found.score[node] = search_heavy(
                columns, order, features, n_features, total, leaf, scratch, found, node
            )

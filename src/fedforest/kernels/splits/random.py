"""Random-threshold splits (extremely randomized trees; Geurts et al. 2006) on raw values.

Three short steps per (node, column): read the node's values and their range, draw a threshold
inside it (or a random set of categories), add up what falls on the left. One table does them in a
row; a federation has messages between them.

Values are float32, column by column; NaN is missing. Categories are their codes.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedforest.kernels.bits.bitsets import in_set, list_candidates
from fedforest.kernels.criteria.classes import EXACT_WEIGHT, row_weight
from fedforest.kernels.criteria.dispatch import (
    by_formula,
    heavy_part,
    is_by_moments,
    make_table,
    part,
    score_classes,
    score_heavy_classes,
    score_moments,
)
from fedforest.kernels.growth.sampling import draw_unit, mix
from fedforest.kernels.jit import borrowing, kernel
from fedforest.kernels.layout import MULTIPLICITY_BITS, NO_SPLIT, UNSEEN
from fedforest.kernels.sums.packed_moments import row_moments

_ONE = np.uint64(1)
_CLASS_SHIFT = np.uint64(MULTIPLICITY_BITS)
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
ROWS, WEIGHT, SUM = 0, 1, 2  # a side of a cut: rows, weight, then one sum per class or the target


class Values(NamedTuple):
    """The raw columns of one party."""

    values: NDArray[np.float32]  # flat: column f occupies [f * n_rows, (f + 1) * n_rows)
    n_rows: np.uint64
    is_categorical: NDArray[np.bool_]


class FoundThresholds(NamedTuple):
    """The best of the random splits drawn for each open node."""

    score: NDArray[np.float64]
    feature: NDArray[np.int32]
    threshold: NDArray[np.float32]  # values <= threshold go left
    missing_left: NDArray[np.uint8]
    left_set: NDArray[np.uint64]  # (nodes, 4); (0, 4) without categorical columns


@kernel
def read_values(values, base, entries, span, row_bits, gathered):
    """Copy a node's values of one column; (lowest, highest, how many are missing)."""
    row_mask = (_ONE << row_bits) - _ONE
    low, high = np.float32(np.inf), np.float32(-np.inf)
    missing = 0
    for i in range(span[1] - span[0]):
        value = values[base + (np.uint64(entries[span[0] + i]) & row_mask)]
        gathered[i] = value
        low = value if value < low else low
        high = value if value > high else high
        missing += value != value
    return low, high, missing


@kernel
def draw_threshold(key, low, high):
    """Uniform in [low, high): the key's draw; the highest value always stays on the right."""
    middle = np.float64(low) + (np.float64(high) - np.float64(low)) * draw_unit(key, np.uint64(0))
    threshold = np.float32(middle)
    return threshold if threshold < high else low


@kernel
def draw_category_set(key, members):
    """Four words of a random set of categories."""
    for word in range(4):
        members[word] = mix(key + np.uint64(word + 1) * _GOLDEN)


@kernel
def mark_left(gathered, n, threshold, missing_left, left):
    """left[i] = 1 where the value goes left of a threshold."""
    for i in range(n):
        value = gathered[i]
        left[i] = np.uint8(value <= threshold) | (np.uint8(value != value) & missing_left)


@kernel
def mark_left_categories(gathered, n, members, missing_left, left):
    """left[i] = 1 where the category is a member of the set."""
    for i in range(n):
        value = gathered[i]
        if value != value:
            left[i] = missing_left
        else:
            code = np.uint64(value)
            left[i] = np.uint8((members[code >> np.uint64(6)] >> (code & np.uint64(63))) & _ONE)


@kernel
def add_left(left, n, labels, weights, totals, sums):
    """Add up the rows marked left: rows, weight, then per class or the target."""
    n_sums = sums.shape[0]
    rows, weight, total = 0, 0, 0
    if labels.shape[0] > 0 and n_sums > SUM + 2:
        for c in range(n_sums):
            sums[c] = 0
        for i in range(n):
            sums[SUM + labels[i]] += weights[i] * np.int64(left[i])
    for i in range(n):
        chosen = np.int64(left[i])
        rows += chosen
        weight += weights[i] * chosen
        total += totals[i] * chosen
    sums[ROWS], sums[WEIGHT] = rows, weight
    if labels.shape[0] == 0:
        sums[SUM] = total
    elif n_sums == SUM + 2:  # two classes: `totals` holds the weight of the second
        sums[SUM], sums[SUM + 1] = weight - total, total


@borrowing
def score_side_by_moments(formula, node, side, _table):
    """Score of a cut from the sums of the node and of one side."""
    weight, whole = np.float64(side[WEIGHT]), np.float64(node[WEIGHT])
    return score_moments(formula, weight, np.float64(side[SUM]), whole, np.float64(node[SUM]))


@borrowing
def score_side_by_classes(formula, node, side, table):
    """Score a side by classes."""
    weight, rest = side[WEIGHT], node[WEIGHT] - side[WEIGHT]
    if node[WEIGHT] >= EXACT_WEIGHT:
        return score_heavy_side(formula, node, side)
    sum_here, sum_there = 0, 0
    for c in range(SUM, side.shape[0]):
        sum_here += part(formula, side[c], table)
        sum_there += part(formula, node[c] - side[c], table)
    return score_classes(formula, sum_here, sum_there, weight, rest, table)


@borrowing
def score_heavy_side(formula, node, side):
    """Score a side in float64, for nodes too heavy for exact sums."""
    here, there = 0.0, 0.0
    weight, rest = np.float64(side[WEIGHT]), np.float64(node[WEIGHT] - side[WEIGHT])
    for c in range(SUM, side.shape[0]):
        here += heavy_part(formula, np.float64(side[c]))
        there += heavy_part(formula, np.float64(node[c] - side[c]))
    return score_heavy_classes(formula, here, there, weight, rest)


score_side = by_formula(
    lambda formula: score_side_by_moments if is_by_moments(formula) else score_side_by_classes
)


@kernel
def read_rows(entries, span, row_bits, row_weights, row_values, labels, weights, totals):
    """Class, weight and weighted target (two classes: weight of the second) of a node's rows."""
    row_mask = (_ONE << row_bits) - _ONE
    by_class = labels.shape[0] > 0
    for i in range(span[1] - span[0]):
        entry = np.uint64(entries[span[0] + i])
        row, code = entry & row_mask, entry >> row_bits
        if by_class:
            label = np.int64(code >> _CLASS_SHIFT)
            weight = row_weight(code, row, row_weights)
            labels[i] = label
            weights[i] = weight
            totals[i] = weight * label
        else:
            weights[i], totals[i] = row_moments(code, row, row_weights, row_values)


@kernel
def find_random(columns, order, targets, candidates, node_keys, rules, found, first, last):
    """One random split per (node, candidate column), the best of them per node first..last."""
    values, n_rows, is_categorical = columns
    entries, row_bits, starts, stops = order
    best_score, best_feature, best_threshold, best_side, best_set = found
    formula, leaf, least_weight = rules
    features = np.zeros(candidates.shape[1] * 8, np.uint64)
    largest = 0
    for k in range(first, last):
        largest = max(largest, stops[k] - starts[k])
    gathered, marked = np.empty(largest, np.float32), np.empty(largest, np.uint8)
    everything = np.ones(largest, np.uint8)
    by_class = targets.n_classes > 0
    labels = np.zeros(largest if by_class else 0, np.int64)
    weights, totals = np.empty(largest, np.int64), np.empty(largest, np.int64)
    whole = np.zeros(SUM + max(1, targets.n_classes), np.int64)
    side, members = np.zeros_like(whole), np.zeros(4, np.uint64)
    table = make_table(formula)
    row_weights, row_values = targets.weights, targets.values
    for k in range(first, last):
        span = (starts[k], stops[k])
        n = span[1] - span[0]
        read_rows(entries, span, row_bits, row_weights, row_values, labels, weights, totals)
        add_left(everything, n, labels, weights, totals, whole)
        best = NO_SPLIT
        best_feature[k] = -1
        least = least_weight[k] if least_weight.shape[0] > 0 else 0
        for j in range(list_candidates(candidates, k, features)):
            f = features[j]
            key = mix(node_keys[k] + (f + _ONE) * _GOLDEN)
            low, high, missing = read_values(values, f * n_rows, entries, span, row_bits, gathered)
            if not low < high:
                continue
            threshold = draw_threshold(key, low, high)
            if is_categorical[f]:
                draw_category_set(key, members)
            for missing_left in range(2 if missing > 0 else 1):
                if is_categorical[f]:
                    mark_left_categories(gathered, n, members, np.uint8(missing_left), marked)
                else:
                    mark_left(gathered, n, threshold, np.uint8(missing_left), marked)
                add_left(marked, n, labels, weights, totals, side)
                if side[ROWS] < leaf or n - side[ROWS] < leaf:
                    continue
                if side[WEIGHT] < least or whole[WEIGHT] - side[WEIGHT] < least:
                    continue
                score = score_side(formula, formula, whole, side, table)
                if score > best:
                    best = score
                    best_feature[k] = f
                    best_threshold[k] = threshold
                    best_side[k] = missing_left if missing > 0 else UNSEEN
                    if is_categorical[f]:
                        best_set[k] = members
        best_score[k] = best


@kernel
def write_threshold_bits(columns, order, found, nodes, offsets, bits, first, last):
    """Bits of the rows of the split nodes first..last (layout as in `partition`)."""
    values, n_rows, is_categorical = columns
    entries, row_bits, starts, stops = order
    row_mask = (_ONE << row_bits) - _ONE
    for i in range(first, last):
        node = nodes[i]
        f = np.uint64(found.feature[node])
        base = f * n_rows
        threshold = found.threshold[node]
        missing_left = _ONE if found.missing_left[node] == 1 else np.uint64(0)
        by_set = is_categorical[f]
        at = offsets[i]
        for begin in range(starts[node], stops[node], 8):
            byte = np.uint64(0)
            for k in range(min(8, stops[node] - begin)):
                value = values[base + (np.uint64(entries[begin + k]) & row_mask)]
                if value != value:
                    left = missing_left
                elif by_set:
                    left = in_set(found.left_set, node, np.uint64(value))
                else:
                    left = np.uint64(value <= threshold)
                byte |= left << np.uint64(k)
            bits[at] = np.uint8(byte)
            at += 1

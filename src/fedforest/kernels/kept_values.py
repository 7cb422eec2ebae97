"""The candidate values of open nodes, gathered once per level and used three times.

A node's rows are scattered over its columns. They are read once, when the party names its points,
and kept side by side: counting and moving then walk forward through memory.

    node k, with n rows and the pairs a, b, c:   | a: n values | b: n values | c: n values |
                                                  ^ first[k]
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedforest.kernels.bitsets import in_set
from fedforest.kernels.jit import borrowing, kernel
from fedforest.kernels.points import ABSTAINS, draw_inside

_ONE = np.uint64(1)


class Kept(NamedTuple):
    """Values of all pairs of the open nodes."""

    first: NDArray[np.int64]  # per node
    values: NDArray[np.float32]
    may_miss: NDArray[np.bool_]  # per column: whether any of its values is missing


@kernel
def place_kept(starts, stops, node_start):
    """Where the values of each node go; the last element is how many there are."""
    n_nodes = starts.shape[0]
    first = np.empty(n_nodes + 1, np.int64)
    at = 0
    for k in range(n_nodes):
        first[k] = at
        at += (stops[k] - starts[k]) * (node_start[k + 1] - node_start[k])
    first[n_nodes] = at
    return first


@kernel
def find_missing(values, n_rows, n_columns):
    """Per column whether any of its values is missing."""
    may_miss = np.zeros(n_columns, np.bool_)
    for f in range(n_columns):
        missing = 0
        for i in range(f * n_rows, (f + 1) * n_rows):
            missing += values[i] != values[i]
        may_miss[f] = missing > 0
    return may_miss


@borrowing
def keep_one(values, base, entries, start, n, row_mask, kept, at, extremes, pair):
    """Copy a node's values of one column, and note the lowest and highest that are there."""
    low, high = np.float32(np.inf), np.float32(-np.inf)
    for i in range(n):
        value = values[base + (np.uint64(entries[start + i]) & row_mask)]
        kept[at + i] = value
        low = value if value < low else low
        high = value if value > high else high
    extremes[pair, 0], extremes[pair, 1] = low, high


@borrowing
def keep_three(values, bases, entries, start, n, row_mask, kept, at, extremes, pair):
    """The same for three columns in one pass over the rows: waiting for one hides the others."""
    a, b, c = bases
    low_a, high_a = np.float32(np.inf), np.float32(-np.inf)
    low_b, high_b, low_c, high_c = low_a, high_a, low_a, high_a
    at_b, at_c = at + n, at + 2 * n
    for i in range(n):
        row = np.uint64(entries[start + i]) & row_mask
        x, y, z = values[a + row], values[b + row], values[c + row]
        kept[at + i], kept[at_b + i], kept[at_c + i] = x, y, z
        low_a = x if x < low_a else low_a
        high_a = x if x > high_a else high_a
        low_b = y if y < low_b else low_b
        high_b = y if y > high_b else high_b
        low_c = z if z < low_c else low_c
        high_c = z if z > high_c else high_c
    extremes[pair, 0], extremes[pair, 1] = low_a, high_a
    extremes[pair + 1, 0], extremes[pair + 1, 1] = low_b, high_b
    extremes[pair + 2, 0], extremes[pair + 2, 1] = low_c, high_c


@borrowing
def count_seen(kept, at, n):
    """How many values are there."""
    seen = 0
    for i in range(at, at + n):
        seen += kept[i] == kept[i]
    return seen


@borrowing
def keep_node(
    values, n_rows, entries, start, n, row_mask, feature, first, last, kept, at, extremes
):
    """Keep the values of a node's pairs first..last, one column after the other from `at` on."""
    pair = first
    while pair + 2 < last:
        a = np.uint64(feature[pair]) * n_rows
        b, c = np.uint64(feature[pair + 1]) * n_rows, np.uint64(feature[pair + 2]) * n_rows
        keep_three(values, (a, b, c), entries, start, n, row_mask, kept, at, extremes, pair - first)
        at += 3 * n
        pair += 3
    while pair < last:
        base = np.uint64(feature[pair]) * n_rows
        keep_one(values, base, entries, start, n, row_mask, kept, at, extremes, pair - first)
        at += n
        pair += 1


@kernel
def name_points(columns, order, pairs, kept, units, least_rows, points, first, last):
    """Keep the values of the nodes first..last, and name a point for each of their pairs.

    A categorical column has no points: 0 says that two categories or more are there.
    """
    values, n_rows, is_categorical = columns
    entries, row_bits, starts, stops = order
    node_start, feature = pairs
    first_kept, memory, may_miss = kept
    row_mask = (_ONE << row_bits) - _ONE
    extremes = np.empty((is_categorical.shape[0], 2), np.float32)  # of a node's pairs
    for k in range(first, last):
        n = stops[k] - starts[k]
        at, begin, end = first_kept[k], node_start[k], node_start[k + 1]
        keep_node(
            values,
            n_rows,
            entries,
            starts[k],
            n,
            row_mask,
            feature,
            begin,
            end,
            memory,
            at,
            extremes,
        )
        for pair in range(begin, end):
            f = feature[pair]
            low, high = extremes[pair - begin, 0], extremes[pair - begin, 1]
            seen = count_seen(memory, at, n) if may_miss[f] else n
            at += n
            if seen < least_rows or not low < high:
                points[pair] = ABSTAINS
            elif is_categorical[f]:
                points[pair] = np.float32(0)
            else:
                points[pair] = draw_inside(low, high, units[pair])


@borrowing
def mark_left(memory, at, n, threshold, left_set, set_at, missing_left, may_miss, left):
    """left[i] = all ones where the i-th value goes left, else zero; set_at < 0: by threshold."""
    if set_at < 0:
        for i in range(n):
            left[i] = np.uint32(0) - np.uint32(memory[at + i] <= threshold)
        if may_miss and missing_left:
            for i in range(n):
                value = memory[at + i]
                left[i] |= np.uint32(0) - np.uint32(value != value)
        return
    for i in range(n):
        value = memory[at + i]
        is_there = value == value
        code = np.uint64(value) if is_there else np.uint64(0)
        is_member = in_set(left_set, set_at, code) == _ONE
        goes_left = is_member if is_there else missing_left == 1
        left[i] = np.uint32(0) - np.uint32(goes_left)


@kernel
def write_kept_bits(order, pairs, kept, table, nodes, offsets, bits, left_rows, first, last):
    """Bits of the rows of the split nodes first..last (layout as in `partition`), and how many.

    A node's split must be on one of its pairs' columns; the place of a set is that of its node.
    """
    _, _, starts, stops = order
    node_start, feature = pairs
    first_kept, memory, may_miss = kept
    split_feature, threshold, missing_left, left_set, by_set = table
    left = np.empty(8, np.uint32)
    for i in range(first, last):
        k = nodes[i]
        n = stops[k] - starts[k]
        pair = node_start[k]
        while feature[pair] != split_feature[i]:
            pair += 1
        at = first_kept[k] + (pair - node_start[k]) * n
        set_at = i if by_set[i] else -1
        may = may_miss[feature[pair]]
        rows = 0
        for begin in range(0, n, 8):
            m = min(8, n - begin)
            mark_left(
                memory, at + begin, m, threshold[i], left_set, set_at, missing_left[i], may, left
            )
            byte = np.uint32(0)
            for j in range(m):
                byte |= (left[j] & np.uint32(1)) << np.uint32(j)
                rows += np.int64(left[j] & np.uint32(1))
            bits[offsets[i] + (begin >> 3)] = np.uint8(byte)
        left_rows[i] = rows

"""The sums on either side of each cut, class by class: for sample weights and many classes.

A row is added to its class whether it is marked or not, multiplied by its mark: a branch would be
as often wrong as right.
"""

import numpy as np

from fedforest.kernels.criteria.classes import CLASS_SHIFT, row_weight
from fedforest.kernels.cuts.sides import BLOCK, count_marks, mark_below, read_pair
from fedforest.kernels.jit import borrowing, embedded, kernel

_ZERO = np.uint64(0)
_ONE = np.uint64(1)


@borrowing
def read_classes(entries, start, n, row_bits, weights, labels, added):
    """Class and weight of n entries."""
    row_mask = (_ONE << row_bits) - _ONE
    for i in range(n):
        entry = np.uint64(entries[start + i])
        code = entry >> row_bits
        labels[i] = code >> CLASS_SHIFT
        added[i] = row_weight(code, entry & row_mask, weights)


@borrowing
def add_left(marks, n, labels, added, sums, row):
    """Add the weights of marked rows to their classes."""
    for i in range(n):
        sums[row, labels[i]] += added[i] * np.int64(marks[i])


@borrowing
def add_sides(marks, n, labels, added, sums, row, right):
    """Add all weights to their classes, whose columns for unmarked rows begin at `right`."""
    for i in range(n):
        sums[row, labels[i] + (_ONE - np.uint64(marks[i])) * right] += added[i]


@embedded
def add_rows(n, n_classes, kept, asked, node, at, stride, width, scratch, sums):
    """Add n rows of a node to the sums of its asked pairs; `at` and `stride` as in `add_block`."""
    labels, added, turned, marks = scratch
    both_sides = sums.shape[1] > width
    row = np.uint64(asked.asked_start[node])
    for pair in range(np.uint64(asked.node_start[node]), np.uint64(asked.node_start[node + 1])):
        if asked.threshold[pair] == asked.threshold[pair]:
            values, place, threshold = read_pair(kept, at, n, asked, pair, turned)
            mark_below(values, place, n, threshold, marks)
            if both_sides:
                add_sides(marks, n, labels, added, sums, row, np.uint64(width))
            else:
                add_left(marks, n, labels, added, sums, row)
            if width > n_classes:
                rows = count_marks(marks, n)
                sums[row, n_classes] += rows
                if both_sides:
                    sums[row, width + n_classes] += np.int64(n) - rows
            row += _ONE
        at += stride


@kernel
def add_weights(order, weights, n_classes, kept, asked, width, sums, first, last):
    """Add up, for the nodes first..last, the weight of each class and, if wanted, rows."""
    entries, row_bits, starts, stops = order
    place = kept.first
    labels, added = np.empty(BLOCK, np.uint64), np.empty(BLOCK, np.int64)
    turned, marks = np.empty(BLOCK, np.float32), np.empty(BLOCK, np.uint8)
    scratch = (labels, added, turned, marks)
    for k in range(first, last):
        n, at = np.uint64(stops[k] - starts[k]), place[k]
        for begin in range(_ZERO, n, BLOCK):
            start, count = np.uint64(starts[k]) + begin, min(BLOCK, n - begin)
            read_classes(entries, start, count, row_bits, weights, labels, added)
            add_rows(count, n_classes, kept, asked, k, at + begin, n, width, scratch, sums)

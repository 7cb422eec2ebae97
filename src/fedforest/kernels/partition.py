"""From a chosen split to the rows of its children: bits, sums of the left child, new row order.

The rows of a node become one bit each (1 goes left), eight to a byte, every node starting a byte.
These bytes are what travels between parties; given them, everybody can move its own rows.

Kernels work on the split nodes first..last of a list `nodes`; the bits of nodes[i] start at byte
offsets[i].
"""

import numpy as np

from fedforest.kernels.bitsets import in_set
from fedforest.kernels.class_split import row_weight
from fedforest.kernels.jit import kernel
from fedforest.kernels.layout import MULTIPLICITY_BITS
from fedforest.kernels.moment_split import row_moments

_ONE = np.uint64(1)
_ZERO = np.uint64(0)
_MULTIPLICITY = np.uint64(15)
_CLASS_SHIFT = np.uint64(MULTIPLICITY_BITS)
_LOWEST = np.int64(-(2**63))
_HIGHEST = np.int64(2**63 - 1)

# the fate of an open node at the end of a step: 0 closed, or a sum of the children that stay open
OPEN_LEFT, OPEN_RIGHT = 1, 2
STAYS = 4  # not split yet: it will try further features


@kernel
def bit_at(bits, offset, k):
    """Bit k of the bytes that start at `offset`, as uint64."""
    return np.uint64((bits[offset + (k >> 3)] >> np.uint8(k & 7)) & np.uint8(1))


@kernel
def write_numeric_bits(columns, order, found, node, bits, at):
    """Bits of one node split at a cut.

    Missing is bin 255, right of every cut; adding one to bins and cut wraps it round to 0, left of
    every cut.
    """
    row_mask = (_ONE << order.row_bits) - _ONE
    base = np.uint64(found.feature[node]) * columns.n_rows
    shift = np.uint8(found.missing_left[node] & 1)
    cut = np.uint8(found.bin[node] + shift)
    stop = order.stop[node]
    for begin in range(order.start[node], stop, 8):
        byte = _ZERO
        for k in range(min(8, stop - begin)):
            row = np.uint64(order.entries[begin + k]) & row_mask
            byte |= np.uint64(np.uint8(columns.bins[base + row] + shift) <= cut) << np.uint64(k)
        bits[at] = np.uint8(byte)
        at += 1


@kernel
def write_category_bits(columns, order, found, node, bits, at):
    """Bits of one node split by a set of categories."""
    row_mask = (_ONE << order.row_bits) - _ONE
    base = np.uint64(found.feature[node]) * columns.n_rows
    stop = order.stop[node]
    for begin in range(order.start[node], stop, 8):
        byte = _ZERO
        for k in range(min(8, stop - begin)):
            row = np.uint64(order.entries[begin + k]) & row_mask
            code = np.uint64(columns.bins[base + row])
            byte |= in_set(found.left_set, node, code) << np.uint64(k)
        bits[at] = np.uint8(byte)
        at += 1


@kernel
def write_bits(columns, order, found, nodes, offsets, bits, first, last):
    """Bits of the rows of the split nodes first..last."""
    for i in range(first, last):
        node = nodes[i]
        if columns.is_categorical[found.feature[node]]:
            write_category_bits(columns, order, found, node, bits, offsets[i])
        else:
            write_numeric_bits(columns, order, found, node, bits, offsets[i])


@kernel
def sum_left_binary(order, nodes, offsets, bits, left, first, last):
    """left[i] = (weight of class 0, weight of class 1, rows) of the left child; unit row weights."""
    for i in range(first, last):
        start, stop = order.start[nodes[i]], order.stop[nodes[i]]
        weight, ones, rows = _ZERO, _ZERO, _ZERO
        for k in range(stop - start):
            bit = bit_at(bits, offsets[i], k)
            code = np.uint64(order.entries[start + k]) >> order.row_bits
            added = (code & _MULTIPLICITY) & (_ZERO - bit)
            weight += added
            ones += added & (_ZERO - (code >> _CLASS_SHIFT))
            rows += bit
        left[i, 0] = np.int64(weight - ones)
        left[i, 1] = np.int64(ones)
        left[i, 2] = np.int64(rows)


@kernel
def sum_left_classes(order, targets, nodes, offsets, bits, left, first, last):
    """left[i] = (class weights ..., rows) of the left child."""
    row_mask = (_ONE << order.row_bits) - _ONE
    rows_at = left.shape[1] - 1
    for i in range(first, last):
        start, stop = order.start[nodes[i]], order.stop[nodes[i]]
        for k in range(stop - start):
            bit = np.int64(bit_at(bits, offsets[i], k))
            entry = np.uint64(order.entries[start + k])
            code = entry >> order.row_bits
            weight = row_weight(code, entry & row_mask, targets.weights)
            left[i, code >> _CLASS_SHIFT] += weight * bit
            left[i, rows_at] += bit


@kernel
def sum_left_moments(order, targets, nodes, offsets, bits, left, first, last):
    """left[i] = (weight, sum, rows, children whose targets are all equal) of the left child."""
    row_mask = (_ONE << order.row_bits) - _ONE
    for i in range(first, last):
        start, stop = order.start[nodes[i]], order.stop[nodes[i]]
        weights, totals, rows = 0, 0, 0
        low, high = _HIGHEST, _LOWEST
        low_right, high_right = _HIGHEST, _LOWEST
        for k in range(stop - start):
            bit = np.int64(bit_at(bits, offsets[i], k))
            entry = np.uint64(order.entries[start + k])
            row = entry & row_mask
            weight, total = row_moments(entry >> order.row_bits, row, targets.weights, targets.values)
            weights += weight * bit
            totals += total * bit
            rows += bit
            level = targets.levels[row]
            low = min(low, level if bit else _HIGHEST)
            high = max(high, level if bit else _LOWEST)
            low_right = min(low_right, _HIGHEST if bit else level)
            high_right = max(high_right, _LOWEST if bit else level)
        left[i, 0], left[i, 1], left[i, 2] = weights, totals, rows
        left[i, 3] = (OPEN_LEFT if low >= high else 0) | (
            OPEN_RIGHT if low_right >= high_right else 0
        )


@kernel
def choose_missing_side(found, nodes, left_rows, n_rows):
    """Where a numeric split saw no missing value, send them to the larger child."""
    for i in range(nodes.shape[0]):
        if found.missing_left[nodes[i]] > 1:
            larger_is_left = 2 * left_rows[i] > n_rows[i]
            found.missing_left[nodes[i]] = 1 if larger_is_left else 0


@kernel
def count_left(order, is_split, offsets, bits, left_rows, first, last):
    """left_rows[node] = how many rows of a split node go left."""
    for node in range(first, last):
        if is_split[node]:
            rows = _ZERO
            for k in range(order.stop[node] - order.start[node]):
                rows += bit_at(bits, offsets[node], k)
            left_rows[node] = np.int64(rows)


@kernel
def move_both(source, target, start, n, bits, offset, at, n_left):
    """Stable partition of one node whose children both stay open, without a branch."""
    to_left = np.uint64(at)
    to_right = np.uint64(at + n_left)
    for k in range(n):
        bit = bit_at(bits, offset, k)
        target[to_right ^ ((to_left ^ to_right) & (_ZERO - bit))] = source[start + k]
        to_left += bit
        to_right += _ONE - bit


@kernel
def move_one(source, target, start, bits, offset, at, n_kept, wanted):
    """Keep the rows of one child, in order, without a branch; stops at the last of them."""
    to = np.uint64(at)
    end = np.uint64(at + n_kept)
    k = 0
    while to < end:
        target[to] = source[start + k]
        to += (bit_at(bits, offset, k) ^ wanted) ^ _ONE
        k += 1


@kernel
def move_rows(order, target, fate, offsets, bits, left_rows, places, first, last):
    """Write the rows of the nodes' open children to `target`, those of node k from places[k] on."""
    source = order.entries
    for node in range(first, last):
        start = order.start[node]
        n = order.stop[node] - start
        at, offset, n_left = places[node], offsets[node], left_rows[node]
        if fate[node] == OPEN_LEFT | OPEN_RIGHT:
            move_both(source, target, start, n, bits, offset, at, n_left)
        elif fate[node] == OPEN_LEFT:
            move_one(source, target, start, bits, offset, at, n_left, _ONE)
        elif fate[node] == OPEN_RIGHT:
            move_one(source, target, start, bits, offset, at, n - n_left, _ZERO)
        elif fate[node] == STAYS:
            target[at : at + n] = source[start : start + n]


@kernel
def settle_rows(order, nodes, left_child, fate, offsets, bits, leaf_of, first, last):
    """Note the leaf of every row whose node closed: leaf_of[tree, row] = number of the leaf.

    `nodes` are the open nodes (tree, number) before the step, `left_child` their left children or -1.
    """
    row_mask = (_ONE << order.row_bits) - _ONE
    trees, numbers = nodes
    for node in range(first, last):
        start = order.start[node]
        is_split = left_child[node] >= 0
        if not is_split and fate[node] == STAYS:
            continue
        for k in range(order.stop[node] - start):
            row = np.uint64(order.entries[start + k]) & row_mask
            if not is_split:
                leaf_of[trees[node], row] = numbers[node]
                continue
            bit = np.int64(bit_at(bits, offsets[node], k))
            if fate[node] & (OPEN_LEFT if bit else OPEN_RIGHT) == 0:
                leaf_of[trees[node], row] = left_child[node] + 1 - bit

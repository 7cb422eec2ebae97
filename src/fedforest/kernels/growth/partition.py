"""From a chosen split to the rows of its children: bits, sums of the left child, new row order.

The rows of a node become one bit each (1 goes left), eight to a byte, every node starting a byte.
These bytes are what travels between parties; given them, everybody can move its own rows.

Kernels work on the split nodes first..last of a list `nodes`; the bits of nodes[i] start at byte
offsets[i].
"""

import numpy as np

from fedforest.kernels.bits.bitsets import count_ones, in_set
from fedforest.kernels.bits.entry_lanes import LANE_ORDER, LANES, pack_lanes, packs_lanes
from fedforest.kernels.criteria.classes import row_weight
from fedforest.kernels.jit import borrowing, embedded, inlined, kernel
from fedforest.kernels.layout import MULTIPLICITY_BITS

_ONE = np.uint64(1)
_ZERO = np.uint64(0)
_MULTIPLICITY = np.uint64(15)
_CLASS_SHIFT = np.uint64(MULTIPLICITY_BITS)
_LANES = np.uint64(LANES)
_BYTE = np.uint64(255)

# the fate of an open node at the end of a step: 0 closed, or a sum of the children that stay open
OPEN_LEFT, OPEN_RIGHT = 1, 2
STAYS = 4  # not split yet: it will try further features


@inlined
def bit_at(bits, offset, k):
    """Bit k of the bytes that start at `offset`, as uint64."""
    return np.uint64((bits[offset + (k >> 3)] >> np.uint8(k & 7)) & np.uint8(1))


@embedded
def bits_of_rows(bins, base, entries, begin, n, row_mask, cut, shift):
    """Bits of up to eight rows of one node split at a cut; see `write_numeric_bits`."""
    byte = _ZERO
    for k in range(n):
        row = np.uint64(entries[begin + k]) & row_mask
        byte |= np.uint64(np.uint8(bins[base + row] + shift) <= cut) << np.uint64(k)
    return np.uint8(byte)


@kernel
def write_numeric_bits(bins, base, entries, span, row_bits, cut, shift, bits, at):
    """Bits of one node split at a cut.

    Missing is bin 255, right of every cut; where it goes left, `shift` 1 is added to bins and cut,
    which wraps it round to 0, left of every cut. A loop over eight rows has a known length, and the
    compiler unrolls it: twice as fast.
    """
    row_mask = (_ONE << row_bits) - _ONE
    begin, end = span
    while begin + 8 <= end:
        bits[at] = bits_of_rows(bins, base, entries, begin, 8, row_mask, cut, shift)
        begin += 8
        at += 1
    if begin < end:
        bits[at] = bits_of_rows(bins, base, entries, begin, end - begin, row_mask, cut, shift)


@kernel
def write_category_bits(bins, base, entries, span, row_bits, left_set, node, bits, at):
    """Bits of one node split by a set of categories."""
    row_mask = (_ONE << row_bits) - _ONE
    for begin in range(span[0], span[1], 8):
        byte = _ZERO
        for k in range(min(8, span[1] - begin)):
            row = np.uint64(entries[begin + k]) & row_mask
            byte |= in_set(left_set, node, np.uint64(bins[base + row])) << np.uint64(k)
        bits[at] = np.uint8(byte)
        at += 1


@kernel
def write_bits(columns, order, found, nodes, offsets, bits, first, last):
    """Bits of the rows of the split nodes first..last."""
    bins, n_rows, _, is_categorical, _ = columns
    entries, row_bits, starts, stops = order
    _, feature, best_bin, missing_left, left_set = found
    for i in range(first, last):
        node = nodes[i]
        span = (starts[node], stops[node])
        base = np.uint64(feature[node]) * n_rows
        at = offsets[i]
        if is_categorical[feature[node]]:
            write_category_bits(bins, base, entries, span, row_bits, left_set, node, bits, at)
        else:
            shift = np.uint8(missing_left[node] & 1)
            cut = np.uint8(best_bin[node] + shift)
            write_numeric_bits(bins, base, entries, span, row_bits, cut, shift, bits, at)


@kernel
def sum_left_binary(order, nodes, offsets, bits, left, first, last):
    """Two classes, unit row weights: left[i] = (weight of class 0, of class 1, rows)."""
    entries, row_bits, starts, stops = order
    for i in range(first, last):
        start, stop = starts[nodes[i]], stops[nodes[i]]
        weight, ones, rows = _ZERO, _ZERO, _ZERO
        for k in range(stop - start):
            bit = bit_at(bits, offsets[i], k)
            code = np.uint64(entries[start + k]) >> row_bits
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
    entries, row_bits, starts, stops = order
    weights = targets.weights
    row_mask = (_ONE << row_bits) - _ONE
    rows_at = left.shape[1] - 1
    for i in range(first, last):
        start, stop = starts[nodes[i]], stops[nodes[i]]
        rows = 0
        for k in range(stop - start):
            bit = np.int64(bit_at(bits, offsets[i], k))
            entry = np.uint64(entries[start + k])
            code = entry >> row_bits
            weight = row_weight(code, entry & row_mask, weights)
            left[i, code >> _CLASS_SHIFT] += weight * bit
            rows += bit
        left[i, rows_at] = rows


@borrowing
def find_pure_sides(entries, span, row_mask, levels, bits, offset):
    """Find the children with only equal targets; stop at the first row that settles both."""
    pure_left, pure_right = True, True
    left_level, right_level = np.int64(0), np.int64(0)
    seen_left, seen_right = False, False
    for k in range(span[1] - span[0]):
        level = levels[np.uint64(entries[span[0] + k]) & row_mask]
        if bit_at(bits, offset, k) == _ONE:
            pure_left &= not seen_left or level == left_level
            left_level, seen_left = level, True
        else:
            pure_right &= not seen_right or level == right_level
            right_level, seen_right = level, True
        if not (pure_left or pure_right):
            break
    return (OPEN_LEFT if pure_left else 0) | (OPEN_RIGHT if pure_right else 0)


@kernel
def sum_moments(entries, span, row_bits, weights, values, bits, offset):
    """Return (weight, sum, rows) of the rows of one node that go left."""
    row_mask = (_ONE << row_bits) - _ONE
    weight, total, rows = 0, 0, 0
    for k in range(span[1] - span[0]):
        bit = np.int64(bit_at(bits, offset, k))
        entry = np.uint64(entries[span[0] + k])
        row = entry & row_mask
        multiplicity = np.int64((entry >> row_bits) & _MULTIPLICITY) & -bit
        weight += multiplicity * weights[row] if weights.shape[0] > 0 else multiplicity
        total += multiplicity * values[row]
        rows += bit
    return weight, total, rows


@kernel
def sum_left_moments(order, targets, nodes, offsets, bits, left, first, last):
    """left[i] = (weight, sum, rows, children whose targets are all equal) of the left child."""
    entries, row_bits, starts, stops = order
    weights, values, levels = targets.weights, targets.values, targets.levels
    row_mask = (_ONE << row_bits) - _ONE
    for i in range(first, last):
        span, at = (starts[nodes[i]], stops[nodes[i]]), offsets[i]
        sums = sum_moments(entries, span, row_bits, weights, values, bits, at)
        left[i, 0], left[i, 1], left[i, 2] = sums
        left[i, 3] = find_pure_sides(entries, span, row_mask, levels, bits, at)


@kernel
def choose_missing_side(missing_left, order, nodes, left, rows_at, first, last):
    """Send missing values to the larger child where a numeric split saw none.

    left[i, rows_at] are the rows of the left child of nodes[i].
    """
    _, _, starts, stops = order
    for i in range(first, last):
        node = nodes[i]
        if missing_left[node] > 1:
            missing_left[node] = 2 * left[i, rows_at] > stops[node] - starts[node]


@kernel
def place_bits(starts, stops, nodes):
    """Byte at which the bits of nodes[i] start; the last element is the number of bytes."""
    offsets = np.empty(nodes.shape[0] + 1, np.int64)
    at = 0
    for i in range(nodes.shape[0]):
        offsets[i] = at
        at += (stops[nodes[i]] - starts[nodes[i]] + 7) >> 3
    offsets[nodes.shape[0]] = at
    return offsets


@kernel
def place_split_bits(starts, stops, is_split):
    """Place bits over all open nodes, of which those that are not split have no bits."""
    offsets = np.empty(is_split.shape[0] + 1, np.int64)
    at = 0
    for node in range(is_split.shape[0]):
        offsets[node] = at
        at += ((stops[node] - starts[node] + 7) >> 3) * is_split[node]
    offsets[is_split.shape[0]] = at
    return offsets


@kernel
def spread_rows(nodes, left, rows_at, n_open):
    """Rows of the left child of every open node, zero without; left[i] describes nodes[i]'s."""
    left_rows = np.zeros(n_open, np.int64)
    for i in range(nodes.shape[0]):
        left_rows[nodes[i]] = left[i, rows_at]
    return left_rows


@kernel
def plan_move(starts, stops, fate, left_rows, n_open):
    """(places, start, stop): where the rows a node keeps go, and those of the nodes open after.

    Written without a branch: a child that is not open is overwritten by the next that is, so one
    spare position is needed at the end.
    """
    places = np.empty(fate.shape[0], np.int64)
    start, stop = np.empty(n_open + 1, np.int64), np.empty(n_open + 1, np.int64)
    at, k = 0, 0
    for node in range(fate.shape[0]):
        places[node] = at
        n = stops[node] - starts[node]
        n_first = n if fate[node] == STAYS else left_rows[node]
        opens = np.int64(fate[node] & (OPEN_LEFT | STAYS) != 0)
        start[k], stop[k] = at, at + n_first
        at += n_first * opens
        k += opens
        opens = np.int64(fate[node] & OPEN_RIGHT != 0)
        start[k], stop[k] = at, at + n - n_first
        at += (n - n_first) * opens
        k += opens
    return places, start[:n_open], stop[:n_open]


@kernel
def count_left(order, is_split, offsets, bits, left_rows, first, last):
    """left_rows[node] = how many rows of a split node go left."""
    starts, stops = order.start, order.stop
    for node in range(first, last):
        if is_split[node]:
            rows = _ZERO
            for k in range(stops[node] - starts[node]):
                rows += bit_at(bits, offsets[node], k)
            left_rows[node] = np.int64(rows)


@kernel
def move_both(source, target, start, n, bits, offset, at, n_left):
    """Stable partition of one node whose children both stay open, without a branch.

    Eight rows to a loaded byte: more than twice as fast as one bit at a time. As long as both
    children have room for eight more, they are moved at once: three times as fast again. Entries
    written behind a child's rows are overwritten by its next rows.
    """
    to_left, to_right = np.uint64(at), np.uint64(at + n_left)
    begin = 0
    if packs_lanes(source):
        last_left, last_right = np.int64(at + n_left - LANES), np.int64(at + n - LANES)
        while np.int64(to_left) <= last_left and np.int64(to_right) <= last_right:
            byte, row = np.uint64(bits[offset + (begin >> 3)]), np.uint64(start + begin)
            pack_lanes(source, row, byte, LANE_ORDER, target, to_left)
            pack_lanes(source, row, byte ^ _BYTE, LANE_ORDER, target, to_right)
            n_ones = count_ones(byte)
            to_left += n_ones
            to_right += _LANES - n_ones
            begin += LANES
    for rest in range(begin, n, 8):
        byte = np.uint64(bits[offset + (rest >> 3)])
        row = np.uint64(start + rest)
        for k in range(min(8, n - rest)):
            bit = byte & _ONE
            byte >>= _ONE
            target[to_right ^ ((to_left ^ to_right) & (_ZERO - bit))] = source[row + np.uint64(k)]
            to_left += bit
            to_right += _ONE - bit


@kernel
def move_one(source, target, start, bits, offset, at, n_kept, wanted):
    """Keep the rows of one child, in order, without a branch; stops at the last of them."""
    to = np.uint64(at)
    end = np.uint64(at + n_kept)
    k = 0
    if packs_lanes(source):
        turned = _BYTE * (wanted ^ _ONE)
        while to + _LANES <= end:
            byte = np.uint64(bits[offset + (k >> 3)]) ^ turned
            pack_lanes(source, np.uint64(start + k), byte, LANE_ORDER, target, to)
            to += count_ones(byte)
            k += LANES
    while to < end:
        target[to] = source[start + k]
        to += (bit_at(bits, offset, k) ^ wanted) ^ _ONE
        k += 1


@kernel
def move_rows(order, target, fate, offsets, bits, left_rows, places, first, last):
    """Write the rows of the nodes' open children to `target`, those of node k from places[k] on."""
    source, _, starts, stops = order
    for node in range(first, last):
        start = starts[node]
        n = stops[node] - start
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
def settle_children(entries, row_mask, start, n, bits, offset, leaf_of, left):
    """Note the child that each row of a node goes to.

    Rows that go on are noted too: that saves a branch, and they are noted again where they arrive.
    """
    for begin in range(0, n, 8):
        byte = np.int64(bits[offset + (begin >> 3)])
        for k in range(min(8, n - begin)):
            row = np.uint64(entries[start + begin + k]) & row_mask
            leaf_of[row] = left + 1 - (byte & 1)
            byte >>= 1


@kernel
def settle_rows(order, nodes, left_child, fate, offsets, bits, leaf_of, first, last):
    """Note the leaf of every row whose node closed: leaf_of[tree, row] = number of the leaf.

    `nodes` are the open nodes (tree, number) before the step, `left_child` their left children
    or -1.
    """
    entries, row_bits, starts, stops = order
    row_mask = (_ONE << row_bits) - _ONE
    trees, numbers = nodes
    for node in range(first, last):
        if fate[node] == STAYS or fate[node] == OPEN_LEFT | OPEN_RIGHT:
            continue
        start, leaves = starts[node], leaf_of[trees[node]]
        n = stops[node] - start
        if left_child[node] >= 0:
            left = left_child[node]
            settle_children(entries, row_mask, start, n, bits, offsets[node], leaves, left)
            continue
        for k in range(n):
            leaves[np.uint64(entries[start + k]) & row_mask] = numbers[node]

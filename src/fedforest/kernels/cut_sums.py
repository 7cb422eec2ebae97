"""What falls on either side of each cut, from the values that nodes keep.

The rows of a node are turned into *words* once for all its cuts, a block of rows at a time; what
lies left of a cut is the sum of the words of the rows marked left. A word holds small integers:

    counts    | rows of class 2w + 1 | of class 2w |        16 bits each, uint32
    bits      | bits 4w + 3 ... 4w of a response |          8 bits each, uint32

Moments, sample weights and many classes are added row by row.
"""

import numpy as np

from fedforest.kernels.class_split import row_weight
from fedforest.kernels.jit import borrowing, kernel
from fedforest.kernels.kept_values import mark_left
from fedforest.kernels.layout import MAX_MULTIPLICITY, MULTIPLICITY_BITS
from fedforest.kernels.moment_split import row_moments

COUNT_BLOCK = 2048  # rows whose words stay in cache; 2048 x 15 draws fit 16 bits
BIT_BLOCK = 255  # rows whose bits fit 8 bits
MOST_PACKED_CLASSES = 16  # beyond, adding row by row is faster
assert COUNT_BLOCK * MAX_MULTIPLICITY < 2**16

_ONE = np.uint64(1)
_CLASS_SHIFT = np.uint64(MULTIPLICITY_BITS)
_MULTIPLICITY = np.uint64(MAX_MULTIPLICITY)


@borrowing
def pack_counts(entries, start, n, row_bits, words):
    """words[w, i]: how often row i was drawn, in the field of its class."""
    for w in range(words.shape[0]):
        for i in range(n):
            words[w, i] = np.uint32(0)
    for i in range(n):
        code = np.uint64(entries[start + i]) >> row_bits
        label = code >> _CLASS_SHIFT
        times = np.uint32(code & _MULTIPLICITY)
        words[label >> _ONE, i] = times << np.uint32((label & _ONE) << np.uint64(4))


@borrowing
def pack_bits(entries, start, n, row_bits, responses, words):
    """words[w, i]: the bits 4w ... 4w + 3 of the row's response, one to a byte."""
    row_mask = (_ONE << row_bits) - _ONE
    for i in range(n):
        response = responses[np.uint64(entries[start + i]) & row_mask]
        for w in range(words.shape[0]):
            four = np.uint32((response >> np.uint64(4 * w)) & np.uint64(15))
            words[w, i] = (
                (four & np.uint32(1))
                | ((four & np.uint32(2)) << np.uint32(7))
                | ((four & np.uint32(4)) << np.uint32(14))
                | ((four & np.uint32(8)) << np.uint32(21))
            )


@borrowing
def add_words(words, w, left, n):
    """The sum of the w-th words of the rows that are marked."""
    total = np.uint32(0)
    for i in range(n):
        total += words[w, i] & left[i]
    return total


@borrowing
def add_fields(total, n_fields, width, sums, row, at):
    """Add the fields of a word to consecutive integers."""
    mask = np.uint32((1 << width) - 1)
    for j in range(n_fields):
        sums[row, at + j] += np.int64((total >> np.uint32(j * width)) & mask)


@borrowing
def count_marked(left, n):
    """How many rows are marked."""
    rows = np.uint32(0)
    for i in range(n):
        rows += left[i] & np.uint32(1)
    return np.int64(rows)


@borrowing
def add_block(words, left, n, n_columns, width, sums, row, at):
    """Add what the marked rows of a block hold: `n_columns` fields of `width` bits."""
    per_word = 32 // width
    for w in range(words.shape[0]):
        total = add_words(words, w, left, n)
        first = w * per_word
        add_fields(total, min(per_word, n_columns - first), width, sums, row, at + first)


@kernel
def sum_packed(order, pairs, kept, cuts, responses, shape, asked_start, sums, first, last):
    """Sums of both sides of every cut asked of the nodes first..last, words at a time.

    `shape` is (fields, rows counted apart, both sides); fields are classes, or with `responses`
    bits. `sums` has zeros.
    """
    entries, row_bits, starts, stops = order
    node_start, feature = pairs
    first_kept, memory, may_miss = kept
    threshold, missing_left, set_index, left_set = cuts
    n_fields, rows_apart, both_sides = shape
    by_bits = responses.shape[0] > 0
    field = 8 if by_bits else 16
    block = BIT_BLOCK if by_bits else COUNT_BLOCK
    words = np.zeros(((n_fields * field + 31) // 32, block), np.uint32)
    left, all_rows = np.empty(block, np.uint32), np.full(block, 0xFFFFFFFF, np.uint32)
    side = n_fields + rows_apart
    whole = np.zeros((1, n_fields), np.int64)
    for k in range(first, last):
        asked, n = asked_start[k + 1] - asked_start[k], stops[k] - starts[k]
        if asked == 0:
            continue
        whole[:] = 0
        for begin in range(0, n, block):
            m = min(block, n - begin)
            if by_bits:
                pack_bits(entries, starts[k] + begin, m, row_bits, responses, words)
            else:
                pack_counts(entries, starts[k] + begin, m, row_bits, words)
            if both_sides:
                add_block(words, all_rows, m, n_fields, field, whole, 0, 0)
            row, at = asked_start[k], first_kept[k] + begin
            for pair in range(node_start[k], node_start[k + 1]):
                cut = threshold[pair]
                if cut == cut:
                    may = may_miss[feature[pair]]
                    side_of_missing = missing_left[pair]
                    mark_left(
                        memory, at, m, cut, left_set, set_index[pair], side_of_missing, may, left
                    )
                    add_block(words, left, m, n_fields, field, sums, row, 0)
                    if rows_apart:
                        sums[row, n_fields] += count_marked(left, m)
                    row += 1
                at += n
        if both_sides:
            complete_sides(sums, asked_start[k], asked_start[k + 1], whole, n, n_fields, side)


@borrowing
def complete_sides(sums, first, last, whole, n, n_fields, side):
    """Write the right sides of one node's cuts: what is not on the left."""
    for row in range(first, last):
        for c in range(n_fields):
            sums[row, side + c] = whole[0, c] - sums[row, c]
        if side > n_fields:
            sums[row, 2 * side - 1] = n - sums[row, side - 1]


@borrowing
def add_rows(entries, start, n, row_bits, targets, left, sums, row, at, rows_apart):
    """Add the marked rows one by one: class weights, or weight and sum of targets; then rows."""
    n_classes, row_weights, row_values, _ = targets
    row_mask = (_ONE << row_bits) - _ONE
    weight_at, sum_at, rows = 0, 0, 0
    for i in range(n):
        entry = np.uint64(entries[start + i])
        code = entry >> row_bits
        chosen = np.int64(left[i] & np.uint32(1))
        rows += chosen
        if n_classes > 0:
            label = np.int64(code >> _CLASS_SHIFT)
            sums[row, at + label] += chosen * row_weight(code, entry & row_mask, row_weights)
        else:
            weight, total = row_moments(code, entry & row_mask, row_weights, row_values)
            weight_at += chosen * weight
            sum_at += chosen * total
    n_fields = n_classes
    if n_classes == 0:
        n_fields = 2
        sums[row, at] += weight_at
        sums[row, at + 1] += sum_at
    if rows_apart:
        sums[row, at + n_fields] += rows


@kernel
def sum_by_rows(order, pairs, kept, cuts, targets, shape, asked_start, sums, first, last):
    """The same, adding row by row: for moments, sample weights and many classes."""
    entries, row_bits, starts, stops = order
    node_start, feature = pairs
    first_kept, memory, may_miss = kept
    threshold, missing_left, set_index, left_set = cuts
    n_fields, rows_apart, both_sides = shape
    side = n_fields + rows_apart
    largest = 0
    for k in range(first, last):
        largest = max(largest, stops[k] - starts[k])
    left = np.empty(largest, np.uint32)
    for k in range(first, last):
        row, n, at = asked_start[k], stops[k] - starts[k], first_kept[k]
        for pair in range(node_start[k], node_start[k + 1]):
            cut = threshold[pair]
            if cut == cut:
                may, side_of_missing = may_miss[feature[pair]], missing_left[pair]
                mark_left(memory, at, n, cut, left_set, set_index[pair], side_of_missing, may, left)
                add_rows(entries, starts[k], n, row_bits, targets, left, sums, row, 0, rows_apart)
                if both_sides:
                    for i in range(n):
                        left[i] = ~left[i]
                    add_rows(
                        entries, starts[k], n, row_bits, targets, left, sums, row, side, rows_apart
                    )
                row += 1
            at += n

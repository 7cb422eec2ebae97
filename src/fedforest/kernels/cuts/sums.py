"""The sums on either side of each cut, from the values a level has kept.

The rows of a node are first turned into *words*, once for all its cuts; left of a cut lies the sum
of the words of the rows whose value is not above it. A word is several small integers side by side

    counts    | 16 bits each: how often rows of a class were drawn |     four classes to a word
    bits      | 8 bits each: one bit of a response |                     eight bits to a word
    moments   | 64 bits |                                                weight, weighted target

and only as many rows are added at a time as such a field can hold. Values kept in tiles are added
up eight pairs at once: `tile_sums`. Sample weights and many classes do without words: `class_sums`.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedforest.kernels.cuts.sides import BLOCK, is_plain_set, read_pair
from fedforest.kernels.cuts.tile_lanes import LANES
from fedforest.kernels.cuts.tile_sums import add_below, add_fields, add_members, add_tiles
from fedforest.kernels.jit import borrowing, embedded, kernel
from fedforest.kernels.layout import MAX_MULTIPLICITY, MULTIPLICITY_BITS
from fedforest.kernels.sums.packed_moments import row_moments

COUNT_BITS, RESPONSE_BITS, WHOLE_BITS = 16, 8, 64  # of a field
COUNTS_PER_WORD, RESPONSES_PER_WORD = 64 // COUNT_BITS, 64 // RESPONSE_BITS
RESPONSE_BLOCK = np.uint64(248)  # rows; 8 more could overflow a field, those of counts never do
PADDING = np.uint64(8)  # rows of a vector register; so far beyond the last one are values read

_ZERO = np.uint64(0)
_ONE = np.uint64(1)
_EIGHT = np.uint64(8)
_LOW_SEVEN = np.uint64(0x7F)
_EIGHTH = np.uint64(0x80)
_SPREAD = np.uint64(0x0002040810204081)  # seven copies, each seven places further: bit i of copy i
_LOWEST = np.uint64(0x0101010101010101)  # is the lowest of byte i
_TO_TOP_BYTE = np.uint64(49)


class Scratch(NamedTuple):
    """Work space of one kernel call."""

    words: NDArray[np.uint64]  # (words, rows) of a block
    totals: NDArray[np.uint64]  # sum of each word over the block
    turned: NDArray[np.float32]  # values that stand in for those of a column
    cuts: NDArray[np.float32]  # of a tile
    sums: NDArray[np.uint64]  # of a tile's pairs
    stands_in: bool  # whether comparing the values themselves may not do


@kernel
def make_scratch(n_words, kept, asked):
    """Work space for rows of so many words."""
    stands_in = asked.left_set.shape[0] > 0 or kept.may_miss.any()
    return Scratch(
        np.empty((n_words, BLOCK), np.uint64),
        np.empty(n_words, np.uint64),
        np.empty(BLOCK, np.float32),
        np.zeros(LANES, np.float32),
        np.empty(LANES, np.uint64),
        stands_in,
    )


@borrowing
def add_all(words, w, n):
    """Return the sum of the w-th words of all rows."""
    total = _ZERO
    for i in range(n):
        total += words[w, i]
    return total


class Block(NamedTuple):
    """Some of the n_rows rows of a node: `length` of them from its row `begin` on."""

    node: int
    n_rows: np.uint64
    begin: np.uint64
    start: np.uint64  # of `begin`, in the row order
    length: np.uint64


@embedded
def add_block(size, block, kept, asked, width, scratch, sums):
    """Add a block of rows, as words, to the sums of its node's asked pairs."""
    if kept.is_tiled:
        add_tiles(size, block, kept, asked, width, scratch, sums)
    else:
        add_pairs(size, block, kept, asked, width, scratch, sums)


@embedded
def add_pairs(size, block, kept, asked, width, scratch, sums):
    """Add a block of rows where values were kept pair after pair.

    Words of zero fill the last vector register: single rows would need a branch each, which is
    mispredicted half of the time.
    """
    words, totals, turned = scratch.words, scratch.totals, scratch.turned
    node, n_rows, begin, _, n = block
    at = kept.first[node] + begin
    both_sides = sums.shape[1] > width
    per_word = 64 // size
    padded = (n + PADDING - _ONE) & ~(PADDING - _ONE)
    for w in range(words.shape[0]):
        for i in range(n, padded):
            words[w, i] = _ZERO
        totals[w] = add_all(words, w, padded) if both_sides else _ZERO
    row = np.uint64(asked.asked_start[node])
    for pair in range(np.uint64(asked.node_start[node]), np.uint64(asked.node_start[node + 1])):
        if asked.threshold[pair] == asked.threshold[pair]:
            is_set = is_plain_set(kept, asked, pair)
            values, place, threshold = kept.values, at, asked.threshold[pair]
            if not is_set:
                values, place, threshold = read_pair(kept, at, n, asked, pair, turned)
            for w in range(words.shape[0]):
                first = w * per_word
                n_fields = min(per_word, width - first)
                if is_set:
                    left = add_members(values, place, n, asked, pair, words, w)
                else:
                    left = add_below(values, place, padded, threshold, words, w)
                add_fields(left, size, n_fields, sums, row, first)
                if both_sides:
                    add_fields(totals[w] - left, size, n_fields, sums, row, width + first)
            row += _ONE
        at += n_rows


@kernel
def pack_counts(n_classes, width):
    """Return (words, codes): what a row with a code, its class and multiplicity, adds.

    Rows are the last field, if there is one more than classes.
    """
    n_words = (width + COUNTS_PER_WORD - 1) // COUNTS_PER_WORD
    table = np.zeros((n_words, n_classes << MULTIPLICITY_BITS), np.uint64)
    for code in range(table.shape[1]):
        label, multiplicity = code >> MULTIPLICITY_BITS, code & MAX_MULTIPLICITY
        shift = np.uint64(label % COUNTS_PER_WORD * COUNT_BITS)
        table[label // COUNTS_PER_WORD, code] = np.uint64(multiplicity) << shift
        if width > n_classes:
            shift = np.uint64(n_classes % COUNTS_PER_WORD * COUNT_BITS)
            table[n_classes // COUNTS_PER_WORD, code] |= _ONE << shift
    return table


@borrowing
def read_counts(entries, start, n, row_bits, table, words):
    """Turn n entries into packed counts."""
    for w in range(table.shape[0]):
        for i in range(n):
            words[w, i] = table[w, np.uint64(entries[start + i]) >> row_bits]


@kernel
def count_classes(order, n_classes, kept, asked, width, sums, first, last):
    """Add up, for the nodes first..last, how often rows of each class were drawn."""
    entries, row_bits, starts, stops = order
    table = pack_counts(n_classes, width)
    scratch = make_scratch(table.shape[0], kept, asked)
    words = scratch.words
    for k in range(first, last):
        n = np.uint64(stops[k] - starts[k])
        for begin in range(_ZERO, n, BLOCK):
            start, count = np.uint64(starts[k]) + begin, min(BLOCK, n - begin)
            read_counts(entries, start, count, row_bits, table, words)
            block = Block(k, n, begin, start, count)
            add_block(COUNT_BITS, block, kept, asked, width, scratch, sums)


@borrowing
def read_moments(entries, start, n, row_bits, weights, values, words):
    """Turn n entries into weight, weighted target and, if there is a third word, one row."""
    row_mask = (_ONE << row_bits) - _ONE
    for i in range(n):
        entry = np.uint64(entries[start + i])
        weight, total = row_moments(entry >> row_bits, entry & row_mask, weights, values)
        words[0, i] = np.uint64(weight)
        words[1, i] = np.uint64(total)
        if words.shape[0] > 2:
            words[2, i] = _ONE


@kernel
def add_moments(order, targets, kept, asked, width, sums, first, last):
    """Add up, for the nodes first..last, weights, weighted targets and, if wanted, rows."""
    entries, row_bits, starts, stops = order
    weights, targets_values = targets.weights, targets.values
    scratch = make_scratch(width, kept, asked)
    words = scratch.words
    for k in range(first, last):
        n = np.uint64(stops[k] - starts[k])
        for begin in range(_ZERO, n, BLOCK):
            start, count = np.uint64(starts[k]) + begin, min(BLOCK, n - begin)
            read_moments(entries, start, count, row_bits, weights, targets_values, words)
            block = Block(k, n, begin, start, count)
            add_block(WHOLE_BITS, block, kept, asked, width, scratch, sums)


@embedded
def spread_byte(byte):
    """Eight bits, each at the bottom of a byte of its own."""
    spread = ((byte & _LOW_SEVEN) * _SPREAD) & _LOWEST
    return spread | ((byte & _EIGHTH) << _TO_TOP_BYTE)


@borrowing
def read_responses(entries, start, n, row_bits, responses, n_bits, words):
    """Turn n entries into the bits of their rows' responses and, behind these, one row."""
    row_mask = (_ONE << row_bits) - _ONE
    one_row = _ONE << np.uint64(n_bits % RESPONSES_PER_WORD * RESPONSE_BITS)
    last = words.shape[0] - 1
    for i in range(n):
        response = np.uint64(responses[np.uint64(entries[start + i]) & row_mask])
        for w in range(words.shape[0]):
            words[w, i] = spread_byte(response & np.uint64(0xFF))
            response >>= _EIGHT
        words[last, i] |= one_row


@kernel
def count_responses(order, responses, n_bits, kept, asked, sums, first, last):
    """Add up, for the nodes first..last, the bits of rows' responses, and rows.

    `sums` may hold anything before.
    """
    entries, row_bits, starts, stops = order
    width = n_bits + 1
    scratch = make_scratch((width + RESPONSES_PER_WORD - 1) // RESPONSES_PER_WORD, kept, asked)
    words = scratch.words
    for k in range(first, last):
        n = np.uint64(stops[k] - starts[k])
        sums[asked.asked_start[k] : asked.asked_start[k + 1]] = 0
        for begin in range(_ZERO, n, RESPONSE_BLOCK):
            start, count = np.uint64(starts[k]) + begin, min(RESPONSE_BLOCK, n - begin)
            read_responses(entries, start, count, row_bits, responses, n_bits, words)
            block = Block(k, n, begin, start, count)
            add_block(RESPONSE_BITS, block, kept, asked, width, scratch, sums)

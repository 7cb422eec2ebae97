"""What falls on the left of each cut where there are two classes: most forests are such.

The same sums as `cut_sums.count_classes` adds up for any number of classes, sooner in small nodes,
where deciding what to add takes longer than adding: values lie in tiles, no value is missing and no
column has categories, so one comparison tells every side, and one word has both counts.
"""

import numpy as np

from fedforest.kernels.cuts.sides import BLOCK
from fedforest.kernels.cuts.sums import COUNT_BITS, make_scratch, pack_counts
from fedforest.kernels.cuts.tile_lanes import LANES, add_tile
from fedforest.kernels.jit import inlined, kernel

_ZERO, _ONE, _TWO = np.uint64(0), np.uint64(1), np.uint64(2)
_LANES = np.uint64(LANES)
_FIELD = np.uint64(COUNT_BITS)
_LOW_FIELD = np.uint64((1 << COUNT_BITS) - 1)


@inlined
def add_both_counts(cuts, n_pairs, words, flat_sums, at, last_own):
    """Add the words of a tile's asked pairs to their two sums each; return the place behind them.

    Which pairs are asked is as good as random: the others add nothing, to the row that comes next
    or, where that would be another thread's, to the last one.
    """
    for p in range(n_pairs):
        is_asked = np.uint64(cuts[p] == cuts[p])
        word, own = words[p] & (_ZERO - is_asked), min(at, last_own)
        flat_sums[own] += np.int64(word & _LOW_FIELD)
        flat_sums[own + _ONE] += np.int64(word >> _FIELD)
        at += is_asked + is_asked
    return at


@kernel
def count_two_classes(order, kept, asked, sums, first, last):
    """Count, for the nodes first..last, how often rows of each class were drawn on the left."""
    entries, row_bits, starts, stops = order
    node_start, _, threshold, _, _, _, asked_start = asked  # taken out once: see decision 2
    places, values, _, _, marks, per_tile = kept
    table, scratch = pack_counts(2, 2)[0], make_scratch(1, kept, asked)
    words, cuts, tile_words = scratch.words, scratch.cuts, scratch.sums
    own_words, flat_sums = words[0], sums.reshape(-1)
    if asked_start[first] == asked_start[last]:
        return
    last_own = _TWO * (np.uint64(asked_start[last]) - _ONE)
    for k in range(np.uint64(first), np.uint64(last)):
        n_rows = np.uint64(stops[k] - starts[k])
        for begin in range(_ZERO, n_rows, BLOCK):
            start, n = np.uint64(starts[k]) + begin, min(BLOCK, n_rows - begin)
            for i in range(n):
                own_words[i] = table[np.uint64(entries[start + i]) >> row_bits]
            sums_at, at, mark = _TWO * np.uint64(asked_start[k]), places[k], start
            pair, end = np.uint64(node_start[k]), np.uint64(node_start[k + _ONE])
            while pair < end:
                n_pairs = min(_LANES, end - pair)
                for p in range(n_pairs):
                    cuts[p] = threshold[pair + p]
                here = at + begin * n_pairs
                add_tile(values, here, n_pairs, n, cuts, words, _ZERO, tile_words, marks, mark)
                sums_at = add_both_counts(cuts, n_pairs, tile_words, flat_sums, sums_at, last_own)
                pair += n_pairs
                at += n_pairs * n_rows
                mark += per_tile

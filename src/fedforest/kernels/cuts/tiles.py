"""The values of all pairs of a level in tiles: all candidate values of a row side by side.

The caller chooses the table that is read soonest (`kept_values.TableCells`). Where it has a row's
values side by side, those of a later node are asked for while a node is read: small nodes are over
before the processor would look so far itself. Worth (`benchmarks/ablations.py`): up to 25 % of a
training.
"""

import numpy as np

from fedforest.kernels.cuts.tile_lanes import LANES, fetch_early, gather_tile
from fedforest.kernels.jit import embedded, kernel

_ZERO = np.uint64(0)
_ONE = np.uint64(1)
_LANES = np.uint64(LANES)
_NOTHING_LOWER = np.float32(np.inf)
_NOTHING_HIGHER = np.float32(-np.inf)
_VALUES_OF_A_LINE = np.uint64(16)
_MOST_LINES = np.uint64(4)  # of a row that is fetched whole; of a longer one most is not needed
_NODES_AHEAD = 3
_MOST_ROWS = np.uint64(24)  # of a node that is fetched: further ones the processor sees coming


@kernel
def place_tiles(starts, stops, node_start):
    """(places, most pairs): where the values of each node begin, and what the widest node has.

    Room is included; the last place is the number of values. The last tile of a node may be narrow;
    a vector at its last row reaches behind it.
    """
    first = np.empty(node_start.shape[0], np.uint64)
    at, most = 0, 0
    for k in range(starts.shape[0]):
        first[k] = at
        n_pairs = node_start[k + 1] - node_start[k]
        at += (stops[k] - starts[k]) * n_pairs + (-n_pairs & (LANES - 1))
        most = max(most, n_pairs)
    first[starts.shape[0]] = at
    return first, most


@embedded
def place_in_tile(first, slot, n, n_pairs):
    """(place, width): where the values of a node's pair begin, and how far apart they are."""
    before = slot & ~(_LANES - _ONE)
    return first + before * n + (slot - before), min(_LANES, n_pairs - before)


@embedded
def fetch_rows(cells, n_lines, entries, start, n, row_mask):
    """Ask for the rows of a node."""
    for i in range(min(n, _MOST_ROWS)):
        at = (np.uint64(entries[start + i]) & row_mask) * cells.per_row
        for line in range(n_lines):
            fetch_early(cells.values, at + line * _VALUES_OF_A_LINE)


@embedded
def count_lines(cells):
    """Lines that a row's values lie in, zero where its values are not side by side."""
    n_lines = (cells.per_row + _VALUES_OF_A_LINE - _ONE) // _VALUES_OF_A_LINE
    return n_lines if cells.per_column == _ONE and n_lines <= _MOST_LINES else _ZERO


@embedded
def count_present_in_tile(values, at, width, n):
    """Count those of n values that are `width` apart that are not missing."""
    present = _ZERO
    for i in range(n):
        present += np.uint64(values[at + i * width] == values[at + i * width])
    return present


@embedded
def note_ranges(kept, at, n, width, feature, pair, least, ranges, low, high):
    """The ranges of a tile's pairs; none of those of which fewer than `least` rows have a value."""
    for p in range(width):
        seen = n
        if kept.may_miss[feature[pair + p]]:
            seen = count_present_in_tile(kept.values, at + p, width, n)
        low[pair + p] = ranges[0, p] if seen >= least else _NOTHING_LOWER
        high[pair + p] = ranges[1, p] if seen >= least else _NOTHING_HIGHER


@kernel
def gather_tiles(cells, order, pairs, least_rows, kept, low, high, first, last):
    """Gather the values of all pairs, in tiles."""
    entries, row_bits, starts, stops = order
    node_start, feature = pairs
    place, copies, per_column = kept.first, kept.values, cells.per_column
    row_mask = (_ONE << row_bits) - _ONE
    least, n_lines = np.uint64(least_rows), count_lines(cells)
    offsets, ranges = np.zeros(LANES, np.uint64), np.empty((2, LANES), np.float32)
    for k in range(first, last):
        start, n, at = np.uint64(starts[k]), np.uint64(stops[k] - starts[k]), place[k]
        if n_lines > _ZERO and k + _NODES_AHEAD < last:
            later = k + _NODES_AHEAD
            n_later = np.uint64(stops[later] - starts[later])
            fetch_rows(cells, n_lines, entries, np.uint64(starts[later]), n_later, row_mask)
        pair, end = np.uint64(node_start[k]), np.uint64(node_start[k + 1])
        while pair < end:
            width = min(_LANES, end - pair)
            for p in range(_LANES):  # spare ones read again what is read anyway
                offsets[p] = np.uint64(feature[pair + min(p, width - _ONE)]) * per_column
            gather_tile(cells, offsets, entries, start, n, row_mask, copies, at, width, ranges)
            note_ranges(kept, at, n, width, feature, pair, least, ranges, low, high)
            pair += width
            at += width * n

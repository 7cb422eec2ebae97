"""The values of all pairs of a level, gathered once, for counting and for moving rows.

Reading a column at a node's scattered rows is the dearest step of a level. Kept side by side

    node 0: | pair 0: one value per row | pair 1 | ... |   node 1: | pair 0 | ...

the values are compared with thresholds at the speed of memory. Rows of large nodes lie close to one
another in a column; rows of small ones are far apart, and their values are found sooner in a table
that has all values of a row side by side. Indices are unsigned throughout: for signed ones numba
asks at each access whether they count from the end.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedforest.kernels.jit import embedded, kernel

TURNED_TOGETHER = np.uint64(64)  # rows

_ZERO = np.uint64(0)
_ONE = np.uint64(1)
_TWO = np.uint64(2)
_THREE = np.uint64(3)
_NOTHING_LOWER = np.float32(np.inf)
_NOTHING_HIGHER = np.float32(-np.inf)


class TableCells(NamedTuple):
    """A table as it lies in memory: column f of row r at f * per_column + r * per_row."""

    values: NDArray[np.float32]
    per_column: np.uint64
    per_row: np.uint64


class Kept(NamedTuple):
    """Node k's values from first[k] on, rows in order: pair after pair, or in tiles (`tile_lanes`).

    In tiles, bit p of marks[t * per_tile + e] says after counting whether entry e of the row order
    goes left by the cut of pair p of its node's tile t.
    """

    first: NDArray[np.uint64]
    values: NDArray[np.float32]
    may_miss: NDArray[np.bool_]  # per column: whether a value is missing anywhere
    is_tiled: bool
    marks: NDArray[np.uint8]
    per_tile: np.uint64  # marks


@kernel
def find_gaps(values, n_rows, n_columns):
    """Per column whether a value is missing."""
    may_miss = np.zeros(n_columns, np.bool_)
    for f in range(n_columns):
        missing = False
        for i in range(np.uint64(f) * n_rows, np.uint64(f + 1) * n_rows):
            missing |= values[i] != values[i]
        may_miss[f] = missing
    return may_miss


@kernel
def turn_values(values, n_rows, n_columns, turned):
    """Column after column turned into row after row, by blocks of rows that stay in the cache."""
    for begin in range(_ZERO, n_rows, TURNED_TOGETHER):
        end = min(begin + TURNED_TOGETHER, n_rows)
        for f in range(n_columns):
            for row in range(begin, end):
                turned[row * n_columns + f] = values[f * n_rows + row]


@kernel
def place_values(starts, stops, node_start):
    """Place the values of each node; the last element is the number of values."""
    first = np.empty(node_start.shape[0], np.uint64)
    at = 0
    for k in range(starts.shape[0]):
        first[k] = at
        at += (stops[k] - starts[k]) * (node_start[k + 1] - node_start[k])
    first[starts.shape[0]] = at
    return first


@embedded
def gather_one(values, base, per_row, entries, start, n, row_mask, kept, at):
    """Copy a node's values of the column that begins at `base`; (lowest, highest)."""
    low, high = _NOTHING_LOWER, _NOTHING_HIGHER
    for i in range(n):
        value = values[base + (np.uint64(entries[start + i]) & row_mask) * per_row]
        kept[at + i] = value
        low = value if value < low else low
        high = value if value > high else high
    return low, high


@embedded
def gather_three(values, bases, per_row, entries, start, n, row_mask, kept, at):
    """Gather three columns, whose loads overlap; with more, registers run out."""
    first, second, third = bases
    second_at, third_at = at + n, at + n + n
    low_a, low_b, low_c = _NOTHING_LOWER, _NOTHING_LOWER, _NOTHING_LOWER
    high_a, high_b, high_c = _NOTHING_HIGHER, _NOTHING_HIGHER, _NOTHING_HIGHER
    for i in range(n):
        row = (np.uint64(entries[start + i]) & row_mask) * per_row
        a, b, c = values[first + row], values[second + row], values[third + row]
        kept[at + i], kept[second_at + i], kept[third_at + i] = a, b, c
        low_a, high_a = a if a < low_a else low_a, a if a > high_a else high_a
        low_b, high_b = b if b < low_b else low_b, b if b > high_b else high_b
        low_c, high_c = c if c < low_c else low_c, c if c > high_c else high_c
    return low_a, high_a, low_b, high_b, low_c, high_c


@embedded
def count_present(kept, at, n):
    """Count those of n kept values that are not missing."""
    present = np.uint64(0)
    for i in range(n):
        present += np.uint64(kept[at + i] == kept[at + i])
    return present


@embedded
def gather_node(cells, entries, start, n, row_mask, feature, pair, end, kept, at, low, high):
    """Copy a node's values of the pairs pair..end and note their ranges."""
    values, per_column, per_row = cells
    while pair + _TWO < end:
        bases = (
            np.uint64(feature[pair]) * per_column,
            np.uint64(feature[pair + _ONE]) * per_column,
            np.uint64(feature[pair + _TWO]) * per_column,
        )
        ranges = gather_three(values, bases, per_row, entries, start, n, row_mask, kept, at)
        low[pair], high[pair] = ranges[0], ranges[1]
        low[pair + _ONE], high[pair + _ONE] = ranges[2], ranges[3]
        low[pair + _TWO], high[pair + _TWO] = ranges[4], ranges[5]
        pair += _THREE
        at += n + n + n
    while pair < end:
        base = np.uint64(feature[pair]) * per_column
        low[pair], high[pair] = gather_one(
            values, base, per_row, entries, start, n, row_mask, kept, at
        )
        pair += _ONE
        at += n


@embedded
def empty_small_ranges(kept, at, n, may_miss, feature, pair, end, least, low, high):
    """Pairs of which fewer than `least` rows have a value get no range."""
    while pair < end:
        seen = count_present(kept, at, n) if may_miss[feature[pair]] else n
        if seen < least:
            low[pair], high[pair] = _NOTHING_LOWER, _NOTHING_HIGHER
        pair += _ONE
        at += n


@kernel
def gather_values(cells, order, pairs, least_rows, kept, low, high, first, last):
    """Keep the values of the nodes first..last; low[p] and high[p] are the range of pair p.

    It is empty (low > high) where fewer than `least_rows` rows have a value.
    """
    entries, row_bits, starts, stops = order
    node_start, feature = pairs
    place, copies, may_miss = kept.first, kept.values, kept.may_miss
    row_mask = (_ONE << row_bits) - _ONE
    least = np.uint64(least_rows)
    for k in range(first, last):
        start, n, at = np.uint64(starts[k]), np.uint64(stops[k] - starts[k]), place[k]
        pair, end = np.uint64(node_start[k]), np.uint64(node_start[k + 1])
        gather_node(cells, entries, start, n, row_mask, feature, pair, end, copies, at, low, high)
        empty_small_ranges(copies, at, n, may_miss, feature, pair, end, least, low, high)

"""Filling histograms of two classes, one to three columns at a time.

A row adds three small integers, packed into one uint64, to its bin, so an update is one load and
one add:

    | rows 42..62 | weight of class 1  21..41 | weight 0..20 |

There is one loop for each number of columns: a loop over three columns, some of them empty, would
cost a party with few candidates as much as three. Worth (`benchmarks/ablations.py`): three columns
at once 7 to 11 % of a training; of it two at once 2 to 5 %, noting occupied bins at once 6 to 8 %.
"""

import numpy as np

from fedforest.kernels.jit import kernel
from fedforest.kernels.layout import N_CODES

FIELD_BITS = np.uint64(21)
FIELD_MASK = np.uint64((1 << 21) - 1)
ROWS_SHIFT = np.uint64(42)
SECOND = np.uint64(N_CODES)  # where the histogram of the second column begins
THIRD = np.uint64(2 * N_CODES)

_ZERO = np.uint64(0)
_ONE = np.uint64(1)
_FOUR = np.uint64(4)
_SIX = np.uint64(6)
_EIGHT = np.uint64(8)
_LOW_SIX = np.uint64(63)


@kernel
def pack_increments():
    """List what each entry's code (class and multiplicity) adds to a packed histogram."""
    increments = np.zeros(32, np.uint64)
    for code in range(32):
        multiplicity = np.uint64(code & 15)
        ones = multiplicity if code >= 16 else _ZERO
        increments[code] = multiplicity | (ones << FIELD_BITS) | (_ONE << ROWS_SHIFT)
    return increments


@kernel
def fill_one(bins, first, entries, span, row_bits, increments, histogram):
    """Add the rows of a span of entries to the histogram of one column."""
    row_mask = (_ONE << row_bits) - _ONE
    for i in range(span[0], span[1]):
        entry = np.uint64(entries[i])
        histogram[np.uint64(bins[first + (entry & row_mask)])] += increments[entry >> row_bits]


@kernel
def fill_two(bins, first, second, entries, span, row_bits, increments, histogram):
    """Fill two columns: decoding an entry is shared and the loads overlap."""
    row_mask = (_ONE << row_bits) - _ONE
    for i in range(span[0], span[1]):
        entry = np.uint64(entries[i])
        row = entry & row_mask
        added = increments[entry >> row_bits]
        a = np.uint64(bins[first + row])
        b = np.uint64(bins[second + row])
        histogram[a] += added
        histogram[b + SECOND] += added


@kernel
def fill_three(bins, first, second, third, entries, span, row_bits, increments, histogram):
    """Fill three columns; with more, registers run out."""
    row_mask = (_ONE << row_bits) - _ONE
    for i in range(span[0], span[1]):
        entry = np.uint64(entries[i])
        row = entry & row_mask
        added = increments[entry >> row_bits]
        a = np.uint64(bins[first + row])
        b = np.uint64(bins[second + row])
        c = np.uint64(bins[third + row])
        histogram[a] += added
        histogram[b + SECOND] += added
        histogram[c + THIRD] += added


@kernel
def mark_one(bins, first, entries, span, row_bits, increments, histogram, occupied):
    """As `fill_one`, noting which bins are occupied: for small nodes."""
    row_mask = (_ONE << row_bits) - _ONE
    for i in range(span[0], span[1]):
        entry = np.uint64(entries[i])
        a = np.uint64(bins[first + (entry & row_mask)])
        histogram[a] += increments[entry >> row_bits]
        occupied[a >> _SIX] |= _ONE << (a & _LOW_SIX)


@kernel
def mark_two(bins, first, second, entries, span, row_bits, increments, histogram, occupied):
    """As `fill_two`, noting which bins are occupied."""
    row_mask = (_ONE << row_bits) - _ONE
    for i in range(span[0], span[1]):
        entry = np.uint64(entries[i])
        row = entry & row_mask
        added = increments[entry >> row_bits]
        a = np.uint64(bins[first + row])
        b = np.uint64(bins[second + row])
        histogram[a] += added
        histogram[b + SECOND] += added
        occupied[a >> _SIX] |= _ONE << (a & _LOW_SIX)
        occupied[_FOUR + (b >> _SIX)] |= _ONE << (b & _LOW_SIX)


@kernel
def mark_three(bins, columns, entries, span, row_bits, increments, histogram, occupied):
    """As `fill_three`, noting which bins are occupied."""
    first, second, third = columns
    row_mask = (_ONE << row_bits) - _ONE
    for i in range(span[0], span[1]):
        entry = np.uint64(entries[i])
        row = entry & row_mask
        added = increments[entry >> row_bits]
        a = np.uint64(bins[first + row])
        b = np.uint64(bins[second + row])
        c = np.uint64(bins[third + row])
        histogram[a] += added
        histogram[b + SECOND] += added
        histogram[c + THIRD] += added
        occupied[a >> _SIX] |= _ONE << (a & _LOW_SIX)
        occupied[_FOUR + (b >> _SIX)] |= _ONE << (b & _LOW_SIX)
        occupied[_EIGHT + (c >> _SIX)] |= _ONE << (c & _LOW_SIX)


@kernel
def mark_columns(
    bins, n_rows, features, low, count, entries, span, row_bits, increments, histogram, occupied
):
    """As `fill_columns`, noting which bins are occupied."""
    first = features[low] * n_rows
    if count == 1:
        mark_one(bins, first, entries, span, row_bits, increments, histogram, occupied)
        return
    second = features[low + 1] * n_rows
    if count == 2:
        mark_two(bins, first, second, entries, span, row_bits, increments, histogram, occupied)
        return
    columns = (first, second, features[low + 2] * n_rows)
    mark_three(bins, columns, entries, span, row_bits, increments, histogram, occupied)


@kernel
def fill_columns(
    bins, n_rows, features, low, count, entries, span, row_bits, increments, histogram
):
    """Add a span of entries to the histograms of the next one to three candidate columns."""
    first = features[low] * n_rows
    if count == 1:
        fill_one(bins, first, entries, span, row_bits, increments, histogram)
        return
    second = features[low + 1] * n_rows
    if count == 2:
        fill_two(bins, first, second, entries, span, row_bits, increments, histogram)
        return
    third = features[low + 2] * n_rows
    fill_three(bins, first, second, third, entries, span, row_bits, increments, histogram)

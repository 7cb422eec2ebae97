"""From values to bins: sampling, edges, and the search for the bin of a value.

Rows are taken in blocks that stay in cache, one column after the other, because the columns of a
C-ordered table share cache lines. NaN is a missing value; infinities are ordinary values. Nothing
here knows how a table was read or which rows were sampled.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedforest.kernels.jit import kernel
from fedforest.kernels.layout import MISSING_BIN

BLOCK_ROWS = 512
N_CELLS = 1024
EDGES_WIDTH = 384  # a search looks up to 128 entries beyond the last edge

_HUGE = np.finfo(np.float64).max
_ZERO = np.float32(0)
_LAST_CELL = np.float32(N_CELLS - 1)
_MISSING = np.uint8(MISSING_BIN)


class Cells(NamedTuple):
    """Numeric columns in one piece of memory: row i of column j is at starts[j] + i * row_step.

    One compiled form so serves C order, Fortran order, slices of columns and single columns. The
    memory is always marked read-only, because numba compiles again for arrays that are not.
    """

    memory: NDArray[Any]  # 1-D, float32 or float64
    row_step: int
    starts: NDArray[np.int64]


class Search(NamedTuple):
    """The arrays that find the bins of k columns; `build_guides` fills everything but the edges.

    A binary search over 254 edges takes eight loads that wait for each other. A guide table (Chen
    and Asau 1974) saves most of them: it divides the range of the edges into equal cells and holds
    for each cell how many edges lie in the cells before it. Left to compare are the edges of the
    value's own cell, often just one.
    """

    edges: NDArray[Any]  # (k, EDGES_WIDTH) of the columns' dtype, ascending, then infinity
    guides: NDArray[np.uint8]  # (k, N_CELLS)
    origins: NDArray[Any]  # (k,): where the cells begin
    scales: NDArray[Any]  # (k,): cells per unit
    n_steps: NDArray[np.int64]  # (k,): comparisons that settle the fullest cell


class Distinct(NamedTuple):
    """The distinct values of k columns with few of them."""

    known: NDArray[Any]  # (k, MAX_BINS) of the columns' dtype, ascending, then NaN
    strangers: NDArray[Any]  # (k, MAX_BINS): values that the sample did not show, in any order
    n_strangers: NDArray[np.int64]  # (k,): MAX_BINS + 1 means "too many"


@kernel
def gather_rows(cells, rows, gathered, first, last):
    """Copy `rows[first:last]` of every column to the same places of `gathered` (column, place)."""
    for begin in range(first, last, BLOCK_ROWS):
        end = min(last, begin + BLOCK_ROWS)
        for column in range(len(cells.starts)):
            start = cells.starts[column]
            for place in range(begin, end):
                at = np.uint64(start + rows[place] * cells.row_step)
                gathered[column, place] = cells.memory[at]


@kernel
def list_distinct(ascending, limit, distinct):
    """Write the distinct values; return their number, or limit + 1 as soon as there are more."""
    count = 0
    for position in range(len(ascending)):
        if position == 0 or ascending[position] != ascending[position - 1]:
            if count == limit:
                return limit + 1
            distinct[count] = ascending[position]
            count += 1
    return count


@kernel
def midpoint(low, high):
    """An edge between two values: low <= edge < high, for neighbours and infinities as well."""
    low, high = np.float64(low), np.float64(high)
    edge = max(low, -_HUGE) / 2 + min(high, _HUGE) / 2
    return edge if low <= edge < high else low


@kernel
def edges_between(distinct, edges):
    """Write the edge between each two neighbours of an ascending array."""
    for position in range(1, len(distinct)):
        edges[position - 1] = midpoint(distinct[position - 1], distinct[position])


@kernel
def _nearer_end_of_run(ascending, begin, cut):
    """Move a cut out of a run of equal values, to a place after `begin`."""
    run_begin, run_end = cut, cut
    while run_begin > begin and ascending[run_begin - 1] == ascending[cut]:
        run_begin -= 1
    while run_end < len(ascending) and ascending[run_end] == ascending[cut]:
        run_end += 1
    return run_begin if begin < run_begin and cut - run_begin < run_end - cut else run_end


@kernel
def edges_at_quantiles(ascending, max_bins, edges):
    """Write at most max_bins - 1 edges that divide the values evenly; return how many.

    Every bin takes an equal share of the values still left, and a run of equal values stays in one
    bin. So a frequent value uses up one bin, not many, and the bins after it become finer.
    """
    n_edges, begin, n_values = 0, 0, len(ascending)
    for n_bins_left in range(max_bins, 1, -1):
        cut = begin + (n_values - begin + n_bins_left - 1) // n_bins_left
        if cut < n_values and ascending[cut - 1] == ascending[cut]:
            cut = _nearer_end_of_run(ascending, begin, cut)
        if cut >= n_values:
            break
        edges[n_edges] = midpoint(ascending[cut - 1], ascending[cut])
        n_edges += 1
        begin = cut
    return n_edges


@kernel
def _cell_of(value, origin, scale):
    """Return the cell of a value. It never decreases with the value; NaN is in the first cell.

    Rounding may move a value to the next cell, but it moves edges alike: a value in a later cell
    than an edge is above that edge, whatever was rounded.
    """
    position = (value - origin) * scale
    position = position if position > _ZERO else _ZERO
    position = position if position < _LAST_CELL else _LAST_CELL
    return np.uint64(np.int32(position))


@kernel
def _fullest_cell(edges, origin, scale):
    """Return the largest number of edges in one cell."""
    fullest, here, cell = 0, 0, np.uint64(0)
    for edge in edges:
        previous, cell = cell, _cell_of(edge, origin, scale)
        here = here + 1 if cell == previous else 1
        fullest = max(fullest, here)
    return fullest


@kernel
def _choose_cells(edges, search, column):
    """Set origin and scale so that the fullest cell is small; return its number of edges.

    Cells need not cover all edges: those outside share the first or last cell. Leaving out a few
    outlying edges on either side makes the cells of all others narrower.
    """
    search.origins[column] = _ZERO
    search.scales[column] = _ZERO
    fullest = len(edges)
    for n_left_out in (0, 1, 3, 7, 15):
        if len(edges) < 2 * n_left_out + 2:
            break
        origin = edges[n_left_out]
        scale = _LAST_CELL / (edges[len(edges) - 1 - n_left_out] - origin)
        candidate = _fullest_cell(edges, origin, scale)
        if candidate < fullest:
            fullest = candidate
            search.origins[column] = origin
            search.scales[column] = scale
    return fullest


@kernel
def _fill_guide(edges, guide, origin, scale):
    """Write for every cell how many edges lie in the cells before it."""
    next_cell = np.uint64(0)
    for n_before in range(len(edges)):
        cell = _cell_of(edges[n_before], origin, scale)
        if cell >= next_cell:
            guide[next_cell : cell + np.uint64(1)] = n_before
            next_cell = cell + np.uint64(1)
    guide[next_cell:] = len(edges)


@kernel
def build_guides(search, n_edges):
    """Prepare a search whose edges are in place; column j has n_edges[j] of them."""
    for column in range(len(n_edges)):
        edges = search.edges[column, : n_edges[column]]
        fullest = _choose_cells(edges, search, column)
        _fill_guide(edges, search.guides[column], search.origins[column], search.scales[column])
        n_steps = 0
        while (1 << n_steps) <= fullest:
            n_steps += 1
        search.n_steps[column] = n_steps


@kernel
def _load_and_guess(cells, search, column, begin, values, found):
    """Copy one column of a block; let each search start at the first edge of the value's cell."""
    at = cells.starts[column] + begin * cells.row_step
    guide = search.guides[column]
    origin, scale = search.origins[column], search.scales[column]
    for row in range(len(values)):
        value = cells.memory[np.uint64(at + row * cells.row_step)]
        values[row] = value
        found[row] = guide[_cell_of(value, origin, scale)]


@kernel
def _halve(edges, step, values, found):
    """One step of all searches of a block, without branches: pass 2**step edges or none."""
    reach = (np.uint64(1) << step) - np.uint64(1)
    for row in range(len(values)):
        found[row] += np.uint64(edges[found[row] + reach] < values[row]) << step


@kernel
def _search_block(cells, search, column, begin, values, found):
    """Load one column of the block at row `begin`; find how many edges lie below each value."""
    _load_and_guess(cells, search, column, begin, values, found)
    for step in range(search.n_steps[column] - 1, -1, -1):
        _halve(search.edges[column], np.uint64(step), values, found)


@kernel
def _write_bins(values, found, bins):
    """Turn what a search found into bins; for NaN it found nothing of meaning."""
    for row in range(len(values)):
        bins[row] = _MISSING if np.isnan(values[row]) else np.uint8(found[row])


@kernel
def bin_rows(cells, search, features, bins, first, last):
    """Write the bins of rows [first, last); those of column j go to row features[j] of `bins`."""
    values = np.empty(BLOCK_ROWS, cells.memory.dtype)
    found = np.empty(BLOCK_ROWS, np.uint64)
    for begin in range(first, last, BLOCK_ROWS):
        n = min(last - begin, BLOCK_ROWS)
        for column in range(len(cells.starts)):
            _search_block(cells, search, column, begin, values[:n], found[:n])
            _write_bins(values[:n], found[:n], bins[features[column], begin : begin + n])


@kernel
def _add_strangers(values, found, known, strangers, count):
    """Add each value that is not the known value of its bin; return how many there are now.

    Strangers escaped a large sample, so they are rare and an unsorted list serves them well.
    """
    for row in range(len(values)):
        value = values[row]
        if not np.isnan(value) and value != known[found[row]]:
            place = 0
            while place < count and strangers[place] != value:
                place += 1
            if place == len(strangers):
                return place + 1
            strangers[place] = value
            count = max(count, place + 1)
    return count


@kernel
def find_strangers(cells, search, distinct, first, last):
    """Collect the values of rows [first, last) that the sample did not show.

    The search is over the edges between the known values. A column with too many strangers is left
    alone from then on.
    """
    values = np.empty(BLOCK_ROWS, cells.memory.dtype)
    found = np.empty(BLOCK_ROWS, np.uint64)
    for begin in range(first, last, BLOCK_ROWS):
        n = min(last - begin, BLOCK_ROWS)
        for column in range(len(cells.starts)):
            count = distinct.n_strangers[column]
            if count <= distinct.strangers.shape[1]:
                _search_block(cells, search, column, begin, values[:n], found[:n])
                distinct.n_strangers[column] = _add_strangers(
                    values[:n], found[:n], distinct.known[column], distinct.strangers[column], count
                )

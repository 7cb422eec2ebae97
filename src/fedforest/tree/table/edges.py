"""The edges between the bins of numeric columns, and the search for them.

A column with few distinct values keeps them all, one bin each. Any other column is divided at the
quantiles of a sample of its rows. The sample depends on the seed and the number of rows only, so
the edges of a column depend neither on the column order nor on the party that holds it.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fedforest.kernels.bins import binning
from fedforest.kernels.layout import MAX_BINS
from fedforest.tree.table.blocks import NumericBlock, group_columns
from fedforest.tree.table.columns import Numbers
from fedforest.tree.workers import Workers

SAMPLE_ROWS = 50_000
_TASK_CELLS = 1 << 17  # some tenths of a millisecond: tasks that small can be distributed evenly

Edges: TypeAlias = NDArray[np.float64]


def sample_rows(n_rows: int, seed: int) -> NDArray[np.int64]:
    """Draw one row from each of SAMPLE_ROWS equal strata, ascending; all rows if fewer."""
    if n_rows <= SAMPLE_ROWS:
        return np.arange(n_rows)
    # No hidden randomness: the seed is the caller's, and every party must draw the same rows.
    rng = np.random.Generator(np.random.PCG64(seed))
    begins = np.arange(SAMPLE_ROWS + 1) * n_rows // SAMPLE_ROWS
    return begins[:-1] + (rng.random(SAMPLE_ROWS) * np.diff(begins)).astype(np.int64)


def row_ranges(n_rows: int, n_columns: int) -> Iterator[tuple[int, int]]:
    """Cut the rows into ranges, each one task for a kernel that reads `n_columns`."""
    n_blocks = max(1, _TASK_CELLS // (binning.BLOCK_ROWS * n_columns))
    step = n_blocks * binning.BLOCK_ROWS
    return ((first, min(first + step, n_rows)) for first in range(0, n_rows, step))


def prepare_search(edges: Sequence[Edges], dtype: np.dtype[Any]) -> binning.Search:
    """Make the edges of some columns ready to find bins of values of this dtype."""
    n_columns = len(edges)
    exact = np.full((n_columns, binning.EDGES_WIDTH), np.inf)
    for row, column_edges in zip(exact, edges, strict=True):
        row[: len(column_edges)] = column_edges
    search = binning.Search(
        edges=_round_down(exact, dtype),
        guides=np.empty((n_columns, binning.N_CELLS), np.uint8),
        origins=np.empty(n_columns, dtype),
        scales=np.empty(n_columns, dtype),
        n_steps=np.empty(n_columns, np.int64),
    )
    binning.build_guides(search, np.array([len(column_edges) for column_edges in edges]))
    return search


class EdgeFitter:
    """Finds the edges of numeric columns while the pieces of a table pass by once.

    Of every column it keeps the sampled values, and all distinct values while they are few.
    """

    def __init__(self, max_bins: int, workers: Workers) -> None:
        self._max_bins = max_bins
        self._workers = workers
        self._sampled: dict[int, list[NDArray[Any]]] = {}  # by piece: ascending, none missing
        self._distinct: dict[int, NDArray[Any] | None] = {}  # ascending; None: too many

    def read(
        self, columns: Iterable[tuple[int, Numbers]], n_rows: int, sampled: NDArray[np.int64]
    ) -> None:
        """Read (feature, values) of `n_rows` rows; those at `sampled` are in the sample."""
        blocks = group_columns((feature, self._widen(feature, c)) for feature, c in columns)
        self._workers.run(self._note, self._gather(blocks, sampled))
        if len(sampled) < n_rows:
            for block in blocks:
                self._add_strangers(block, n_rows)

    def join(self, other: "EdgeFitter") -> None:
        """Add what another fitter read of further rows of the same columns."""
        for feature, sampled in other._sampled.items():
            self._sampled.setdefault(feature, []).extend(sampled)
            if feature in self._distinct:
                self._join(feature, other._distinct[feature])
            else:
                self._distinct[feature] = other._distinct[feature]

    def edges(self) -> dict[int, Edges]:
        """Return the edges of every column that was read."""
        edges: dict[int, Edges] = {}

        def settle(feature: int) -> None:
            edges[feature] = self._settle(feature)

        self._workers.run(settle, self._sampled)
        return edges

    def _settle(self, feature: int) -> Edges:
        distinct = self._distinct[feature]
        if distinct is not None:
            return _edges_between(distinct)
        parts = self._sampled[feature]
        ascending = parts[0] if len(parts) == 1 else np.sort(np.concatenate(parts))
        few = self._list_distinct(ascending)
        if few is None:
            return _edges_at_quantiles(ascending, self._max_bins)
        return _edges_between(few)

    def _list_distinct(self, ascending: NDArray[Any]) -> NDArray[Any] | None:
        """Return the distinct values; None if there are more than bins."""
        distinct = np.empty(self._max_bins, ascending.dtype)
        n_distinct = binning.list_distinct(ascending, self._max_bins, distinct)
        return distinct[:n_distinct] if n_distinct <= self._max_bins else None

    def _widen(self, feature: int, column: Numbers) -> Numbers:
        """Convert a column to float64 if an earlier piece of it was; both are exact."""
        known = self._distinct.get(feature)
        return column if known is None else column.astype(np.result_type(known, column), copy=False)

    def _note(self, column: tuple[int, NDArray[Any]]) -> None:
        """Add the sampled values of one column and piece."""
        feature, ascending = column
        ascending.sort()  # missing values come last
        ascending = ascending[: np.searchsorted(ascending, ascending.dtype.type(np.nan))]
        if feature not in self._sampled:
            self._sampled[feature] = [ascending]
            self._distinct[feature] = self._list_distinct(ascending)
        else:
            self._sampled[feature].append(ascending)
            self._join(feature, self._list_distinct(ascending))

    def _join(self, feature: int, more: NDArray[Any] | None) -> None:
        """Add distinct values to those known; None stands for too many."""
        known = self._distinct[feature]
        if known is None or more is None:
            self._distinct[feature] = None
        elif len(more):
            joined = np.unique(np.concatenate([known, more]))
            self._distinct[feature] = joined if len(joined) <= self._max_bins else None

    def _gather(
        self, blocks: Sequence[NumericBlock], rows: NDArray[np.int64]
    ) -> list[tuple[int, NDArray[Any]]]:
        """Copy the sampled rows of each feature, contiguous."""
        samples = [
            np.empty((len(block.features), len(rows)), block.cells.memory.dtype) for block in blocks
        ]
        tasks = [
            (block, sample, part)
            for block, sample in zip(blocks, samples, strict=True)
            for part in row_ranges(len(rows), len(block.features))
        ]

        def gather(task: tuple[NumericBlock, NDArray[Any], tuple[int, int]]) -> None:
            block, sample, (first, last) = task
            binning.gather_rows(block.cells, rows, sample, first, last)

        self._workers.run(gather, tasks)
        return [
            (feature, values)
            for block, sample in zip(blocks, samples, strict=True)
            for feature, values in zip(block.features.tolist(), sample, strict=True)
        ]

    def _add_strangers(self, block: NumericBlock, n_rows: int) -> None:
        """Add the values that are not known yet, of columns whose distinct values are few."""
        known: dict[int, NDArray[Any]] = {}
        for feature in block.features.tolist():
            distinct = self._distinct[feature]
            if distinct is not None:
                known[feature] = distinct
        if not known:
            return
        few = block.take([p for p, f in enumerate(block.features.tolist()) if f in known])
        dtype = block.cells.memory.dtype
        search = prepare_search([_edges_between(values) for values in known.values()], dtype)
        table = np.full((len(known), MAX_BINS), np.nan, dtype)
        for row, values in zip(table, known.values(), strict=True):
            row[: len(values)] = values
        found: list[tuple[int, NDArray[Any] | None]] = []

        def find(rows: tuple[int, int]) -> None:
            n_strangers = np.zeros(len(known), np.int64)
            distinct = binning.Distinct(table, np.empty_like(table), n_strangers)
            binning.find_strangers(few.cells, search, distinct, *rows)
            for place, feature in enumerate(known):
                n_found = n_strangers.item(place)
                if n_found > MAX_BINS:
                    found.append((feature, None))
                elif n_found:  # a view would keep the whole array
                    found.append((feature, distinct.strangers[place, :n_found].copy()))

        self._workers.run(find, row_ranges(n_rows, len(known)))
        for feature, strangers in found:
            self._join(feature, strangers)


def _edges_between(distinct: NDArray[Any]) -> Edges:
    edges = np.empty(max(len(distinct) - 1, 0))
    binning.edges_between(distinct, edges)
    return edges


def _edges_at_quantiles(ascending: NDArray[Any], max_bins: int) -> Edges:
    edges = np.empty(max_bins - 1)
    return edges[: binning.edges_at_quantiles(ascending, max_bins, edges)].copy()


def _round_down(edges: Edges, dtype: np.dtype[Any]) -> NDArray[Any]:
    """Return the largest values of a dtype that are not above the edges.

    A float32 is above an edge exactly when it is above the edge rounded down, so columns of float32
    are searched in float32 and get the bins that float64 would give.
    """
    with np.errstate(over="ignore"):
        rounded = edges.astype(dtype)
    too_high = rounded > edges
    rounded[too_high] = np.nextafter(rounded[too_high], dtype.type(-np.inf))
    return rounded

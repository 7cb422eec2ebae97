"""The edges between the bins of numeric columns, and the search for them.

A column with few distinct values keeps them all, one bin each. Any other column is divided at the
quantiles of a sample of its rows. The sample depends on the seed and the number of rows only, so
the edges of a column depend neither on the column order nor on the party that holds it.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fedforest.kernels.bins import binning
from fedforest.kernels.layout import MAX_BINS
from fedforest.tree.table.blocks import NumericBlock
from fedforest.tree.workers import Workers

SAMPLE_ROWS = 50_000
_BATCH_COLUMNS = 64  # sampled together: 13 MB of float32
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


def fit_edges(
    blocks: Iterable[NumericBlock], n_rows: int, seed: int, max_bins: int, workers: Workers
) -> dict[int, Edges]:
    """Find the edges of every feature in the blocks."""
    fitter = _Fitter(sample_rows(n_rows, seed), n_rows, max_bins, workers)
    edges: dict[int, Edges] = {}
    for batch in _batches(blocks):
        edges |= fitter.fit(batch)
    return edges


@dataclass(frozen=True, slots=True, eq=False)
class _Fitter:
    """Finds the edges of one batch of columns after the other."""

    rows: NDArray[np.int64]
    n_rows: int
    max_bins: int
    workers: Workers

    def fit(self, batch: Sequence[NumericBlock]) -> dict[int, Edges]:
        edges: dict[int, Edges] = {}
        values_of_few: dict[int, NDArray[Any]] = {}

        def settle(column: tuple[int, NDArray[Any]]) -> None:
            feature, ascending = column
            ascending.sort()  # missing values come last
            ascending = ascending[: np.searchsorted(ascending, ascending.dtype.type(np.nan))]
            distinct = np.empty(self.max_bins, ascending.dtype)
            n_distinct = binning.list_distinct(ascending, self.max_bins, distinct)
            if n_distinct <= self.max_bins:
                values_of_few[feature] = distinct[:n_distinct]
                edges[feature] = _edges_between(distinct[:n_distinct])
            else:
                edges[feature] = _edges_at_quantiles(ascending, self.max_bins)

        self.workers.run(settle, self._sample(batch))
        if len(self.rows) < self.n_rows:
            for block in batch:
                edges |= self._edges_of_all_rows(block, values_of_few)
        return edges

    def _sample(self, batch: Sequence[NumericBlock]) -> list[tuple[int, NDArray[Any]]]:
        """Copy the sampled rows of each feature, contiguous."""
        samples = [
            np.empty((len(block.features), len(self.rows)), block.cells.memory.dtype)
            for block in batch
        ]
        tasks = [
            (block, sample, rows)
            for block, sample in zip(batch, samples, strict=True)
            for rows in row_ranges(len(self.rows), len(block.features))
        ]

        def gather(task: tuple[NumericBlock, NDArray[Any], tuple[int, int]]) -> None:
            block, sample, (first, last) = task
            binning.gather_rows(block.cells, self.rows, sample, first, last)

        self.workers.run(gather, tasks)
        return [
            (feature, values)
            for block, sample in zip(batch, samples, strict=True)
            for feature, values in zip(block.features.tolist(), sample, strict=True)
        ]

    def _edges_of_all_rows(
        self, block: NumericBlock, values_of_few: dict[int, NDArray[Any]]
    ) -> dict[int, Edges]:
        """Find the edges of columns whose few distinct values were not all in the sample."""
        few = block.take(
            [p for p, feature in enumerate(block.features.tolist()) if feature in values_of_few]
        )
        known = [values_of_few[feature] for feature in few.features.tolist()]
        edges = {}
        for feature, values, strangers in zip(
            few.features.tolist(), known, self._find_strangers(few, known), strict=True
        ):
            distinct = np.unique(np.concatenate([values, *strangers]))
            if len(values) < len(distinct) <= self.max_bins:
                edges[feature] = _edges_between(distinct)
        return edges

    def _find_strangers(
        self, block: NumericBlock, known: Sequence[NDArray[Any]]
    ) -> list[list[NDArray[Any]]]:
        """Find each column's values that are not known; some of them if there are too many."""
        strangers: list[list[NDArray[Any]]] = [[] for _ in known]
        if not known:
            return strangers
        dtype = block.cells.memory.dtype
        search = prepare_search([_edges_between(values) for values in known], dtype)
        table = np.full((len(known), MAX_BINS), np.nan, dtype)
        for row, values in zip(table, known, strict=True):
            row[: len(values)] = values

        def find(rows: tuple[int, int]) -> None:
            n_strangers = np.zeros(len(known), np.int64)
            distinct = binning.Distinct(table, np.empty_like(table), n_strangers)
            binning.find_strangers(block.cells, search, distinct, *rows)
            for column in np.flatnonzero(n_strangers).tolist():
                found = distinct.strangers[column, : n_strangers[column]]
                strangers[column].append(found.copy())  # a view would keep the whole array

        self.workers.run(find, row_ranges(self.n_rows, len(known)))
        return strangers


def _batches(blocks: Iterable[NumericBlock]) -> Iterator[list[NumericBlock]]:
    """Divide blocks into batches of at most _BATCH_COLUMNS columns."""
    batch: list[NumericBlock] = []
    room = _BATCH_COLUMNS
    for block in blocks:
        positions = np.arange(len(block.features))
        while len(positions):
            batch.append(block.take(positions[:room]))
            positions = positions[room:]
            room -= len(batch[-1].features)
            if room == 0:
                yield batch
                batch, room = [], _BATCH_COLUMNS
    if batch:
        yield batch


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

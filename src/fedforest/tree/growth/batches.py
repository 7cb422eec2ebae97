"""What an owner of columns grows a batch of trees on: its rows, wherever they are.

Rows here are a row order and the search over it; a party on a cluster has both in shards
(`tree/shards`).
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from fedforest.kernels.layout import Columns
from fedforest.tree.growth.left_out_rows import LeftOutRows
from fedforest.tree.growth.rows import NodeRows, Sampling, draw_rows
from fedforest.tree.growth.split_search import ColumnSearch, make_columns
from fedforest.tree.table.bins import Bins, fit_bins
from fedforest.tree.table.pieces import Allocate, TableSource
from fedforest.tree.table.targets import TargetKind, TrainingTargets
from fedforest.tree.workers import ALONE, Workers

SearchMaker = Callable[[Columns, TrainingTargets, NodeRows, int, Workers], ColumnSearch]


@dataclass(frozen=True, slots=True, eq=False)
class TreeSample:
    """The trees of a batch, the rows that each draws, and the rows that a leaf must have."""

    seeds: NDArray[np.uint64]
    sampling: Sampling
    with_left_out: bool
    min_rows_leaf: int


class Batch(NamedTuple):
    """The rows of a batch of trees; both have the methods of their local kind."""

    search: Any  # as ColumnSearch
    left_out: Any  # as LeftOutRows; None if they are not routed along


class OwnRows(Protocol):
    """The rows of one owner of columns."""

    @property
    def n_rows(self) -> int:
        """The number of rows."""

    @property
    def kind(self) -> TargetKind:
        """The meaning of the labels."""

    @property
    def is_weighted(self) -> bool:
        """Whether rows have weights."""

    @property
    def is_categorical(self) -> NDArray[np.bool_]:
        """Which columns are categories."""

    @property
    def is_ready(self) -> bool:
        """Whether columns and labels are there."""

    def fit_bins(self, seed: int, max_bins: int) -> Bins:
        """Find the bins of all columns."""

    def bin_columns(self, bins: Bins) -> None:
        """Bin all columns."""

    def take_targets(self, targets: TrainingTargets) -> None:
        """Take the labels of all rows."""

    def begin(self, sample: TreeSample, workers: Workers) -> Batch:
        """Begin a batch of trees, all rows of which are at the roots."""


MakeRows = Callable[[TableSource], OwnRows]  # where the rows of a table are to be


class RowsHere:
    """Rows in the memory of this process."""

    def __init__(
        self,
        table: TableSource,
        workers: Workers = ALONE,
        allocate: Allocate = np.empty,
        make_search: SearchMaker = ColumnSearch,
    ) -> None:
        self._table, self._workers, self._allocate = table, workers, allocate
        self.make_search = make_search
        self._columns: Columns | None = None
        self._targets: TrainingTargets | None = None

    @property
    def n_rows(self) -> int:
        """The number of rows."""
        return self._table.n_rows

    @property
    def columns(self) -> Columns:
        """The binned columns."""
        assert self._columns is not None, "columns are binned first"
        return self._columns

    @property
    def targets(self) -> TrainingTargets:
        """The labels of all rows."""
        assert self._targets is not None, "labels are taken first"
        return self._targets

    @property
    def kind(self) -> TargetKind:
        """The meaning of the labels."""
        return self.targets.kind

    @property
    def is_weighted(self) -> bool:
        """Whether rows have weights."""
        return self.targets.is_weighted

    @property
    def is_categorical(self) -> NDArray[np.bool_]:
        """Which columns are categories."""
        return self.columns.is_categorical

    @property
    def is_ready(self) -> bool:
        """Whether columns and labels are there."""
        return self._columns is not None and self._targets is not None

    def fit_bins(self, seed: int, max_bins: int) -> Bins:
        """Find the bins of all columns."""
        return fit_bins(self._table, seed=seed, max_bins=max_bins, workers=self._workers)

    def bin_columns(self, bins: Bins) -> None:
        """Bin all columns."""
        binned = bins.transform(self._table, self._workers, self._allocate)
        self._columns = make_columns(binned, bins.n_bins, bins.is_categorical)

    def take_targets(self, targets: TrainingTargets) -> None:
        """Take the labels of all rows."""
        self._targets = targets

    def begin(self, sample: TreeSample, workers: Workers) -> Batch:
        """Begin a batch of trees, all rows of which are at the roots."""
        columns, targets = self.columns, self.targets
        rows, left_out = draw_rows(
            sample.seeds,
            targets,
            sample.sampling,
            workers,
            with_left_out=sample.with_left_out,
            allocate=self._allocate,
        )
        search = self.make_search(columns, targets, rows, sample.min_rows_leaf, workers)
        if left_out is None:
            return Batch(search, None)
        n_trees = len(sample.seeds)
        return Batch(search, LeftOutRows(left_out, n_trees, targets.n_rows, workers))

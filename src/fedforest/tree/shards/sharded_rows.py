"""The rows of an owner of columns, in shards: bins of all of them, labels of each.

It stands for rows in this process (`growth/batches.RowsHere`): the same bins, the same trees.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cached_property
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from fedforest.kernels.layout import Targets
from fedforest.tree.growth.batches import Batch, TreeSample
from fedforest.tree.shards.engine import ShardEngine
from fedforest.tree.shards.replay import Shards
from fedforest.tree.shards.sharded_batch import ROWS_GATHERED, ShardedBatch, ShardedLeftOut
from fedforest.tree.table.bins import (
    FITTED_TOGETHER,
    Bins,
    ColumnReading,
    Rule,
    build_bins,
    check_max_bins,
)
from fedforest.tree.table.edges import sample_rows
from fedforest.tree.table.pieces import TableSource
from fedforest.tree.table.targets import TargetKind, TrainingTargets
from fedforest.tree.workers import Workers


def divide_table(table: TableSource, n_shards: int) -> list[TableSource]:
    """Divide a table into consecutive rows, about as many in each shard; none is empty."""
    n_shards = max(1, min(n_shards, table.n_rows))
    bounds = [table.n_rows * shard // n_shards for shard in range(n_shards + 1)]
    return [table.take_span(first, last) for first, last in pairwise(bounds)]


class ShardedRows:
    """The rows of a table in the shards of an engine."""

    def __init__(
        self,
        make_engine: Callable[[], ShardEngine],
        table: TableSource,
        rows_gathered: int = ROWS_GATHERED,
    ) -> None:
        """Nodes of up to `rows_gathered` rows move to one shard."""
        self._table, self._rows_gathered = table, rows_gathered
        self._make_engine = make_engine  # only when rows are needed: a run may be refused before
        self._is_categorical: NDArray[np.bool_] | None = None
        self._kind: TargetKind | None = None
        self._is_weighted = False
        self._n_batches = 0

    @cached_property
    def _shards(self) -> Shards:
        engine = self._make_engine()
        return Shards(engine, divide_table(self._table, engine.n_shards))

    @property
    def n_rows(self) -> int:
        """The number of rows."""
        return self._table.n_rows

    @property
    def kind(self) -> TargetKind:
        """The meaning of the labels."""
        assert self._kind is not None, "labels are taken first"
        return self._kind

    @property
    def is_weighted(self) -> bool:
        """Whether rows have weights."""
        return self._is_weighted

    @property
    def is_categorical(self) -> NDArray[np.bool_]:
        """Which columns are categories."""
        assert self._is_categorical is not None, "columns are binned first"
        return self._is_categorical

    @property
    def is_ready(self) -> bool:
        """Whether columns and labels are there."""
        return self._is_categorical is not None and self._kind is not None

    def fit_bins(self, seed: int, max_bins: int) -> Bins:
        """Find the bins of all columns, as `fit_bins` does from one table."""
        check_max_bins(max_bins)
        table, rules = self._table, list[Rule]()
        rows = sample_rows(table.n_rows, seed)
        for first in range(0, table.n_features, FITTED_TOGETHER):
            together = range(first, min(first + FITTED_TOGETHER, table.n_features))
            rules += self._fit_rules(together, rows, max_bins)
        return build_bins(table.names, rules, has_names=table.has_names)

    def _fit_rules(self, features: range, rows: NDArray[np.int64], max_bins: int) -> Iterator[Rule]:
        shards = self._shards
        sampled = [
            rows[slice(*np.searchsorted(rows, (span.start, span.stop)))] - span.start
            for span in shards.spans()
        ]
        read = shards.query(
            lambda engine: engine.collect(
                [
                    engine.ask(shard, "read_columns", list(features), own, max_bins)
                    for shard, own in enumerate(sampled)
                ]
            )
        )
        first: ColumnReading = read[0]
        for other in read[1:]:
            first.join(other)
        return first.rules(len(features))

    def bin_columns(self, bins: Bins) -> None:
        """Bin all columns."""
        self._shards.prepare("bin_columns", lambda _: (bins,))
        self._is_categorical = bins.is_categorical

    def take_targets(self, targets: TrainingTargets) -> None:
        """Take the labels of all rows."""
        spans = self._shards.spans()
        self._shards.prepare("take_targets", lambda shard: (take_span(targets, spans[shard]),))
        self._kind, self._is_weighted = targets.kind, targets.is_weighted

    def begin(self, sample: TreeSample, workers: Workers) -> Batch:  # noqa: ARG002 - shards work
        """Begin a batch of trees, all rows of which are at the roots."""
        numbers = self._n_batches, self._rows_gathered
        self._n_batches += 1
        batch = ShardedBatch(self._shards, self, sample, numbers)
        return Batch(batch, ShardedLeftOut(batch) if sample.with_left_out else None)


def take_span(targets: TrainingTargets, span: slice) -> TrainingTargets:
    """Return the labels of consecutive rows."""
    kernel = targets.kernel
    values = kernel.values[span]
    levels = values if kernel.levels is kernel.values else kernel.levels[span]
    return replace(
        targets,
        classes=targets.classes[span],
        allowed=targets.allowed[span],
        kernel=Targets(kernel.n_classes, kernel.weights[span], values, levels),
    )

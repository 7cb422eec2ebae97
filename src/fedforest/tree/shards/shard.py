"""One shard of a table: consecutive rows, their bins and labels, and the trees that grow on them.

An engine keeps it in one of its processes. It does what the whole table would do for its own rows;
what must be known of all rows is added up by `sharded_rows` and `sharded_batch`.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fedforest.tree.growth.batches import TreeSample
from fedforest.tree.growth.left_out_rows import LeftOutRows
from fedforest.tree.growth.rows import RowSpan, draw_rows
from fedforest.tree.growth.split_search import make_columns
from fedforest.tree.shards.shard_trees import ShardTrees
from fedforest.tree.table.bins import Bins, ColumnReading
from fedforest.tree.table.pieces import TableSource
from fedforest.tree.table.targets import TrainingTargets
from fedforest.tree.workers import ALONE

if TYPE_CHECKING:
    from fedforest.kernels.layout import Columns


class Shard:
    """Some consecutive rows of a table."""

    def __init__(self, table: TableSource, first_row: int, n_rows: int) -> None:
        """The table has the rows from `first_row` on of `n_rows`."""
        self._table, self._first_row, self._n_rows = table, first_row, n_rows
        self._columns: Columns | None = None
        self._targets: TrainingTargets | None = None
        self._batches: dict[int, ShardTrees] = {}

    def read_columns(
        self, features: Sequence[int], sampled: NDArray[np.int64], max_bins: int
    ) -> ColumnReading:
        """Read some columns once for their edges and categories; `sampled` are rows here."""
        return ColumnReading.of(self._table.take(features), sampled, max_bins, ALONE)

    def bin_columns(self, bins: Bins) -> None:
        """Bin all columns."""
        binned = bins.transform(self._table)
        self._columns = make_columns(binned, bins.n_bins, bins.is_categorical)

    def take_targets(self, targets: TrainingTargets) -> None:
        """Take the labels of these rows."""
        self._targets = targets

    def begin(
        self, batch: int, sample: TreeSample, takes_all: NDArray[np.bool_]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Begin a batch of trees; return how many rows each draws and leaves out here."""
        columns, targets = self._columns, self._targets
        assert columns is not None, "columns are binned first"
        assert targets is not None, "labels are taken first"
        rows, left_out = draw_rows(
            sample.seeds,
            targets,
            sample.sampling,
            ALONE,
            with_left_out=sample.with_left_out,
            span=RowSpan(self._first_row, self._n_rows, takes_all),
        )
        routed: LeftOutRows | None = None
        if left_out is not None:
            routed = LeftOutRows(left_out, len(sample.seeds), targets.n_rows, ALONE)
        self._batches[batch] = trees = ShardTrees(columns, targets, rows, routed)
        return trees.sizes

    def ask(self, batch: int, method: str, *arguments: Any) -> Any:
        """Call a method of a batch of trees."""
        return getattr(self._batches[batch], method)(*arguments)

    def forget(self, batches: Sequence[int]) -> None:
        """Drop batches of trees that have ended."""
        for batch in batches:
            self._batches.pop(batch, None)

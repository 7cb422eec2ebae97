"""One shard of a table: consecutive rows, their bins and labels, and where they are in trees.

An engine keeps it in one of its processes. It does what the whole table would do for its own rows;
what must be known of all rows is added up by `sharded_rows` and `sharded_batch`.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedforest.kernels.bits.ranges import count_bits
from fedforest.kernels.growth.level_ranges import NOTHING_SEEN, find_ranges
from fedforest.kernels.growth.partition import write_bits
from fedforest.kernels.layout import Columns, Found, RowOrder, Rules
from fedforest.tree.growth.batches import TreeSample
from fedforest.tree.growth.left_out_rows import LeftOutRows
from fedforest.tree.growth.row_sums import RowSums
from fedforest.tree.growth.rows import NodeMoves, NodeRows, RowSpan, draw_rows
from fedforest.tree.growth.split_search import make_columns
from fedforest.tree.growth.structure import GrowthStep
from fedforest.tree.shards.cells import fill_cells, find_in_cells, make_found, put_found
from fedforest.tree.shards.gathered import (
    GatheredNodes,
    GroupRules,
    RowsOfNodes,
    SplitPart,
    extract_rows,
)
from fedforest.tree.table.bins import Bins, ColumnReading
from fedforest.tree.table.pieces import TableSource
from fedforest.tree.table.targets import TrainingTargets
from fedforest.tree.workers import ALONE

Group = int  # the number of nodes that were gathered together


class Moves(NamedTuple):
    """The moves of a shard's nodes; the bits are those of its rows."""

    moves: NodeMoves
    bits: NDArray[np.uint8]


class Shard:
    """Some consecutive rows of a table."""

    def __init__(self, table: TableSource, first_row: int, n_rows: int) -> None:
        """The table has the rows from `first_row` on of `n_rows`."""
        self._table, self._first_row, self._n_rows = table, first_row, n_rows
        self._columns: Columns | None = None
        self._targets: TrainingTargets | None = None
        self._rows: NodeRows | None = None  # of the nodes that are in all shards
        self._left_out: LeftOutRows | None = None
        self._groups: dict[Group, GatheredNodes] = {}

    @property
    def columns(self) -> Columns:
        """The binned columns of these rows."""
        assert self._columns is not None, "columns are binned first"
        return self._columns

    @property
    def targets(self) -> TrainingTargets:
        """The labels of these rows."""
        assert self._targets is not None, "labels are taken first"
        return self._targets

    @property
    def rows(self) -> NodeRows:
        """The rows in the nodes that are in all shards."""
        assert self._rows is not None, "trees are begun first"
        return self._rows

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
        self, sample: TreeSample, takes_all: NDArray[np.bool_]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Begin a batch of trees; return how many rows each draws and leaves out here."""
        targets, n_trees = self.targets, len(sample.seeds)
        self._rows, left_out = draw_rows(
            sample.seeds,
            targets,
            sample.sampling,
            ALONE,
            with_left_out=sample.with_left_out,
            span=RowSpan(self._first_row, self._n_rows, takes_all),
        )
        self._groups, self._left_out = {}, None
        if left_out is None:
            return self._rows.sizes, np.zeros(n_trees, np.int64)
        self._left_out = LeftOutRows(left_out, n_trees, targets.n_rows, ALONE)
        return self._rows.sizes, left_out.sizes

    def sum_roots(self) -> SplitPart:
        """Sum the labels of whole trees."""
        rows, nodes = self.rows, np.arange(len(self.rows.sizes))
        offsets = rows.bit_offsets_of(nodes)
        everything = np.full(int(offsets[-1]), 255, np.uint8)
        left = RowSums(self.targets, rows, ALONE).of_nodes()
        ranges = self._find_ranges(nodes, offsets, everything)
        return SplitPart(everything[:0], left, ranges, everything[:0])

    def fill(self, nodes: NDArray[np.int64], candidates: NDArray[np.uint8]) -> NDArray[np.int64]:
        """Return the histograms of some nodes that are in all shards."""
        order = self.rows.order
        some = order._replace(start=order.start[nodes], stop=order.stop[nodes])
        return fill_cells(self.columns, some, self.targets, candidates)

    def find_in_sum(
        self, cells: NDArray[np.int64], candidates: NDArray[np.uint8], rules: Rules
    ) -> Found:
        """Return the best splits of nodes whose histograms of all shards were added up."""
        return find_in_cells(self.columns, self.targets.kind, cells, candidates, rules)

    def find(
        self, asked: Mapping[Group, tuple[NDArray[np.uint8], NDArray[np.int32]]]
    ) -> dict[Group, Found]:
        """Return the best splits of nodes that were gathered here: (candidates, trees)."""
        return {group: self._groups[group].find(*nodes) for group, nodes in asked.items()}

    def extract(self, nodes: NDArray[np.int64]) -> RowsOfNodes:
        """Copy the rows of some nodes, for the shard that gathers them."""
        return extract_rows(self.columns, self.targets, self.rows, nodes)

    def gather(
        self,
        group: Group,
        parts: Sequence[RowsOfNodes],
        sizes: NDArray[np.int64],
        rules: GroupRules,
    ) -> None:
        """Take over some nodes from all shards."""
        nodes = GatheredNodes(self.columns, self.targets, parts, sizes, rules)
        self._groups[group] = nodes

    def keep(self, nodes: NDArray[np.int64]) -> None:
        """Keep only these of the nodes that are in all shards."""
        order = self.rows.order
        self.rows.order = order._replace(start=order.start[nodes], stop=order.stop[nodes])

    def split(self, nodes: NDArray[np.int64], splits: Found, with_sums: bool) -> SplitPart:
        """Divide the rows of some nodes that are in all shards."""
        rows, targets = self.rows, self.targets
        offsets = rows.bit_offsets_of(nodes)
        bits = self._write_bits(rows, (nodes, splits), offsets)
        if with_sums:
            left = RowSums(targets, rows, ALONE).of_left_children(nodes, offsets, bits)
            return SplitPart(bits, left, self._find_ranges(nodes, offsets, bits), bits[:0])
        left = np.zeros((len(nodes), targets.kind.n_sums), np.int64)
        counts = np.empty(len(nodes), np.int64)
        count_bits(bits, offsets[:-1], rows.sizes[nodes], counts)
        left[:, 2 if targets.kind.is_regression else targets.kind.n_classes] = counts
        return SplitPart(bits, left, np.zeros((0, 4), np.int64), bits[:0])

    def split_groups(
        self, asked: Mapping[Group, tuple[NDArray[np.int64], Found]], with_sums: bool
    ) -> dict[Group, SplitPart]:
        """Divide the rows of nodes that were gathered here."""
        return {
            group: self._groups[group].split(*of_group, with_sums=with_sums)
            for group, of_group in asked.items()
        }

    def route(self, nodes: NDArray[np.int64], splits: Found) -> NDArray[np.uint8]:
        """Return the bits of rows that trees left out."""
        assert self._left_out is not None, "rows that trees left out are routed along"
        rows = self._left_out.rows
        return self._write_bits(rows, (nodes, splits), rows.bit_offsets_of(nodes))

    def move(self, spread: Moves | None, groups: Mapping[Group, Moves]) -> None:
        """Move rows to the children that stay open."""
        if spread is not None:
            self.rows.follow(spread.moves, spread.bits, ALONE)
        for group, moves in groups.items():
            if moves.moves.n_open:
                self._groups[group].move(*moves)
            else:
                del self._groups[group]

    def move_left_out(
        self, step: GrowthStep, bits: NDArray[np.uint8], offsets: NDArray[np.int64]
    ) -> None:
        """Move rows that trees left out."""
        assert self._left_out is not None, "rows that trees left out are routed along"
        self._left_out.move(step, bits, offsets)

    def leaves_of_left_out(self) -> NDArray[np.int32]:
        """Return (trees, rows here): the leaf of each row left out."""
        assert self._left_out is not None, "rows that trees left out are routed along"
        return self._left_out.leaf_of

    def _write_bits(
        self,
        rows: NodeRows,
        splits: tuple[NDArray[np.int64], Found],
        offsets: NDArray[np.int64],
    ) -> NDArray[np.uint8]:
        nodes, of_nodes = splits
        order: RowOrder = rows.order
        found = make_found(len(order.start), self.columns.is_categorical)
        put_found(of_nodes, nodes, found)
        bits = np.empty(int(offsets[-1]), np.uint8)
        write_bits(self.columns, order, found, nodes, offsets, bits, 0, len(nodes))
        return bits

    def _find_ranges(
        self, nodes: NDArray[np.int64], offsets: NDArray[np.int64], bits: NDArray[np.uint8]
    ) -> NDArray[np.int64]:
        """Return the least and the largest target of both sides, of numbers."""
        if not self.targets.kind.is_regression:
            return np.zeros((0, 4), np.int64)
        ranges = np.tile(np.array(NOTHING_SEEN, np.int64), (len(nodes), 1))
        levels, order = self.targets.kernel.levels, self.rows.order
        find_ranges(order, levels, nodes, offsets, bits, ranges, 0, len(nodes))
        return ranges

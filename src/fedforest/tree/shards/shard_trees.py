"""The rows of one shard in a batch of trees: where they are, what they add up to, where they go.

Nodes of many rows are in all shards; those that were gathered here have the rows of all.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedforest.kernels.bits.ranges import count_bits
from fedforest.kernels.growth.level_ranges import NOTHING_SEEN, find_ranges
from fedforest.kernels.growth.partition import write_bits
from fedforest.kernels.layout import Columns, Found, RowOrder, Rules
from fedforest.tree.growth.left_out_rows import LeftOutRows
from fedforest.tree.growth.row_sums import RowSums
from fedforest.tree.growth.rows import NodeMoves, NodeRows
from fedforest.tree.growth.structure import GrowthStep
from fedforest.tree.shards.cells import fill_cells, find_in_cells, make_found, put_found
from fedforest.tree.shards.gathered import (
    GatheredNodes,
    GroupRules,
    RowsOfNodes,
    SplitPart,
    extract_rows,
)
from fedforest.tree.table.targets import TrainingTargets
from fedforest.tree.workers import ALONE

Group = int  # the number of nodes that were gathered together


class Moves(NamedTuple):
    """The moves of a shard's nodes; the bits are those of its rows."""

    moves: NodeMoves
    bits: NDArray[np.uint8]


class ShardTrees:
    """A batch of trees in one shard."""

    def __init__(
        self,
        columns: Columns,
        targets: TrainingTargets,
        rows: NodeRows,
        left_out: LeftOutRows | None,
    ) -> None:
        self.columns, self.targets, self.rows = columns, targets, rows
        self._left_out = left_out
        self._groups: dict[Group, GatheredNodes] = {}

    @property
    def sizes(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the rows that each open node has here, and those that it left out."""
        sizes = self.rows.sizes
        return sizes, np.zeros_like(sizes) if self._left_out is None else self._left_out.rows.sizes

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

    def move(
        self, spread: tuple[NDArray[np.int64], Moves] | None, groups: Mapping[Group, Moves]
    ) -> None:
        """Move rows to the children that stay open.

        Of the nodes in all shards only those that are named are left; others were gathered.
        """
        if spread is not None:
            (nodes, moves), order = spread, self.rows.order
            self.rows.order = order._replace(start=order.start[nodes], stop=order.stop[nodes])
            self.rows.follow(moves.moves, moves.bits, ALONE)
        for group, of_group in groups.items():
            if of_group.moves.n_open:
                self._groups[group].move(*of_group)
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

"""The work per level of a party that holds rows of all columns, with cuts drawn between parties.

It names a random point per candidate column, counts what falls on the sides of the cuts it is asked
about, and sends its rows where the chosen cuts say. A node's candidate values are gathered once,
when points are named, and kept until its rows have moved. Nothing here knows of messages.
"""

import numpy as np
from numpy.typing import NDArray

from fedforest.kernels.cut_sums import MOST_PACKED_CLASSES, sum_by_rows, sum_packed
from fedforest.kernels.kept_values import (
    Kept,
    find_missing,
    name_points,
    place_kept,
    write_kept_bits,
)
from fedforest.kernels.layout import NO_SPLIT
from fedforest.kernels.pairs import Cuts, Pairs, list_pairs, place_asked
from fedforest.kernels.random_split import FoundThresholds, Values, write_threshold_bits
from fedforest.tree.cut_choice import SideLayout
from fedforest.tree.rows import NodeRows
from fedforest.tree.search import SplitTable
from fedforest.tree.targets import TrainingTargets
from fedforest.tree.workers import Workers

_NO_RESPONSES = np.zeros(0, np.uint64)


class PointSearch:
    """Points, counts and bits of one party's rows in the open nodes.

    Rows are counted apart from weights if asked to, or if there are sample weights.
    """

    def __init__(
        self,
        columns: Values,
        targets: TrainingTargets,
        rows: NodeRows,
        workers: Workers,
        *,
        rows_apart: bool = False,
    ) -> None:
        self.columns = columns
        self.targets = targets
        self.rows = rows
        self.workers = workers
        weighted = len(targets.kernel.weights) > 0
        self.layout = SideLayout(targets.kind.n_classes, rows_apart or weighted)
        n_columns = len(columns.is_categorical)
        self._may_miss = find_missing(columns.values, int(columns.n_rows), n_columns)
        self._is_packed = not weighted and 0 < targets.kind.n_classes <= MOST_PACKED_CLASSES
        self._pairs: Pairs | None = None
        self._kept = Kept(np.zeros(1, np.int64), np.zeros(0, np.float32), self._may_miss)

    @property
    def pairs(self) -> Pairs:
        """The pairs for which points were named last."""
        assert self._pairs is not None, "points come first"
        return self._pairs

    def propose(
        self, candidates: NDArray[np.uint8], units: NDArray[np.float64], least_rows: int
    ) -> NDArray[np.float32]:
        """A point for each pair, by its uniform number between 0 and 1; NaN where it abstains."""
        order = self.rows.order
        self._pairs = pairs = list_pairs(candidates)
        first = place_kept(order.start, order.stop, pairs.node_start)
        memory = self._kept.values
        if len(memory) < first[-1]:
            memory = np.empty(int(first[-1]), np.float32)
        self._kept = kept = Kept(first, memory, self._may_miss)
        points = np.empty(len(pairs.feature), np.float32)

        def name(nodes: tuple[int, int]) -> None:
            name_points(self.columns, order, pairs, kept, units, least_rows, points, *nodes)

        self.workers.run(name, self.rows.ranges(self.workers))
        return points

    def count(self, cuts: Cuts, *, both_sides: bool) -> NDArray[np.int64]:
        """(asked pairs, sides * width): what labels on the left, or on both sides, add up to."""
        layout = self.layout
        shape = (layout.n_classes or 2, layout.rows_apart, both_sides)
        if self._is_packed:
            return self._sum_packed(cuts, _NO_RESPONSES, shape)
        pairs, asked_start = self._asked(cuts)
        sums = self._no_sums(asked_start, shape)
        order, kept, kernel = self.rows.order, self._kept, self.targets.kernel

        def add(nodes: tuple[int, int]) -> None:
            sum_by_rows(order, pairs, kept, cuts, kernel, shape, asked_start, sums, *nodes)

        self.workers.run(add, self.rows.ranges(self.workers))
        return sums

    def count_bits(
        self, cuts: Cuts, responses: NDArray[np.uint64], n_bits: int
    ) -> NDArray[np.int64]:
        """(asked pairs, 2 * (bits + 1)): set bits of responses and rows, left then right."""
        return self._sum_packed(cuts, responses, (n_bits, True, True))

    def _sum_packed(
        self, cuts: Cuts, responses: NDArray[np.uint64], shape: tuple[int, bool, bool]
    ) -> NDArray[np.int64]:
        pairs, asked_start = self._asked(cuts)
        sums = self._no_sums(asked_start, shape)
        order, kept = self.rows.order, self._kept

        def add(nodes: tuple[int, int]) -> None:
            sum_packed(order, pairs, kept, cuts, responses, shape, asked_start, sums, *nodes)

        self.workers.run(add, self.rows.ranges(self.workers))
        return sums

    def _asked(self, cuts: Cuts) -> tuple[Pairs, NDArray[np.int64]]:
        return self.pairs, place_asked(self.pairs.node_start, cuts.threshold)

    @staticmethod
    def _no_sums(
        asked_start: NDArray[np.int64], shape: tuple[int, bool, bool]
    ) -> NDArray[np.int64]:
        n_fields, rows_apart, both_sides = shape
        return np.zeros(
            (int(asked_start[-1]), (n_fields + rows_apart) * (1 + both_sides)), np.int64
        )

    def count_nodes(self, nodes: NDArray[np.int64]) -> NDArray[np.int64]:
        """(nodes, width): what the labels of whole nodes add up to."""
        sums = np.zeros((len(nodes), self.layout.width), np.int64)
        targets, n_classes = self.targets, self.layout.n_classes
        for number, node in enumerate(nodes.tolist()):
            rows, times = self._draws_of(node)
            weights = times * (targets.kernel.weights[rows] if len(targets.kernel.weights) else 1)
            if n_classes:
                np.add.at(sums[number], targets.classes[rows], weights)
            else:
                values = times * targets.kernel.values[rows]
                sums[number, :2] = weights.sum(), values.sum()
            if self.layout.rows_apart:
                sums[number, -1] = len(rows)
        return sums

    def rows_of(self, node: int) -> NDArray[np.int64]:
        """The rows of an open node."""
        return self._draws_of(node)[0]

    def _draws_of(self, node: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The rows of an open node, and how often each was drawn."""
        entries, row_bits, start, stop = self.rows.order
        own = entries[start[node] : stop[node]].astype(np.int64)
        bits = int(row_bits)
        return own & ((1 << bits) - 1), (own >> bits) & 15

    def split(
        self, nodes: NDArray[np.int64], table: SplitTable
    ) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
        """Bits of the rows of these nodes under their splits, and how many of each go left."""
        offsets = self.rows.bit_offsets_of(nodes)
        bits = np.zeros(int(offsets[-1]), np.uint8)
        left_rows = np.zeros(len(nodes), np.int64)
        if self._pairs is None:
            self._write_raw_bits(nodes, table, offsets, bits)
            lengths = np.diff(offsets)
            ones = np.bitwise_count(bits).astype(np.int64)
            np.add.at(left_rows, np.repeat(np.arange(len(nodes)), lengths), ones)
            return bits, left_rows
        by_set = self.columns.is_categorical[table.feature]
        splits = (table.feature, table.cut, table.missing_left, table.left_set, by_set)
        order, pairs, kept = self.rows.order, self._pairs, self._kept

        def write(part: tuple[int, int]) -> None:
            write_kept_bits(order, pairs, kept, splits, nodes, offsets, bits, left_rows, *part)

        self.workers.run(write, self.rows.ranges_of(nodes, self.workers))
        return bits, left_rows

    def _write_raw_bits(
        self,
        nodes: NDArray[np.int64],
        table: SplitTable,
        offsets: NDArray[np.int64],
        bits: NDArray[np.uint8],
    ) -> None:
        """The same from the columns themselves: for a step in which this party named no points."""
        n_open = len(self.rows.order.start)
        found = FoundThresholds(
            np.full(n_open, NO_SPLIT),
            np.zeros(n_open, np.int32),
            np.zeros(n_open, np.float32),
            np.zeros(n_open, np.uint8),
            np.zeros((n_open, 4), np.uint64),
        )
        found.feature[nodes] = table.feature
        found.threshold[nodes] = table.cut
        found.missing_left[nodes] = table.missing_left
        if len(table.left_set):
            found.left_set[nodes] = table.left_set
        order, columns = self.rows.order, self.columns

        def write(part: tuple[int, int]) -> None:
            write_threshold_bits(columns, order, found, nodes, offsets, bits, *part)

        self.workers.run(write, self.rows.ranges_of(nodes, self.workers))

    def forget(self) -> None:
        """Rows have moved: what was kept of the nodes before is of no use."""
        self._pairs = None

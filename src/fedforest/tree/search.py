"""The work one owner of columns does per level; it knows bins and labels, never other columns.

It scores its candidate columns and sends rows left or right.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedforest.kernels.binary_split import find_binary
from fedforest.kernels.bit_ranges import count_bits
from fedforest.kernels.class_split import find_by_classes
from fedforest.kernels.layout import NO_LIMITS, NO_SPLIT, Columns, Found, RowOrder, Rules
from fedforest.kernels.moment_sides import make_sides, take_known
from fedforest.kernels.moment_split import find_by_moments
from fedforest.kernels.partition import (
    choose_missing_side,
    spread_rows,
    write_bits,
)
from fedforest.tree.row_sums import RowSums
from fedforest.tree.rows import NodeRows
from fedforest.tree.structure import OpenNodes
from fedforest.tree.targets import TrainingTargets, least_leaf_weight, rows_of, weight_of
from fedforest.tree.workers import Workers


@dataclass(frozen=True, slots=True)
class SplitTable:
    """Splits of one owner of columns, one row per split node."""

    feature: NDArray[np.int32]  # the owner's column
    cut: NDArray[Any]  # bins (uint8) or thresholds (float32)
    missing_left: NDArray[np.uint8]
    left_set: NDArray[np.uint64]  # (splits, 4), or (0, 4) without categorical columns


class _Splitting(NamedTuple):
    """Nodes that are being split: the bits of nodes[i] start at offsets[i], its sums are left[i].

    Where sums are not wanted, `left` holds the rows of the left children, and other sums or none.
    """

    nodes: NDArray[np.int64]
    offsets: NDArray[np.int64]
    bits: NDArray[np.uint8]
    left: NDArray[np.int64]
    with_sums: bool


def make_columns(
    bins: NDArray[np.uint8], n_bins: NDArray[np.int16], is_categorical: NDArray[np.bool_]
) -> Columns:
    """The kernel's view of (features, rows) bins."""
    flat = np.ascontiguousarray(bins).reshape(-1)
    nothing = np.zeros(0, np.uint8)
    return Columns(flat, np.uint64(bins.shape[1]), n_bins, is_categorical, nothing)


def keep_by_row(columns: Columns, targets: TrainingTargets, workers: Workers) -> Columns:
    """The same columns, row by row as well where the search by moments reads them so."""
    if targets.kind.search != "moments" or len(columns.by_row) == len(columns.bins):
        return columns
    bins = columns.bins.reshape(len(columns.n_bins), -1)
    n_features, n_rows = bins.shape
    by_row = np.empty((n_rows, n_features), np.uint8)

    def turn(rows: tuple[int, int]) -> None:
        by_row[slice(*rows)] = bins[:, slice(*rows)].T

    workers.run(turn, workers.ranges(np.full(n_rows, n_features)))
    return columns._replace(by_row=by_row.reshape(-1))


class NodeSearch(ABC):
    """What every search shares: sending rows left or right and summing up the left child."""

    def __init__(
        self, targets: TrainingTargets, rows: NodeRows, min_rows_leaf: int, workers: Workers
    ) -> None:
        self.targets = targets
        self.rows = rows
        self.workers = workers
        self._sums = RowSums(targets, rows, workers)
        self.rules = Rules(targets.kind.criterion, min_rows_leaf)
        self._least_weight = NO_LIMITS  # of a child, per tree
        self.found: Any = None  # best splits; the kernels decide its type
        self._rows_at = 2 if targets.kind.is_regression else targets.kind.n_classes

    def demand_weight(self, share: float, roots: NDArray[np.int64]) -> None:
        """Have children weigh at least a share of their tree, whose root adds up to roots[tree].

        Where every row weighs one and no tree has a row twice, that is a number of rows.
        """
        kind, is_weighted = self.targets.kind, len(self.targets.kernel.weights) > 0
        weight, n_rows = weight_of(roots, kind), rows_of(roots, kind)
        least = least_leaf_weight(weight.astype(np.float64), share)
        if is_weighted or (weight != n_rows).any() or (least != least[:1]).any():
            self._least_weight = least
        elif len(least):
            rows_needed = max(self.rules.min_rows_leaf, int(least[0]))
            self.rules = self.rules._replace(min_rows_leaf=rows_needed)

    def _rules_at(self, nodes: OpenNodes) -> Rules:
        """The rules, with what children of these nodes must weigh."""
        if not len(self._least_weight):
            return self.rules
        return self.rules._replace(least_weight=self._least_weight[nodes.tree])

    @abstractmethod
    def find(self, candidates: NDArray[np.uint8], nodes: OpenNodes) -> NDArray[np.float64]:
        """Best score of every open node over its candidate columns (a bitmap row per node)."""

    @abstractmethod
    def table(self, nodes: NDArray[np.int64]) -> SplitTable:
        """The splits at these open nodes; call after `split`."""

    @abstractmethod
    def _write_bits(
        self,
        order: RowOrder,
        nodes: NDArray[np.int64],
        offsets: NDArray[np.int64],
        bits: NDArray[np.uint8],
        part: tuple[int, int],
    ) -> None:
        """Write the bits of the rows of nodes[part] that are in `order`."""

    def split(
        self, nodes: NDArray[np.int64], *, with_sums: bool = True
    ) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
        """Apply the best splits of the nodes this owner won: (bits, sums of the left children).

        Where sums are not wanted, only the rows among them are to be relied on.
        """
        rows, kind, missing_left = self.rows, self.targets.kind, self.found.missing_left
        offsets = rows.bit_offsets_of(nodes)
        bits = np.empty(int(offsets[-1]), np.uint8)
        left = np.zeros((len(nodes), kind.n_sums), np.int64)
        splitting, rows_at = _Splitting(nodes, offsets, bits, left, with_sums), self._rows_at

        def split(part: tuple[int, int]) -> None:
            self._divide(splitting, part)
            choose_missing_side(missing_left, rows.order, nodes, left, rows_at, *part)

        self.workers.run(split, rows.ranges_of(nodes, self.workers))
        return bits, left

    def _divide(self, splitting: _Splitting, part: tuple[int, int]) -> None:
        """Write bits and sums of the left children of some of the nodes."""
        nodes, offsets, bits, left, with_sums = splitting
        self._write_bits(self.rows.order, nodes, offsets, bits, part)
        if with_sums:
            self._sums.add_left(nodes, offsets, bits, left, part)
        else:
            some = slice(*part)
            sizes, counts = self.rows.sizes[nodes[some]], np.empty(part[1] - part[0], np.int64)
            count_bits(bits, offsets[some], sizes, counts)
            left[some, self._rows_at] = counts

    def left_rows(self, nodes: NDArray[np.int64], left: NDArray[np.int64]) -> NDArray[np.int64]:
        """Rows that go left per open node, from the sums of the nodes that were split."""
        n_open = len(self.rows.order.start)
        return spread_rows(nodes, left, self._rows_at, n_open)  # type: ignore[no-any-return]

    def root_sums(self) -> NDArray[np.int64]:
        """Sums of the open nodes themselves; asked for at the roots."""
        return self._sums.of_nodes()

    def route(self, rows: NodeRows, nodes: NDArray[np.int64]) -> NDArray[np.uint8]:
        """Bits of other rows (those a tree left out) at the nodes this owner won."""
        offsets = rows.bit_offsets_of(nodes)
        bits = np.empty(int(offsets[-1]), np.uint8)

        def route(part: tuple[int, int]) -> None:
            self._write_bits(rows.order, nodes, offsets, bits, part)

        self.workers.run(route, rows.ranges_of(nodes, self.workers))
        return bits


class ColumnSearch(NodeSearch):
    """Searches the best splits over one owner's binned columns."""

    def __init__(
        self,
        columns: Columns,
        targets: TrainingTargets,
        rows: NodeRows,
        min_rows_leaf: int,
        workers: Workers,
    ) -> None:
        super().__init__(targets, rows, min_rows_leaf, workers)
        self.columns = keep_by_row(columns, targets, workers)
        self.found = self._make_found(0)
        self._kernel, self._search = targets.kernel, targets.kind.search
        nobody = np.zeros(0, np.int64)
        self._sides = self._no_sides = make_sides(nobody, nobody)

    def _make_found(self, n_nodes: int) -> Found:
        """Room for what the search finds; it writes scores and columns of all nodes."""
        n_sets = n_nodes if self.columns.is_categorical.any() else 0
        has_columns = len(self.columns.n_bins) > 0
        return Found(
            np.empty(n_nodes) if has_columns else np.full(n_nodes, NO_SPLIT),
            np.empty(n_nodes, np.int32) if has_columns else np.full(n_nodes, -1, np.int32),
            np.empty(n_nodes, np.uint8),
            np.empty(n_nodes, np.uint8),
            np.zeros((n_sets, 4), np.uint64),
        )

    def demand_weight(self, share: float, roots: NDArray[np.int64]) -> None:
        """The same; two classes whose weights are looked at are searched by moments."""
        super().demand_weight(share, roots)
        if len(self._least_weight) and self.targets.kind.search == "binary":
            ones = self.targets.classes.astype(np.int64)
            self._kernel, self._search = self._kernel._replace(values=ones), "moments"

    def find(self, candidates: NDArray[np.uint8], nodes: OpenNodes) -> NDArray[np.float64]:
        """Best score of every open node; which node it is matters for its weight alone."""
        self.found = found = self._make_found(len(candidates))
        order, kernel, rules = self.rows.order, self._kernel, self._rules_at(nodes)
        notes_sides = self.targets.kind.sums == "moments"
        sides = make_sides(order.start, order.stop) if notes_sides else self._no_sides
        self._sides = sides

        def search(part: tuple[int, int]) -> None:
            if self._search == "binary":
                find_binary(self.columns, order, candidates, rules, found, *part)
            elif self._search == "moments":
                find_by_moments(self.columns, order, kernel, candidates, rules, found, sides, *part)
            else:
                find_by_classes(self.columns, order, kernel, candidates, rules, found, *part)

        if len(self.columns.n_bins):
            self.workers.run(search, self.rows.ranges(self.workers))
        return found.score

    def _divide(self, splitting: _Splitting, part: tuple[int, int]) -> None:
        if not len(self._sides.start):
            super()._divide(splitting, part)
            return
        nodes, offsets, bits, left, with_sums = splitting
        others = take_known(self._sides, nodes, offsets, bits, left, *part)
        if len(others):
            sums = np.zeros((len(others), left.shape[1]), np.int64)
            rest = _Splitting(nodes[others], offsets[others], bits, sums, with_sums)
            super()._divide(rest, (0, len(others)))
            left[others] = sums

    def _write_bits(
        self,
        order: RowOrder,
        nodes: NDArray[np.int64],
        offsets: NDArray[np.int64],
        bits: NDArray[np.uint8],
        part: tuple[int, int],
    ) -> None:
        write_bits(self.columns, order, self.found, nodes, offsets, bits, *part)

    def table(self, nodes: NDArray[np.int64]) -> SplitTable:
        """The splits at the nodes this owner won; call after `split`."""
        found = self.found
        has_sets = len(found.left_set) > 0
        return SplitTable(
            found.feature[nodes],
            found.bin[nodes],
            found.missing_left[nodes],
            found.left_set[nodes] if has_sets else found.left_set,
        )

"""The work one owner of columns does per level: scoring its columns, and dividing rows.

The owner knows bins and labels, never other columns.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedforest.kernels.bits.ranges import count_bits
from fedforest.kernels.growth.partition import (
    choose_missing_side,
    spread_rows,
    write_bits,
)
from fedforest.kernels.layout import NO_LIMITS, NO_SPLIT, Columns, Found, RowOrder, Rules
from fedforest.kernels.splits.binary import find_binary
from fedforest.kernels.splits.classes import find_by_classes
from fedforest.kernels.splits.moments import find_by_moments
from fedforest.tree.growth.row_sums import RowSums
from fedforest.tree.growth.rows import NodeRows
from fedforest.tree.growth.structure import OpenNodes
from fedforest.tree.table.targets import (
    TargetKind,
    TrainingTargets,
    least_leaf_weight,
    rows_of,
    weight_of,
)
from fedforest.tree.workers import Workers


@dataclass(frozen=True, slots=True)
class SplitTable:
    """Splits of one owner of columns, one row per split node."""

    feature: NDArray[np.int32]  # the owner's column
    cut: NDArray[Any]  # bins (uint8) or thresholds (float32)
    missing_left: NDArray[np.uint8]
    left_set: NDArray[np.uint64]  # (splits, 4), or (0, 4) without categorical columns


def make_columns(
    bins: NDArray[np.uint8], n_bins: NDArray[np.int16], is_categorical: NDArray[np.bool_]
) -> Columns:
    """Return the kernel's view of (features, rows) bins."""
    flat = np.ascontiguousarray(bins).reshape(-1)
    nothing = np.zeros(0, np.uint8)
    return Columns(flat, np.uint64(bins.shape[1]), n_bins, is_categorical, nothing)


def keep_by_row(columns: Columns, targets: TrainingTargets, workers: Workers) -> Columns:
    """Add a copy of the columns row by row, if the search by moments reads them that way."""
    if targets.kind.search != "moments" or len(columns.by_row) == len(columns.bins):
        return columns
    bins = columns.bins.reshape(len(columns.n_bins), -1)
    n_features, n_rows = bins.shape
    by_row = np.empty((n_rows, n_features), np.uint8)

    def turn(rows: tuple[int, int]) -> None:
        by_row[slice(*rows)] = bins[:, slice(*rows)].T

    workers.run(turn, workers.ranges(np.full(n_rows, n_features)))
    return columns._replace(by_row=by_row.reshape(-1))


def rule_by_weight(
    rules: Rules, kind: TargetKind, share: float, roots: NDArray[np.int64], *, is_weighted: bool
) -> tuple[Rules, NDArray[np.int64]]:
    """Return (rules, least weight of a child per tree) if children need a fraction of its weight.

    Where every row weighs one and no tree has a row twice, that is a number of rows.
    """
    weight, n_rows = weight_of(roots, kind), rows_of(roots, kind)
    least = least_leaf_weight(weight.astype(np.float64), share)
    if is_weighted or (weight != n_rows).any() or (least != least[:1]).any():
        return rules, least
    if len(least):
        rules = rules._replace(min_rows_leaf=max(rules.min_rows_leaf, int(least[0])))
    return rules, NO_LIMITS


class NodeSearch(ABC):
    """The base of every search: divides rows left or right and sums up the left child."""

    def __init__(
        self, targets: TrainingTargets, rows: NodeRows, min_rows_leaf: int, workers: Workers
    ) -> None:
        self.targets = targets
        self.rows = rows
        self.workers = workers
        self._sums = RowSums(targets, rows, workers)
        self.rules = Rules(targets.kind.scores.formula, min_rows_leaf)
        self._least_weight = NO_LIMITS  # of a child, per tree
        self.found: Any = None  # best splits; the kernels decide its type
        self._rows_at = 2 if targets.kind.is_regression else targets.kind.n_classes

    def demand_weight(self, share: float, roots: NDArray[np.int64]) -> None:
        """Require children to weigh a fraction of their tree, whose root has the sums roots[tree].

        Where every row weighs one and no tree has a row twice, that is a number of rows.
        """
        is_weighted = self.targets.is_weighted
        self.rules, self._least_weight = rule_by_weight(
            self.rules, self.targets.kind, share, roots, is_weighted=is_weighted
        )

    def _rules_at(self, nodes: OpenNodes) -> Rules:
        """Return the rules with the least weight of children of these nodes."""
        if not len(self._least_weight):
            return self.rules
        return self.rules._replace(least_weight=self._least_weight[nodes.tree])

    @abstractmethod
    def find(self, candidates: NDArray[np.uint8], nodes: OpenNodes) -> NDArray[np.float64]:
        """Return each open node's best score over its candidate columns (a bitmap row per node)."""

    @abstractmethod
    def table(self, nodes: NDArray[np.int64]) -> SplitTable:
        """Return the splits at these open nodes; call after `split`."""

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

        Without `with_sums`, only the row counts among the sums are valid.
        """
        rows, kind, missing_left = self.rows, self.targets.kind, self.found.missing_left
        offsets = rows.bit_offsets_of(nodes)
        bits = np.empty(int(offsets[-1]), np.uint8)
        left = np.zeros((len(nodes), kind.n_sums), np.int64)
        rows_at = self._rows_at

        def split(part: tuple[int, int]) -> None:
            self._write_bits(rows.order, nodes, offsets, bits, part)
            if with_sums:
                self._sums.add_left(nodes, offsets, bits, left, part)
            else:
                some = slice(*part)
                counts = np.empty(part[1] - part[0], np.int64)
                count_bits(bits, offsets[some], rows.sizes[nodes[some]], counts)
                left[some, rows_at] = counts
            choose_missing_side(missing_left, rows.order, nodes, left, rows_at, *part)

        self.workers.run(split, rows.ranges_of(nodes, self.workers))
        return bits, left

    def left_rows(self, nodes: NDArray[np.int64], left: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the rows that go left per open node, from the sums of the split nodes."""
        n_open = len(self.rows.order.start)
        return spread_rows(nodes, left, self._rows_at, n_open)  # type: ignore[no-any-return]

    def root_sums(self) -> NDArray[np.int64]:
        """Return the sums of the open nodes themselves; used at the roots."""
        return self._sums.of_nodes()

    def route(self, rows: NodeRows, nodes: NDArray[np.int64]) -> NDArray[np.uint8]:
        """Return the bits of other rows (those a tree left out) at the nodes this owner won."""
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

    def _make_found(self, n_nodes: int) -> Found:
        """Make room for the search results; the search writes scores and columns of all nodes."""
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
        """Require a weight; two classes with such a limit are searched by moments."""
        super().demand_weight(share, roots)
        if len(self._least_weight) and self.targets.kind.search == "binary":
            ones = self.targets.classes.astype(np.int64)
            self._kernel, self._search = self._kernel._replace(values=ones), "moments"

    def find(self, candidates: NDArray[np.uint8], nodes: OpenNodes) -> NDArray[np.float64]:
        """Return the best score of every open node; `nodes` only matters for weight limits."""
        self.found = found = self._make_found(len(candidates))
        order, kernel, rules = self.rows.order, self._kernel, self._rules_at(nodes)

        def search(part: tuple[int, int]) -> None:
            if self._search == "binary":
                find_binary(self.columns, order, candidates, rules, found, *part)
            elif self._search == "moments":
                find_by_moments(self.columns, order, kernel, candidates, rules, found, *part)
            else:
                find_by_classes(self.columns, order, kernel, candidates, rules, found, *part)

        if len(self.columns.n_bins):
            self.workers.run(search, self.rows.ranges(self.workers))
        return found.score

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
        """Return the splits at the nodes this owner won; call after `split`."""
        found = self.found
        has_sets = len(found.left_set) > 0
        return SplitTable(
            found.feature[nodes],
            found.bin[nodes],
            found.missing_left[nodes],
            found.left_set[nodes] if has_sets else found.left_set,
        )

"""The party of vertical prediction.

Who learns what. A party says which way rows go at its own splits that they can still reach within
the lookahead. It learns where rows stand when the next levels begin, so with a lookahead below the
depth it learns their paths; it never learns what a leaf says.
"""

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fedforest.errors import ProtocolError
from fedforest.kernels.layout import Columns
from fedforest.kernels.lookahead import OwnSplits, count_path_bits, follow_paths, write_outcomes
from fedforest.protocol.asking import Message, answer, check
from fedforest.protocol.payloads import NodeSums, Outcomes, RowBits, from_bytes
from fedforest.protocol.vertical.moves import bring_together
from fedforest.protocol.vertical.party import PartyModel
from fedforest.protocol.vertical.prediction_messages import (
    AskSplit,
    RouteRows,
    RowsRouted,
    RowsStepped,
    SplitAsked,
    StepRows,
)
from fedforest.tree.descent import Descent
from fedforest.tree.table import Table
from fedforest.tree.workers import ALONE, Workers

if TYPE_CHECKING:
    from collections.abc import Callable


class PredictingParty:
    """Answers the coordinator of a prediction with one table and its share of the forest."""

    def __init__(self, model: PartyModel, table: Table, workers: Workers = ALONE) -> None:
        self._shape = model.partial.shape
        self._bins = model.bins
        self._table = table
        self._workers = workers
        self._binned: NDArray[np.uint8] | None = None
        splits = model.partial.splits
        self._splits = OwnSplits(
            self._shape.left_child,
            splits.feature,
            splits.cut,
            splits.missing_left,
            splits.set_index,
            splits.left_set,
        )
        self._stored = splits
        self._stepping = range(0)
        self._descent = Descent(self._shape, self._stepping, workers)
        self._own, self._own_bits = np.zeros(0, np.int64), np.zeros(0, np.uint8)
        self._partial = model.partial
        self._rows: list[NDArray[np.int32]] = []  # per tree: active rows, and where they stand
        self._nodes: list[NDArray[np.int32]] = []
        self._asked: RouteRows | None = None
        self._handlers: dict[type[Message], Callable[[Any], Message]] = {
            RouteRows: self._route_rows,
            StepRows: self._step_rows,
            AskSplit: self._ask_split,
        }

    def handle(self, request: Message) -> Message:
        """Answer one request."""
        return answer(self._handlers, request)

    def _flat_bins(self) -> NDArray[np.uint8]:
        if self._binned is None:
            self._binned = self._bins.transform(self._table, self._workers)
        return self._binned.reshape(-1)

    def _route_rows(self, request: RouteRows) -> RowsRouted:
        check(
            request.first_row < request.last_row <= self._table.n_rows,
            "rows are asked for that are not in the table",
        )
        if request.paths is None:
            self._enter(request)
        else:
            self._follow(request)
        self._asked = RouteRows(request.first_row, request.last_row, request.lookahead)
        return self._say_outcomes(request.lookahead)

    def _enter(self, request: RouteRows) -> None:
        """All rows stand at the roots; trees of a single leaf have nothing to ask."""
        rows = np.arange(request.first_row, request.last_row, dtype=np.int32)
        is_leaf = self._shape.left_child[self._shape.tree_start[:-1]] < 0
        self._rows = [rows[:0] if leaf else rows.copy() for leaf in is_leaf]
        self._nodes = [np.zeros(len(rows), np.int32) for rows in self._rows]

    def _follow(self, request: RouteRows) -> None:
        asked, paths = self._asked, request.paths
        if asked is None or paths is None:
            raise ProtocolError("rows are to move on that have not set out")
        check(
            (asked.first_row, asked.last_row) == (request.first_row, request.last_row),
            "rows are to move on that have not set out",
        )
        start, turns = 0, from_bytes(paths, "u1", len(paths), "paths")
        ends = []
        for tree, base in enumerate(self._shape.tree_start[:-1]):
            needed = count_path_bits(
                self._splits.left_child, base, self._nodes[tree], turns[start:], asked.lookahead
            )
            check(int(needed) >= 0, "paths are too short")
            start += (int(needed) + 7) >> 3
            spare = -int(needed) & 7
            check(not spare or turns[start - 1] < 256 >> spare, "paths are padded with ones")
            ends.append(start)
        check(start == len(turns), "paths are too long")
        self._move(turns, [0, *ends], asked.lookahead)

    def _move(self, turns: NDArray[np.uint8], bounds: list[int], lookahead: int) -> None:
        def move(trees: tuple[int, int]) -> None:
            for tree in range(*trees):
                rows, nodes = self._rows[tree], self._nodes[tree]
                base, path = self._shape.tree_start[tree], turns[bounds[tree] : bounds[tree + 1]]
                n_active = follow_paths(self._splits.left_child, base, rows, nodes, path, lookahead)
                self._rows[tree], self._nodes[tree] = rows[:n_active], nodes[:n_active]

        self._workers.run(move, self._tree_ranges())

    def _tree_ranges(self) -> list[tuple[int, int]]:
        return self._workers.ranges(np.array([len(rows) + 1 for rows in self._rows], np.int64))

    def _say_outcomes(self, lookahead: int) -> RowsRouted:
        bins, n_rows = self._flat_bins(), np.uint64(self._table.n_rows)
        n_trees = self._shape.n_trees
        said: list[NDArray[np.uint8]] = [np.zeros(0, np.uint8)] * n_trees
        n_bits = np.zeros((1, n_trees), np.int64)
        depth = min(lookahead, int(self._shape.depths().max(initial=0)))
        most_per_row = np.minimum(self._partial.own_per_tree(), 2 ** min(depth, 40))

        def say(trees: tuple[int, int]) -> None:
            for tree in range(*trees):
                said[tree], n_bits[0, tree] = write_outcomes(
                    self._splits,
                    self._shape.tree_start[tree],
                    bins,
                    n_rows,
                    self._rows[tree],
                    self._nodes[tree],
                    depth,
                    int(most_per_row[tree]),
                )

        self._workers.run(say, self._tree_ranges())
        return RowsRouted(Outcomes(np.concatenate(said).data), NodeSums.of(n_bits))

    def _step_rows(self, request: StepRows) -> RowsStepped:
        rows = range(request.first_row, request.last_row)
        if request.bits is None:
            check(
                rows.start < rows.stop <= self._table.n_rows,
                "rows are asked for that are not in the table",
            )
            self._descent = Descent(self._shape, rows, self._workers)
            self._stepping = rows
        else:
            check(self._stepping == rows, "rows are to move on that have not set out")
            self._step_down(request.bits)
        is_own = self._splits.feature[self._descent.flat_nodes] >= 0
        self._own = np.flatnonzero(is_own)
        self._own_bits = self._descent.write_bits(self._columns(), self._stored, self._own)
        return RowsStepped(RowBits.of(self._own_bits))

    def _step_down(self, theirs: RowBits) -> None:
        """All rows go down one level, by own bits and those of others."""
        sizes = self._descent.rows.sizes
        everywhere = np.ones(len(sizes), np.bool_)
        is_foreign = everywhere.copy()
        is_foreign[self._own] = False
        parts = [
            ("coordinator", np.flatnonzero(is_foreign), theirs),
            ("here", self._own, RowBits.of(self._own_bits)),
        ]
        store = bring_together(everywhere, sizes, parts)
        self._descent.follow(store.bits, store.left_rows)

    def _columns(self) -> Columns:
        bins = self._flat_bins()
        n_rows = np.uint64(self._table.n_rows)
        return Columns(bins, n_rows, self._bins.n_bins, self._bins.is_categorical)

    def _ask_split(self, request: AskSplit) -> SplitAsked:
        check(request.row < self._table.n_rows, "a row is asked for that is not in the table")
        check(request.node < self._shape.n_nodes, "a node is asked for that is not in the forest")
        check(int(self._splits.feature[request.node]) >= 0, "a split is asked of another's node")
        tree = int(np.searchsorted(self._shape.tree_start, request.node, side="right")) - 1
        base = self._shape.tree_start[tree]
        bits, _ = write_outcomes(
            self._splits,
            base,
            self._flat_bins(),
            np.uint64(self._table.n_rows),
            np.array([request.row], np.int32),
            np.array([request.node - base], np.int32),
            1,
            1,
        )
        return SplitAsked(Outcomes(bits.data))

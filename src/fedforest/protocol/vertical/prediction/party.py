"""The party of vertical prediction.

Who learns what. A party says which way rows go at its own splits that they can still reach within
the lookahead. It learns where rows stand when the next levels begin, so with a lookahead below the
depth it learns their paths; it never learns a leaf's value.

What the party checks. Every row sets out once, and the turns that lead it on must be the party's
own outcomes at its own splits. So a party answers for a row at a node once, and only at nodes that
its own splits let the row reach.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fedforest.errors import ProtocolError
from fedforest.kernels.bits.ranges import copy_ranges
from fedforest.kernels.prediction.agreement import (
    agree_with_leap,
    agree_with_splits,
    agree_with_step,
    agree_with_sweep,
)
from fedforest.kernels.prediction.leap import LEAP, say_leap
from fedforest.kernels.prediction.lookahead import say_outcomes
from fedforest.kernels.prediction.slots import lay_side_by_side
from fedforest.kernels.prediction.stepping import say_step
from fedforest.kernels.prediction.sweep import say_upper
from fedforest.protocol.asking import Message, answer, check
from fedforest.protocol.payloads import NodeSums, Outcomes, to_bytes
from fedforest.protocol.vertical.party import PartyModel
from fedforest.protocol.vertical.prediction.messages import (
    LeapRows,
    RouteRows,
    RowsLeapt,
    RowsRouted,
    RowsSwept,
    SweepRows,
)
from fedforest.protocol.vertical.prediction.plan import Manner, Stage
from fedforest.protocol.vertical.prediction.turns import read_turns
from fedforest.tree.forest.routes import OwnRoutes
from fedforest.tree.forest.row_positions import WORD_ROWS, Underway
from fedforest.tree.table.pieces import TableSource
from fedforest.tree.workers import ALONE, Workers

if TYPE_CHECKING:
    from fedforest.kernels.prediction.leap import Blocks


@dataclass(frozen=True, slots=True)
class _Asked:
    """The last exchange: about which rows, what it settles, at which level they stand then.

    `said` is what own splits do, as the kernel of the stage wrote it; not kept where it is found
    out again, for several levels of `RouteRows`.
    """

    rows: range
    stage: Stage
    level: int
    said: NDArray[Any] | None = None


class PredictingParty:
    """Answers the coordinator of a prediction with one table and its share of the forest.

    `routes`, if given, were prepared of the model's share before, and `binned` of the table. A
    party in the coordinator's own process may believe its turns.
    """

    def __init__(  # noqa: PLR0913 - what was prepared before is optional
        self,
        model: PartyModel,
        table: TableSource,
        workers: Workers = ALONE,
        routes: OwnRoutes | None = None,
        *,
        binned: NDArray[np.uint8] | None = None,
        believes_turns: bool = False,
    ) -> None:
        self._routes = routes or OwnRoutes.of(model.partial)
        self._bins = model.bins
        self._table = table
        self._workers = workers
        self._binned = binned  # (columns, rows)
        self._lanes: tuple[range, NDArray[np.uint8]] | None = None  # of which rows
        self._asked: _Asked | None = None
        self._n_set_out = 0  # rows, in the order of the table
        self._believes_turns = believes_turns
        self._underway = Underway(0, range(0), workers)

    def _handlers(self) -> dict[type[Message], Callable[[Any], Message]]:
        # not kept: a party that refers to itself holds its memory until cycles are looked for
        return {
            SweepRows: self._sweep_rows,
            LeapRows: self._leap_rows,
            RouteRows: self._route_rows,
        }

    def handle(self, request: Message) -> Message:
        """Answer one request."""
        return answer(self._handlers(), request)

    def _flat_bins(self) -> NDArray[np.uint8]:
        if self._binned is None:
            self._binned = self._bins.transform(self._table, self._workers)
        # whoever has no column still reads the first one, and says nothing about it
        return self._binned.reshape(-1) if len(self._binned) else np.zeros(self._n_rows, np.uint8)

    @property
    def _n_rows(self) -> int:
        return self._table.n_rows

    def _rows_of(self, request: SweepRows | LeapRows | RouteRows) -> range:
        rows = range(request.first_row, request.last_row)
        in_table = rows.start < rows.stop <= self._n_rows
        check(in_table, "rows are asked for that are not in the table")
        return rows

    def _set_out(self, rows: range) -> range:
        """Rows that begin at the roots, which each may do once."""
        check(rows.start == self._n_set_out, "rows set out of turn, or once more")
        return rows

    def _note(self, rows: range, stage: Stage, level: int, said: NDArray[Any] | None) -> _Asked:
        """Keep replies only to compare turns with them: freed memory is still in cache."""
        return _Asked(rows, stage, level, None if self._believes_turns else said)

    def _sweep_rows(self, request: SweepRows) -> RowsSwept:
        rows, routes = self._set_out(self._rows_of(request)), self._routes
        own, left_set = routes.upper(request.n_levels)[1], routes.splits.left_set
        n_words = -(-len(rows) // WORD_ROWS)
        said = np.empty((n_words, len(own.cut)), np.uint64)
        bins, span = self._flat_bins(), (rows.start, rows.stop)

        def say(words: tuple[int, int]) -> None:
            say_upper(own, left_set, bins, np.uint64(self._n_rows), span, said, *words)

        self._workers.run(say, self._workers.ranges(np.full(n_words, len(own.cut))))
        stage = Stage(Manner.SWEEP, request.n_levels)
        self._asked, self._n_set_out = self._note(rows, stage, request.n_levels, said), rows.stop
        return RowsSwept(Outcomes(to_bytes(said, "<u8")))

    def _leap_rows(self, request: LeapRows) -> RowsLeapt:
        rows, routes = self._rows_of(request), self._routes
        level = self._go_on(rows, request.turns, leaps=True)
        blocks, slots = routes.leaps_from(level)
        self._underway.stand_at(blocks)
        starts, lanes = self._underway.starts(), self._lanes_of(rows)
        standing, said = self._underway.standing, np.empty(int(starts[-1]), np.uint16)

        def say(trees: tuple[int, int]) -> None:
            say_leap(slots, lanes, rows.start, standing, said, starts, *trees)

        self._workers.run(say, self._underway.leap_ranges())
        self._asked = self._note(rows, Stage(Manner.LEAP, LEAP), level + LEAP, said)
        return RowsLeapt(Outcomes(to_bytes(said, "<u2")))

    def _lanes_of(self, rows: range) -> NDArray[np.uint8]:
        """Return the bins of some rows, row by row."""
        if self._lanes is None or self._lanes[0] != rows:
            bins = self._flat_bins()
            lanes = np.zeros((len(rows), self._routes.n_lanes), np.uint8)
            span, n_rows = (rows.start, rows.stop), self._n_rows
            parts = self._workers.ranges(np.full(len(rows), lanes.shape[1]))
            self._workers.run(
                lambda part: lay_side_by_side(bins, n_rows, span, lanes, *part), parts
            )
            self._lanes = rows, lanes
        return self._lanes[1]

    def _route_rows(self, request: RouteRows) -> RowsRouted:
        rows = self._rows_of(request)
        level = self._go_on(rows, request.turns, leaps=False)
        self._underway.stand_at_nodes()
        n_levels = min(request.lookahead, self._routes.depth)
        said, reply = self._say_step() if n_levels == 1 else (None, self._say_outcomes(n_levels))
        stage = Stage(Manner.ROUTE, n_levels)
        self._asked = self._note(rows, stage, level + n_levels, said)
        return reply

    def _go_on(self, rows: range, turns: memoryview | None, *, leaps: bool) -> int:
        """Follow the turns; return the level that rows reach. A refusal changes nothing."""
        routes, asked = self._routes, self._asked
        if turns is None:
            self._n_set_out = self._set_out(rows).stop
            self._underway = Underway(routes.n_trees, rows, self._workers)
            self._underway.set_out(routes.tree_start, routes.left_child)
            return 0
        if asked is None or asked.rows != rows:
            raise ProtocolError.stating("rows are to move on that have not set out")
        if asked.stage.manner is Manner.SWEEP:
            self._land(asked, turns, routes.leaps_from(asked.level)[0] if leaps else None)
            return asked.level
        n_levels = asked.stage.n_levels
        words = read_turns(turns, self._underway.standing.counts, n_levels)
        self._check_agreement(asked, words)
        if asked.stage.manner is Manner.ROUTE:
            self._underway.follow(routes, words, n_levels)
        else:
            check(self._underway.leap(words), "turns lead nowhere")
        return asked.level

    def _check_agreement(self, asked: _Asked, turns: NDArray[np.uint64]) -> None:
        """Refuse turns at own splits that are not those that this party said."""
        if self._believes_turns:
            return
        standing, starts = self._underway.standing, self._underway.turn_starts(asked.stage.n_levels)
        said, routes = asked.said, self._routes
        judge: partial[bool]
        if asked.stage.manner is Manner.SWEEP:
            judge = self._judge_sweep(asked, turns)
        elif asked.stage.manner is Manner.LEAP:
            own, said_starts = routes.own_bits_from(asked.level), self._underway.starts()
            judge = partial(agree_with_leap, own, said, said_starts, turns, starts, standing)
        elif said is not None:
            judge = partial(agree_with_step, routes.steps.steps, said, turns, starts, standing)
        else:
            told = self._flat_bins(), np.uint64(self._n_rows), turns, starts
            levels = asked.stage.n_levels
            judge = partial(agree_with_splits, routes.steps, *told, levels, standing)
        verdicts: list[bool] = []
        self._workers.run(lambda trees: verdicts.append(judge(*trees)), self._underway.ranges())
        check(all(verdicts), "turns contradict what this party said of its own splits")

    def _judge_sweep(self, asked: _Asked, turns: NDArray[np.uint64]) -> "partial[bool]":
        n_levels, feature = asked.stage.n_levels, self._routes.splits.feature
        upper, own = self._routes.upper(n_levels)
        by_level = turns.reshape(self._routes.n_trees, n_levels, -1)
        told = asked.said, by_level, len(asked.rows)
        return partial(agree_with_sweep, upper, own.first, feature, *told)

    def _land(self, asked: _Asked, turns: memoryview, blocks: "Blocks | None") -> None:
        """Rows stand where a sweep led them."""
        routes, n_levels = self._routes, asked.stage.n_levels
        words = read_turns(turns, np.full(routes.n_trees, len(asked.rows)), n_levels)
        upper = routes.upper(n_levels)[0]
        underway = Underway(routes.n_trees, asked.rows, self._workers)
        by_level = words.reshape(routes.n_trees, n_levels, -1)
        self._check_agreement(asked, words)
        check(underway.land(upper.landing, by_level, blocks), "turns lead nowhere")
        self._underway = underway

    def _say_step(self) -> tuple[NDArray[np.uint64], RowsRouted]:
        """Settle one level: the turns of rows at own splits."""
        standing, bins = self._underway.standing, self._flat_bins()
        starts, n_bits = self._underway.turn_starts(1), np.zeros_like(standing.counts)
        said = np.empty(int(starts[-1]), np.uint64)

        def say(trees: tuple[int, int]) -> None:
            n_rows = np.uint64(self._n_rows)
            say_step(self._routes.steps, standing, bins, n_rows, said, starts, n_bits, *trees)

        self._workers.run(say, self._underway.ranges())
        lengths = (n_bits + 7) >> 3
        ends = np.cumsum(lengths)
        packed = np.empty(int(lengths.sum()), np.uint8)
        copy_ranges(said.view(np.uint8), 8 * starts, packed, ends - lengths, lengths)
        return said, RowsRouted(Outcomes(packed.data), NodeSums.of(n_bits))

    def _say_outcomes(self, n_levels: int) -> RowsRouted:
        underway, routes = self._underway, self._routes
        bins, n_rows = self._flat_bins(), np.uint64(self._n_rows)
        said: dict[tuple[int, int], NDArray[np.uint8]] = {}
        n_bits = np.zeros(routes.n_trees, np.int64)
        most_per_row = np.minimum(routes.own_per_tree, 2 ** min(n_levels, 40))

        def say(trees: tuple[int, int]) -> None:
            standing, most = underway.standing, most_per_row
            said[trees] = say_outcomes(
                routes.splits, bins, n_rows, standing, n_levels, most, n_bits, *trees
            )

        self._workers.run(say, underway.ranges())
        together = np.concatenate([said[trees] for trees in sorted(said)])
        return RowsRouted(Outcomes(together.data), NodeSums.of(n_bits))

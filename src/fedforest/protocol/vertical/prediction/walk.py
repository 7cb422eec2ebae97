"""The coordinator's part in a prediction: join the outcomes of all parties and follow the rows."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedforest.errors import RemoteProtocolError
from fedforest.kernels.prediction.leap import LEAP, join_said, settle_leap
from fedforest.kernels.prediction.lookahead import retire_rows, settle_outcomes
from fedforest.kernels.prediction.positions import Standing, note_landings
from fedforest.kernels.prediction.stepping import settle_step
from fedforest.kernels.prediction.sweep import settle_upper
from fedforest.protocol.asking import blame, check
from fedforest.protocol.payloads import from_bytes, to_bytes, view_bytes
from fedforest.protocol.vertical.prediction.messages import RowsLeapt, RowsRouted, RowsSwept
from fedforest.protocol.vertical.prediction.plan import Manner, Stage
from fedforest.tree.forest.routes import OwnerRoutes
from fedforest.tree.forest.row_positions import WORD_ROWS, Trees, Underway
from fedforest.tree.workers import Workers

NOBODY = -1


class Walk:
    """The nodes that a block of rows has reached in every tree."""

    def __init__(
        self, routes: OwnerRoutes, rows: range, leaf_of: NDArray[np.int32], workers: Workers
    ) -> None:
        self._routes = routes
        self._rows = rows
        self._leaf_of = leaf_of
        self._workers = workers
        self._underway = Underway(routes.n_trees, rows, workers)
        self._level = 0  # at which rows stand

    @property
    def n_active(self) -> int:
        """Rows, over all trees, that have not reached a leaf."""
        return self._underway.n_active

    def settle(
        self, stage: Stage, replies: Mapping[str, Any], following: Stage | None
    ) -> memoryview:
        """Take the turns that the parties' outcomes say; returns them for the parties."""
        if stage.manner is Manner.SWEEP:
            turns = self._sweep(replies, stage.n_levels, following)
        elif stage.manner is Manner.LEAP:
            turns = self._leap(replies)
        else:
            turns = self._route(replies, stage.n_levels)
        self._level += stage.n_levels
        return to_bytes(turns, "<u8")

    def _sweep(
        self, replies: Mapping[str, RowsSwept], n_levels: int, following: Stage | None
    ) -> NDArray[np.uint64]:
        routes, n_rows = self._routes, len(self._rows)
        n_words = -(-n_rows // WORD_ROWS)
        upper = routes.upper(n_levels)
        owner = routes.owner[upper.node]
        words, place, stride = _join_words(replies, owner, n_words)
        turns = np.empty((routes.n_trees, n_levels, n_words), np.uint64)

        def settle(trees: Trees) -> None:
            starts, first = routes.tree_start, self._rows.start
            settle_upper(upper, words, place, stride, n_rows, turns, *trees)
            note_landings(turns, upper.landing, first, n_rows, starts, self._leaf_of, *trees)

        if following is None:
            self._workers.run(settle, self._workers.ranges(np.full(routes.n_trees, n_rows)))
        else:
            leaps = following.manner is Manner.LEAP
            blocks = routes.leaps_from(n_levels)[0] if leaps else None
            self._underway.land(upper.landing, turns, blocks, settle)
        return turns

    def _leap(self, replies: Mapping[str, RowsLeapt]) -> NDArray[np.uint64]:
        routes, underway = self._routes, self._underway
        blocks, slots = routes.leaps_from(self._level)
        self._set_out()
        underway.stand_at(blocks)
        starts, turn_starts = underway.starts(), underway.turn_starts(LEAP)
        one, *others = _hear_leaps(replies, int(starts[-1]))
        two, joined = others[0] if len(others) == 1 else one, np.zeros(0, np.uint8)
        if len(others) > 1:
            joined = np.zeros_like(one)
            two = _read_only(joined)
        turns = np.empty(int(turn_starts[-1]), np.uint64)

        def settle(target: Standing, trees: Trees) -> bool:
            source = underway.standing
            if len(others) > 1:
                for said, own in zip(others, slots.own[1:], strict=True):
                    join_said(said, own, source, starts, joined, *trees)
            settle_leap(
                blocks,
                slots.halves,
                one,
                two,
                starts,
                turns,
                turn_starts,
                source,
                target,
                routes.tree_start,
                self._leaf_of,
                *trees,
            )
            return True

        underway.move(settle, underway.leap_ranges())
        return turns

    def _route(self, replies: Mapping[str, RowsRouted], lookahead: int) -> NDArray[np.uint64]:
        routes, underway = self._routes, self._underway
        n_levels = min(lookahead, routes.depth)
        self._set_out()
        underway.stand_at_nodes()
        said = _join_bits(replies, routes.n_trees)
        starts = underway.turn_starts(n_levels)
        turns = np.zeros(int(starts[-1]), np.uint64)
        short = np.full(routes.n_trees, NOBODY)

        def settle(target: Standing, trees: Trees) -> bool:
            if n_levels == 1:
                short[trees[0]] = self._settle_step(said, turns, starts, target, trees)
                return True
            left_child, owner, nodes = routes.left_child, routes.owner, underway.standing
            settle_outcomes(left_child, owner, nodes, n_levels, said, turns, starts, short, *trees)
            retire_rows(left_child, routes.tree_start, self._leaf_of, nodes, target, *trees)
            return True

        underway.move(settle)
        _check_said(list(replies), short, said)
        return turns

    def _set_out(self) -> None:
        if self._level == 0:
            self._underway.set_out(self._routes.tree_start, self._routes.left_child)

    def _settle_step(
        self,
        said: "SaidBits",
        turns: NDArray[np.uint64],
        starts: NDArray[np.int64],
        target: Standing,
        trees: Trees,
    ) -> int:
        routes, source = self._routes, self._underway.standing
        roots, leaf_of = routes.tree_start, self._leaf_of
        return int(
            settle_step(routes.steps, *said, turns, starts, source, target, roots, leaf_of, *trees)
        )


SaidBits = tuple[NDArray[np.uint8], NDArray[np.uint64], NDArray[np.uint64]]


def _hear_leaps(replies: Mapping[str, RowsLeapt], n_leaps: int) -> Iterator[NDArray[np.uint8]]:
    """Read what each owner says of so many rows, two bytes each, without a copy."""
    for party, reply in replies.items():
        with blame(party):
            said = view_bytes(reply.outcomes.data, "u1", 2 * n_leaps, "outcomes")
        yield _read_only(said)


def _read_only(array: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """A view for kernels, which are compiled once more for arrays of the other kind."""
    view = array.view()
    view.flags.writeable = False
    return view


def _join_words(
    replies: Mapping[str, RowsSwept], owner: NDArray[np.int32], n_words: int
) -> tuple[NDArray[np.uint64], NDArray[np.uint64], NDArray[np.uint64]]:
    """All words in one array; for each node, where its first word lies and how far the next is."""
    words, begin = np.empty(n_words * len(owner), np.uint64), 0
    place, stride = np.zeros(len(owner), np.uint64), np.zeros(len(owner), np.uint64)
    for number, (party, reply) in enumerate(replies.items()):
        own = np.flatnonzero(owner == number)
        end = begin + n_words * len(own)
        with blame(party):
            words[begin:end] = view_bytes(reply.outcomes.data, "<u8", end - begin, "outcomes")
        place[own], stride[own] = begin + np.arange(len(own)), len(own)
        begin = end
    return words, place, stride


def _join_bits(replies: Mapping[str, RowsRouted], n_trees: int) -> SaidBits:
    """All outcomes in one array; (trees, owners): at which bits each tree's start and end."""
    parts, starts, ends, begin = [np.zeros(0, np.uint8)], [], [], 0
    for party, reply in replies.items():
        with blame(party):
            n_bits = reply.n_bits.read(1, n_trees)[0]
            said = 8 * len(reply.outcomes.data)
            check(bool(((n_bits >= 0) & (n_bits <= said)).all()), "a tree has outcomes nobody said")
            lengths = (n_bits + 7) >> 3
            n_bytes = int(lengths.sum())
            parts.append(from_bytes(reply.outcomes.data, "u1", n_bytes, "outcomes"))
        starts.append(8 * (begin + np.cumsum(lengths) - lengths))
        ends.append(starts[-1] + n_bits)
        begin += n_bytes
    cursor, end = np.array(starts, np.uint64).T, np.array(ends, np.uint64).T
    return np.concatenate(parts), np.ascontiguousarray(cursor), np.ascontiguousarray(end)


def _check_said(parties: list[str], short: NDArray[np.int64], said: SaidBits) -> None:
    """Everybody said as much as the rows asked for need."""
    _, cursor, end = said
    wrong = short[short != NOBODY]
    if not len(wrong):
        wrong = np.flatnonzero((cursor != end).any(axis=0))
    if len(wrong):
        reason = "outcomes are not those of the rows asked for"
        raise RemoteProtocolError(reason, parties[int(wrong[0])])

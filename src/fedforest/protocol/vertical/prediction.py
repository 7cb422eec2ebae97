"""The coordinator of vertical prediction.

Who learns what. The coordinator sees the outcomes of all parties at the nodes rows can reach within
the lookahead, and so every row's path and leaf. It sees no value, edge or column name. Settling all
levels in one exchange is the paper's one-round prediction; a smaller lookahead needs more exchanges
and fewer bits, and reveals fewer outcomes off a row's path.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedforest.kernels.lookahead import retire_rows, settle_paths
from fedforest.protocol.asking import Ask, Conversation, blame, check
from fedforest.protocol.payloads import RowBits, from_bytes
from fedforest.protocol.vertical.moves import bring_together
from fedforest.protocol.vertical.prediction_messages import (
    AskSplit,
    RouteRows,
    RowsRouted,
    RowsStepped,
    SplitAsked,
    StepRows,
)
from fedforest.tree.descent import Descent
from fedforest.tree.partial import ForestOutline
from fedforest.tree.workers import ALONE, Workers

BLOCK_BYTES = 2**28  # where rows of a block stand in all trees, at each role


@dataclass(frozen=True, slots=True)
class Network:
    """What an exchange costs, for choosing a lookahead."""

    latency_seconds: float
    bytes_per_second: float


@dataclass(frozen=True, slots=True)
class PredictionOrder:
    """Which rows to route through which forest, over whom."""

    outline: ForestOutline
    parties: tuple[str, ...]  # in the order of their columns
    n_rows: int
    lookahead: int  # levels settled by one exchange


def choose_lookahead(outline: ForestOutline, n_rows: int, n_parties: int, network: Network) -> int:
    """The lookahead with the least estimated time; the paper's one round where latency rules."""
    depth = max(1, int(outline.shape.depths().max(initial=1)))
    costs = [
        _estimate(depth, r, n_rows, outline.shape.n_trees, n_parties, network)
        for r in range(1, depth + 1)
    ]
    return 1 + int(np.argmin(costs))


def _estimate(  # noqa: PLR0913, PLR0917 - one formula of six quantities
    depth: int, lookahead: int, n_rows: int, n_trees: int, n_parties: int, network: Network
) -> float:
    """Seconds for all exchanges: a row reaches (2 - 1/parties)^level nodes of a level."""
    n_exchanges = -(-depth // lookahead)
    growth = 2.0 - 1.0 / n_parties
    reached = sum(growth**level for level in range(min(lookahead, 64)))
    visits = float(n_rows) * n_trees * reached * n_exchanges
    n_bytes = visits / 8 + n_parties * n_rows * n_trees * depth / 8 * (lookahead < depth)
    seconds_per_visit = 3e-9 * (1 + n_parties) / 2
    return (
        n_exchanges * network.latency_seconds
        + n_bytes / network.bytes_per_second
        + visits * seconds_per_visit
    )


def route(order: PredictionOrder, workers: Workers = ALONE) -> Conversation[NDArray[np.int32]]:
    """(trees, rows): the number, within its tree, of the leaf each row reaches."""
    shape = order.outline.shape
    leaf_of = np.zeros((shape.n_trees, order.n_rows), np.int32)
    askable = [order.parties[number] for number in _owners(order.outline)]
    size = max(1024, BLOCK_BYTES // (8 * max(1, shape.n_trees)))
    for first in range(0, order.n_rows, size):
        last = min(order.n_rows, first + size)
        if order.lookahead == 1:
            yield from _step_down(order, range(first, last), leaf_of, workers)
            continue
        walk = _Walk(order.outline, leaf_of, range(first, last), workers)
        paths: memoryview | None = None
        while walk.n_active:
            request = RouteRows(first, last, order.lookahead, paths)
            routed = yield Ask(dict.fromkeys(askable, request), RowsRouted)
            paths = walk.settle([(party, routed[party]) for party in askable], order.lookahead)
    return leaf_of


def _step_down(
    order: PredictionOrder, rows: range, leaf_of: NDArray[np.int32], workers: Workers
) -> Conversation[None]:
    """One level per exchange: rows move as they do in training."""
    descent = Descent(order.outline.shape, rows, workers)
    parties = [order.parties[number] for number in _owners(order.outline)]
    bits_for: dict[str, RowBits | None] = dict.fromkeys(parties)
    while len(descent.open):
        owner = order.outline.owner[descent.flat_nodes]
        nodes_of = {p: np.flatnonzero(owner == order.parties.index(p)) for p in parties}
        requests = {p: StepRows(rows.start, rows.stop, bits_for[p]) for p in parties}
        stepped: Mapping[str, RowsStepped] = yield Ask(requests, RowsStepped)
        everywhere, sizes = np.ones(len(owner), np.bool_), descent.rows.sizes
        parts = [(party, nodes_of[party], stepped[party].bits) for party in parties]
        store = bring_together(everywhere, sizes, parts)
        descent.follow(store.bits, store.left_rows, leaf_of)
        for party in parties:
            foreign = np.flatnonzero(owner != order.parties.index(party))
            bits_for[party] = RowBits.of(store.take(foreign))


def _owners(outline: ForestOutline) -> NDArray[np.int64]:
    """The numbers of parties that split anything."""
    return np.flatnonzero(np.bincount(outline.owner + 1)[1:])


class _Walk:
    """Where a block of rows stands in every tree."""

    def __init__(
        self, outline: ForestOutline, leaf_of: NDArray[np.int32], rows: range, workers: Workers
    ) -> None:
        self._shape = outline.shape
        self._workers = workers
        self._leaf_of = leaf_of
        owners, number = np.unique(outline.owner, return_inverse=True)
        # owners that split anything, numbered from 0; NOBODY, if there, is the first
        self._owner = (number - int(owners[0] < 0)).astype(np.int32)
        everyone = np.arange(rows.start, rows.stop, dtype=np.int32)
        is_leaf = self._shape.left_child[self._shape.tree_start[:-1]] < 0
        self._rows = [everyone[:0] if leaf else everyone.copy() for leaf in is_leaf]
        self._nodes = [np.zeros(len(active), np.int32) for active in self._rows]

    @property
    def n_active(self) -> int:
        """Rows, over all trees, that have not reached a leaf."""
        return sum(len(rows) for rows in self._rows)

    def settle(self, replies: Sequence[tuple[str, RowsRouted]], lookahead: int) -> memoryview:
        """Take the turns that the parties' outcomes say; returns them for the parties."""
        n_trees = self._shape.n_trees
        data, starts, n_bits = _join(replies, n_trees)
        turns: list[NDArray[np.uint8]] = [np.zeros(0, np.uint8)] * n_trees
        failed = np.zeros(n_trees, np.int64)
        depth = min(lookahead, int(self._shape.depths().max(initial=0)))

        def settle(trees: tuple[int, int]) -> None:
            for tree in range(*trees):
                cursor = starts[:, tree].astype(np.uint64)
                end = cursor + n_bits[:, tree].astype(np.uint64)
                path = np.zeros(((len(self._rows[tree]) * depth) >> 3) + 1, np.uint8)
                base = self._shape.tree_start[tree]
                used = settle_paths(
                    self._shape.left_child,
                    self._owner,
                    base,
                    self._nodes[tree],
                    depth,
                    data,
                    cursor,
                    end,
                    path,
                )
                if used < 0:
                    failed[tree] = used
                elif (cursor != end).any():
                    failed[tree] = -1 - int(np.flatnonzero(cursor != end)[0])
                turns[tree] = path[: (int(used) + 7) >> 3]
                self._retire(tree)

        sizes = np.array([len(rows) + 1 for rows in self._rows], np.int64)
        self._workers.run(settle, self._workers.ranges(sizes))
        if failed.any():
            party = replies[int(-1 - failed[failed < 0][0])][0]
            with blame(party):
                check(condition=False, broken_rule="outcomes are not those of the rows asked for")
        return np.concatenate(turns).data

    def _retire(self, tree: int) -> None:
        rows, nodes = self._rows[tree], self._nodes[tree]
        base = self._shape.tree_start[tree]
        n_active = retire_rows(self._shape.left_child, base, rows, nodes, self._leaf_of[tree])
        self._rows[tree], self._nodes[tree] = rows[:n_active], nodes[:n_active]


def _join(
    replies: Sequence[tuple[str, RowsRouted]], n_trees: int
) -> tuple[NDArray[np.uint8], NDArray[np.int64], NDArray[np.int64]]:
    """All outcomes in one array; (owners, trees): at which bit each tree starts, and its bits."""
    parts, starts, n_bits, begin = [np.zeros(0, np.uint8)], [], [], 0
    for party, reply in replies:
        with blame(party):
            bits = reply.n_bits.read(1, n_trees)[0]
            said = 8 * len(reply.outcomes.data)
            check(bool(((bits >= 0) & (bits <= said)).all()), "a tree has outcomes nobody said")
            lengths = (bits + 7) >> 3
            n_bytes = int(lengths.sum())
            parts.append(from_bytes(reply.outcomes.data, "u1", n_bytes, "outcomes"))
        starts.append(8 * (begin + np.cumsum(lengths) - lengths))
        n_bits.append(bits)
        begin += n_bytes
    return np.concatenate(parts), np.array(starts), np.array(n_bits)


def route_classically(order: PredictionOrder) -> Conversation[NDArray[np.int32]]:
    """The walk the papers compare with: one message per row and node."""
    shape, owner = order.outline.shape, order.outline.owner
    leaf_of = np.zeros((shape.n_trees, order.n_rows), np.int32)
    for tree in range(shape.n_trees):
        base = int(shape.tree_start[tree])
        for row in range(order.n_rows):
            node = 0
            while shape.left_child[base + node] >= 0:
                party = order.parties[owner[base + node]]
                asked: Mapping[str, SplitAsked] = yield Ask(
                    {party: AskSplit(row, base + node)}, SplitAsked
                )
                with blame(party):
                    outcome = from_bytes(asked[party].outcome.data, "u1", 1, "an outcome")[0]
                    check(outcome in (0, 1), "an outcome is one bit")
                node = int(shape.left_child[base + node]) + 1 - int(outcome)
            leaf_of[tree, row] = node
    return leaf_of

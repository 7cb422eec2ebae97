"""The coordinator of vertical prediction.

Who learns what. The coordinator sees the outcomes of all parties at the nodes rows can reach within
the levels that an exchange settles, and so every row's path and leaf. It sees no value, edge or
column name. Settling all levels in one exchange is the paper's one-round prediction; fewer levels
need more exchanges and fewer bits, and reveal fewer outcomes off a row's path.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import zip_longest
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from fedforest.protocol.asking import Conversation, ask
from fedforest.protocol.network import Network
from fedforest.protocol.vertical.prediction.messages import LeapRows, RouteRows, SweepRows
from fedforest.protocol.vertical.prediction.plan import (
    Manner,
    Plan,
    Stage,
    plan_for,
    plan_lookahead,
)
from fedforest.protocol.vertical.prediction.walk import Walk
from fedforest.tree.forest.partial import ForestOutline
from fedforest.tree.forest.routes import OwnerRoutes
from fedforest.tree.workers import ALONE, Workers

BLOCK_BYTES = 2**28  # where rows of a block stand in all trees, and what is said of them
LEAST_BLOCK = 1024  # rows

# levels settled by one exchange, or a plan for all exchanges, or the network that decides
Pace: TypeAlias = int | Plan | Network


@dataclass(frozen=True, slots=True)
class PredictionOrder:
    """The rows to route, the forest, and the parties."""

    outline: ForestOutline
    parties: tuple[str, ...]  # in the order of their columns
    n_rows: int
    pace: Pace
    routes: OwnerRoutes | None = None  # of the outline, if they were prepared before


def route(order: PredictionOrder, workers: Workers = ALONE) -> Conversation[NDArray[np.int32]]:
    """(trees, rows): the number, within its tree, of the leaf each row reaches."""
    routes = order.routes or OwnerRoutes.of(order.outline)
    parties = [order.parties[number] for number in routes.owners]
    leaf_of = np.zeros((routes.n_trees, order.n_rows), np.int32)
    plan = _plan(order, routes)
    for rows in _blocks(order.n_rows, plan, routes):
        walk = Walk(routes, rows, leaf_of, workers)
        turns: memoryview | None = None
        for stage, following in zip_longest(plan, plan[1:]):
            request = _request(stage, rows, turns)
            replies = yield from ask(dict.fromkeys(parties, request))
            turns = walk.settle(stage, replies, following)
            if not walk.n_active:
                break
    return leaf_of


def _plan(order: PredictionOrder, routes: OwnerRoutes) -> Plan:
    if not len(routes.owners):
        return ()  # single leaves: nobody need be asked
    if isinstance(order.pace, Network):
        return plan_for(order.pace, routes, order.n_rows)
    return plan_lookahead(order.pace, routes.depth) if isinstance(order.pace, int) else order.pace


def _request(
    stage: Stage, rows: range, turns: memoryview | None
) -> SweepRows | LeapRows | RouteRows:
    if stage.manner is Manner.SWEEP:
        return SweepRows(rows.start, rows.stop, stage.n_levels)
    if stage.manner is Manner.LEAP:
        return LeapRows(rows.start, rows.stop, turns)
    return RouteRows(rows.start, rows.stop, stage.n_levels, turns)


def _blocks(n_rows: int, plan: Plan, routes: OwnerRoutes) -> Iterator[range]:
    """Consecutive rows that are routed together."""
    bytes_per_row = 16 * routes.n_trees
    if plan and plan[0].manner is Manner.SWEEP:
        bytes_per_row += int(routes.inner_per_level[: plan[0].n_levels].sum()) // 8
    size = max(LEAST_BLOCK, BLOCK_BYTES // max(1, bytes_per_row))
    for first in range(0, n_rows, size):
        yield range(first, min(n_rows, first + size))

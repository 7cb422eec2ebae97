"""The classical walk of the papers, for comparison: one exchange for every row and node.

It is not a way to predict in a federation: a party would answer for any row at any of its nodes,
so no party service accepts its request. Here all roles are in one process.
"""

from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from fedforest.kernels.prediction.lookahead import write_outcomes
from fedforest.protocol.asking import Conversation, Message, Request, answer, ask, blame, check
from fedforest.protocol.payloads import Count, Outcomes, from_bytes
from fedforest.protocol.vertical.party import PartyModel
from fedforest.protocol.vertical.prediction.coordinator import PredictionOrder
from fedforest.tree.forest.routes import OwnRoutes
from fedforest.tree.table.frames import Table


class SplitAsked(Message, frozen=True):
    """One bit, set where the row goes left."""

    reveals: ClassVar[str] = "which way one of the party's own splits sends one row"

    outcome: Outcomes


class AskSplit(Request[SplitAsked], frozen=True):
    """One row at one node, flat over all trees."""

    reveals: ClassVar[str] = "that a row reached one of its nodes"

    row: Count
    node: Count


REQUESTS = (AskSplit,)


def walk_classically(order: PredictionOrder) -> Conversation[NDArray[np.int32]]:
    """(trees, rows): the number, within its tree, of the leaf each row reaches."""
    shape, owner = order.outline.shape, order.outline.owner
    leaf_of = np.zeros((shape.n_trees, order.n_rows), np.int32)
    for tree in range(shape.n_trees):
        base = int(shape.tree_start[tree])
        for row in range(order.n_rows):
            node = 0
            while shape.left_child[base + node] >= 0:
                party = order.parties[owner[base + node]]
                asked = yield from ask({party: AskSplit(row, base + node)})
                with blame(party):
                    outcome = from_bytes(asked[party].outcome.data, "u1", 1, "an outcome")[0]
                    check(outcome in (0, 1), "an outcome is one bit")
                node = int(shape.left_child[base + node]) + 1 - int(outcome)
            leaf_of[tree, row] = node
    return leaf_of


class ClassicalParty:
    """Answers for one row and node at a time, with one table and its share of the forest."""

    def __init__(self, model: PartyModel, table: Table, routes: OwnRoutes | None = None) -> None:
        self._splits = (routes or OwnRoutes.of(model.partial)).splits
        self._bins = model.bins.transform(table).reshape(-1)
        self._n_rows = table.n_rows

    def handle(self, request: Message) -> Message:
        """Answer one request."""
        return answer({AskSplit: self._ask_split}, request)

    def _ask_split(self, request: AskSplit) -> SplitAsked:
        check(request.row < self._n_rows, "a row is asked for that is not in the table")
        feature = self._splits.feature
        check(request.node < len(feature), "a node is asked for that is not in the forest")
        check(int(feature[request.node]) >= 0, "a split is asked of another's node")
        row, node = np.array([request.row], np.uint32), np.array([request.node], np.int32)
        n_rows = np.uint64(self._n_rows)
        bits, _ = write_outcomes(self._splits, self._bins, n_rows, row, node, 1, 1)
        return SplitAsked(Outcomes(bits.data))

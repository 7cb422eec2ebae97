"""A coordinator that does the obvious after a loss: it repeats the step without the lost party.

The trees go on with the parties that are left. What their nodes add up to is asked anew, because
what is known of them includes the lost party. Everything else is as the real coordinator does it.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from fedforest.protocol.aggregation.base import Aggregation
from fedforest.protocol.asking import Conversation, ask
from fedforest.protocol.horizontal.coordinator import training as real
from fedforest.protocol.horizontal.coordinator.participants import Group, Participants
from fedforest.protocol.horizontal.coordinator.preparation import prepare
from fedforest.protocol.horizontal.coordinator.trees import HorizontalCoordinatorTrees
from fedforest.protocol.horizontal.order import HorizontalOrder, TrainedExtraTrees
from fedforest.tree.workers import ALONE


class NaiveTrees(HorizontalCoordinatorTrees):
    """Trees whose nodes may have to be counted again."""

    def ask_totals_again(self) -> None:
        """What nodes add up to is no longer what the parties that are left have."""
        self._cuts = replace(self.cuts, wholes=np.ones(self.n_open, np.bool_))


def train_naively(
    order: HorizontalOrder, aggregation: Aggregation
) -> Conversation[TrainedExtraTrees]:
    """One batch of trees; a loss is expected while labels are counted."""
    session = yield from prepare(order, aggregation, ALONE)
    trees = range(order.parameters.n_estimators)
    members = session.present
    drawn = Participants(members, order.participation, order.seed)
    by_tree = drawn.of_trees(trees)
    plan, holders = (
        real._plan_batch(session, order.seed, trees),
        real._holders(members, by_tree),
    )
    growing = NaiveTrees(plan, holders, ALONE)
    start = real._start(session, drawn, by_tree)
    while growing.n_open:
        growing.draw()
        step = session.next_step()
        groups = _keep(growing.still_growing(drawn.of_step(step, by_tree)), members)
        requests = real._propose_requests(session, growing, groups, start)
        present = {party: requests[party] for party in members}
        proposed = yield from ask(present)
        for party, reply in proposed.items():
            growing.read_points(party, reply.points)
        growing.merge(list(proposed))
        gathered = yield from aggregation.gather(session.next_step(), growing.questions(groups))
        if gathered.lost:
            members = tuple(party for party in members if party not in gathered.lost)
            groups = _keep(groups, members)
            growing.ask_totals_again()
            gathered = yield from aggregation.gather(session.next_step(), growing.questions(groups))
        growing.advance(groups, gathered.sums)
        start = {}
    forest, classes = growing.assemble(), session.labels.classes
    lost = tuple(party for party in order.parties if party not in members)
    nothing = memoryview(b"")
    return TrainedExtraTrees(
        forest, session.bins, classes, nothing, 0, (growing.n_steps,), (), lost, 0, 0
    )


def _keep(groups: Sequence[Group], present: Sequence[str]) -> list[Group]:
    """The same groups of those that are left."""
    return [
        replace(group, participants=tuple(p for p in group.participants if p in present))
        for group in groups
    ]

"""The coordinator of horizontal training: Federated Extra-Trees and k-PPD-ERT as one engine.

Who learns what. The coordinator sees the declarations (columns, categories, classes, rows), one
random point inside a party's range for each (node, candidate column), and sums over participants in
the protection of the run: single parties' sums only if aggregation is "plain". It never sees a
row. Every party learns the finished forest.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from math import gcd

import numpy as np
from numpy.typing import NDArray

from fedforest.errors import PartyLost, TooFewParties
from fedforest.kernels.layout import MAX_MULTIPLICITY, NO_GROUP
from fedforest.protocol.aggregation.base import Aggregation
from fedforest.protocol.aggregation.payloads import LARGEST_SUM
from fedforest.protocol.asking import (
    AsTheyCome,
    Conversation,
    EndEarly,
    ask,
)
from fedforest.protocol.horizontal.coordinator.batch_plan import BatchPlan
from fedforest.protocol.horizontal.coordinator.participants import Group, Participants
from fedforest.protocol.horizontal.coordinator.preparation import HorizontalSession, prepare
from fedforest.protocol.horizontal.coordinator.trees import HorizontalCoordinatorTrees
from fedforest.protocol.horizontal.messages import (
    BeginTrees,
    ProposeThresholds,
    TakeForest,
    ThresholdsProposed,
)
from fedforest.protocol.horizontal.order import HorizontalOrder, TrainedExtraTrees
from fedforest.protocol.payloads import to_bytes
from fedforest.tree.files.forests import list_forest_pieces
from fedforest.tree.forest.decreases import spread_decreases
from fedforest.tree.forest.forest import Forest, concatenate_forests
from fedforest.tree.growth.decisions import NODES_WORTH_WAKING
from fedforest.tree.growth.seeds import derive_seed, derive_seeds
from fedforest.tree.table.targets import WEIGHT_BITS
from fedforest.tree.workers import ALONE, Workers

BYTES_PER_ROW = 16  # of a tree at a party: row order and bits


@dataclass(frozen=True, slots=True)
class _Lost:
    """Parties that were lost while trees were growing."""

    parties: frozenset[str]


def train(
    order: HorizontalOrder, aggregation: Aggregation, workers: Workers = ALONE
) -> Conversation[TrainedExtraTrees]:
    """Grow a forest over the rows of all parties."""
    session = yield from prepare(order, aggregation, workers)
    forests = yield from _grow_trees(session)
    forest, classes = concatenate_forests(forests), session.labels.classes
    workers = workers.if_worth(forest.shape.n_nodes, NODES_WORTH_WAKING)
    forest = spread_decreases(forest, workers)
    pieces = list_forest_pieces(forest, session.bins, classes, workers=workers)
    model = memoryview(b"".join(pieces))
    holders = yield from _hand_out(session, model)
    return TrainedExtraTrees(
        forest,
        session.bins,
        classes,
        model,
        sum(session.rows.values()),
        tuple(session.n_steps),
        tuple(session.n_extra_steps),
        tuple(party for party in order.parties if party not in holders),
        session.rules.features_per_node,
        session.n_begun,
        None if session.smallest_group == NO_GROUP else session.smallest_group,
    )


def _grow_trees(session: HorizontalSession) -> Conversation[list[Forest]]:
    """Grow batch after batch, until there are enough trees or the operator ends the run.

    An incomplete batch is then discarded, because all of its trees are still growing.
    """
    forests: list[Forest] = []
    n_grown, n_trees = 0, session.order.parameters.n_estimators
    try:
        while n_grown < n_trees:
            trees = range(n_grown, min(n_trees, n_grown + _batch_size(session)))
            session.n_begun = trees.stop
            grown = yield from _grow_batch(session, trees)
            if isinstance(grown, _Lost):
                _go_on_without(session, grown)
                continue
            forests.append(grown)
            n_grown = trees.stop
    except EndEarly:
        if not forests:
            raise
    return forests


def _hand_out(session: HorizontalSession, model: memoryview) -> Conversation[frozenset[str]]:
    """Send the finished forest to all parties that are there; return those that took it."""
    there = [party for party in session.order.parties if party not in session.lost]
    requests = dict.fromkeys(there, TakeForest(model))
    try:
        taken = yield from ask(requests, may_lose=True)
    except EndEarly as end:
        taken = end.replies
    return frozenset(taken)


def _batch_size(session: HorizontalSession) -> int:
    """Return how many trees grow together, so that their rows fit a party's memory."""
    largest = max(session.rows[party] for party in session.present)
    per_row = BYTES_PER_ROW + 4 * session.rules.features_per_node
    return max(1, session.order.batch_bytes // max(1, largest * per_row))


def _go_on_without(session: HorizontalSession, lost: _Lost) -> None:
    """Remove the blocks of the lost parties; the growing trees are begun anew without them.

    The difference between earlier sums over all parties and sums without the lost one alone would
    be the lost party's own: docs/decisions/0032.
    """
    session.lost |= lost.parties
    session.n_losses += 1
    if session.order.privacy is not None:
        raise PartyLost(
            "it went away while trees grew whose labels are counted with noise. Growing them anew "
            "would spend more of everybody's privacy than was agreed on; start a new run",
            min(lost.parties),
        )
    names = ", ".join(map(repr, sorted(lost.parties)))
    try:
        session.drawn = session.drawn.without(lost.parties)
    except TooFewParties as error:
        raise TooFewParties(
            f"party {names} went away, and the parties that take part only together with it leave "
            f"the run as well: {error}. Resume the run when it is back, or end it early with the "
            "trees that are complete"
        ) from None
    if not any(session.rows[party] for party in session.present):
        raise TooFewParties(f"party {names} went away, and nobody with rows is left; start again")


def _grow_batch(session: HorizontalSession, trees: range) -> Conversation[Forest | _Lost]:
    """Grow some trees together, level by level: two exchanges each."""
    seed = derive_seed(session.order.seed, "attempt", session.n_losses)
    drawn = session.drawn
    by_tree = drawn.of_trees(trees)
    growing = HorizontalCoordinatorTrees(
        _plan_batch(session, seed, trees), _holders(session.present, by_tree), session.workers
    )
    start: Mapping[str, BeginTrees] | None = _start(session, drawn, by_tree, trees.start)
    while growing.n_open:
        place = {"level": growing.level, "step": growing.n_steps}
        note = {"trees": trees, **place, "open_nodes": growing.n_open}
        step = session.next_step()
        groups = growing.still_growing(drawn.of_step(step, by_tree))
        growing.draw()
        requests = _propose_requests(session, growing, groups, start)
        participants = [party for party in requests if _takes_part(party, groups)]
        named = AsTheyCome(partial(_read_points, growing, participants))
        proposed = yield from ask(requests, note, may_lose=True, read=named)
        if proposed.keys() != requests.keys():
            return _Lost(frozenset(requests.keys() - proposed.keys()))
        named.of(proposed)
        growing.merge(participants)
        segments = growing.questions(groups)
        counted = {**note, "vectors": growing.n_asked, "participants": _mean_size(groups)}
        gathered = yield from session.aggregation.gather(session.next_step(), segments, counted)
        if gathered.lost:
            return _Lost(gathered.lost)
        growing.advance(groups, gathered.sums)
        start = None
    session.n_steps.append(growing.n_steps)
    session.n_extra_steps.append(growing.n_steps - growing.n_levels)
    if session.order.privacy is None:  # else counts are noisy
        session.smallest_group = min(session.smallest_group, growing.smallest_group)
    return growing.assemble()


def _plan_batch(session: HorizontalSession, seed: int, trees: range) -> BatchPlan:
    first, last = trees.start, trees.stop
    return BatchPlan(
        session.rules,
        session.kind,
        session.counting,
        session.columns,
        derive_seeds(seed, "features", first, last),
        derive_seeds(seed, "thresholds", first, last),
        session.order.both_sides,
        session.order.totals_anew,
        session.order.least_rows,
        _largest_sum(session),
        not (session.kind.is_regression or session.order.privacy is not None),
        session.order.privacy is not None,
    )


def _largest_sum(session: HorizontalSession) -> int:
    """Return an upper limit of counts; masks that did not cancel almost always exceed it."""
    if session.kind.is_regression or session.order.privacy is not None:
        return LARGEST_SUM - 1
    heaviest = MAX_MULTIPLICITY << (WEIGHT_BITS if session.labels.weight_unit > 0.0 else 0)
    return min(LARGEST_SUM - 1, sum(session.rows.values()) * heaviest)


def _holders(
    parties: tuple[str, ...], by_tree: list[tuple[str, ...]]
) -> dict[str, NDArray[np.bool_]]:
    """Return the trees each party holds rows of, without the parties that hold none."""
    holders = {p: np.array([p in members for members in by_tree]) for p in parties}
    return {party: holds for party, holds in holders.items() if holds.any()}


def _start(
    session: HorizontalSession, drawn: Participants, by_tree: list[tuple[str, ...]], first: int = 0
) -> dict[str, BeginTrees]:
    """Tell each party how to draw the rows of its trees."""
    order = session.order
    groups = list(dict.fromkeys(by_tree))
    total = sum(session.rows.values())
    sampling = order.parameters.sampling(total)
    common = gcd(sampling.n_draws, total)  # a fraction tells no more than it must
    drawn_of = sampling.bootstrap, sampling.n_draws // common, total // common
    batch = first, len(by_tree)
    started = {}
    for party in drawn.present:
        segments = [groups.index(group) for group in by_tree if party in group]
        told = to_bytes(np.array(segments), "<u2")
        started[party] = BeginTrees(told, *drawn_of, tuple(sorted(drawn.left)), *batch)
    return started


def _propose_requests(
    session: HorizontalSession,
    growing: HorizontalCoordinatorTrees,
    groups: list[Group],
    started: Mapping[str, BeginTrees] | None,
) -> dict[str, ProposeThresholds]:
    requests: dict[str, ProposeThresholds] = {}
    same: dict[object, ProposeThresholds] = {}  # parties with the same trees get the same request
    for party in growing.parties:
        takes_part = _takes_part(party, groups)
        start = started[party] if started else None
        key = (growing.trees_of(party), takes_part, start and id(start))
        if key not in same:
            moves = growing.moves_for(party)
            candidates = growing.candidates_for(party, takes_part=takes_part)
            same[key] = ProposeThresholds(session.step, start, moves, candidates)
        requests[party] = same[key]
    return requests


def _read_points(
    growing: HorizontalCoordinatorTrees,
    participants: list[str],
    party: str,
    reply: ThresholdsProposed,
) -> None:
    if party in participants:  # the others only moved their rows
        growing.read_points(party, reply.points)


def _takes_part(party: str, groups: list[Group]) -> bool:
    return any(party in group.participants for group in groups)


def _mean_size(groups: list[Group]) -> float:
    """Return the mean number of participants per tree."""
    sizes = [len(group.participants) * len(group.trees) for group in groups]
    return sum(sizes) / sum([len(group.trees) for group in groups])

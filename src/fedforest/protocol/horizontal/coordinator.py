"""The coordinator of horizontal training: Federated Extra-Trees and k-PPD-ERT as one engine.

Who learns what. The coordinator sees what parties declare (columns, categories, classes, rows), one
random point inside a party's range for each (node, candidate column), and sums over participants in
the protection of the run: single parties' sums only where aggregation is "plain". It never sees a
row. Every party learns the finished forest.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from fedforest.errors import PartyLost, TooFewParties
from fedforest.kernels.layout import MAX_MULTIPLICITY, NO_GROUP
from fedforest.protocol.aggregation.base import Aggregation
from fedforest.protocol.aggregation.payloads import LARGEST_SUM
from fedforest.protocol.asking import (
    Accepted,
    Ask,
    AsTheyCome,
    Conversation,
    EndEarly,
    Message,
)
from fedforest.protocol.horizontal.batch_plan import BatchPlan
from fedforest.protocol.horizontal.coordinator_trees import CoordinatorTrees
from fedforest.protocol.horizontal.messages import (
    ProposeThresholds,
    StartTrees,
    TakeForest,
    ThresholdsProposed,
)
from fedforest.protocol.horizontal.order import Trained, TrainingOrder
from fedforest.protocol.horizontal.participants import Group, Participants
from fedforest.protocol.horizontal.preparation import Session, prepare
from fedforest.protocol.payloads import to_bytes
from fedforest.tree.decreases import spread_decreases
from fedforest.tree.forest import Forest, concatenate_forests
from fedforest.tree.forest_file import list_forest_pieces
from fedforest.tree.growth import NODES_WORTH_WAKING
from fedforest.tree.large_pages import join_pieces
from fedforest.tree.seeds import derive_seed, derive_seeds
from fedforest.tree.targets import WEIGHT_BITS
from fedforest.tree.workers import ALONE, Workers

BYTES_PER_ROW = 16  # of a tree at a party: row order and bits


@dataclass(frozen=True, slots=True)
class _Lost:
    """Parties that went away while trees were growing."""

    parties: frozenset[str]


def train(
    order: TrainingOrder, aggregation: Aggregation, workers: Workers = ALONE
) -> Conversation[Trained]:
    """Grow a forest over the rows of all parties."""
    session = yield from prepare(order, aggregation, workers)
    forests = yield from _grow_trees(session)
    forest, classes = concatenate_forests(forests), session.labels.classes
    workers = workers.if_worth(forest.shape.n_nodes, NODES_WORTH_WAKING)
    forest = spread_decreases(forest, workers)
    model = join_pieces(list_forest_pieces(forest, session.bins, classes, workers=workers))
    holders = yield from _hand_out(session, model)
    return Trained(
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


def _grow_trees(session: Session) -> Conversation[list[Forest]]:
    """Batch after batch, until there are enough or the operator says so.

    A batch that is not complete then is given up: its trees are all about as far from their end.
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


def _hand_out(session: Session, model: memoryview) -> Conversation[frozenset[str]]:
    """The finished forest for everybody who is still there; returns who that is."""
    requests = dict.fromkeys(session.present, TakeForest(model))
    try:
        taken = yield Ask(requests, Accepted, may_lose=True)
    except EndEarly as end:
        taken = end.replies
    return frozenset(taken)


def _batch_size(session: Session) -> int:
    """Trees that grow together: their rows and candidate values fit a party's memory."""
    largest = max(session.rows[party] for party in session.present)
    per_row = BYTES_PER_ROW + 4 * session.rules.features_per_node
    return max(1, session.order.batch_bytes // max(1, largest * per_row))


def _go_on_without(session: Session, lost: _Lost) -> None:
    """The trees that were growing are begun anew without the lost parties.

    Sums over the remaining parties, compared with earlier ones over all, would be the lost party's
    own. So no node is counted twice with different parties: see docs/decisions/0007.
    """
    session.present = tuple(party for party in session.present if party not in lost.parties)
    session.n_losses += 1
    if session.order.privacy is not None:
        raise PartyLost(
            "it went away while trees grew whose labels are counted with noise. Growing them anew "
            "would spend more of everybody's privacy than was agreed on; start a new run",
            min(lost.parties),
        )
    if not session.present or not any(session.rows[party] for party in session.present):
        names = ", ".join(map(repr, sorted(lost.parties)))
        raise TooFewParties(f"party {names} went away, and nobody with rows is left; start again")


def _grow_batch(session: Session, trees: range) -> Conversation[Forest | _Lost]:
    """Grow some trees together, level by level: two exchanges each."""
    seed = derive_seed(session.order.seed, "attempt", session.n_losses)
    drawn = Participants(
        session.present,
        session.order.participation,
        seed,
        frozenset(party for party in session.present if session.rows[party] == 0),
    )
    by_tree = drawn.of_trees(trees)
    growing = CoordinatorTrees(
        _plan_batch(session, seed, trees), _holders(session.present, by_tree), session.workers
    )
    start: Mapping[str, StartTrees] | None = _start(session, drawn, by_tree)
    while growing.n_open:
        place = {"level": growing.level, "step": growing.n_steps}
        note = {"trees": trees, **place, "open_nodes": growing.n_open}
        step = session.next_step()
        groups = growing.still_growing(drawn.of_step(step, by_tree))
        growing.draw()
        requests = _propose_requests(session, growing, groups, start)
        participants = [party for party in requests if _takes_part(party, groups)]
        named = AsTheyCome(partial(_read_points, growing, participants))
        proposed = yield Ask(requests, ThresholdsProposed, note, may_lose=True, read=named)
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


def _plan_batch(session: Session, seed: int, trees: range) -> BatchPlan:
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
        session.order.privacy is not None,
    )


def _largest_sum(session: Session) -> int:
    """What no count can pass; masks that did not cancel almost always do."""
    if session.kind.is_regression or session.order.privacy is not None:
        return LARGEST_SUM - 1
    heaviest = MAX_MULTIPLICITY << (WEIGHT_BITS if session.labels.weight_unit > 0.0 else 0)
    return min(LARGEST_SUM - 1, sum(session.rows.values()) * heaviest)


def _holders(
    parties: tuple[str, ...], by_tree: list[tuple[str, ...]]
) -> dict[str, NDArray[np.bool_]]:
    """Which trees each party holds rows of; a party that takes part in none is not asked at all."""
    holders = {p: np.array([p in members for members in by_tree]) for p in parties}
    return {party: holds for party, holds in holders.items() if holds.any()}


def _start(
    session: Session, drawn: Participants, by_tree: list[tuple[str, ...]]
) -> dict[str, StartTrees]:
    """How each party draws the rows of its trees."""
    order = session.order
    groups = list(dict.fromkeys(by_tree))
    total = sum(session.rows.values())
    started = {}
    for party in drawn.parties:
        segments = [groups.index(group) for group in by_tree if party in group]
        n_rows = session.rows[party]
        sampling = order.parameters.sampling(total)
        n_draws = max(1, round(sampling.n_draws * n_rows / total)) if n_rows else 0
        # sums before and after a loss must not be over the same rows: see docs/decisions/0007
        started[party] = StartTrees(
            to_bytes(np.array(segments), "<u2"), sampling.bootstrap, n_draws, session.n_losses
        )
    return started


def _propose_requests(
    session: Session,
    growing: CoordinatorTrees,
    groups: list[Group],
    started: Mapping[str, StartTrees] | None,
) -> dict[str, Message]:
    requests: dict[str, Message] = {}
    same: dict[tuple[object, ...], Message] = {}  # parties with the same trees hear the same
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
    growing: CoordinatorTrees, participants: list[str], party: str, reply: ThresholdsProposed
) -> None:
    if party in participants:  # others were only told how their rows move
        growing.read_points(party, reply.points)


def _takes_part(party: str, groups: list[Group]) -> bool:
    return any(party in group.participants for group in groups)


def _mean_size(groups: list[Group]) -> float:
    """Participants per tree."""
    sizes = [len(group.participants) * len(group.trees) for group in groups]
    return sum(sizes) / sum([len(group.trees) for group in groups])

"""The coordinator of horizontal training: Federated Extra-Trees and k-PPD-ERT as one engine.

Who learns what. The coordinator sees what parties declare (columns, categories, classes, rows), one
random point inside a party's range for each (node, candidate column), and sums over participants in
the protection of the run: single parties' sums only where aggregation is "plain". It never sees a
row. Every party learns the finished forest.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import msgspec
import numpy as np
from numpy.typing import NDArray

from fedforest.errors import DataError, PartyLost, TooFewParties
from fedforest.kernels.layout import MAX_MULTIPLICITY
from fedforest.privacy.global_dp import GlobalDP
from fedforest.privacy.local_dp import LocalDP
from fedforest.privacy.queries import Queries
from fedforest.protocol.aggregation.base import Aggregation, Segment
from fedforest.protocol.aggregation.payloads import LARGEST_SUM
from fedforest.protocol.asking import Accepted, Ask, Conversation, EndEarly, Message
from fedforest.protocol.horizontal.coordinator_trees import (
    BatchPlan,
    CommonColumns,
    CoordinatorTrees,
)
from fedforest.protocol.horizontal.counting import Counting, choose_counting, describe_sums
from fedforest.protocol.horizontal.labels import LabelUnion, unite_labels
from fedforest.protocol.horizontal.messages import (
    AgreeOnTable,
    CutsQuestion,
    Prepare,
    Prepared,
    ProposeThresholds,
    Protection,
    StartTrees,
    TakeForest,
    ThresholdsProposed,
)
from fedforest.protocol.horizontal.order import Trained, TrainingOrder
from fedforest.protocol.horizontal.participants import Group, Participants
from fedforest.protocol.horizontal.tables import Categories, ColumnUnion, make_bins
from fedforest.protocol.payloads import to_bytes
from fedforest.tree.bins import Bins
from fedforest.tree.class_weights import weigh_classes
from fedforest.tree.decreases import spread_decreases
from fedforest.tree.forest import Forest, concatenate_forests
from fedforest.tree.forest_file import encode_forest
from fedforest.tree.growth import NO_DEPTH_LIMIT, GrowthRules
from fedforest.tree.seeds import derive_seed, derive_seeds
from fedforest.tree.targets import WEIGHT_BITS, TargetKind
from fedforest.tree.workers import ALONE, Workers

BYTES_PER_ROW = 16  # of a tree at a party: row order and bits


@dataclass(slots=True)
class _Session:
    """What the coordinator knows and how far the run is."""

    order: TrainingOrder
    aggregation: Aggregation
    workers: Workers
    rows: dict[str, int]
    bins: Bins
    columns: CommonColumns
    labels: LabelUnion
    kind: TargetKind
    counting: Counting
    rules: GrowthRules
    present: tuple[str, ...]
    step: int = 0
    n_losses: int = 0
    n_begun: int = 0  # trees, complete or not
    n_steps: list[int] = field(default_factory=list)
    n_extra_steps: list[int] = field(default_factory=list)

    def next_step(self) -> int:
        """A number that no request had before."""
        self.step += 1
        return self.step


@dataclass(frozen=True, slots=True)
class _Lost:
    """Parties that went away while trees were growing."""

    parties: frozenset[str]


def train(
    order: TrainingOrder, aggregation: Aggregation, workers: Workers = ALONE
) -> Conversation[Trained]:
    """Grow a forest over the rows of all parties."""
    session = yield from _prepare(order, aggregation, workers)
    forests = yield from _grow_trees(session)
    forest = spread_decreases(concatenate_forests(forests))
    model = encode_forest(forest, session.bins, session.labels.classes)
    holders = yield from _hand_out(session, model)
    return Trained(
        forest,
        session.bins,
        session.labels.classes,
        model,
        sum(session.rows.values()),
        tuple(session.n_steps),
        tuple(session.n_extra_steps),
        tuple(party for party in order.parties if party not in holders),
        session.rules.features_per_node,
        session.n_begun,
    )


def _grow_trees(session: _Session) -> Conversation[list[Forest]]:
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


def _hand_out(session: _Session, model: bytes) -> Conversation[frozenset[str]]:
    """The finished forest for everybody who is still there; returns who that is."""
    requests = dict.fromkeys(session.present, TakeForest(memoryview(model)))
    try:
        taken = yield Ask(requests, Accepted, may_lose=True)
    except EndEarly as end:
        taken = end.replies
    return frozenset(taken)


def _prepare(
    order: TrainingOrder, aggregation: Aggregation, workers: Workers
) -> Conversation[_Session]:
    """Columns and labels compared, scales agreed on, keys exchanged."""
    is_regression = order.parameters.task == "regression"
    request = Prepare(is_regression)
    prepared: Mapping[str, Prepared] = yield Ask(dict.fromkeys(order.parties, request), Prepared)
    union = ColumnUnion({party: prepared[party].columns for party in order.parties})
    categories = union.categories()
    bounds = order.privacy.target_bounds if isinstance(order.privacy, GlobalDP) else None
    labels = unite_labels(prepared, is_regression=is_regression, bounds=bounds)
    bins = make_bins(union.names, categories, has_names=union.has_names)
    n_rows = sum(reply.size.n_rows for reply in prepared.values())
    _check_size(n_rows, len(union.names))
    rules = order.parameters.growth_rules(n_rows, len(union.names))
    n_categories = [0 if values is None else min(len(values), 255) for values in categories]
    session = _Session(
        order,
        aggregation,
        workers,
        {party: prepared[party].size.n_rows for party in order.parties},
        bins,
        CommonColumns(bins.is_categorical, np.array(n_categories), union.has_missing()),
        labels,
        describe_sums(labels, order.parameters.criterion),
        choose_counting(labels, order.privacy, rows_apart=_rows_apart(order, labels)),
        rules,
        order.parties,
    )
    agreed = _agreement(session, categories)
    yield Ask(dict.fromkeys(order.parties, agreed), Accepted)
    yield from aggregation.introduce(order.parties)
    yield from _weigh_classes(session)
    return session


def _check_size(n_rows: int, n_columns: int) -> None:
    if n_rows == 0:
        raise DataError("No party has a row; there is nothing to learn from.")
    if n_columns == 0:
        raise DataError("No party has a column; there is nothing to learn from.")


def _agreement(session: _Session, categories: Sequence[Categories]) -> AgreeOnTable:
    order, labels, rules = session.order, session.labels, session.rules
    classes = () if labels.classes is None else tuple(labels.classes.tolist())
    return AgreeOnTable(
        session.bins.names,
        tuple(categories),
        labels.class_dtype,
        classes,
        labels.target_unit,
        labels.target_offset,
        labels.weight_unit,
        _describe_protection(order, labels.n_classes, count_queries(order, rules)),
        order.parameters.n_estimators,
        min(rules.max_depth, NO_DEPTH_LIMIT),
        rules.features_per_node,
        order.least_rows,
        order.both_sides,
        session.counting.layout.rows_apart,
        len(order.parties) - 1 if order.privacy is None else 0,
        order.drawn_per_step,
    )


def _rows_apart(order: TrainingOrder, labels: LabelUnion) -> bool:
    """Whether a row may weigh other than one: by sample weights, or drawn more than once."""
    return labels.weight_unit > 0.0 or (order.parameters.bootstrap and order.privacy is None)


def count_queries(order: TrainingOrder, rules: GrowthRules) -> Queries:
    """How often one row's label is counted at most: candidates x levels x trees."""
    levels = None if rules.max_depth == NO_DEPTH_LIMIT else rules.max_depth
    return Queries(rules.features_per_node, levels, order.parameters.n_estimators)


def _describe_protection(order: TrainingOrder, n_classes: int, queries: Queries) -> Protection:
    """The noise that parties are to add."""
    privacy = order.privacy
    if privacy is None:
        return Protection()
    if isinstance(privacy, LocalDP):
        bits = privacy.resolve(n_classes).bits
        return Protection("local", bits, privacy.hashes, privacy.keep, privacy.p, privacy.q)
    low, high = privacy.target_bounds or (0.0, 0.0)
    epsilon = privacy.resolve(queries)
    return Protection("global", epsilon_query=epsilon, low=low, high=high)


def _weigh_classes(session: _Session) -> Conversation[None]:
    """Class weights, for "balanced" after counting the classes of all parties."""
    order, classes = session.order, session.labels.classes
    if order.class_weight is None or classes is None:
        return
    if order.class_weight == "balanced":
        rows = yield from _count_classes(session)
        weights = rows.sum() / (len(classes) * np.maximum(rows, 1.0))
    else:
        weights = weigh_classes(order.class_weight, classes)
    session.counting = choose_counting(
        session.labels, order.privacy, weights, rows_apart=_rows_apart(order, session.labels)
    )


def _count_classes(session: _Session) -> Conversation[NDArray[np.float64]]:
    """How much each class weighs in all tables together, by the aggregation of the run."""
    nothing = memoryview(b"")
    question = CutsQuestion(0, nothing, nothing, nothing, nothing, whole_table=True)
    encoded = msgspec.msgpack.encode(question)
    segment = Segment(session.present, encoded, session.counting.width)
    gathered = yield from session.aggregation.gather(session.next_step(), [segment], {})
    if gathered.lost:
        raise TooFewParties(
            f"party {min(gathered.lost)!r} went away before training began; start again"
        )
    sums = session.counting.read(gathered.sums[0].reshape(1, -1))
    return sums[0, : session.labels.n_classes].astype(np.float64)


def _batch_size(session: _Session) -> int:
    """Trees that grow together: their rows and candidate values fit a party's memory."""
    largest = max(session.rows[party] for party in session.present)
    per_row = BYTES_PER_ROW + 4 * session.rules.features_per_node
    return max(1, session.order.batch_bytes // max(1, largest * per_row))


def _go_on_without(session: _Session, lost: _Lost) -> None:
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


def _grow_batch(session: _Session, trees: range) -> Conversation[Forest | _Lost]:
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
        note = {"trees": trees, "level": growing.n_steps, "open_nodes": growing.n_open}
        step = session.next_step()
        groups = growing.still_growing(drawn.of_step(step, by_tree))
        growing.draw()
        requests = _propose_requests(session, growing, groups, start)
        proposed = yield Ask(requests, ThresholdsProposed, note, may_lose=True)
        if proposed.keys() != requests.keys():
            return _Lost(frozenset(requests.keys() - proposed.keys()))
        growing.merge({p: proposed[p].points for p in proposed if _takes_part(p, groups)})
        segments = growing.questions(groups)
        counted = {**note, "vectors": growing.n_asked, "participants": _mean_size(groups)}
        gathered = yield from session.aggregation.gather(session.next_step(), segments, counted)
        if gathered.lost:
            return _Lost(gathered.lost)
        growing.advance(groups, gathered.sums)
        start = None
    session.n_steps.append(growing.n_steps)
    session.n_extra_steps.append(growing.n_steps - growing.n_levels)
    return growing.assemble()


def _plan_batch(session: _Session, seed: int, trees: range) -> BatchPlan:
    first, last = trees.start, trees.stop
    return BatchPlan(
        session.rules,
        session.kind,
        session.counting,
        session.columns,
        derive_seeds(seed, "features", first, last),
        derive_seeds(seed, "thresholds", first, last),
        session.order.both_sides,
        session.order.least_rows,
        _largest_sum(session),
        session.order.privacy is not None,
    )


def _largest_sum(session: _Session) -> int:
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
    session: _Session, drawn: Participants, by_tree: list[tuple[str, ...]]
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
    session: _Session,
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


def _takes_part(party: str, groups: list[Group]) -> bool:
    return any(party in group.participants for group in groups)


def _mean_size(groups: list[Group]) -> float:
    """Participants per tree."""
    n_trees = [int(np.count_nonzero(group.trees)) for group in groups]
    sizes = [len(group.participants) * n for group, n in zip(groups, n_trees, strict=True)]
    return sum(sizes) / sum(n_trees)

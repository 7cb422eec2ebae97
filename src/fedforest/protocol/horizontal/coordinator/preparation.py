"""Preparation before the first tree: compare tables, agree on scales and limits, exchange keys.

A `HorizontalSession` holds the results of the parties' declarations.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import msgspec
import numpy as np
from numpy.typing import NDArray

from fedforest.errors import DataError, TooFewParties
from fedforest.kernels.layout import NO_GROUP
from fedforest.privacy.global_dp import GlobalDP
from fedforest.privacy.noise_strength import NoisyGrowth, describe_excess
from fedforest.protocol.aggregation.base import Aggregation, Segment, choose_least
from fedforest.protocol.asking import Conversation, ask
from fedforest.protocol.horizontal.contract import (
    count_losses,
    count_queries,
    describe_protection,
)
from fedforest.protocol.horizontal.coordinator.batch_plan import CommonColumns
from fedforest.protocol.horizontal.coordinator.counting import (
    Counting,
    choose_counting,
    describe_sums,
)
from fedforest.protocol.horizontal.coordinator.participants import Participants, require_enough
from fedforest.protocol.horizontal.labels import LabelUnion, unite_labels
from fedforest.protocol.horizontal.messages import (
    AgreeOnTable,
    CutsQuestion,
    DeclareTable,
    SharedDraw,
)
from fedforest.protocol.horizontal.order import HorizontalOrder
from fedforest.protocol.horizontal.tables import Categories, ColumnUnion, make_bins
from fedforest.tree.growth.decisions import NO_DEPTH_LIMIT, GrowthRules
from fedforest.tree.growth.seeds import derive_seed
from fedforest.tree.table.bins import Bins
from fedforest.tree.table.class_weights import weigh_classes
from fedforest.tree.table.targets import TargetKind
from fedforest.tree.workers import Workers


@dataclass(slots=True)
class HorizontalSession:
    """The coordinator's knowledge and the progress of the run."""

    order: HorizontalOrder
    aggregation: Aggregation
    workers: Workers
    rows: dict[str, int]
    bins: Bins
    columns: CommonColumns
    labels: LabelUnion
    kind: TargetKind
    counting: Counting
    rules: GrowthRules
    drawn: Participants
    lost: frozenset[str] = frozenset()
    step: int = 0
    n_losses: int = 0
    n_begun: int = 0  # trees, complete or not
    n_steps: list[int] = field(default_factory=list)
    smallest_group: int = NO_GROUP  # rows of the smallest child of a split, so far
    n_extra_steps: list[int] = field(default_factory=list)

    @property
    def present(self) -> tuple[str, ...]:
        """Parties that take part: their block did not leave the run."""
        return self.drawn.present

    def next_step(self) -> int:
        """Return a new step number."""
        self.step += 1
        return self.step


def prepare(
    order: HorizontalOrder, aggregation: Aggregation, workers: Workers
) -> Conversation[HorizontalSession]:
    """Compare columns and labels, agree on scales, exchange keys.

    Check that enough parties have rows before labels are counted: a sum over one party with rows
    and others without would be that party's own.
    """
    least = choose_least(order.participation.least, is_protected=aggregation.is_protected)
    require_enough(len(order.parties), least)
    is_regression = order.parameters.task == "regression"
    criterion = order.parameters.scored_by
    request = DeclareTable(is_regression, criterion.wire)
    prepared = yield from ask(dict.fromkeys(order.parties, request))
    union = ColumnUnion({party: prepared[party].columns for party in order.parties})
    categories = union.categories()
    bounds = order.privacy.target_bounds if isinstance(order.privacy, GlobalDP) else None
    labels = unite_labels(prepared, criterion, bounds)
    bins = make_bins(union.names, categories, has_names=union.has_names)
    n_rows = sum(reply.size.n_rows for reply in prepared.values())
    _check_size(n_rows, len(union.names))
    without_rows = frozenset(p for p, reply in prepared.items() if reply.size.n_rows == 0)
    drawn = Participants(
        order.parties,
        replace(order.participation, least=least),
        derive_seed(order.seed, "participants", 0),
        without_rows,
    )
    rules = order.parameters.growth_rules(n_rows, len(union.names))
    n_categories = [0 if values is None else min(len(values), 255) for values in categories]
    session = HorizontalSession(
        order,
        aggregation,
        workers,
        {party: prepared[party].size.n_rows for party in order.parties},
        bins,
        CommonColumns(bins.is_categorical, np.array(n_categories), union.has_missing()),
        labels,
        describe_sums(labels, criterion),
        choose_counting(labels, order.privacy, rows_apart=_rows_apart(order, labels)),
        rules,
        drawn,
    )
    agreed = _agreement(session, categories)
    excess = _describe_excess(session)
    note = None if excess is None else {"warning": excess}
    yield from ask(dict.fromkeys(order.parties, agreed), note)
    yield from aggregation.introduce(order.parties)
    yield from _weigh_classes(session)
    return session


def _describe_excess(session: HorizontalSession) -> str | None:
    """Say whether noise exceeds what it hides in a forest of this size; users are warned of it."""
    order, participation = session.order, session.drawn.participation
    if order.privacy is None:
        return None
    n_rows = sum(session.rows.values())
    drawn = order.parameters.sampling(n_rows).n_draws * participation.share
    n_parties = max(participation.least, round(len(session.present) * participation.share))
    growth = NoisyGrowth(
        max(1.0, drawn),
        n_parties,
        session.labels.n_classes,
        session.rules.min_rows_leaf,
        count_queries(order.parameters, session.rules),
    )
    return describe_excess(order.privacy, growth)


def _check_size(n_rows: int, n_columns: int) -> None:
    if n_rows == 0:
        raise DataError.stating("No party has a row; there is nothing to learn from.")
    if n_columns == 0:
        raise DataError.stating("No party has a column; there is nothing to learn from.")


def _agreement(session: HorizontalSession, categories: Sequence[Categories]) -> AgreeOnTable:
    order, labels, rules = session.order, session.labels, session.rules
    drawn, is_protected = session.drawn, session.aggregation.is_protected
    classes = () if labels.classes is None else tuple(labels.classes.tolist())
    queries = count_queries(order.parameters, rules)
    return AgreeOnTable(
        session.bins.names,
        tuple(categories),
        labels.class_dtype,
        classes,
        labels.target_unit,
        labels.target_offset,
        labels.weight_unit,
        describe_protection(order.privacy, labels.n_classes, queries),
        order.parameters.n_estimators,
        min(rules.max_depth, NO_DEPTH_LIMIT),
        rules.features_per_node,
        order.least_rows,
        order.both_sides,
        session.counting.layout.rows_apart,
        count_losses(len(order.parties), order.privacy),
        tuple(drawn.blocks()) if is_protected else (),
        tuple(sorted(drawn.without_rows)) if is_protected else (),
        _share_draw(drawn) if is_protected else None,
    )


def _share_draw(drawn: Participants) -> SharedDraw:
    seed = memoryview(drawn.seed.to_bytes(8, "little"))
    return SharedDraw(seed, drawn.participation.share, drawn.participation.least)


def _rows_apart(order: HorizontalOrder, labels: LabelUnion) -> bool:
    """Return whether a row may not weigh one: it has a sample weight, or is drawn twice."""
    return labels.weight_unit > 0.0 or order.parameters.bootstrap


def _weigh_classes(session: HorizontalSession) -> Conversation[None]:
    """Set class weights; for "balanced", count the classes of all parties first."""
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


def _count_classes(session: HorizontalSession) -> Conversation[NDArray[np.float64]]:
    """Sum the weight of each class over all tables, with the aggregation of the run."""
    nothing = memoryview(b"")
    question = CutsQuestion(0, nothing, nothing, nothing, nothing, whole_table=True)
    encoded = msgspec.msgpack.encode(question)
    segment = Segment(session.present, encoded, session.counting.width)
    gathered = yield from session.aggregation.gather(session.next_step(), [segment], {})
    if gathered.lost:
        raise TooFewParties(
            f"party {min(gathered.lost)!r} went away before training began; start again"
        )
    sums = session.counting.read(gathered.sums[0].reshape(1, -1), session.workers)
    return sums[0, : session.labels.n_classes].astype(np.float64)

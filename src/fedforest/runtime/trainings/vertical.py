"""Federated Forest as a training: parties hold different columns of the same rows."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedforest.errors import ConfigurationError
from fedforest.privacy.randomized_response import RandomizedResponse
from fedforest.protocol.aggregation.introduction import check_pins
from fedforest.protocol.asking import Conversation, Handler, Message, check
from fedforest.protocol.contract import Gate
from fedforest.protocol.vertical import messages
from fedforest.protocol.vertical.contract import CONTRACT, VerticalDeclared
from fedforest.protocol.vertical.coordinator import train
from fedforest.protocol.vertical.encrypted import messages as encrypted
from fedforest.protocol.vertical.labels import LabelSource, TargetValues, number_classes
from fedforest.protocol.vertical.order import TrainedForest, VerticalOrder
from fedforest.protocol.vertical.out_of_bag import check_earlier_votes
from fedforest.protocol.vertical.party import PartyModel, VerticalParty
from fedforest.runtime.disclosure.encrypted_leakage import report_encrypted_forest
from fedforest.runtime.disclosure.leakage import (
    VerticalRun,
    describe_spending,
    report_vertical_forest,
)
from fedforest.runtime.disclosure.run_leakage import Conclusions
from fedforest.runtime.driver import Exchange
from fedforest.runtime.messages.orders import TrainVertical
from fedforest.runtime.messages.results import Alignment, VerticalResult
from fedforest.runtime.messages.roles import RowChoice, VerticalRole
from fedforest.runtime.messages.terms import Terms
from fedforest.runtime.trainings import encrypted_labels, forests
from fedforest.runtime.trainings.alignment import check_alignment
from fedforest.runtime.trainings.base import (
    NO_START,
    Circumstances,
    CoordinatorMeans,
    CoordinatorStore,
    Ended,
    Reports,
    Start,
    Training,
)
from fedforest.runtime.trainings.class_names import check_own_classes
from fedforest.runtime.trainings.label_columns import (
    check_label_party,
    read_class_weight,
    read_weights,
)
from fedforest.runtime.trainings.party_task import (
    Classes,
    Demands,
    Holdings,
    KeptOutcome,
    PartyData,
    PartyMeans,
    PartyStores,
)
from fedforest.runtime.trainings.warm_start import CoordinatorModel, check_growing_on
from fedforest.tree.canonical_json import JsonValue
from fedforest.tree.table.class_labels import pack_labels, unpack_labels
from fedforest.tree.table.class_weights import keep_weights
from fedforest.tree.table.pieces import TableSource
from fedforest.tree.table.target_checks import (
    check_class_labels,
    check_regression_target,
)

_REQUESTS: tuple[type[Message], ...] = tuple(
    dict.fromkeys((*messages.REQUESTS, *encrypted.REQUESTS))
)


class VerticalColumns(NamedTuple):
    """The inputs of a role: its data set, and the forest that gets further trees."""

    table: TableSource
    labels: LabelSource | None
    classes: Classes = None
    before: PartyModel | None = None
    # labels numbered by the classes of the whole table, if rows of it were chosen: the classes of
    # few rows are their labels, and are told in clear
    of_whole: tuple[LabelSource, Classes] | None = None


@dataclass(slots=True)
class VerticalWork:
    """A vertical training at one party."""

    party: VerticalParty
    handler: Handler  # that answers the coordinator within the contract of the run
    classes: Classes
    is_alone: bool = False  # a baseline, to be deleted after it is scored
    requests: tuple[type[Message], ...] = messages.REQUESTS

    def keep(self, kept: KeptOutcome, stores: PartyStores) -> JsonValue:
        """Store the party's partial forest."""
        share = self.party.model(kept.n_trees)
        has_trees = share.partial.shape.n_trees > 0 or share.bins.n_features == 0
        check(has_trees, "the run has no complete tree, so there is no model to keep")
        classes = None if self.classes is None else pack_labels(self.classes)
        about: dict[str, JsonValue] = {"model": kept.id, "classes": classes}
        if self.is_alone:
            about["alone"] = True
        stores.models.keep_partial(kept, share, about)
        return classes


class VerticalTraining(
    Training[TrainVertical, VerticalRole, VerticalColumns, TrainedForest, VerticalResult]
):
    """A forest over the columns of all parties."""

    protocol = "vertical"
    order_type = TrainVertical
    role_type = VerticalRole
    result_type = VerticalResult
    requests = _REQUESTS
    user_learns = (
        "the number and the importance of each party's columns, the names of classes, "
        "and out-of-bag scores and votes if they were asked for"
    )

    def check(self, order: TrainVertical) -> None:
        """Refuse an invalid request before any party is asked."""
        forests.check_validation(order, is_noisy=order.label_epsilon is not None)
        check_label_party(order)
        encrypted_labels.check_order(order)
        if order.label_epsilon is not None:
            RandomizedResponse(order.label_epsilon).check()
        if order.align:
            check_alignment(order.data)
        if order.align and order.continues is not None:
            raise ConfigurationError(
                "a warm start goes on with the rows of the training before, aligned or not; leave "
                "align out"
            )

    def start(
        self, order: TrainVertical, models: CoordinatorStore, alignment: Alignment | None
    ) -> Start:
        """Choose the rows; further trees of a forest use the rows it was trained on."""
        if order.continues is None:
            chosen = None if alignment is None else alignment.id
            return Start(alignment, forests.choose_rows(order, chosen))
        earlier = models.read(order.continues)
        check_growing_on(order, earlier)
        return Start(alignment, earlier.rows, earlier)

    def roles(
        self, order: TrainVertical, rows: RowChoice | None = None
    ) -> Mapping[str, VerticalRole]:
        """Return the role of each party; only the label party's role names the label."""
        return {
            party: VerticalRole(
                data=data,
                is_regression=order.is_regression,
                label=order.label if party == order.label_party else None,
                weight=order.weight if party == order.label_party else None,
                class_weight=order.class_weight if party == order.label_party else None,
                continues=order.continues,
                with_left_out=order.with_left_out and party == order.label_party,
                rows=rows,
                label_party=order.label_party if order.encrypts_labels else None,
                peers=encrypted_labels.list_peers(order, party),
            )
            for party, data in order.data.items()
        }

    def terms(self, order: TrainVertical) -> Terms:
        """Return the terms that parties check against their policies."""
        return forests.declare(
            order,
            label_epsilon=order.label_epsilon,
            encrypts_labels=order.encrypts_labels,
            votes_left_out=order.with_left_out,
            tells_votes=order.out_of_bag,
            aligns=bool(order.align),
        )

    def conversation(
        self, order: TrainVertical, means: CoordinatorMeans
    ) -> Conversation[TrainedForest]:
        """Start the coordinator's side of the training."""
        before = means.earlier
        training = VerticalOrder(
            tuple(order.data),
            order.label_party,
            order.parameters,
            _seed_of(order, before),
            None if order.label_epsilon is None else RandomizedResponse(order.label_epsilon),
            order.out_of_bag,
            order.hard_votes,
            order.early_stopping,
            order.batch_bytes or means.batch_bytes,
            None if before is None else before.outline,
            0 if before is None else before.n_trees_seeded,
            means.n_slots,
        )
        if order.encrypts_labels:
            return encrypted_labels.lead(training, means)
        return train(training, means.workers)

    def keep(
        self,
        order: TrainVertical,
        trained: TrainedForest,
        start: Start,
        model: str,
        models: CoordinatorStore,
    ) -> None:
        """Store the outline, with what further trees will need."""
        models.keep(model, self.coordinator_model(order, trained, start))

    def coordinator_model(
        self, order: TrainVertical, trained: TrainedForest, start: Start = NO_START
    ) -> CoordinatorModel:
        """Make what the coordinator stores of the forest."""
        before = start.earlier
        return CoordinatorModel(
            trained.outline,
            tuple(order.data),
            order.parameters.n_estimators,
            _seed_of(order, before),
            start.rows,
            label_party=order.label_party,
            label_epsilon=order.spent_epsilon + (0.0 if before is None else before.label_epsilon),
            is_encrypted=order.encrypts_labels,
        )

    def result(self, order: TrainVertical, trained: TrainedForest, ended: Ended) -> VerticalResult:
        """Return the user's result."""
        columns = dict(zip(order.data, trained.columns_per_party, strict=True))
        return VerticalResult(
            model=ended.model,
            n_trees=trained.outline.shape.n_trees,
            n_rows=trained.n_rows,
            columns_per_party=columns,
            importances={
                party: None if order.encrypts_labels else _pack(values)
                for party, values in trained.importances.items()
            },
            classes=ended.classes.get(order.label_party),
            out_of_bag_curve=_pack(trained.out_of_bag_curve),
            out_of_bag_votes=_pack(trained.out_of_bag_votes),
            n_steps=list(trained.n_steps),
            n_extra_steps=list(trained.n_extra_steps),
            smallest_group=trained.smallest_group,
            alignment=ended.alignment,
        )

    def n_classes(self, order: TrainVertical, trained: TrainedForest) -> int:  # noqa: ARG002 - the forest says it
        """Return the classes of the outline."""
        return trained.outline.n_classes

    def named_classes(self, result: VerticalResult) -> Sequence[Any] | None:
        """Return the class names."""
        return None if result.classes is None else unpack_labels(result.classes).tolist()

    def reports(self, order: TrainVertical, result: VerticalResult, how: Circumstances) -> Reports:
        """Report the leakage, and what privacy it cost."""
        n_columns = sum(result.columns_per_party.values())
        run = VerticalRun(
            parties=tuple(order.data),
            label_party=order.label_party,
            is_regression=order.is_regression,
            label_epsilon=how.spent_before + order.spent_epsilon,
            is_weighted=order.weight is not None,
            has_class_weights=order.class_weight is not None,
            out_of_bag=order.with_left_out,
            votes_released=order.out_of_bag,
            draws_rows=order.parameters.draws_rows,
            min_rows_leaf=order.parameters.growth_rules(result.n_rows, n_columns).min_rows_leaf,
            in_federation=how.in_federation,
            from_zero=order.parameters.scored_by.scores.from_zero,
            encrypts_labels=order.encrypts_labels,
        )
        report = report_encrypted_forest if run.encrypts_labels else report_vertical_forest
        return Reports(report(run), describe_spending(run))

    def conclude(
        self,
        order: TrainVertical,
        result: VerticalResult,
        exchanges: Sequence[Exchange],
        spent_before: float,
    ) -> Conclusions:
        """Return figures, and the leakage of all messages together."""
        size = result.n_rows, sum(result.columns_per_party.values())
        least = 1 if order.with_left_out else order.parameters.growth_rules(*size).min_rows_leaf
        figures = forests.count_forest(order, exchanges, size, (least, result.smallest_group))
        figures["label_epsilon_spent"] = forests.limited(order.spent_epsilon)
        if order.continues is not None:
            all_fits = spent_before + order.spent_epsilon
            figures["label_epsilon_spent_by_all_fits"] = forests.limited(all_fits)
        reports = self.reports(order, result, Circumstances(spent_before))
        return Conclusions(figures, reports.leakage, frozenset())

    def demands(self, role: VerticalRole, terms: Terms) -> Demands:
        """Return what the owner of the data must allow."""
        return Demands(
            self.protocol,
            stands_alone=role.is_alone,
            grows_trees=True,
            gives_labels=role.label is not None,
            label_epsilon=terms.label_epsilon,
            encrypts_labels=terms.encrypts_labels,
            peers=role.peers,
            continued_model=role.continues,
        )

    def read(self, role: VerticalRole, data: Any, holdings: Holdings) -> VerticalColumns:
        """Read the columns of the role; further trees need the columns of the forest."""
        if role.peers:
            check_pins(role.peers, holdings.keys.pins)
        rows = holdings.take_rows(data, role.rows)
        before: PartyModel | None = None
        known: Classes = None
        if role.continues is not None:
            before, known = holdings.models.read(role.continues)
        everybody: Classes = None
        if role.label is not None and not role.is_regression and rows is not data:
            # first: what is wrong with labels must not depend on the rows that were chosen
            whole = check_class_labels(data.column(role.label), data.n_rows)
            everybody = check_own_classes(np.unique(whole)) if known is None else None
        labels, classes = (None, None)
        if role.label is not None:
            labels, classes = _read_labels(role, rows, known, everybody)
        of_whole = None if everybody is None else _read_labels(role, rows, everybody)
        if not role.has_columns:
            table = rows.select(())
        elif before is not None:
            table = rows.select(before.bins.names)
        else:
            table = rows.features((role.label, role.weight))
        columns = VerticalColumns(table, labels, classes, before, of_whole)
        self.check_votes(role, columns)
        return columns

    def check_votes(self, role: VerticalRole, columns: VerticalColumns) -> None:
        """Refuse out-of-bag votes if earlier trees of the forest have none of the same rows."""
        if columns.before is not None and role.with_left_out:
            check_earlier_votes(columns.before.out_of_bag, columns.table.n_rows)

    def work(self, role: VerticalRole, columns: VerticalColumns, means: PartyMeans) -> VerticalWork:
        """Make a fresh handler."""
        terms, before = means.terms, columns.before
        parameters = forests.declared_forest(terms)
        labels, classes = columns.labels, columns.classes
        is_protected = terms.label_epsilon is not None or terms.encrypts_labels
        if is_protected and columns.of_whole is not None:
            labels, classes = columns.of_whole
        declared = VerticalDeclared(
            parameters,
            columns.table.n_rows,
            0 if before is None else before.partial.shape.n_trees,
            terms.label_epsilon,
            terms.votes_left_out,
            terms.tells_votes,
        )
        if terms.encrypts_labels:
            party = encrypted_labels.make_party(role, columns.table, labels, before, means)
            gate = encrypted_labels.make_gate(declared, party, means)
            return VerticalWork(party, gate, classes, role.is_alone, encrypted.REQUESTS)
        party = VerticalParty(
            columns.table,
            means.randomness.of("training"),
            labels=labels,
            model=before,
            approve=means.accountant.approve,
            max_depth=parameters.depth_limit,
            workers=means.workers,
            allocate=means.allocate,
            rows=None if means.make_rows is None else means.make_rows(columns.table),
        )
        gate = Gate(CONTRACT, declared, party, means.accountant)
        return VerticalWork(party, gate, classes, role.is_alone)


VERTICAL = VerticalTraining()


def _seed_of(order: TrainVertical, before: CoordinatorModel | None) -> int:
    """Return the seed of all trees of the forest, earlier ones included."""
    seed = order.seed if before is None else before.seed
    assert seed is not None, "drawn before a run is stored"
    return seed


def _read_labels(
    role: VerticalRole, data: PartyData, known: Classes, everybody: Classes = None
) -> tuple[LabelSource, Classes]:
    """Read the labels in the protocol's form, and the classes in order.

    `everybody` are the classes of the whole table, which class weights may name, too.
    """
    assert role.label is not None
    column = data.column(role.label)
    weights = read_weights(role, data, len(column))
    if role.is_regression:
        return TargetValues(check_regression_target(column, len(column)), weights), None
    labels = check_class_labels(column, len(column))
    class_weight = read_class_weight(role.class_weight)
    if everybody is not None:
        class_weight = keep_weights(class_weight, everybody, labels)
    source, classes = number_classes(labels, weights, class_weight, known)
    return source, check_own_classes(classes)


def _pack(values: NDArray[np.float64] | None) -> bytes | None:
    return None if values is None else np.ascontiguousarray(values, "<f8").tobytes()

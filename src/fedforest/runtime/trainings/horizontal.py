"""Federated Extra-Trees as a training: parties hold different rows of the same columns."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple, cast

import msgspec
import numpy as np
from numpy.typing import NDArray

from fedforest.errors import ConfigurationError
from fedforest.privacy.composition import (
    PrivacySpending,
    spend_global,
    spend_local,
    spend_nothing_private,
)
from fedforest.privacy.global_dp import GlobalDP
from fedforest.privacy.local_dp import LocalDP
from fedforest.privacy.queries import Queries
from fedforest.protocol.aggregation import messages as counting
from fedforest.protocol.aggregation.base import LEAST_PARTICIPANTS, check_min_participants
from fedforest.protocol.aggregation.introduction import check_pins
from fedforest.protocol.aggregation.plugs import Plug, make_aggregation, make_aggregator
from fedforest.protocol.asking import Conversation, Handler, Message, check
from fedforest.protocol.contract import Gate
from fedforest.protocol.horizontal import messages
from fedforest.protocol.horizontal.contract import CONTRACT, HorizontalDeclared
from fedforest.protocol.horizontal.coordinator.training import train
from fedforest.protocol.horizontal.labels import PartyLabels
from fedforest.protocol.horizontal.order import HorizontalOrder, Participation, TrainedExtraTrees
from fedforest.protocol.horizontal.party.training import HorizontalParty
from fedforest.runtime.disclosure.horizontal_leakage import HorizontalRun, report_horizontal_forest
from fedforest.runtime.disclosure.known_attacks import EXACT_SUMS, NOISY_SUMS, PARTIES_CHANGE
from fedforest.runtime.disclosure.run_leakage import Conclusions
from fedforest.runtime.driver import Exchange
from fedforest.runtime.messages.orders import TrainHorizontal
from fedforest.runtime.messages.results import Alignment, HorizontalResult
from fedforest.runtime.messages.roles import HorizontalRole, Role, RowChoice
from fedforest.runtime.messages.terms import Terms
from fedforest.runtime.trainings import forests
from fedforest.runtime.trainings.base import (
    Circumstances,
    CoordinatorMeans,
    CoordinatorStore,
    Ended,
    Reports,
    Start,
    Training,
)
from fedforest.runtime.trainings.label_columns import read_class_weight, read_weights
from fedforest.runtime.trainings.party_task import (
    Classes,
    Demands,
    Holdings,
    KeptOutcome,
    PartyData,
    PartyMeans,
    PartyStores,
    RememberedRows,
    Sums,
)
from fedforest.tree.canonical_json import JsonValue
from fedforest.tree.files.forests import StoredForest, decode_forest, open_forest
from fedforest.tree.table.pieces import TableSource
from fedforest.tree.table.target_checks import check_class_labels, check_regression_target

REQUESTS = (*messages.REQUESTS, *counting.REQUESTS)


class HorizontalColumns(NamedTuple):
    """The features and labels that a role needs of a data set, and what it knows rows by.

    Without an identity, as in one process, rows are numbered: they are remembered no longer than
    the key of the training.
    """

    table: TableSource
    labels: PartyLabels
    identity: RememberedRows | None = None
    whole: NDArray[Any] | None = None  # classes of the whole table, if rows of it were chosen


@dataclass(slots=True)
class HorizontalWork:
    """A horizontal training at one party."""

    party: HorizontalParty
    handler: Handler  # that answers the coordinator within the contract of the run
    is_noisy: bool = False
    requests: tuple[type[Message], ...] = REQUESTS

    def keep(self, kept: KeptOutcome, stores: PartyStores) -> JsonValue:
        """Store the whole model; its classes are in its file."""
        file = bytes(self.party.model_file)
        stores.models.keep_forest(kept, file, is_noisy=self.is_noisy)
        return None


class HorizontalTraining(
    Training[
        TrainHorizontal, HorizontalRole, HorizontalColumns, TrainedExtraTrees, HorizontalResult
    ]
):
    """Extra-trees over the rows of all parties."""

    protocol = "horizontal"
    order_type = TrainHorizontal
    role_type = HorizontalRole
    result_type = HorizontalResult
    requests = REQUESTS
    user_learns = "the finished model: every split with its threshold, and what every leaf says"
    is_whole_at_parties = True

    def check(self, order: TrainHorizontal) -> None:
        """Refuse an invalid request before any party is asked."""
        forests.check_validation(order, is_noisy=order.privacy is not None)
        plug, noise = order.plug(), order.noise()
        if plug != "plain":
            plug.check(len(order.data))
        is_protected = plug != "plain"
        check_min_participants(order.min_participants, len(order.data), is_protected=is_protected)
        if noise is not None:
            noise.check(is_regression=order.is_regression)
            order.parameters.check_noise()
        if isinstance(noise, GlobalDP):
            noise.check_depth(order.parameters.max_depth)

    def start(
        self,
        order: TrainHorizontal,
        models: CoordinatorStore,  # noqa: ARG002 - forests are trained once
        alignment: Alignment | None,
    ) -> Start:
        """Choose the rows that are not held out."""
        return Start(alignment, forests.choose_rows(order, None))

    def roles(
        self, order: TrainHorizontal, rows: RowChoice | None = None
    ) -> Mapping[str, HorizontalRole]:
        """Return the role of each party; protected sums need the others' fingerprints."""
        is_protected = order.aggregation is not None
        return {
            party: HorizontalRole(
                data=data,
                is_regression=order.is_regression,
                label=order.label,
                weight=order.weight,
                aggregation=order.aggregation,
                least_participants=order.least,
                peers=tuple(other for other in order.data if is_protected and other != party),
                rows=rows,
            )
            for party, data in order.data.items()
        }

    def terms(self, order: TrainHorizontal) -> Terms:
        """Return the terms that parties check against their policies."""
        return forests.declare(
            order, privacy=order.privacy, scope=order.scope, share=order.share_of_sums
        )

    def conversation(
        self, order: TrainHorizontal, means: CoordinatorMeans
    ) -> Conversation[TrainedExtraTrees]:
        """Start the coordinator's side of the training."""
        assert order.seed is not None
        training = HorizontalOrder(
            tuple(order.data),
            order.parameters,
            order.seed,
            order.noise(),
            Participation(order.participation, order.participation_scope, order.least),
            read_class_weight(order.class_weight),
            batch_bytes=order.batch_bytes or means.batch_bytes,
        )
        aggregation = make_aggregation(
            order.plug(),
            means.run,
            means.randomness,
            is_noisy=order.privacy is not None,
            least_participants=max(LEAST_PARTICIPANTS, order.least),
        )
        return train(training, aggregation, means.workers)

    def result(
        self,
        order: TrainHorizontal,  # noqa: ARG002 - what was trained says all
        trained: TrainedExtraTrees,
        ended: Ended,
    ) -> HorizontalResult:
        """Return the user's result: the model that every party holds."""
        return HorizontalResult(
            model=ended.model,
            file=cast("bytes", trained.model_file),  # written as it is, without a copy
            n_rows=trained.n_rows,
            candidates_per_node=trained.candidates_per_node,
            n_trees_begun=trained.n_trees_begun,
            lost=list(trained.lost),
            smallest_group=trained.smallest_group,
        )

    def named_classes(self, result: HorizontalResult) -> Sequence[Any] | None:
        """Return the class names."""
        classes = open_forest(result.file).classes
        return None if classes is None else classes.tolist()

    def reports(
        self, order: TrainHorizontal, result: HorizontalResult, how: Circumstances
    ) -> Reports:
        """Report the leakage, and what privacy it cost."""
        run = _describe_run(order, result, how.forest or decode_forest(result.file), how)
        return Reports(report_horizontal_forest(run), run.spending.describe())

    def conclude(
        self,
        order: TrainHorizontal,
        result: HorizontalResult,
        exchanges: Sequence[Exchange],
        spent_before: float,
    ) -> Conclusions:
        """Return figures, and the leakage of all messages together."""
        how = Circumstances(spent_before)
        run = _describe_run(order, result, decode_forest(result.file), how)
        size = result.n_rows, run.n_columns
        smallest = 1, result.smallest_group  # cuts are counted before it is known how even they are
        figures = forests.count_forest(order, exchanges, size, smallest)
        figures["label_epsilon_spent"] = forests.limited(run.spending.epsilon)
        facts = {EXACT_SUMS if order.privacy is None else NOISY_SUMS}
        if order.participation < 1.0 and order.participation_scope == "step":
            facts.add(PARTIES_CHANGE)
        return Conclusions(figures, report_horizontal_forest(run), frozenset(facts))

    def demands(self, role: HorizontalRole, terms: Terms) -> Demands:
        """Return what the owner of the data must allow."""
        aggregation = "plain" if role.aggregation is None else role.aggregation.name.lower()
        sums = Sums(aggregation, role.least_participants, terms.noise_name, terms.scope)
        return Demands(self.protocol, grows_trees=True, sums=sums, peers=role.peers)

    def read(self, role: HorizontalRole, data: Any, holdings: Holdings) -> HorizontalColumns:
        """Read the columns of the role; check pins before anything of the table is sent."""
        # a party that is told other rows than the rest would be alone in sums over all
        is_aligned = role.rows is not None and role.rows.alignment is not None
        check(not is_aligned, "rows of a horizontal run are not aligned")
        rows: PartyData = holdings.take_rows(data, role.rows)
        whole: Classes = None
        if rows is not data and role.label is not None:
            # first: what is wrong with labels must not depend on the rows that were chosen
            read = check_regression_target if role.is_regression else check_class_labels
            labels = read(data.column(role.label), data.n_rows)
            whole = None if role.is_regression else np.unique(labels)
        columns = read_own_rows(role, rows)._replace(whole=whole)
        if role.aggregation is not None:
            check_pins(role.peers, holdings.keys.pins)
        return columns

    def work(
        self, role: HorizontalRole, columns: HorizontalColumns, means: PartyMeans
    ) -> HorizontalWork:
        """Make a fresh handler."""
        terms, noise = means.terms, means.terms.noise()
        is_noisy = noise is not None
        labels = columns.labels
        if is_noisy:  # classes of chosen rows would tell labels
            labels = replace(labels, whole=columns.whole)
        plug: Plug = "plain" if role.aggregation is None else role.aggregation.make()
        least = max(LEAST_PARTICIPANTS, role.least_participants)
        identity = columns.identity
        context = b"" if identity is None else identity.response_context(role.label)
        response_key = means.keys.response_key(context)
        party = HorizontalParty(
            columns.table,
            labels,
            means.randomness.of("training"),
            make_aggregator(
                plug,
                member=None if plug == "plain" else means.keys.member(means.randomness),
                is_noisy=is_noisy,
                least_participants=least,
            ),
            least_participants=least,
            scope=terms.scope,
            declared=_encode_declared(role, terms),
            response_key=response_key,
            row_keys=None if identity is None else partial(identity.keys, response_key),
            approve=means.accountant.approve,
            target_bounds=noise.target_bounds if isinstance(noise, GlobalDP) else None,
            workers=means.workers,
            allocate=means.allocate,
        )
        declared = HorizontalDeclared(
            forests.declared_forest(terms),
            columns.table.n_rows,
            terms.n_parties,
            noise,
            terms.share,
        )
        gate = Gate(CONTRACT, declared, party, means.accountant)
        return HorizontalWork(party, gate, is_noisy)


HORIZONTAL = HorizontalTraining()


def _encode_declared(role: HorizontalRole, terms: Terms) -> bytes:
    """Encode what all parties of a run are told alike: all but their own data sets and peers."""
    alike = msgspec.structs.replace(role, data="", peers=()), terms
    return msgspec.msgpack.encode(alike, enc_hook=np.generic.item)  # of numbers of estimators


def read_own_rows(role: Role, data: PartyData) -> HorizontalColumns:
    """Read the features and labels of one party."""
    if role.label is None:
        raise ConfigurationError.stating("a party of horizontal training has labels; none is named")
    table = data.features((role.label, role.weight))
    read = check_regression_target if role.is_regression else check_class_labels
    target = read(data.column(role.label), table.n_rows)
    weights = read_weights(role, data, table.n_rows)
    labels = PartyLabels(target, weights, role.is_regression)
    return HorizontalColumns(table, labels, data.identity)


def _spend(
    order: TrainHorizontal, result: HorizontalResult, stored: StoredForest
) -> PrivacySpending:
    """Return the training's largest possible cost to the labels' privacy, not the actual one."""
    depth = order.parameters.max_depth
    grown = int(stored.forest.shape.depths().max(initial=0))
    queries = Queries(
        result.candidates_per_node, grown if depth is None else int(depth), result.n_trees_begun
    )
    noise = order.noise()
    if noise is None:
        return spend_nothing_private(queries)
    if isinstance(noise, LocalDP):
        n_classes = 0 if stored.classes is None else len(stored.classes)
        return spend_local(noise.resolve(n_classes), queries)
    return spend_global(noise.resolve(queries), queries, is_regression=order.is_regression)


def _describe_run(
    order: TrainHorizontal,
    result: HorizontalResult,
    stored: StoredForest,
    how: Circumstances,
) -> HorizontalRun:
    """Collect all values that the report depends on."""
    rules = order.parameters.growth_rules(result.n_rows, stored.forest.n_features)
    plug = order.plug()
    return HorizontalRun(
        n_parties=len(order.data),
        n_trees=order.parameters.n_estimators,
        n_columns=stored.forest.n_features,
        candidates=rules.features_per_node,
        is_regression=order.is_regression,
        aggregation=None if plug == "plain" else plug,
        spending=_spend(order, result, stored),
        participation=order.participation,
        scope=order.participation_scope,
        least_participants=order.least,
        is_weighted=order.weight is not None,
        is_balanced=isinstance(order.class_weight, str),
        has_categories=bool(stored.bins.is_categorical.any()),
        draws_rows=order.parameters.draws_rows,
        min_rows_leaf=rules.min_rows_leaf,
        min_rows_split=rules.min_rows_split,
        is_seeded=how.is_seeded,
        in_federation=how.in_federation,
    )

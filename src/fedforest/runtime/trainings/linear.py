"""Linear models as a training: parties hold different columns of the same rows."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from fedforest.protocol.asking import Conversation, Handler, Message
from fedforest.protocol.contract import Gate
from fedforest.protocol.linear import messages
from fedforest.protocol.linear.contract import CONTRACT, LinearDeclared
from fedforest.protocol.linear.coordinator import LinearOrder, LinearTrained, train
from fedforest.protocol.linear.labels import (
    Labels,
    NumericLabels,
    check_some_weight,
    tell_two_classes,
)
from fedforest.protocol.linear.party import LinearParty
from fedforest.runtime.disclosure.linear_leakage import (
    describe_linear_spending,
    report_linear_training,
)
from fedforest.runtime.disclosure.run_leakage import Conclusions, Figures, count_traffic
from fedforest.runtime.driver import Exchange
from fedforest.runtime.messages.orders import TrainLinear
from fedforest.runtime.messages.results import LinearResult
from fedforest.runtime.messages.roles import LinearRole, RowChoice
from fedforest.runtime.messages.terms import Terms
from fedforest.runtime.recovery.linear_files import NO_COLUMNS
from fedforest.runtime.trainings.base import (
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
from fedforest.tree.canonical_json import JsonValue
from fedforest.tree.table.class_labels import pack_labels, unpack_labels
from fedforest.tree.table.frames import Table
from fedforest.tree.table.target_checks import check_class_labels, check_regression_target


class LinearColumns(NamedTuple):
    """The features and labels that a role needs of a data set."""

    table: Table
    labels: Labels | None = None
    classes: Classes = None


@dataclass(slots=True)
class LinearWork:
    """The training of a linear model at one party."""

    party: LinearParty
    handler: Handler  # that answers the coordinator within the contract of the run
    classes: Classes
    requests: tuple[type[Message], ...] = messages.TRAINING_REQUESTS

    def keep(self, kept: KeptOutcome, stores: PartyStores) -> JsonValue:
        """Store the coefficients of the party's columns."""
        classes = None if self.classes is None else pack_labels(self.classes)
        about: dict[str, JsonValue] = {"model": kept.id, "classes": classes}
        share = self.party.share() if self.party.has_columns else NO_COLUMNS
        stores.models.keep_linear(kept, share, about)
        return classes


class LinearTraining(Training[TrainLinear, LinearRole, LinearColumns, LinearTrained, LinearResult]):
    """A linear model over the columns of all parties."""

    protocol = "linear"
    order_type = TrainLinear
    role_type = LinearRole
    result_type = LinearResult
    requests = messages.TRAINING_REQUESTS
    user_learns = (
        "the number of each party's columns, the names of classes, and the intercept of "
        "standardised columns"
    )

    def check(self, order: TrainLinear) -> None:
        """Refuse an invalid request before any party is asked."""
        check_label_party(order)

    def roles(self, order: TrainLinear, rows: RowChoice | None = None) -> Mapping[str, LinearRole]:
        """Return the role of each party; only the label party's role names the label."""
        return {
            party: LinearRole(
                data=data,
                is_regression=order.is_regression,
                label=order.label if party == order.label_party else None,
                weight=order.weight if party == order.label_party else None,
                class_weight=order.class_weight if party == order.label_party else None,
                rows=rows,
            )
            for party, data in order.data.items()
        }

    def terms(self, order: TrainLinear) -> Terms:
        """Return the terms: there are no leaves, and no noise protects labels."""
        return Terms(asker=order.asker, n_parties=len(order.data), most_steps=order.max_iter)

    def conversation(
        self,
        order: TrainLinear,
        means: CoordinatorMeans,  # noqa: ARG002 - nothing is drawn
    ) -> Conversation[LinearTrained]:
        """Start the coordinator's side of the training."""
        training = LinearOrder(
            tuple(order.data),
            order.label_party,
            order.penalty,
            order.is_regression,
            order.max_iter,
            order.tol,
            is_weighted=order.weight is not None,
        )
        return train(training)

    def keep(
        self,
        order: TrainLinear,  # noqa: ARG002 - what was trained says all
        trained: LinearTrained,
        start: Start,  # noqa: ARG002 - the same
        model: str,
        models: CoordinatorStore,
    ) -> None:
        """Store the intercept."""
        models.keep_linear(model, trained)

    def result(self, order: TrainLinear, trained: LinearTrained, ended: Ended) -> LinearResult:
        """Return the user's result."""
        return LinearResult(
            model=ended.model,
            intercept=trained.intercept,
            n_rows=trained.n_rows,
            columns_per_party=dict(trained.columns_per_party),
            n_iter=trained.n_iter,
            has_converged=trained.has_converged,
            classes=ended.classes.get(order.label_party),
        )

    def n_classes(self, order: TrainLinear, trained: LinearTrained) -> int:  # noqa: ARG002 - the order says it
        """Return two, or none for regression."""
        return 0 if order.is_regression else 2

    def named_classes(self, result: LinearResult) -> Sequence[Any] | None:
        """Return the class names."""
        return None if result.classes is None else unpack_labels(result.classes).tolist()

    def reports(self, order: TrainLinear, result: LinearResult, how: Circumstances) -> Reports:  # noqa: ARG002 - the same everywhere
        """Report the leakage; there is no noise."""
        learned = report_linear_training(
            result.columns_per_party,
            order.label_party,
            result.n_iter,
            is_regression=order.is_regression,
        )
        return Reports(learned, describe_linear_spending(is_regression=order.is_regression))

    def conclude(
        self,
        order: TrainLinear,
        result: LinearResult,
        exchanges: Sequence[Exchange],
        spent_before: float,
    ) -> Conclusions:
        """Return figures, and the leakage of all messages together."""
        figures: Figures = {
            "rows": result.n_rows,
            "columns": sum(result.columns_per_party.values()),
            "steps": result.n_iter,
            **count_traffic(exchanges),
            "label_epsilon_spent": None,  # no noise protects labels
        }
        return Conclusions(
            figures, self.reports(order, result, Circumstances(spent_before)).leakage
        )

    def demands(self, role: LinearRole, terms: Terms) -> Demands:  # noqa: ARG002 - nothing is noisy
        """Return what the owner of the data must allow."""
        return Demands(self.protocol, gives_labels=role.label is not None)

    def read(self, role: LinearRole, data: Any, holdings: Holdings) -> LinearColumns:
        """Read the columns of the role."""
        rows: PartyData = holdings.take_rows(data, role.rows)
        table = rows.features((role.label, role.weight)).load()
        if role.label is None:
            return LinearColumns(table)
        column, weights = rows.column(role.label), read_weights(role, rows, table.n_rows)
        row_weights = np.ones(table.n_rows) if weights is None else weights
        if role.is_regression:
            check_some_weight(row_weights)
            targets = check_regression_target(column, table.n_rows)
            return LinearColumns(table, NumericLabels(targets, row_weights))
        known = check_class_labels(column, table.n_rows)
        class_weight = read_class_weight(role.class_weight)
        labels, classes = tell_two_classes(known, row_weights, class_weight)
        return LinearColumns(table, labels, check_own_classes(classes))

    def work(self, role: LinearRole, columns: LinearColumns, means: PartyMeans) -> LinearWork:  # noqa: ARG002 - of the columns
        """Make a fresh handler."""
        accountant = means.accountant
        party = LinearParty(columns.table, labels=columns.labels, approve=accountant.approve)
        gate = Gate(CONTRACT, LinearDeclared(means.terms.most_steps), party, accountant)
        return LinearWork(party, gate, columns.classes)


LINEAR = LinearTraining()

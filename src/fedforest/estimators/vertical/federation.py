"""Vertical forests in a live federation: the estimator is a user of its coordinator.

Who learns what is as in one process. In addition the user learns how many columns each party has,
what they were worth, and the names of classes; the coordinator passes all of it on.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedforest.errors import ConfigurationError
from fedforest.estimators.inputs.live_data import (
    find_label_party,
    list_class_weight,
    name_column,
    name_data,
    name_seed,
    note_exchanges,
)
from fedforest.estimators.vertical.options import PredictionOptions, VerticalOptions
from fedforest.protocol.vertical.out_of_bag import check_votes_kept
from fedforest.runtime.client.connection import Federation
from fedforest.runtime.client.predictions import predict_rows
from fedforest.runtime.driver import ExchangeLog
from fedforest.runtime.messages.orders import PredictVertical, TrainVertical
from fedforest.runtime.messages.results import VerticalResult
from fedforest.tree.table.class_labels import unpack_labels


@dataclass(frozen=True, slots=True, eq=False)
class FederatedModel:
    """A forest whose shares are with the roles of a federation; here is only how to ask for it."""

    transport: str
    id: str
    columns_per_party: Mapping[str, int]
    label_party: str
    n_trees: int
    n_trees_seeded: int
    label_epsilon: float  # spent on the labels by all fits so far
    has_votes: bool  # the label party keeps what all trees say of rows that they left out
    is_encrypted: bool = False  # only the label party knows what leaves say

    @property
    def parties(self) -> tuple[str, ...]:
        """In the order of their columns."""
        return tuple(self.columns_per_party)

    def describe(self) -> dict[str, Any]:
        """Fitted attributes of an estimator that has this model."""
        return {
            "n_features_in_": sum(self.columns_per_party.values()),
            "parties_": self.parties,
            "label_party_": self.label_party,
        }

    def join_columns(self, by_party: Mapping[str, NDArray[np.float64]]) -> NDArray[np.float64]:
        """Figures of all columns, party by party."""
        return np.concatenate([by_party[party] for party in self.parties])

    def find_leaves(self, X: Any, options: PredictionOptions, _n_workers: int) -> NDArray[np.int32]:
        """Return (trees, rows): the leaf that each row of the named data sets reaches."""
        return self._ask(X, options, leaves=True)

    def mean_votes(
        self, X: Any, options: PredictionOptions, _n_workers: int
    ) -> NDArray[np.float64]:
        """Return the mean votes of the trees, (rows, classes), for rows of the named data sets."""
        return self._ask(X, options, leaves=False)

    def _ask(self, X: Any, options: PredictionOptions, *, leaves: bool) -> NDArray[Any]:
        if options.classical:
            raise ConfigurationError(
                "prediction='classical' asks about every row and node by itself, for benchmarks "
                "in one process; choose 'auto', 'one_round' or a lookahead",
                key="prediction",
            )
        order = PredictVertical(
            data=name_data(X),
            model=self.id,
            lookahead=options.lookahead,
            hard_votes=options.hard_votes,
            leaves=leaves,
        )
        with Federation.find(self.transport) as federation:
            return predict_rows(federation, order).values


class VerticalTrainingThere:
    """One training where the parties are: `train` carries it out."""

    kernels = ()  # they are called at the parties

    def __init__(
        self, estimator: Any, options: VerticalOptions, given: tuple[Any, Any, Any]
    ) -> None:
        self._estimator = estimator
        self.before = _find_earlier(estimator)
        self.order = order_training(estimator, options, given, self.before)

    def check_votes(self) -> None:
        """Refuse out-of-bag votes that cannot begin now; the label party checks them, too."""
        if self.before is not None:
            check_votes_kept(self.before.has_votes or not self.order.with_left_out)

    def train(self, log: ExchangeLog) -> tuple[VerticalResult, FederatedModel, dict[str, Any]]:
        """Train; the result, the model, and attributes that labels decide."""
        order, before = self.order, self.before
        with Federation.find(self._estimator.transport) as federation:
            result = federation.train(order, VerticalResult, note_exchanges(log))
        model = FederatedModel(
            self._estimator.transport,
            result.model,
            result.columns_per_party,
            order.label_party,
            result.n_trees,
            order.parameters.n_estimators,
            order.spent_epsilon + (before.label_epsilon if before else 0.0),
            order.with_left_out,
            order.encrypts_labels,
        )
        learned: dict[str, Any] = {"model_id_": result.model}
        if not order.is_regression:
            classes = unpack_labels(result.classes)
            learned |= {"classes_": classes, "n_classes_": len(classes)}
        return result, model, learned


def _find_earlier(estimator: Any) -> FederatedModel | None:
    """Return the model that a warm start grows on."""
    model = getattr(estimator, "_model", None) if estimator.warm_start else None
    if model is None or isinstance(model, FederatedModel):
        return model
    raise ConfigurationError(
        "the forest was trained in this process; a warm start goes on here, with transport=None"
    )


def order_training(
    estimator: Any,
    options: VerticalOptions,
    given: tuple[Any, Any, Any],
    before: FederatedModel | None,
) -> TrainVertical:
    """Make the request for the coordinator."""
    X, y, sample_weight = given
    data = name_data(X)
    return order_forest(
        estimator,
        options,
        data=data,
        label_party=find_label_party(estimator, data),
        label=name_column("y", y),
        weight=None if sample_weight is None else name_column("sample_weight", sample_weight),
        seed=None if before is not None else name_seed(estimator.random_state),
        continues=None if before is None else before.id,
    )


def order_forest(estimator: Any, options: VerticalOptions, **where: Any) -> TrainVertical:
    """The order of a forest with an estimator's parameters; `where` names data, rows and seed."""
    return TrainVertical(
        parameters=options.parameters,
        class_weight=list_class_weight(options.class_weight),
        label_epsilon=None if options.response is None else float(options.response.epsilon),
        encrypts_labels=options.encrypts_labels,
        out_of_bag=bool(estimator.oob_score),
        hard_votes=options.hard_votes,
        early_stopping=options.early_stopping,
        **where,
    )

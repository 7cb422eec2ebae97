"""Linear models in a live federation: the estimator is a user of its coordinator.

Who learns what is as in one process, but for the user: coefficients stay with their parties. The
user learns how many columns each party has and what the two classes are.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedforest.estimators.federated import (
    find_label_party,
    list_class_weight,
    name_column,
    name_data,
    note_exchanges,
)
from fedforest.estimators.fit_log import describe_exchanges
from fedforest.runtime.client import Federation
from fedforest.runtime.driver import ExchangeLog
from fedforest.runtime.linear_leakage import describe_linear_spending, report_linear_training
from fedforest.runtime.orders import PredictLinear, TrainLinear
from fedforest.runtime.results import LinearResult, Predictions
from fedforest.tree.class_labels import unpack_labels


@dataclass(frozen=True, slots=True, eq=False)
class FederatedLinearModel:
    """A model whose shares are with the roles of a federation; here is only how to ask for it."""

    transport: str
    id: str
    columns_per_party: Mapping[str, int]

    def scores(self, X: Any) -> NDArray[np.float64]:
        """The score of each row of the named data sets."""
        order = PredictLinear(data=name_data(X), model=self.id)
        with Federation.find(self.transport) as federation:
            scores: NDArray[np.float64] = federation.ask(order, Predictions).read()[:, 0]
        return scores


def fit(
    estimator: Any, penalty: float, given: tuple[Any, Any, Any], log: ExchangeLog
) -> tuple[FederatedLinearModel, LinearResult, dict[str, Any]]:
    """Train where the parties are; the model, and attributes that say what training gave."""
    order = _order_training(estimator, penalty, given)
    with Federation.find(estimator.transport) as federation:
        result = federation.train(order, LinearResult, note_exchanges(log))
    columns = result.columns_per_party
    learned: dict[str, Any] = {
        "n_features_in_": sum(columns.values()),
        "parties_": tuple(columns),
        "label_party_": order.label_party,
        "model_id_": result.model,
        "n_iter_": result.n_iter,
        "n_exchanges_": len(log.exchanges),
        "bytes_sent_": {party: log.bytes_by_party.get(party, 0) for party in columns},
        "fit_log_": describe_exchanges(log),
        "privacy_spent_": describe_linear_spending(is_regression=order.is_regression),
        "leakage_": report_linear_training(
            columns, order.label_party, result.n_iter, is_regression=order.is_regression
        ),
    }
    if not order.is_regression:
        learned["classes_"] = unpack_labels(result.classes)
    return FederatedLinearModel(estimator.transport, result.model, columns), result, learned


def _order_training(estimator: Any, penalty: float, given: tuple[Any, Any, Any]) -> TrainLinear:
    """What the coordinator is asked for."""
    X, y, sample_weight = given
    data = name_data(X)
    label_party = find_label_party(estimator, data)
    return TrainLinear(
        data=data,
        label=name_column("y", y),
        label_party=label_party,
        is_regression=estimator._is_regression,
        penalty=penalty,
        max_iter=int(estimator.max_iter),
        tol=float(estimator.tol),
        weight=None if sample_weight is None else name_column("sample_weight", sample_weight),
        class_weight=list_class_weight(getattr(estimator, "class_weight", None)),
    )

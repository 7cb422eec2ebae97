"""Linear models in a live federation: the estimator is a user of its coordinator.

Roles learn what they learn in one process, except the user: coefficients stay with their parties.
The user learns how many columns each party has and what the two classes are.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedforest.estimators.inputs.live_data import (
    find_label_party,
    list_class_weight,
    name_column,
    name_data,
    note_exchanges,
)
from fedforest.runtime.client.connection import Federation
from fedforest.runtime.driver import ExchangeLog
from fedforest.runtime.messages.orders import PredictLinear, TrainLinear
from fedforest.runtime.messages.results import LinearResult, Predictions
from fedforest.tree.table.class_labels import unpack_labels


@dataclass(frozen=True, slots=True, eq=False)
class FederatedLinearModel:
    """A model whose shares are with the roles of a federation; here is only how to ask for it."""

    transport: str
    id: str
    columns_per_party: Mapping[str, int]

    def describe(self) -> dict[str, Any]:
        """Fitted attributes of an estimator that has this model."""
        return {"n_features_in_": sum(self.columns_per_party.values())}

    def coefficients(self) -> None:
        """None: coefficients stay with their parties."""

    def scores(self, X: Any, _n_jobs: int | None) -> NDArray[np.float64]:
        """Return the score of each row of the named data sets."""
        order = PredictLinear(data=name_data(X), model=self.id)
        with Federation.find(self.transport) as federation:
            scores: NDArray[np.float64] = federation.ask(order, Predictions).read()[:, 0]
        return scores


class LinearTrainingThere:
    """One training in a live federation, checked when made and carried out by `train`."""

    def __init__(self, estimator: Any, given: tuple[Any, Any, Any]) -> None:
        X, y, sample_weight = given
        data = name_data(X)
        self._transport: str = estimator.transport
        self.order = order_model(
            estimator,
            data=data,
            label_party=find_label_party(estimator, data),
            label=name_column("y", y),
            weight=None if sample_weight is None else name_column("sample_weight", sample_weight),
        )

    def train(self, log: ExchangeLog) -> tuple[LinearResult, FederatedLinearModel, dict[str, Any]]:
        """Train; the result, the model, and attributes that labels decide."""
        with Federation.find(self._transport) as federation:
            result = federation.train(self.order, LinearResult, note_exchanges(log))
        learned: dict[str, Any] = {"model_id_": result.model}
        if not self.order.is_regression:
            learned["classes_"] = unpack_labels(result.classes)
        model = FederatedLinearModel(self._transport, result.model, result.columns_per_party)
        return result, model, learned


def order_model(estimator: Any, **where: Any) -> TrainLinear:
    """The order of a model with an estimator's parameters; `where` names data and columns."""
    return TrainLinear(
        is_regression=estimator._is_regression,
        penalty=estimator._penalty(),
        max_iter=int(estimator.max_iter),
        tol=float(estimator.tol),
        class_weight=list_class_weight(getattr(estimator, "class_weight", None)),
        **where,
    )

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
from fedforest.estimators import warm_start
from fedforest.estimators.federated import (
    find_label_party,
    list_class_weight,
    name_column,
    name_data,
    name_seed,
    note_exchanges,
)
from fedforest.estimators.fit_log import describe_steps
from fedforest.estimators.vertical_options import VerticalOptions
from fedforest.estimators.watching import watch
from fedforest.protocol.vertical.out_of_bag import check_votes_kept
from fedforest.runtime.client import Federation
from fedforest.runtime.driver import ExchangeLog
from fedforest.runtime.leakage import describe_spending, report_vertical_forest
from fedforest.runtime.orders import PredictVertical, TrainVertical
from fedforest.runtime.results import Predictions, VerticalResult
from fedforest.runtime.run_leakage import describe_vertical_run
from fedforest.tree.class_labels import unpack_labels


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

    def find_leaves(self, X: Any, options: VerticalOptions, _n_workers: int) -> NDArray[np.int32]:
        """(trees, rows): the leaf that each row of the named data sets reaches."""
        return self._ask(X, options, leaves=True)

    def mean_votes(self, X: Any, options: VerticalOptions, _n_workers: int) -> NDArray[np.float64]:
        """(rows, classes): what the trees say on average about rows of the named data sets."""
        return self._ask(X, options, leaves=False)

    def _ask(self, X: Any, options: VerticalOptions, *, leaves: bool) -> NDArray[Any]:
        if options.classical:
            raise ConfigurationError(
                "prediction='classical' asks about every row and node by itself, for benchmarks "
                "in one process; choose 'auto', 'one_round' or a lookahead"
            )
        order = PredictVertical(
            data=name_data(X),
            model=self.id,
            lookahead=options.lookahead,
            hard_votes=options.hard_votes,
            leaves=leaves,
        )
        with Federation.find(self.transport) as federation:
            return federation.ask(order, Predictions).read()


def fit(
    estimator: Any, options: VerticalOptions, given: tuple[Any, Any, Any]
) -> tuple[FederatedModel, dict[str, Any]] | None:
    """Train where the parties are; the model, and attributes that say what training gave.

    None where a warm start has no tree left to grow: then nobody is asked for anything.
    """
    before = _find_earlier(estimator)
    order = order_training(estimator, options, given, before)
    if before is not None and _is_grown(order, before):
        return None
    log = ExchangeLog()
    with (
        watch(log, options.parameters.n_estimators, estimator.verbose),
        Federation.find(estimator.transport) as federation,
    ):
        result = federation.train(order, VerticalResult, note_exchanges(log))
    spent = options.label_epsilon + (before.label_epsilon if before else 0.0)
    model = FederatedModel(
        estimator.transport,
        result.model,
        result.columns_per_party,
        order.label_party,
        result.n_trees,
        order.parameters.n_estimators,
        spent,
        order.with_left_out,
    )
    learned: dict[str, Any] = {}
    if not order.is_regression:
        classes = unpack_labels(result.classes)
        learned = {"classes_": classes, "n_classes_": len(classes)}
    curve = _read_values(result.out_of_bag_curve)
    votes = _read_values(result.out_of_bag_votes)
    if votes is not None:
        votes = votes.reshape(-1, learned.get("n_classes_", 1))
    judged = estimator._judge(curve, votes, before is not None)
    return model, learned | _describe(result, log) | judged | _report(order, result, spent)


def _find_earlier(estimator: Any) -> FederatedModel | None:
    """The model that a warm start grows on."""
    model = getattr(estimator, "_model", None) if estimator.warm_start else None
    if model is None or isinstance(model, FederatedModel):
        return model
    raise ConfigurationError(
        "the forest was trained in this process; a warm start goes on here, with transport=None"
    )


def _is_grown(order: TrainVertical, before: FederatedModel) -> bool:
    """Whether the forest has all its trees; refuses what further ones cannot be grown with."""
    n_trees = order.parameters.n_estimators
    warm_start.check_more_trees(n_trees, before.n_trees_seeded)
    if tuple(order.data) != before.parties:
        raise ConfigurationError("a warm start goes on with the same parties in the same order")
    warm_start.check_label_party(before.label_party, order.label_party)
    check_votes_kept(before.has_votes or not order.with_left_out)
    return n_trees == before.n_trees_seeded


def order_training(
    estimator: Any,
    options: VerticalOptions,
    given: tuple[Any, Any, Any],
    before: FederatedModel | None,
) -> TrainVertical:
    """What the coordinator is asked for."""
    X, y, sample_weight = given
    data = name_data(X)
    label_party = find_label_party(estimator, data)
    return TrainVertical(
        data=data,
        label=name_column("y", y),
        label_party=label_party,
        weight=None if sample_weight is None else name_column("sample_weight", sample_weight),
        parameters=options.parameters,
        seed=None if before is not None else name_seed(estimator.random_state),
        class_weight=list_class_weight(options.class_weight),
        label_epsilon=None if options.response is None else float(options.response.epsilon),
        out_of_bag=bool(estimator.oob_score),
        hard_votes=options.hard_votes,
        early_stopping=options.early_stopping,
        continues=None if before is None else before.id,
    )


def _describe(result: VerticalResult, log: ExchangeLog) -> dict[str, Any]:
    """Attributes that say what training took."""
    importances = [_read_values(result.importances[party]) for party in result.columns_per_party]
    sent = log.bytes_by_party
    return {
        "feature_importances_": np.concatenate([part for part in importances if part is not None]),
        "model_id_": result.model,
        "n_exchanges_": len(log.exchanges),
        "n_steps_": tuple(result.n_steps),
        "n_extra_steps_": tuple(result.n_extra_steps),
        "bytes_sent_": {party: sent.get(party, 0) for party in result.columns_per_party},
        "fit_log_": describe_steps(log),
    }


def _report(order: TrainVertical, result: VerticalResult, spent: float) -> dict[str, Any]:
    """Who learned what, and what privacy it cost."""
    run = describe_vertical_run(order, result, spent)
    return {"leakage_": report_vertical_forest(run), "privacy_spent_": describe_spending(run)}


def _read_values(data: bytes | None) -> NDArray[np.float64] | None:
    """Numbers of a result."""
    return None if data is None else np.frombuffer(data, "<f8").copy()

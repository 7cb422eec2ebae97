"""Horizontal extra-trees in a live federation: the model that comes back predicts offline."""

from typing import Any

from fedforest.errors import ConfigurationError
from fedforest.estimators.federated import (
    list_class_weight,
    name_column,
    name_data,
    name_seed,
    note_exchanges,
)
from fedforest.estimators.horizontal_model import HorizontalModel
from fedforest.estimators.horizontal_options import HorizontalOptions
from fedforest.runtime.client import Federation
from fedforest.runtime.driver import ExchangeLog
from fedforest.runtime.orders import Choice, TrainHorizontal
from fedforest.runtime.results import HorizontalResult
from fedforest.tree.forest_file import decode_forest


def order_training(
    estimator: Any, options: HorizontalOptions, given: tuple[Any, Any, Any, Any]
) -> TrainHorizontal:
    """What the coordinator is asked for."""
    X, y, sample_weight, party = given
    if party is not None:
        raise ConfigurationError("with a transport, X names the parties; leave party=None")
    data = name_data(X)
    options.check_input(len(data), is_weighted=sample_weight is not None)
    return TrainHorizontal(
        data=data,
        label=name_column("y", y),
        weight=None if sample_weight is None else name_column("sample_weight", sample_weight),
        parameters=options.parameters,
        seed=name_seed(estimator.random_state),
        class_weight=list_class_weight(options.class_weight),
        aggregation=None if options.aggregation is None else Choice.of(options.aggregation),
        privacy=None if options.privacy is None else Choice.of(options.privacy),
        participation=options.participation,
        participation_scope=options.participation_scope,  # type: ignore[arg-type] # checked before
        min_participants=options.min_participants,
    )


def train(
    transport: str, order: TrainHorizontal, log: ExchangeLog
) -> tuple[HorizontalResult, HorizontalModel]:
    """The result of a training in the federation, and the model, which every party holds."""
    with Federation.find(transport) as federation:
        result = federation.train(order, HorizontalResult, note_exchanges(log))
    stored = decode_forest(result.file)
    return result, HorizontalModel(stored.forest, stored.bins, stored.classes, tuple(order.data))

"""Horizontal extra-trees in a live federation: the model that comes back predicts offline."""

from typing import Any

from fedforest.errors import ConfigurationError
from fedforest.estimators.horizontal.model import HorizontalModel
from fedforest.estimators.horizontal.options import HorizontalOptions
from fedforest.estimators.inputs.live_data import (
    list_class_weight,
    name_column,
    name_data,
    name_seed,
    note_exchanges,
)
from fedforest.runtime.client.connection import Federation
from fedforest.runtime.driver import ExchangeLog
from fedforest.runtime.messages.orders import OptionChoice, TrainHorizontal
from fedforest.runtime.messages.results import HorizontalResult
from fedforest.tree.files.forests import decode_forest


def order_training(
    estimator: Any, options: HorizontalOptions, given: tuple[Any, Any, Any, Any]
) -> TrainHorizontal:
    """Make the request for the coordinator."""
    X, y, sample_weight, party = given
    if party is not None:
        raise ConfigurationError(
            "with a transport, X names the parties; leave party=None", key="party"
        )
    data = name_data(X)
    options.check_input(len(data), is_weighted=sample_weight is not None)
    return order_forest(
        options,
        data=data,
        label=name_column("y", y),
        weight=None if sample_weight is None else name_column("sample_weight", sample_weight),
        seed=name_seed(estimator.random_state),
    )


def order_forest(options: HorizontalOptions, **where: Any) -> TrainHorizontal:
    """The order of a forest with an estimator's parameters; `where` names data, rows and seed."""
    return TrainHorizontal(
        parameters=options.parameters,
        class_weight=list_class_weight(options.class_weight),
        aggregation=None if options.aggregation is None else OptionChoice.of(options.aggregation),
        privacy=None if options.privacy is None else OptionChoice.of(options.privacy),
        participation=options.participation,
        participation_scope=options.participation_scope,  # type: ignore[arg-type] # checked before
        min_participants=options.min_participants,
        **where,
    )


class HorizontalTrainingThere:
    """One training where the parties are: `train` carries it out."""

    kernels = ()  # they are called at the parties
    is_seeded = False  # parties draw from randomness of their own, whatever the seed

    def __init__(
        self, estimator: Any, options: HorizontalOptions, given: tuple[Any, Any, Any, Any]
    ) -> None:
        self._transport: str = estimator.transport
        self.order = order_training(estimator, options, given)

    def train(self, log: ExchangeLog) -> tuple[HorizontalResult, HorizontalModel]:
        """Train; the result, and the model, which every party holds."""
        with Federation.find(self._transport) as federation:
            result = federation.train(self.order, HorizontalResult, note_exchanges(log))
        stored, parties = decode_forest(result.file), tuple(self.order.data)
        return result, HorizontalModel(stored.forest, stored.bins, stored.classes, parties)

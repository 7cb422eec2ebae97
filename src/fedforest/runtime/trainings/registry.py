"""All trainings, found by the type of a request or by name."""

from typing import Any

from fedforest.errors import ConfigurationError
from fedforest.runtime.messages.orders import AnyRun
from fedforest.runtime.trainings.alignment import ALIGNMENT
from fedforest.runtime.trainings.base import Training
from fedforest.runtime.trainings.horizontal import HORIZONTAL
from fedforest.runtime.trainings.linear import LINEAR
from fedforest.runtime.trainings.vertical import VERTICAL

AnyTraining = Training[Any, Any, Any, Any, Any]

TRAININGS: tuple[AnyTraining, ...] = (VERTICAL, HORIZONTAL, LINEAR, ALIGNMENT)
_BY_ORDER = {training.order_type: training for training in TRAININGS}
_BY_NAME = {training.protocol: training for training in TRAININGS}


def training_of(order: AnyRun) -> AnyTraining:
    """Return the training of a request."""
    return _BY_ORDER[type(order)]


def training_named(protocol: str) -> AnyTraining:
    """Return the training of this name."""
    return _BY_NAME[protocol]


def check_run(order: AnyRun) -> None:
    """Refuse an invalid request before any party is asked."""
    if not order.data:
        raise ConfigurationError("no party takes part; name a data set for at least one")
    training_of(order).check(order)

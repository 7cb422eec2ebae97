"""The settings and connections of estimators in a live federation, for any protocol.

There `X` names a data set at each party and `y` the column with the label: rows stay with their
owners, so there is no table to pass.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from fedforest.errors import ConfigurationError
from fedforest.estimators.inputs.validation import draw_seed
from fedforest.runtime.driver import ExchangeLog
from fedforest.runtime.messages.orders import ClassWeight
from fedforest.runtime.messages.results import Exchanged, News

_EXAMPLE = "{'bank': 'loans', 'shop': 'baskets'}"


def name_data(X: Any) -> dict[str, str]:
    """Return the data set that each party takes part with."""
    is_named = isinstance(X, Mapping) and bool(X)
    names = [part for pair in X.items() for part in pair] if is_named else []
    if not is_named or not all(isinstance(name, str) and name for name in names):
        raise ConfigurationError(
            "with a transport, X names a data set at each party, whose rows stay there: "
            f"{_EXAMPLE}",
            key="X",
        )
    return dict(X)


def name_column(name: str, value: Any) -> str:
    """Return the column that holds labels or weights."""
    if not isinstance(value, str) or not value:
        raise ConfigurationError(
            f"with a transport, {name} is the name of a column of the parties' data sets",
            key=name,
        )
    return value


def name_seed(random_state: Any) -> int | None:
    """Return the root seed; None lets the coordinator draw a secret one."""
    return None if random_state is None else draw_seed(random_state)


def list_class_weight(weight: Any) -> ClassWeight:
    """Return class weights as an order holds them."""
    if not isinstance(weight, Mapping):
        result: ClassWeight = weight
        return result
    return [(_plain(label), _plain(value)) for label, value in weight.items()]


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


def note_exchanges(log: ExchangeLog) -> Callable[[News], None]:
    """Return a listener that adds the coordinator's record of a run to the log."""

    def note(event: News) -> None:
        if isinstance(event, Exchanged):
            log.add(event.to_exchange())

    return note


def find_label_party(estimator: Any, data: Mapping[str, str]) -> str:
    """Return the owner of the label: the party that the estimator names, or the first."""
    if estimator.parties is not None:
        raise ConfigurationError(
            "with a transport, X names the parties; leave parties=None", key="parties"
        )
    named = estimator.label_party
    label_party: str = named if named is not None else next(iter(data))
    if label_party not in data:
        raise ConfigurationError(
            f"label_party is {label_party!r}, which is none of the parties", key="label_party"
        )
    return label_party

"""Fill the names of data sets and columns into refusals of parties.

A refusal names no data set and no column, so that it cannot tell a name that only the party knows.
The user's request named them, so the coordinator fills them in from there, and from nowhere else.
"""

from typing import Any

from fedforest.errors import FederationError
from fedforest.runtime.messages.orders import AnyRun
from fedforest.runtime.trainings.registry import training_of
from fedforest.transport.error_table import fill_in, join_refusals


def in_own_words(error: FederationError, order: Any) -> FederationError:
    """Return the same refusals with the names of data sets and columns from the request."""
    refusals = error.refusals or (error,)
    return join_refusals([fill_in(each, _named_by(order, each.party)) for each in refusals])


def _named_by(order: Any, party: str) -> dict[str, Any]:
    """Return the error fields that the request has values for, at one party."""
    if party not in order.data:
        return {}
    columns = _columns_of(order, party)
    return {"data_set": order.data[party], **({"column": columns} if columns else {})}


def _columns_of(order: Any, party: str) -> dict[str, str]:
    """Return the columns that the request names at a party, by use: label, weight."""
    if not isinstance(order, AnyRun):
        return {}
    role = training_of(order).roles(order)[party]
    columns = {"label": role.label, "weight": role.weight}
    return {use: name for use, name in columns.items() if name is not None}

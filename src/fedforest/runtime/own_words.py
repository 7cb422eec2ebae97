"""Refusals of parties in the asker's own words.

A party does not repeat the names that it was asked for, which could be its own: it says that there
is no such data set, not what it was called. Who asked knows that better than anybody, so the
coordinator puts the words of the order where the party left them out. Nothing else is known here.
"""

from typing import Any

from fedforest.errors import DataError, FederationError, PolicyRefusal, UnknownColumn
from fedforest.runtime.orders import TrainHorizontal, TrainLinear, TrainVertical
from fedforest.runtime.run_approval import A_COLUMN, A_DATA_SET
from fedforest.transport.error_table import HIDDEN_NAME, join_refusals, reason_of, reword


def in_own_words(error: FederationError, order: Any) -> FederationError:
    """The same refusal, by the words of an order that names data sets."""
    refusals = error.refusals or (error,)
    return join_refusals([_put_words(refusal, order) for refusal in refusals])


def _put_words(error: FederationError, order: Any) -> FederationError:
    if error.party not in order.data or not isinstance(error, DataError | PolicyRefusal):
        return error
    text, columns = reason_of(error), _columns_of(order, error.party)
    word = repr(order.data[error.party])
    if isinstance(error, PolicyRefusal):
        text = text.replace(f"{A_DATA_SET} is", f"{A_DATA_SET} {word} is")
        return reword(error, text.replace(A_COLUMN, columns) if columns else text)
    text = text.replace(f"data set {HIDDEN_NAME}", f"data set {word}")
    if isinstance(error, UnknownColumn) and columns:
        text = text.replace(f"column {HIDDEN_NAME}", columns)
    return reword(error, text)


def _columns_of(order: Any, party: str) -> str:
    """The columns that an order names at a party: it refused one of them."""
    if not isinstance(order, TrainVertical | TrainHorizontal | TrainLinear):
        return ""
    owner = party if isinstance(order, TrainHorizontal) else order.label_party
    if owner != party:
        return ""
    weight = "" if order.weight is None else f" or {order.weight!r} (weight)"
    return f"column {order.label!r} (label){weight}"

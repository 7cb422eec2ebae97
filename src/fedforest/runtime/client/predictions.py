"""Ask a federation for votes of a vertical forest; those of encrypted labels come sealed.

The asker makes a key for each prediction. The label party seals votes for it, so that a coordinator
that passes keys on as they are reads no prediction.
"""

import secrets
from typing import Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from fedforest.masking.key_agreement import IdentityKey
from fedforest.protocol.payloads import SealedVotes
from fedforest.protocol.vertical.prediction.voting import open_votes
from fedforest.runtime.client.connection import Federation
from fedforest.runtime.messages.orders import PredictVertical
from fedforest.runtime.messages.results import Alignment, Predictions


class Predicted(NamedTuple):
    """Votes (rows, outputs) or leaves (trees, rows), and the alignment of the rows if any.

    Of rows named by ids there are votes only where `is_found`.
    """

    values: NDArray[Any]
    alignment: Alignment | None
    is_found: NDArray[np.bool_] | None = None  # of each id; None: rows were not named by ids


def predict_rows(federation: Federation, order: PredictVertical) -> Predicted:
    """Send a request with a new key, and open the votes if they are sealed for it."""
    key = IdentityKey.from_randomness(secrets.token_bytes)
    asked = msgspec.structs.replace(order, key=key.public)
    told = federation.ask(asked, Predictions)
    is_found = None
    if told.found is not None and order.ids is not None:
        packed = np.frombuffer(told.found, np.uint8)
        is_found = np.unpackbits(packed, count=len(order.ids[0])).astype(bool)
    if not told.sealed:
        return Predicted(told.read(), told.alignment, is_found)
    blocks = [SealedVotes(memoryview(own), memoryview(data)) for own, data in told.sealed]
    votes = open_votes(key, blocks, *told.shape)
    if order.rows is not None:  # each row is voted for once
        votes = votes[np.unique(order.rows, return_inverse=True)[1]]
    return Predicted(votes, told.alignment)

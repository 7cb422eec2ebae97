"""The rows of a prediction under a standing alignment, by their numbers or by their ids.

Who learns what. The coordinator hears the ids that an asker names, from the asker, and which of
them all parties have. Of the parties one alone is told the ids, of rows that it has itself; the
others are told numbers in the common order, which mean rows of their own to them.
"""

from typing import NamedTuple

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from fedforest.errors import ConfigurationError
from fedforest.protocol.asking import blame, check
from fedforest.protocol.payloads import from_bytes
from fedforest.runtime.coordinator.standing_alignments import (
    CoordinatorStandingAlignments,
    StandingRecord,
)
from fedforest.runtime.driver import ask_once
from fedforest.runtime.messages.orders import PredictVertical, StandingName
from fedforest.runtime.messages.party_requests import FindPlaces
from fedforest.runtime.messages.results import Predictions
from fedforest.transport.base import Transport


class NamedRows(NamedTuple):
    """Numbers of rows in the common order of a standing alignment, and which ids have none."""

    version: str
    rows: NDArray[np.int32]
    is_found: NDArray[np.bool_] | None = None  # of each id; None: rows were named

    def place(self, predicted: Predictions) -> Predictions:
        """Say which of the ids that were asked for the predictions are of."""
        if self.is_found is None:
            return predicted
        return replace(predicted, found=np.packbits(self.is_found).tobytes())


def find_served_rows(
    order: PredictVertical,
    transport: Transport,
    standing: CoordinatorStandingAlignments,
    proof: bytes,
) -> NamedRows | None:
    """Find the rows that a request names; None if it names none of a standing alignment."""
    if not isinstance(order.align, StandingName) or (order.rows is None and order.ids is None):
        return None
    if order.rows is not None and order.ids is not None:
        raise ConfigurationError("rows are named by numbers or by ids; leave one out")
    standing.check(order)
    record = standing.read(order.align.standing)
    if order.rows is not None:
        return NamedRows(record.version, _read_rows(order.rows, record.state.n_common))
    return _find_ids(order, record, transport, proof)


def _read_rows(rows: list[int], n_common: int) -> NDArray[np.int32]:
    if rows and max(rows) >= n_common:
        raise ConfigurationError(
            f"the standing alignment has {n_common:,} rows, numbered from 0 on"
        )
    return np.array(rows, np.int32)


def _find_ids(
    order: PredictVertical, record: StandingRecord, transport: Transport, proof: bytes
) -> NamedRows:
    assert order.ids is not None
    party = order.id_party or record.parties[0]
    if party not in order.data:
        raise ConfigurationError(f"{party!r} is none of the parties that could find ids")
    if len({len(texts) for texts in order.ids}) > 1:
        raise ConfigurationError("ids have a text in each of their columns; some have fewer")
    request = FindPlaces(record.version, order.data[party], order.ids, order.asker, proof)
    found = ask_once({party: request}, transport.exchange)[party]
    with blame(party):
        places = from_bytes(found.places, "<i4", len(order.ids[0]), "places")
        in_order = bool((places >= -1).all() and (places < record.state.n_common).all())
        check(in_order, "places are named that the alignment does not have")
    is_found = places >= 0
    return NamedRows(record.version, places[is_found], is_found)

"""Predict over columns of several parties.

A prediction uses no randomness and stores nothing: if a party restarts in the middle, the
coordinator begins the prediction again and gets the same result.
"""

import logging
import secrets
from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from fedforest.errors import ConfigurationError, PredictionForgotten
from fedforest.protocol.asking import Conversation
from fedforest.protocol.linear.coordinator import predict as predict_scores
from fedforest.protocol.payloads import SealedVotes
from fedforest.protocol.vertical.prediction.coordinator import Pace, PredictionOrder, route
from fedforest.protocol.vertical.prediction.plan import MAX_CHOSEN_LOOKAHEAD, plan_for
from fedforest.protocol.vertical.prediction.voting import VoteOrder, vote_by_leaves
from fedforest.runtime.coordinator.alignments import align_for_prediction
from fedforest.runtime.coordinator.serving.named_rows import find_served_rows
from fedforest.runtime.coordinator.standing_alignments import CoordinatorStandingAlignments
from fedforest.runtime.driver import ExchangeLog, ask_once, run
from fedforest.runtime.event_log import log_event
from fedforest.runtime.messages.envelope import (
    MOST_BEGINNINGS,
    RUN_ID_BYTES,
    derive_prediction,
)
from fedforest.runtime.messages.orders import PredictLinear, PredictVertical
from fedforest.runtime.messages.party_requests import BeginPrediction, CountRows, InPrediction
from fedforest.runtime.messages.results import Predictions
from fedforest.runtime.messages.roles import RowChoice
from fedforest.runtime.messages.signed_orders import Submission
from fedforest.runtime.recovery.linear_files import LinearIntercept
from fedforest.runtime.trainings.warm_start import CoordinatorModel
from fedforest.transport.base import MeasuredTransport, Transport
from fedforest.transport.codec import encode
from fedforest.tree.table.frames import common_row_count
from fedforest.tree.workers import Workers

_LOG = logging.getLogger(__name__)
Outcome = TypeVar("Outcome")


class _PredictionTransport:
    """Wraps a prediction's messages; the first to each party names the model and the rows."""

    def __init__(
        self, transport: Transport, begins: Mapping[str, BeginPrediction], prediction: bytes
    ) -> None:
        self._transport = transport
        self._begins = begins
        self._prediction = prediction
        self._n_asked: Counter[str] = Counter()

    def exchange(
        self, requests: Mapping[str, bytes], *, may_lose: bool = False
    ) -> dict[str, bytes]:
        """Send one request to each party and return the replies."""
        self._n_asked.update(requests.keys())
        wrapped = {
            party: encode(
                InPrediction(
                    self._prediction,
                    self._n_asked[party],
                    self._begins[party] if self._n_asked[party] == 1 else None,
                    memoryview(data),
                )
            )
            for party, data in requests.items()
        }
        return self._transport.exchange(wrapped, may_lose=may_lose)


def predict(
    asked: Submission,
    model: CoordinatorModel,
    transport: MeasuredTransport,
    workers: Workers,
    standing: CoordinatorStandingAlignments,
) -> Predictions:
    """Answer a user's request: (rows, outputs) votes, or (trees, rows) leaves."""
    order = asked.order
    assert isinstance(order, PredictVertical)
    _check_parties(order, model)
    if model.is_encrypted and order.ids is not None and not order.leaves:
        raise ConfigurationError(
            "votes of encrypted labels come sealed in the common order, in which who asks by ids "
            "cannot tell whose they are; name rows by their numbers"
        )
    alignment, chosen = None, RowsToPredict(asked=asked)
    served = find_served_rows(order, transport, standing, asked.proof)
    if served is not None and not len(served.rows):
        return served.place(Predictions.of(np.empty((0, model.outline.n_outputs))))
    if served is not None:
        chosen = RowsToPredict(asked=asked, standing=served.version)
        order = msgspec.structs.replace(order, rows=served.rows.tolist(), ids=None)
    elif order.ids is not None:
        raise ConfigurationError("rows are named by ids under a standing alignment; name it")
    elif order.align:
        if order.rows is not None:
            raise ConfigurationError(
                "aligned rows have no numbers that a user knows; predict them all"
            )
        alignment = align_for_prediction(transport, order, standing, asked)
        chosen = RowsToPredict(RowChoice(alignment=alignment.id), asked=asked)
    if model.is_encrypted and not order.leaves:
        votes, n_rows = _vote(order, model, transport, workers, chosen)
        shape = n_rows, model.outline.n_outputs
        predicted = Predictions.of_sealed(votes, shape, alignment)
    else:
        values = predict_rows(order, model, transport, workers, chosen)
        predicted = Predictions.of(values, alignment)
    return predicted if served is None else served.place(predicted)


class RowsToPredict(NamedTuple):
    """The rows of the data sets to predict, and the log of exchanges."""

    choice: RowChoice | None = None
    log: ExchangeLog | None = None
    part_of: str = ""  # the run that is validated
    standing: str | None = None  # the standing alignment whose common order numbers the rows
    asked: Submission | None = None  # by the user; None: a run is validated
    proof: bytes = b""  # of the run


def predict_rows(
    order: PredictVertical,
    model: CoordinatorModel,
    transport: MeasuredTransport,
    workers: Workers,
    chosen: RowsToPredict,
) -> NDArray[Any]:
    """Return (rows, outputs) votes, or (trees, rows) leaves."""
    find_leaves = partial(route, workers=workers)
    leaf_of, _ = _converse(order, model, transport, chosen, find_leaves)
    if order.rows is not None:
        leaf_of = leaf_of[:, np.unique(order.rows, return_inverse=True)[1]]
    return (
        leaf_of if order.leaves else model.votes.mean(leaf_of, workers, hard=bool(order.hard_votes))
    )


def _vote(
    order: PredictVertical,
    model: CoordinatorModel,
    transport: MeasuredTransport,
    workers: Workers,
    chosen: RowsToPredict,
) -> tuple[list[SealedVotes], int]:
    """Return votes that the asker alone can open, of distinct rows, and how many rows they are."""
    if not order.key:
        raise ConfigurationError(
            "labels of this forest are encrypted, and its votes sealed for a key of the asker's; "
            "the request has none"
        )
    asked = VoteOrder(model.label_party, order.key, bool(order.hard_votes))

    def find_votes(task: PredictionOrder) -> Conversation[list[SealedVotes]]:
        leaf_of = yield from route(task, workers)
        return (yield from vote_by_leaves(model.outline.shape, leaf_of, asked))

    return _converse(order, model, transport, chosen, find_votes)


def _converse(
    order: PredictVertical,
    model: CoordinatorModel,
    transport: MeasuredTransport,
    chosen: RowsToPredict,
    begin: Callable[[PredictionOrder], Conversation[Outcome]],
) -> tuple[Outcome, int]:
    """Converse about distinct rows with all parties; return how many rows they are, too.

    The transport decides how long to wait for a party that is killed meanwhile.
    """
    choice, log, part_of, standing, asked, proof = chosen
    proof = proof if asked is None else asked.proof
    rows: memoryview | None = None
    if order.rows is None:
        n_rows, most_levels = _count_rows(order, transport, choice, proof)
    else:  # parties answer once for each row, however often the user named it
        distinct = np.unique(np.array(order.rows, "<i4"))
        n_rows, most_levels = len(distinct), MAX_CHOSEN_LOOKAHEAD
        rows = memoryview(distinct.tobytes())
    begins = {
        party: BeginPrediction(
            order.model, data, rows, choice, order.asker, part_of, standing, proof
        )
        for party, data in order.data.items()
    }
    pace: Pace = transport.network if order.lookahead is None else order.lookahead
    if order.lookahead is None and most_levels < MAX_CHOSEN_LOOKAHEAD:
        pace = plan_for(transport.network, model.routes, n_rows, most_levels)
    task = PredictionOrder(model.outline, model.parties, n_rows, pace, model.routes)
    for n_before in range(MOST_BEGINNINGS):
        carrier = _PredictionTransport(transport, begins, _name_prediction(asked, n_before))
        try:
            return run(begin(task), carrier, log), n_rows
        except PredictionForgotten as error:
            about = {"model": order.model, "party": error.party}
            log_event(_LOG, "prediction begun again", severity=logging.WARNING, **about)
            if n_before == MOST_BEGINNINGS - 1:
                raise
    raise AssertionError("the last beginning returns or raises")


def _name_prediction(asked: Submission | None, n_before: int) -> bytes:
    """Return the id of a prediction: that of a signed request follows from it."""
    if asked is None or asked.id is None:
        return secrets.token_bytes(RUN_ID_BYTES)
    return derive_prediction(asked.id, n_before)


def predict_linear(
    order: PredictLinear, model: LinearIntercept, transport: Transport, asked: Submission
) -> NDArray[np.float64]:
    """Return (rows,) scores after one exchange; a killed party answers when it is back."""
    _check_data(order.data, model.parties)
    begins = {
        party: BeginPrediction(order.model, data, None, None, order.asker, proof=asked.proof)
        for party, data in order.data.items()
    }
    asking = predict_scores(model.holders, model.intercept)
    return run(asking, _PredictionTransport(transport, begins, _name_prediction(asked, 0)))


def _check_data(data: Mapping[str, str], parties: tuple[str, ...]) -> None:
    if data.keys() == set(parties):
        return
    strangers = [f"{name!r} is none" for name in data if name not in parties]
    missing = [f"that of {name!r} is missing" for name in parties if name not in data]
    raise ConfigurationError(
        f"a prediction needs a data set of each party of the model ({', '.join(parties)}): "
        + "; ".join(strangers + missing)
    )


def _check_parties(order: PredictVertical, model: CoordinatorModel) -> None:
    _check_data(order.data, model.parties)
    if order.rows is not None and not order.rows:
        raise ConfigurationError("no rows are asked for; name at least one")


def _count_rows(
    order: PredictVertical, transport: Transport, choice: RowChoice | None, proof: bytes
) -> tuple[int, int]:
    """Return the number of rows, and how many levels all parties let one exchange settle."""
    requests = {
        party: CountRows(order.model, data, choice, order.asker, proof)
        for party, data in order.data.items()
    }
    counts: dict[str, int] = {}
    most_levels = MAX_CHOSEN_LOOKAHEAD
    for party, done in ask_once(requests, transport.exchange).items():
        counts[party] = done.n_rows
        most_levels = min(most_levels, done.largest_lookahead or most_levels)
    return common_row_count(counts), most_levels

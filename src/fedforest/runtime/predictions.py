"""Predictions over columns of several parties as a coordinator's service carries them out.

Nothing is drawn in a prediction and nothing of it is stored: where a party was restarted in the
middle of one, it is begun again and comes to the same.
"""

import logging
import secrets
from collections import Counter
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedforest.errors import ConfigurationError, PredictionForgotten
from fedforest.protocol.asking import blame
from fedforest.protocol.linear.coordinator import predict as predict_scores
from fedforest.protocol.vertical.prediction import Pace, PredictionOrder, route
from fedforest.protocol.vertical.prediction_plan import MAX_CHOSEN_LOOKAHEAD, plan_for
from fedforest.runtime.alignment_runs import align_for_prediction
from fedforest.runtime.coordinator_models import CoordinatorModel
from fedforest.runtime.driver import ExchangeLog, run
from fedforest.runtime.event_log import log_event
from fedforest.runtime.linear_files import LinearIntercept
from fedforest.runtime.orders import PredictLinear, PredictVertical
from fedforest.runtime.party_requests import BeginPrediction, CountRows, Done, InPrediction
from fedforest.runtime.results import Predictions
from fedforest.runtime.roles import RowChoice
from fedforest.transport.base import MeasuredTransport, Transport
from fedforest.transport.codec import decode, encode
from fedforest.tree.table import common_row_count
from fedforest.tree.workers import Workers

_LOG = logging.getLogger(__name__)
MOST_BEGINNINGS = 5  # a party that is restarted more often than that is ill


class _PredictionTransport:
    """Carries a prediction's messages; the first to each party says what it is about."""

    def __init__(self, transport: Transport, begins: Mapping[str, BeginPrediction]) -> None:
        self._transport = transport
        self._begins = begins
        self._prediction = secrets.token_bytes(16)
        self._n_asked: Counter[str] = Counter()

    def exchange(
        self, requests: Mapping[str, bytes], *, may_lose: bool = False
    ) -> dict[str, bytes]:
        """One exchange with the parties asked."""
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
    order: PredictVertical, model: CoordinatorModel, transport: MeasuredTransport, workers: Workers
) -> Predictions:
    """What a user asked for: (rows, outputs) votes, or (trees, rows) leaves."""
    _check_parties(order, model)
    if not order.align:
        return Predictions.of(predict_rows(order, model, transport, workers))
    if order.rows is not None:
        raise ConfigurationError("aligned rows have no numbers that a user knows; predict them all")
    alignment = align_for_prediction(transport, order)
    chosen = RowsToPredict(RowChoice(alignment=alignment.id))
    return Predictions.of(predict_rows(order, model, transport, workers, chosen), alignment)


class RowsToPredict(NamedTuple):
    """Which rows of the data sets are meant, and who hears of exchanges."""

    choice: RowChoice | None = None
    log: ExchangeLog | None = None
    part_of: str = ""  # the run that is validated


def predict_rows(
    order: PredictVertical,
    model: CoordinatorModel,
    transport: MeasuredTransport,
    workers: Workers,
    chosen: RowsToPredict = RowsToPredict(),  # noqa: B008 - it cannot change
) -> NDArray[Any]:
    """(rows, outputs) votes, or (trees, rows) leaves.

    A party that is killed meanwhile is waited for as long as the transport does.
    """
    choice, log, part_of = chosen
    if order.rows is None:
        n_rows, most_levels = _count_rows(order, transport, choice)
    else:
        n_rows, most_levels = len(order.rows), MAX_CHOSEN_LOOKAHEAD
    rows = None if order.rows is None else memoryview(np.array(order.rows, "<i4").tobytes())
    begins = {
        party: BeginPrediction(order.model, data, rows, choice, order.asker, part_of)
        for party, data in order.data.items()
    }
    pace: Pace = transport.network if order.lookahead is None else order.lookahead
    if order.lookahead is None and most_levels < MAX_CHOSEN_LOOKAHEAD:
        pace = plan_for(transport.network, model.routes, n_rows, most_levels)
    task = PredictionOrder(model.outline, model.parties, n_rows, pace, model.routes)
    for n_left in reversed(range(MOST_BEGINNINGS)):
        try:
            leaf_of = run(route(task, workers), _PredictionTransport(transport, begins), log)
            break
        except PredictionForgotten as error:
            log_event(_LOG, "prediction begun again", model=order.model, party=error.party)
            if n_left == 0:
                raise
    return leaf_of if order.leaves else model.votes.mean(leaf_of, workers, hard=order.hard_votes)


def predict_linear(
    order: PredictLinear, model: LinearIntercept, transport: Transport
) -> NDArray[np.float64]:
    """(rows,) scores; one exchange, which a party that is killed answers when it is back."""
    _check_data(order.data, model.parties)
    begins = {
        party: BeginPrediction(order.model, data, None, None, order.asker)
        for party, data in order.data.items()
    }
    asking = predict_scores(model.holders, model.intercept)
    return run(asking, _PredictionTransport(transport, begins))


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
    order: PredictVertical, transport: Transport, choice: RowChoice | None
) -> tuple[int, int]:
    """How many rows there are, and how many levels an exchange may settle at every party."""
    requests = {
        party: encode(CountRows(order.model, data, choice, order.asker))
        for party, data in order.data.items()
    }
    replies = transport.exchange(requests)
    counts: dict[str, int] = {}
    most_levels = MAX_CHOSEN_LOOKAHEAD
    for party, data in replies.items():
        with blame(party):
            done = decode(data, (Done,))
        assert isinstance(done, Done)
        counts[party] = done.n_rows
        most_levels = min(most_levels, done.largest_lookahead or most_levels)
    return common_row_count(counts), most_levels

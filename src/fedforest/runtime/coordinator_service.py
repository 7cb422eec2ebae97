"""A coordinator as a process runs it: orders of users become runs that survive its death.

Runs are worked on one at a time (`run_queue`), predictions at any time. A run is on the disk before
a party hears of it. What a killed coordinator left unfinished is resumed when it starts again, and
a user whose connection broke can watch the run until its result is there.
"""

import logging
import secrets
import threading
from collections.abc import Callable, Collection, Iterator
from pathlib import Path

import msgspec

from fedforest.errors import ConfigurationError, DataError, PolicyRefusal
from fedforest.privacy.randomized_response import Entropy
from fedforest.runtime.complete_models import gather
from fedforest.runtime.coordinator_models import CoordinatorModels
from fedforest.runtime.envelope import RUN_ID_BYTES
from fedforest.runtime.event_log import log_event
from fedforest.runtime.membership import check_members
from fedforest.runtime.orders import (
    AnyOrder,
    AnyRun,
    CancelRun,
    CompleteModel,
    EndRunEarly,
    ListRuns,
    LogOfRun,
    PredictLinear,
    PredictVertical,
    ResumeRun,
    ShowRun,
    TrainHorizontal,
    TrainVertical,
    WatchRun,
    decode_order,
    encode_order,
    sign_order,
)
from fedforest.runtime.owed_ends import OwedEnds
from fedforest.runtime.own_words import in_own_words
from fedforest.runtime.predictions import predict, predict_linear
from fedforest.runtime.results import (
    Accepted,
    AnyEvent,
    ModelFile,
    Predictions,
    RunEvents,
    RunList,
    cut_result,
    encode_event,
)
from fedforest.runtime.run_queue import RunQueue
from fedforest.runtime.run_store import RunStore
from fedforest.runtime.training_runs import Hub, TrainingRuns
from fedforest.runtime.trainings import check_run
from fedforest.tree.workers import ALONE, Workers

_LOG = logging.getLogger(__name__)
_READY_SECONDS = 60.0
WAIT_SECONDS = 60.0  # for parties to connect before a training begins


class CoordinatorService:
    """Carries out the orders of users over the parties of a hub."""

    def __init__(  # noqa: PLR0913 - everything that belongs to a coordinator
        self,
        home: Path,
        hub: Hub,
        workers: Workers = ALONE,
        *,
        wait_seconds: float = WAIT_SECONDS,
        members: Callable[[], Collection[str]] | None = None,
        entropy: Entropy = secrets.token_bytes,
    ) -> None:
        self._hub = hub
        self._members = members  # names of parties that belong to the federation, if that is known
        self._entropy = entropy
        self._workers = workers
        self._store = RunStore(home, entropy)
        self._models = CoordinatorModels(home / "models")
        self._owed = OwedEnds(self._store, hub)
        trainings = TrainingRuns(hub, self._store, self._models, workers, wait_seconds, self._owed)
        self._runs = RunQueue(home, hub, self._store, trainings, self._owed)
        self._records = self._runs.records
        self._is_ready = threading.Event()

    def start(self) -> None:
        """Resume what was left unfinished, and take orders."""
        self._runs.start()
        self._is_ready.set()

    def close(self, timeout_seconds: float = 30.0) -> None:
        """Stop after the exchange that is under way; what is unfinished can be resumed."""
        self._runs.close(timeout_seconds)

    def serve(self, identity: object, data: bytes) -> Iterator[bytes]:
        """The events that answer a user's order; raises what is wrong with it."""
        order = sign_order(decode_order(data), identity)
        self._is_ready.wait(_READY_SECONDS)  # users connect before all runs are known again
        log_event(_LOG, "order", kind=type(order).__name__, user=str(identity))
        for event in self._answer(order, str(identity)):
            yield encode_event(event)

    def _answer(self, order: AnyOrder, user: str) -> Iterator[AnyEvent]:
        if isinstance(order, PredictVertical | PredictLinear):
            yield from cut_result(self._predict(order))
        elif isinstance(order, CompleteModel):
            whole = gather(order, self._models.read(order.model), self._hub)
            yield from cut_result(ModelFile(whole))
        elif isinstance(order, ListRuns):
            yield from cut_result(RunList(self._records.list()))
        elif isinstance(order, ShowRun):
            yield from cut_result(self._records.show(self._run_of(order.run)))
        elif isinstance(order, LogOfRun):
            yield from cut_result(RunEvents(self._records.history.events(self._run_of(order.run))))
        elif isinstance(order, WatchRun):
            yield from self._runs.follow(self._run_of(order.run))
        elif isinstance(order, ResumeRun):
            run = self._run_of(order.run)
            self._runs.resume(run, frozenset(order.without))
            yield from self._runs.follow(run)
        elif isinstance(order, EndRunEarly):
            run = self._run_of(order.run)
            self._runs.resume(run, frozenset(order.without), is_to_end=True)
            yield from self._runs.follow(run)
        elif isinstance(order, CancelRun):
            self._runs.cancel(self._run_of(order.run))
            yield from cut_result(RunList(self._records.list()))
        else:
            run = self._begin(order, user)
            yield Accepted(run.hex())
            yield from self._runs.follow(run)

    def _predict(self, order: PredictVertical | PredictLinear) -> Predictions:
        self._owed.pay(self._hub.connected())  # somebody may come with a share it has yet to keep
        try:
            if isinstance(order, PredictVertical):
                return predict(order, self._models.read(order.model), self._hub, self._workers)
            scores = predict_linear(order, self._models.read_linear(order.model), self._hub)
        except (DataError, PolicyRefusal) as error:
            raise in_own_words(error, order) from None
        return Predictions.of(scores[:, None])

    def _run_of(self, text: str) -> bytes:
        run = bytes.fromhex(text)
        if not self._store.has(run):
            raise ConfigurationError(f"there is no run {text} at this coordinator")
        return run

    def _begin(self, order: AnyRun, user: str) -> bytes:
        """Store a new run, and queue it."""
        check_run(order)
        if self._members is not None:
            check_members(order.data, self._members())
        run = self._entropy(RUN_ID_BYTES)
        seeded = order
        if isinstance(order, TrainVertical | TrainHorizontal) and order.seed is None:
            seeded = msgspec.structs.replace(order, seed=secrets.randbits(63))
        self._store.begin(run, encode_order(seeded)).close()
        self._records.history.begin(run, order, user)
        self._runs.enqueue(run, order=seeded)
        return run

"""The coordinator's service: it turns requests of users into runs that survive a crash.

It works on one run at a time (`queue.py`) and predicts at any time. A run is on disk before any
party hears of it. A restarted coordinator resumes unfinished runs, and a user whose connection
broke can watch the run until its result is there.
"""

import logging
import secrets
import threading
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from fedforest.errors import ConfigurationError, DataError, PolicyRefusal
from fedforest.privacy.randomized_response import Randomness
from fedforest.runtime.coordinator.complete_models import gather
from fedforest.runtime.coordinator.end_notices import OwedEnds
from fedforest.runtime.coordinator.models import CoordinatorModels
from fedforest.runtime.coordinator.predictions import predict, predict_linear
from fedforest.runtime.coordinator.queue import RunQueue
from fedforest.runtime.coordinator.refusal_texts import in_own_words
from fedforest.runtime.coordinator.runs import Hub, TrainingRuns
from fedforest.runtime.event_log import log_event
from fedforest.runtime.membership.members import check_members
from fedforest.runtime.messages.envelope import RUN_ID_BYTES
from fedforest.runtime.messages.orders import (
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
    WatchRun,
    decode_order,
    encode_order,
    replace_seed,
    sign_order,
)
from fedforest.runtime.messages.results import (
    AnyEvent,
    ModelFile,
    Predictions,
    RunAccepted,
    RunEvents,
    RunList,
    cut_result,
    encode_event,
)
from fedforest.runtime.recovery.run_store import RunStore
from fedforest.runtime.trainings.registry import check_run
from fedforest.tree.workers import ALONE, Workers

_LOG = logging.getLogger(__name__)
_READY_SECONDS = 60.0
WAIT_SECONDS = 60.0  # for parties to connect before a training begins


class CoordinatorService:
    """Answer the requests of users with the parties of a hub."""

    def __init__(  # noqa: PLR0913 - everything that belongs to a coordinator
        self,
        home: Path,
        hub: Hub,
        workers: Workers = ALONE,
        *,
        wait_seconds: float = WAIT_SECONDS,
        members: Callable[[], Collection[str]] | None = None,
        randomness: Randomness = secrets.token_bytes,
    ) -> None:
        self._hub = hub
        self._members = members  # names of the federation's parties; None: unknown
        self._randomness = randomness
        self._workers = workers
        self._store = RunStore(home, randomness)
        self._models = CoordinatorModels(home / "models")
        self._owed = OwedEnds(self._store, hub)
        trainings = TrainingRuns(hub, self._store, self._models, workers, wait_seconds, self._owed)
        self._runs = RunQueue(home, hub, self._store, trainings, self._owed)
        self._records = self._runs.records
        self._is_ready = threading.Event()
        self._answers: dict[type[Any], Callable[[Any], Iterator[AnyEvent]]] = {
            PredictVertical: self._predict,
            PredictLinear: self._predict_linear,
            CompleteModel: self._complete,
            ListRuns: self._list,
            ShowRun: self._show,
            LogOfRun: self._tell_log,
            WatchRun: self._watch,
            ResumeRun: self._resume,
            EndRunEarly: self._end_early,
            CancelRun: self._cancel,
        }

    def start(self) -> None:
        """Resume unfinished runs, and accept requests."""
        self._runs.start()
        self._is_ready.set()

    def close(self, timeout_seconds: float = 30.0) -> None:
        """Stop after the current exchange; unfinished runs can be resumed."""
        self._runs.close(timeout_seconds)

    def serve(self, identity: object, data: bytes) -> Iterator[bytes]:
        """Yield the encoded events that answer a user's request; raises if it is invalid."""
        order = sign_order(decode_order(data), identity)
        self._is_ready.wait(_READY_SECONDS)  # users connect before all runs are known again
        log_event(_LOG, "order", kind=type(order).__name__, user=str(identity))
        for event in self._answer(order, str(identity)):
            yield encode_event(event)

    def _answer(self, order: AnyOrder, user: str) -> Iterator[AnyEvent]:
        answer = self._answers.get(type(order))
        return self._train(order, user) if answer is None else answer(order)  # type: ignore[arg-type] # what is not answered begins a run

    def _train(self, order: AnyRun, user: str) -> Iterator[AnyEvent]:
        run = self._begin(order, user)
        yield RunAccepted(run.hex())
        yield from self._runs.follow(run)

    def _complete(self, order: CompleteModel) -> Iterator[AnyEvent]:
        whole = gather(order, self._models.read(order.model), self._hub)
        return cut_result(ModelFile(whole))

    def _list(self, _: ListRuns) -> Iterator[AnyEvent]:
        return cut_result(RunList(self._records.list()))

    def _show(self, order: ShowRun) -> Iterator[AnyEvent]:
        return cut_result(self._records.show(self._run_of(order.run)))

    def _tell_log(self, order: LogOfRun) -> Iterator[AnyEvent]:
        return cut_result(RunEvents(self._records.history.events(self._run_of(order.run))))

    def _watch(self, order: WatchRun) -> Iterator[AnyEvent]:
        return self._runs.follow(self._run_of(order.run))

    def _resume(self, order: ResumeRun) -> Iterator[AnyEvent]:
        run = self._run_of(order.run)
        self._runs.resume(run, frozenset(order.without))
        return self._runs.follow(run)

    def _end_early(self, order: EndRunEarly) -> Iterator[AnyEvent]:
        run = self._run_of(order.run)
        self._runs.resume(run, frozenset(order.without), is_to_end=True)
        return self._runs.follow(run)

    def _cancel(self, order: CancelRun) -> Iterator[AnyEvent]:
        self._runs.cancel(self._run_of(order.run))
        return cut_result(RunList(self._records.list()))

    def _predict(self, order: PredictVertical) -> Iterator[AnyEvent]:
        with self._predicting(order):
            model = self._models.read(order.model)
            return cut_result(predict(order, model, self._hub, self._workers))

    def _predict_linear(self, order: PredictLinear) -> Iterator[AnyEvent]:
        with self._predicting(order):
            scores = predict_linear(order, self._models.read_linear(order.model), self._hub)
            return cut_result(Predictions.of(scores[:, None]))

    @contextmanager
    def _predicting(self, order: PredictVertical | PredictLinear) -> Iterator[None]:
        """Fill names from the request into refusals of parties; send pending end notices first."""
        self._owed.pay(self._hub.connected())  # a party may have yet to store its partial forest
        try:
            yield
        except (DataError, PolicyRefusal) as error:
            raise in_own_words(error, order) from None

    def _run_of(self, text: str) -> bytes:
        run = bytes.fromhex(text)
        if not self._store.has(run):
            raise ConfigurationError(f"there is no run {text} at this coordinator")
        return run

    def _begin(self, order: AnyRun, user: str) -> bytes:
        """Store a new run, and queue it."""
        check_run(order)
        self._runs.check_room(order.asker)
        if self._members is not None:
            check_members(order.data, self._members())
        run = self._randomness(RUN_ID_BYTES)
        is_seeded = getattr(order, "seed", None) is not None
        seeded = order if is_seeded else replace_seed(order, secrets.randbits(63))
        self._store.begin(run, encode_order(seeded)).close()
        self._records.history.begin(run, order, user)
        self._runs.enqueue(run, order=seeded)
        return run

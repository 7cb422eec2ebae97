"""Trainings carried out over the parties of a hub, from the first word to the stored result.

Everything may happen again after a restart: parties know what they did already, and the journal
tells what the coordinator did.
"""

import logging
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Protocol

import msgspec

from fedforest.protocol.asking import Message, blame
from fedforest.runtime.coordinator_models import CoordinatorModel, CoordinatorModels
from fedforest.runtime.driver import ExchangeLog, Observer
from fedforest.runtime.event_log import log_event
from fedforest.runtime.jobs import Job
from fedforest.runtime.orders import TrainHorizontal, TrainLinear, TrainVertical
from fedforest.runtime.party_requests import BeginRun, Done, EndRun
from fedforest.runtime.results import Waiting
from fedforest.runtime.resumable import Wishes, run_with_journal
from fedforest.runtime.run_store import RunStore
from fedforest.runtime.trainings import (
    assign_roles,
    converse,
    describe_horizontal_result,
    describe_linear_result,
    describe_vertical_result,
)
from fedforest.transport.base import MeasuredTransport
from fedforest.transport.codec import decode, encode
from fedforest.tree.workers import Workers

_LOG = logging.getLogger(__name__)


class Hub(MeasuredTransport, Protocol):
    """A transport whose parties come and go."""

    def connected(self) -> list[str]:
        """Names of the parties that are there."""

    def wait_for_parties(self, names: Iterable[str], timeout_seconds: float) -> None:
        """Return when all these are there."""


@dataclass(frozen=True, slots=True)
class TrainingRuns:
    """Carries trainings out, one at a time."""

    _hub: Hub
    _store: RunStore
    _models: CoordinatorModels
    _workers: Workers
    _wait_seconds: float  # for parties to connect before a training begins

    def carry_out(self, job: Job, observe: Observer) -> None:
        """Train, have every role keep its share, and keep the result."""
        run, order, model = job.run, job.order, job.run.hex()
        started = time.perf_counter()
        self._wait_for(job)
        roles = assign_roles(order)
        say(
            self._hub,
            {
                party: BeginRun(run, role)
                for party, role in roles.items()
                if party not in job.left_out
            },
        )
        stored = self._store.open(run)
        try:
            log = ExchangeLog(observers=[observe])
            conversation = converse(order, run, stored.entropies(), self._models, self._workers)
            wishes = Wishes(job.left_out, lambda: job.is_to_end)
            trained = run_with_journal(conversation, self._hub, stored, log, wishes)
        finally:
            stored.close()
        result = self._end_with(job, trained)
        self._store.finish(run, msgspec.msgpack.encode(result))
        log_event(
            _LOG,
            "finished",
            run=model,
            seconds=round(time.perf_counter() - started, 6),
            exchanging_seconds=round(sum(step.seconds for step in log.exchanges), 6),
            thinking_seconds=round(log.seconds["thinking"], 6),
            journal_seconds=round(log.seconds["journal"], 6),
        )

    def _end_with(self, job: Job, trained: Any) -> Any:
        """Have all roles keep their shares; what the user is told."""
        order, model = job.order, job.run.hex()
        if isinstance(order, TrainHorizontal):
            self._end(job)
            return describe_horizontal_result(model, trained)
        # The journal is on the disk: were our share lost now, a replay would make it again.
        with ThreadPoolExecutor(1) as beside:
            keeping = beside.submit(self._keep, order, model, trained)
            ended = self._end(job)
            keeping.result()
        label_party = ended.get(order.label_party)  # it may be given up in the end
        classes = None if label_party is None else label_party.classes
        if isinstance(order, TrainLinear):
            return describe_linear_result(model, trained, classes)
        return describe_vertical_result(order, model, trained, classes)

    def _keep(self, order: TrainVertical | TrainLinear, model: str, trained: Any) -> None:
        if isinstance(order, TrainLinear):
            self._models.keep_linear(model, trained)
            return
        n_trees, seed = order.parameters.n_estimators, self._seed_of(order)
        self._models.keep(
            model, CoordinatorModel(trained.outline, tuple(order.data), n_trees, seed)
        )

    def _seed_of(self, order: TrainVertical) -> int:
        """The seed of all trees of the model, those that it grew on from included."""
        if order.continues is not None:
            return self._models.read(order.continues).seed
        assert order.seed is not None
        return order.seed

    def _wait_for(self, job: Job) -> None:
        wanted = [party for party in job.order.data if party not in job.left_out]
        missing = sorted(set(wanted) - set(self._hub.connected()))
        if missing:
            log_event(_LOG, "waiting", run=job.run.hex(), parties=missing)
            job.tell(Waiting(missing))
            self._hub.wait_for_parties(wanted, self._wait_seconds)

    def _end(self, job: Job) -> dict[str, Done]:
        parties = [party for party in job.order.data if party not in job.left_out]
        return say(self._hub, {party: EndRun(job.run, job.run.hex()) for party in parties})


def say(hub: Hub, messages: dict[str, Message], *, may_lose: bool = False) -> dict[str, Done]:
    """Tell parties something about a run, and hear that they did it."""
    encoded = {party: encode(message) for party, message in messages.items()}
    replies = {}
    for party, data in hub.exchange(encoded, may_lose=may_lose).items():
        with blame(party):
            done = decode(data, (Done,))
        assert isinstance(done, Done)
        replies[party] = done
    return replies

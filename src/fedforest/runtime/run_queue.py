"""The runs that a coordinator works on: one at a time, in the order they came, on one thread.

A run is stored before it comes here, so that nothing is lost when the process dies. A run that
fails is paused; where parties were away, it goes on when they are back.
"""

import logging
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any

from fedforest.errors import (
    ConfigurationError,
    DataError,
    FederationError,
    PartyLost,
    PolicyRefusal,
    StorageError,
    TooFewParties,
    TransportError,
)
from fedforest.runtime.event_log import log_event, log_exchange
from fedforest.runtime.history import History
from fedforest.runtime.jobs import Job
from fedforest.runtime.orders import AnyRun, decode_order
from fedforest.runtime.owed_ends import OwedEnds
from fedforest.runtime.own_words import in_own_words
from fedforest.runtime.party_requests import EndRun
from fedforest.runtime.results import AnyEvent, Exchanged, cut_result
from fedforest.runtime.run_parts import give_up_parts, say
from fedforest.runtime.run_records import RunRecords
from fedforest.runtime.run_store import RunStore
from fedforest.runtime.training_runs import Hub, TrainingRuns

_LOG = logging.getLogger(__name__)
_FAILURE = "failure"
_LOOK_SECONDS = 1.0  # between looks for parties that came back
# What need not happen again when a restart resumes the run.
_MAY_PASS = (PartyLost, TooFewParties, StorageError, TransportError)


class RunQueue:
    """Has the runs of a store carried out, and tells whoever watches."""

    def __init__(
        self, home: Path, hub: Hub, store: RunStore, trainings: TrainingRuns, owed: OwedEnds
    ) -> None:
        self._hub = hub
        self._store = store
        self._trainings = trainings
        self._owed = owed
        self._jobs: dict[bytes, Job] = {}
        self.records = RunRecords(History(home / "history.sqlite"), store, self._jobs)
        self._unusable: dict[bytes, FederationError] = {}
        self._enqueuing = threading.Lock()
        self._is_closing = False
        self._queue: SimpleQueue[Job | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._work, name="fedforest-runs", daemon=True)

    def start(self) -> None:
        """Resume what was left unfinished, and work."""
        self.records.catch_up()
        self._owed.recall()
        for run in self._store.unfinished():
            if not self._store.load(run, _FAILURE):
                self._enqueue_again(run)
        self._thread.start()

    def close(self, timeout_seconds: float) -> None:
        """Stop after the exchange that is under way; what is unfinished can be resumed."""
        self._is_closing = True
        self._queue.put(None)
        self._thread.join(timeout_seconds)
        if not self._thread.is_alive():
            self.records.history.close()

    def enqueue(
        self,
        run: bytes,
        left_out: frozenset[str] = frozenset(),
        *,
        is_to_end: bool = False,
        order: AnyRun | None = None,
    ) -> None:
        """Have a run worked on; if it is already, it only hears the wish to end early."""
        with self._enqueuing:
            job = self._jobs.get(run)
            if job is None or not job.is_underway:
                order = self._read_order(run) if order is None else order
                job = Job(run, order, left_out=left_out)
                job.record = self.records.history.note_event
                self._jobs[run] = job
                self.records.note(run, "queued")
                self._queue.put(job)
            job.is_to_end |= is_to_end

    def _read_order(self, run: bytes) -> AnyRun:
        stored = self._store.open(run)
        order = decode_order(stored.description)
        stored.close()
        if not isinstance(order, AnyRun):
            raise ConfigurationError(f"run {run.hex()} was begun by an order that begins none")
        return order

    def _enqueue_again(self, run: bytes, *, is_to_end: bool = False) -> None:
        """Nobody asked for it; a run that cannot be read harms no other."""
        try:
            self.enqueue(run, is_to_end=is_to_end)
        except FederationError as error:
            self._unusable[run] = error
            log_event(_LOG, "unusable", run=run.hex(), reason=type(error).__name__, text=str(error))

    def resume(self, run: bytes, without: frozenset[str], *, is_to_end: bool = False) -> None:
        """Have a paused run worked on again, without the parties that were given up."""
        if self._store.is_finished(run):
            return
        self._unusable.pop(run, None)
        if self._store.load(run, _FAILURE):
            self._store.save(run, _FAILURE, b"")  # from now on a restart resumes it again
        self.enqueue(run, without, is_to_end=is_to_end)

    def cancel(self, run: bytes) -> None:
        """Give a run up; one that is being worked on ends after the exchange under way."""
        job = self._jobs.get(run)
        if job is not None and job.is_underway and not job.drop():
            job.cancelling.set()
            job.has_ended.wait()
        if self._store.result(run) is not None:
            raise ConfigurationError(f"run {run.hex()} is finished; there is nothing to cancel")
        if not self._store.is_finished(run):
            self._forget(run)
        if job is not None and job.state == "cancelled" and not job.has_ended.is_set():
            job.end("cancelled", _cancelled(run))  # it waited in the queue, and somebody watched

    def _forget(self, run: bytes) -> None:
        """Nobody goes on with this run; parties forget it when they are there."""
        there = set(self._hub.connected())
        if run not in self._unusable:
            there &= self._read_order(run).data.keys()
        give_up_parts(run, self._store, self._hub, there)
        say(self._hub, {party: EndRun(run, None) for party in there}, may_lose=True)
        self._store.finish(run)
        self.records.note(run, "cancelled")
        self._jobs.pop(run, None)
        self._unusable.pop(run, None)

    def follow(self, run: bytes) -> Iterator[AnyEvent]:
        """Events of a run until its result; raises what it failed with."""
        if run in self._unusable:
            raise self._unusable[run]
        job = self._jobs.get(run)
        watcher = None if job is None else job.watch()
        if watcher is not None:
            yield from watcher.events()
        result = self._store.result(run)
        if result is None and job is not None and job.error is not None:
            raise job.error
        if result is None and self._store.is_finished(run):
            raise _cancelled(run)
        if result is None:
            raise ConfigurationError(
                f"run {run.hex()} has no result: it is paused; resume it, or cancel it"
            )
        yield from cut_result(result)

    # On the queue's own thread.

    def _work(self) -> None:
        while (job := self._next_job()) is not None:
            if not job.take_up():
                continue  # cancelled while it waited
            try:
                self.records.history.note_state(job.run, "running")
                self._trainings.carry_out(job, self._watch(job))
                self.records.note_result(job.run)
                job.end("finished")
                del self._jobs[job.run]  # all that is left of it is on the disk
            except FederationError as error:
                if job.cancelling.is_set():
                    self._end_cancelled(job)
                else:
                    self._pause(job, in_own_words(error, job.order))
            except Exception as error:  # noqa: BLE001 - a bug ends one run, not the service
                _LOG.exception("run %s failed", job.run.hex())
                self._pause(job, error)

    def _next_job(self) -> Job | None:
        """What to do next; while there is nothing, paused runs whose parties came back go on."""
        while True:
            try:
                return self._queue.get(timeout=_LOOK_SECONDS)
            except Empty:
                there = set(self._hub.connected())
                self._owed.pay(there)
                for job in list(self._jobs.values()):
                    if job.waits_for_parties and job.order.data.keys() <= there:
                        log_event(_LOG, "parties are back", run=job.run.hex())
                        self._enqueue_again(job.run, is_to_end=job.is_to_end)

    def _pause(self, job: Job, error: Exception) -> None:
        """Nothing is lost: the journal is as it was after the last exchange."""
        job.doing = str(error)
        log_event(_LOG, "paused", run=job.run.hex(), reason=type(error).__name__, text=str(error))
        if not isinstance(error, _MAY_PASS):
            self._note_failure(job.run, error)
        state = "failed" if _is_refused(job, error) else "paused"
        self.records.note(job.run, state, str(error))
        job.end(state, error)

    def _end_cancelled(self, job: Job) -> None:
        """Somebody waits for it."""
        try:
            if self._store.result(job.run) is None:
                self._forget(job.run)
        finally:
            job.end("cancelled", _cancelled(job.run))

    def _note_failure(self, run: bytes, error: Exception) -> None:
        """Let no restart try again what would only fail again."""
        try:
            self._store.save(run, _FAILURE, type(error).__name__.encode())
        except StorageError as trouble:
            log_event(_LOG, "not noted", run=run.hex(), text=str(trouble))

    def _watch(self, job: Job) -> Callable[[Any], None]:
        def observe(exchange: Any) -> None:
            note = exchange.note
            if "part" in note:
                job.doing = str(note["part"])
            elif "level" in note:
                trees = note["trees"]
                job.doing = f"trees {trees.start + 1}-{trees.stop}, level {note['level']}"
            log_exchange(_LOG, job.run, exchange)
            job.tell(Exchanged.of(exchange))
            if self._is_closing:
                raise TransportError("the coordinator stops; the run goes on when it is back")
            if job.cancelling.is_set():
                raise _cancelled(job.run)

        return observe


def _is_refused(job: Job, error: Exception) -> bool:
    """Whether it would be refused again until somebody changes a policy, a table or the order."""
    if isinstance(error, PolicyRefusal):
        return True
    return isinstance(error, ConfigurationError | DataError) and not job.has_begun


def _cancelled(run: bytes) -> ConfigurationError:
    return ConfigurationError(f"run {run.hex()} was cancelled")

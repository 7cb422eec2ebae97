"""The queue of runs: those whose turn it is are carried out side by side, each on a thread.

A run is stored before it is queued, so that nothing is lost when the process dies. A run that fails
is paused; if parties were away, the queue resumes it when they are back.
"""

import logging
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from fedforest.errors import (
    AccessRefused,
    ConfigurationError,
    DataError,
    FederationError,
    PartyLost,
    PolicyRefusal,
    StorageError,
    TooFewParties,
    TransportError,
)
from fedforest.runtime.coordinator.end_notices import OwedEnds
from fedforest.runtime.coordinator.history import History
from fedforest.runtime.coordinator.jobs import Job
from fedforest.runtime.coordinator.operation.turns import Candidate, choose_turns
from fedforest.runtime.coordinator.refusal_texts import in_own_words
from fedforest.runtime.coordinator.run_records import RunRecords
from fedforest.runtime.coordinator.run_stages import give_up_parts, say
from fedforest.runtime.coordinator.runs import Hub, TrainingRuns
from fedforest.runtime.event_log import log_event, log_exchange
from fedforest.runtime.membership.run_limits import LimitsOfUsers
from fedforest.runtime.messages.orders import AnyRun
from fedforest.runtime.messages.party_requests import EndRun
from fedforest.runtime.messages.results import AnyEvent, Exchanged, Waiting, cut_result
from fedforest.runtime.messages.signed_orders import read_submission
from fedforest.runtime.recovery.run_store import RunStore
from fedforest.transport.pauses import Pause

_LOG = logging.getLogger(__name__)
_FAILURE = "failure"
_LOOK_SECONDS = 1.0  # between looks for parties that came back
_ABSENT_SECONDS = 0.1  # between looks for parties that queued runs wait for
# Errors that may pass: a restart tries the run again.
_MAY_PASS = (PartyLost, TooFewParties, StorageError, TransportError)


class RunQueue:
    """Carry out the runs of a store, and send their events to watchers."""

    def __init__(  # noqa: PLR0913, PLR0917 - everything that a queue works with
        self,
        home: Path,
        hub: Hub,
        store: RunStore,
        trainings: TrainingRuns,
        owed: OwedEnds,
        limits: LimitsOfUsers,
        wait_seconds: float,
    ) -> None:
        self._limits = limits
        self._wait_seconds = wait_seconds  # for parties to connect before a training begins
        self._hub = hub
        self._store = store
        self._trainings = trainings
        self._owed = owed
        self._jobs: dict[bytes, Job] = {}
        self.records = RunRecords(History(home / "history.sqlite"), store, self._jobs)
        self._unusable: dict[bytes, FederationError] = {}
        self._changed = threading.Condition()  # the jobs, or `_closing`
        self._closing = threading.Event()
        self._waiting: list[Job] = []  # in the order they came
        self._running: dict[bytes, threading.Thread] = {}
        self._absent_since: dict[bytes, float] = {}  # of queued runs that wait for a party
        self._served: dict[str, int] = {}  # users, by the number of turns before their last one
        self._n_turns = 0
        self._thread = threading.Thread(target=self._work, name="fedforest-runs", daemon=True)
        self._chores = threading.Thread(target=self._do_chores, name="fedforest-owed", daemon=True)

    def start(self) -> None:
        """Queue the unfinished runs again, and start the thread."""
        self.records.catch_up()
        self._owed.recall()
        for run in self._store.unfinished():
            if not self._store.load(run, _FAILURE):
                self._enqueue_again(run)
        self._thread.start()
        self._chores.start()

    def close(self, timeout_seconds: float) -> None:
        """Stop after the current exchange; unfinished runs can be resumed."""
        deadline = time.monotonic() + timeout_seconds
        with self._changed:
            self._closing.set()
            self._changed.notify_all()
            running = list(self._running.values())
        threads = [thread for thread in (self._thread, self._chores, *running) if thread.ident]
        for thread in threads:
            thread.join(max(0.0, deadline - time.monotonic()))
        if not any(thread.is_alive() for thread in threads):
            self.records.history.close()

    def enqueue(
        self,
        run: bytes,
        left_out: frozenset[str] = frozenset(),
        *,
        is_to_end: bool = False,
    ) -> None:
        """Queue a run; if it is already under way, only pass on `is_to_end`."""
        with self._changed:
            job = self._jobs.get(run)
            if job is None or not job.is_underway:
                order, proof = self._read_order(run)
                job = Job(run, order, proof, left_out=left_out)
                job.record = self.records.history.note_event
                self._jobs[run] = job
                self.records.note(run, "queued")
                self._waiting.append(job)
                self._changed.notify_all()
            job.is_to_end |= is_to_end

    def check_limits(self, order: AnyRun) -> None:
        """Refuse a run that is larger than its user may order, or comes beside too many others."""
        limits = self._limits.of(order.asker)
        limits.check(order)
        limits.check_queue(
            sum(
                job.is_underway and job.order.asker == order.asker
                for job in list(self._jobs.values())
            )
        )

    def _read_order(self, run: bytes) -> tuple[AnyRun, bytes]:
        stored = self._store.open(run)
        stored.close()
        order, proof, _ = read_submission(stored.description)
        if not isinstance(order, AnyRun):
            raise ConfigurationError(f"run {run.hex()} was begun by an order that begins none")
        return order, proof

    def _enqueue_again(self, run: bytes, *, is_to_end: bool = False) -> None:
        """Queue a run without a user's request; an unreadable run is recorded, not raised."""
        try:
            self.enqueue(run, is_to_end=is_to_end)
        except FederationError as error:
            self._unusable[run] = error.bare()
            reason, text = type(error).__name__, str(error)
            about = {"run": run.hex(), "reason": reason, "text": text}
            log_event(_LOG, "unusable", severity=logging.ERROR, **about)

    def resume(self, run: bytes, without: frozenset[str], *, is_to_end: bool = False) -> None:
        """Queue a paused run again, without the parties that the user leaves out."""
        if self._store.is_finished(run):
            return
        self._unusable.pop(run, None)
        if self._store.load(run, _FAILURE):
            self._store.save(run, _FAILURE, b"")  # from now on a restart resumes it again
        self.enqueue(run, without, is_to_end=is_to_end)

    def cancel(self, run: bytes) -> None:
        """Cancel a run and wait for its end; a running one ends after the current exchange."""
        job = self._jobs.get(run)
        if job is not None and job.is_underway and not job.drop():
            job.cancelling.set()
            job.has_ended.wait()
        if self._store.result(run) is not None:
            raise ConfigurationError(f"run {run.hex()} is finished; there is nothing to cancel")
        if not self._store.is_finished(run):
            self._forget(run)
        if job is not None and job.state == "cancelled" and not job.has_ended.is_set():
            job.end("cancelled", _cancelled(run))  # a queued run may have watchers

    def _forget(self, run: bytes) -> None:
        """Delete a run, here and at the parties that are connected."""
        there = set(self._hub.connected())
        if run not in self._unusable:
            there &= self._read_order(run)[0].data.keys()
        give_up_parts(run, self._store, self._hub, there)
        say(self._hub, {party: EndRun(run, None) for party in there}, may_lose=True)
        self._store.finish(run)
        self.records.note(run, "cancelled")
        self._jobs.pop(run, None)
        self._unusable.pop(run, None)

    def follow(self, run: bytes) -> Iterator[AnyEvent | Pause]:
        """Yield the events of a run until its result, and pauses; raises the error of its end."""
        if run in self._unusable:
            raise self._unusable[run].bare()
        job = self._jobs.get(run)
        watcher = None if job is None else job.watch()
        if watcher is not None:
            yield from watcher.events()
        result = self._store.result(run)
        if result is None and job is not None and job.error is not None:
            raise job.error.bare()
        if result is None and self._store.is_finished(run):
            raise _cancelled(run, self.records.show(run).state.doing)
        if result is None:
            raise ConfigurationError(
                f"run {run.hex()} has no result: it is paused; resume it, or cancel it"
            )
        yield from cut_result(result)

    # On the queue's own thread.

    def _work(self) -> None:
        """Start the runs whose turn it is, whenever something changed."""
        with self._changed:
            while not self._closing.is_set():
                self._waiting = [job for job in self._waiting if job.state == "queued"]
                queued = {job.run for job in self._waiting}
                self._absent_since = {r: t for r, t in self._absent_since.items() if r in queued}
                ready = [job for job in self._waiting if self._is_ready(job)]
                for job in self._choose(ready):
                    self._start(job)
                self._changed.wait(_ABSENT_SECONDS if self._waiting else _LOOK_SECONDS)

    def _choose(self, ready: list[Job]) -> list[Job]:
        """Return the runs that begin now; a run under way whose party went away takes no turn."""
        there = set(self._hub.connected())
        limits = self._limits.most_runs_at_once, self._limits.most_runs_per_party
        running = [_candidate(self._jobs[run]) for run in self._running if run in self._jobs]
        active = [each for each in running if each.parties <= there]
        jobs = {job.run: job for job in ready if job.run not in self._running}
        turns = choose_turns(
            [_candidate(job) for job in jobs.values()], active, self._served, limits
        )
        return [jobs[turn.run] for turn in turns]

    def _is_ready(self, job: Job) -> bool:
        """Tell whether all parties of a queued run are there; end the wait for them if it is over.

        A run whose wait is over, or that waits for a revoked party, is paused.
        """
        try:
            missing = self._trainings.missing(job)
            since = self._absent_since.get(job.run)
            if not missing:
                self._absent_since.pop(job.run, None)
                return True
            if since is None:
                self._absent_since[job.run] = time.monotonic()
                log_event(_LOG, "waiting", run=job.run.hex(), parties=missing)
                job.tell(Waiting(missing))
            elif time.monotonic() - since > self._wait_seconds:
                raise TooFewParties(
                    f"not connected after {self._wait_seconds:g} seconds: {', '.join(missing)}; "
                    "start their party services"
                )
        except FederationError as error:
            self._absent_since.pop(job.run, None)
            if job.take_up():
                self._pause(job, error)
        return False

    def _start(self, job: Job) -> None:
        if not job.take_up():
            return  # cancelled while it waited
        self._waiting.remove(job)
        self._n_turns += 1
        self._served[job.order.asker] = self._n_turns
        name = f"fedforest-run-{job.run.hex()[:8]}"
        thread = threading.Thread(target=self._carry_out, args=(job,), name=name, daemon=True)
        self._running[job.run] = thread
        thread.start()

    # On a thread of the run.

    def _carry_out(self, job: Job) -> None:
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
            self._pause(job, _internal(error))
        finally:
            self._leave(job)

    def _leave(self, job: Job) -> None:
        """Give the turn of a run to the next one; the run itself may have been resumed already."""
        with self._changed:
            if self._running.get(job.run) is threading.current_thread():
                del self._running[job.run]
            self._changed.notify_all()

    # On the thread of chores.

    def _do_chores(self) -> None:
        """Send notices that parties are owed, and re-queue runs whose parties are back."""
        while not self._closing.wait(_LOOK_SECONDS):
            there = set(self._hub.connected())
            self._owed.pay(there)
            for job in list(self._jobs.values()):
                if job.waits_for_parties and job.order.data.keys() <= there:
                    log_event(_LOG, "parties are back", run=job.run.hex())
                    self._enqueue_again(job.run, is_to_end=job.is_to_end)

    def _pause(self, job: Job, error: FederationError) -> None:
        """Pause a run, or mark it failed; its journal stays as after the last exchange."""
        job.doing = str(error)
        if not isinstance(error, _MAY_PASS):
            self._note_failure(job.run, error)
        state = "failed" if _is_refused(job, error) else "paused"
        self.records.note(job.run, state, str(error))
        job.end(state, error)

    def _end_cancelled(self, job: Job) -> None:
        """Finish the cancellation and wake the caller of `cancel`."""
        try:
            if self._store.result(job.run) is None:
                self._forget(job.run)
        finally:
            job.end("cancelled", _cancelled(job.run))

    def _note_failure(self, run: bytes, error: Exception) -> None:
        """Record the failure, so that a restart does not try the run again."""
        try:
            self._store.save(run, _FAILURE, type(error).__name__.encode())
        except StorageError as trouble:
            text = str(trouble)
            log_event(_LOG, "not noted", severity=logging.ERROR, run=run.hex(), text=text)

    def _watch(self, job: Job) -> Callable[[Any], None]:
        limits, started = self._limits.of(job.order.asker), time.monotonic()
        n_stored = 0

        def observe(exchange: Any) -> None:
            nonlocal n_stored
            n_stored += sum(exchange.bytes_from.values())
            note = exchange.note
            if "part" in note:
                job.doing = str(note["part"])
            elif "level" in note:
                trees = note["trees"]
                job.doing = f"trees {trees.start + 1}-{trees.stop}, level {note['level']}"
            log_exchange(_LOG, job.run, exchange)
            job.tell(Exchanged.of(exchange))
            if self._closing.is_set():
                raise TransportError("the coordinator stops; the run goes on when it is back")
            if job.cancelling.is_set():
                raise _cancelled(job.run)
            limits.check_time(time.monotonic() - started)
            limits.check_stored(n_stored)

        return observe


def _candidate(job: Job) -> Candidate:
    parties = frozenset(party for party in job.order.data if party not in job.left_out)
    return Candidate(job.run, job.order.asker, parties)


def _is_refused(job: Job, error: Exception) -> bool:
    """Tell whether parties will refuse the run until a policy, a table or the request changes."""
    if isinstance(error, PolicyRefusal):
        return True
    kinds = ConfigurationError | DataError | AccessRefused
    return isinstance(error, kinds) and not job.has_begun


def _internal(error: Exception) -> FederationError:
    """Describe a bug by its kind; its text may hold anything, and stays in the log."""
    kind = type(error).__name__
    return FederationError(f"internal error at the coordinator ({kind}), see its log")


def _cancelled(run: bytes, reason: str = "") -> ConfigurationError:
    why = f": {reason}" if reason else ""
    return ConfigurationError(f"run {run.hex()} was cancelled{why}")

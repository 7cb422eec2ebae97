"""Records of a coordinator's runs: the history, kept consistent with the runs' files.

A history that cannot be written, for example on a full disk, stops no run and no service. The next
start of the coordinator adds what is missing, as far as the files of runs tell it.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from fedforest.errors import FederationError, StorageError
from fedforest.runtime.coordinator.history import History
from fedforest.runtime.coordinator.jobs import Job
from fedforest.runtime.coordinator.run_plans import load_plan
from fedforest.runtime.coordinator.runs import LEAKAGE, PEAK_MEMORY
from fedforest.runtime.event_log import log_event
from fedforest.runtime.messages.orders import AnyRun, RunFilter, replace_seed
from fedforest.runtime.messages.results import RunDetails, RunState
from fedforest.runtime.messages.signed_orders import read_submission
from fedforest.runtime.recovery.run_store import RunStore
from fedforest.runtime.trainings.registry import training_named

_LOG = logging.getLogger(__name__)

_ALL = RunFilter()
_NOBODY = "unknown"  # the user of a run that the history missed


@dataclass(frozen=True, slots=True)
class RunRecords:
    """The history of all runs, with the present state of those under way."""

    history: History
    _store: RunStore
    _jobs: Mapping[bytes, Job]  # the runs of this process

    def list(
        self, which: RunFilter = _ALL, is_shown: Callable[[bytes], bool] | None = None
    ) -> list[RunState]:
        """List runs in their present state, the oldest first; those that a user is shown."""
        chosen: list[str] = []
        for run, noted in self.history.newest(which):  # counting exchanges takes the longest
            job = self._jobs.get(bytes.fromhex(run))
            state = job.state if job is not None and job.is_underway else noted
            if which.states and state not in which.states:
                continue
            if is_shown is not None and not is_shown(bytes.fromhex(run)):
                continue
            chosen.append(run)
            if len(chosen) == which.latest:
                break
        return [self._update(noted) for noted in self.history.summarise(chosen)]

    def show(self, run: bytes) -> RunDetails:
        """Return everything about a run."""
        details, data = self.history.show(run), self._store.load(run, LEAKAGE)
        peak = self._store.load(run, PEAK_MEMORY)
        leakage = None if data is None else msgspec.json.decode(data)
        return msgspec.structs.replace(
            details,
            state=self._update(details.state),
            classes=self._read_classes(run, details.state.protocol),
            leakage=leakage,
            plan=load_plan(self._store, run),
            peak_memory_bytes=None if peak is None else msgspec.json.decode(peak),
        )

    def _read_classes(self, run: bytes, protocol: str) -> Sequence[Any] | None:
        """Read the classes from the run's result: the history holds no value of a table."""
        data = self._store.result(run)
        if data is None:
            return None
        training = training_named(protocol)
        return training.named_classes(msgspec.msgpack.decode(data, type=training.result_type))

    def note(self, run: bytes, state: str, reason: str = "") -> None:
        """Record the new state of a run."""
        self._try(run, lambda: self.history.note_state(run, state, reason))

    def note_result(self, run: bytes) -> None:
        """Record that a run finished; its result is in the store."""
        self._try(run, lambda: self._read_result(run))

    def catch_up(self) -> None:
        """Record what the history missed: runs that ended, and runs that it does not have."""
        for run in self._store.unfinished():
            if not self.history.has(run):
                self._try(run, lambda run=run: self._adopt(run))  # type: ignore[misc] # bound now
        for run in self.history.not_ended():
            if self._store.is_finished(run):
                has_result = self._store.result(run) is not None
                self.note_result(run) if has_result else self.note(run, "cancelled")

    def _adopt(self, run: bytes) -> None:
        stored = self._store.open(run)
        stored.close()
        order = read_submission(stored.description).order
        if isinstance(order, AnyRun):
            self.history.begin(run, replace_seed(order, None), _NOBODY)

    def _read_result(self, run: bytes) -> None:
        data = self._store.result(run)
        assert data is not None, "a run that is over without one is cancelled"
        training = training_named(self.history.protocol_of(run))
        result = msgspec.msgpack.decode(data, type=training.result_type)
        self.history.note_result(run, training.figures(result))

    def _update(self, noted: RunState) -> RunState:
        job = self._jobs.get(bytes.fromhex(noted.run))
        if job is None or not job.is_underway:
            return noted
        return msgspec.structs.replace(noted, state=job.state, doing=job.doing)

    def _try(self, run: bytes, write: Callable[[], None]) -> None:
        try:
            write()
        except FederationError as trouble:
            kind = "not noted" if isinstance(trouble, StorageError) else "unusable"
            log_event(_LOG, kind, severity=logging.ERROR, run=run.hex(), text=str(trouble))

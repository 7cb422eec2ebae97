"""What a coordinator's service remembers of its runs: the history, kept true to the runs' files.

A history that cannot be written, on a full disk, ends no run and no service: what it missed is
noted when the coordinator starts again, as far as the files of runs tell it.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from fedforest.errors import FederationError, StorageError
from fedforest.runtime.event_log import log_event
from fedforest.runtime.history import RESULTS, History
from fedforest.runtime.jobs import Job
from fedforest.runtime.orders import AnyRun, TrainHorizontal, TrainVertical, decode_order
from fedforest.runtime.results import Alignment, HorizontalResult, RunDetails, RunState
from fedforest.runtime.run_store import RunStore
from fedforest.runtime.training_runs import LEAKAGE
from fedforest.tree.class_labels import unpack_labels
from fedforest.tree.forest_file import open_forest

_LOG = logging.getLogger(__name__)

_NOBODY = "unknown"  # who ordered a run that the history missed


@dataclass(frozen=True, slots=True)
class RunRecords:
    """The history of the runs in a store, and of those that were."""

    history: History
    _store: RunStore
    _jobs: Mapping[bytes, Job]  # what is worked on at this moment

    def list(self) -> list[RunState]:
        """All runs, the oldest first, as they are now."""
        return [self._update(noted) for noted in self.history.all()]

    def show(self, run: bytes) -> RunDetails:
        """Everything about a run."""
        details, data = self.history.show(run), self._store.load(run, LEAKAGE)
        leakage = None if data is None else msgspec.json.decode(data)
        return msgspec.structs.replace(
            details,
            state=self._update(details.state),
            classes=self._read_classes(run, details.state.protocol),
            leakage=leakage,
        )

    def _read_classes(self, run: bytes, protocol: str) -> Sequence[Any] | None:
        """From the result of a run, which its users have: the history holds no value of a table."""
        data = self._store.result(run)
        if data is None:
            return None
        result = msgspec.msgpack.decode(data, type=RESULTS[protocol])
        if isinstance(result, Alignment):
            return None
        if isinstance(result, HorizontalResult):
            classes = open_forest(result.file).classes
            return None if classes is None else classes.tolist()
        return None if result.classes is None else unpack_labels(result.classes).tolist()

    def note(self, run: bytes, state: str, reason: str = "") -> None:
        """A run is in another state now."""
        self._try(run, lambda: self.history.note_state(run, state, reason))

    def note_result(self, run: bytes) -> None:
        """A run is over; its result is in the store."""
        self._try(run, lambda: self._read_result(run))

    def catch_up(self) -> None:
        """Note what happened while nobody could: runs that are over, and runs it never heard of."""
        for run in self._store.unfinished():
            if not self.history.has(run):
                self._try(run, lambda run=run: self._adopt(run))  # type: ignore[misc] # bound now
        for run in self.history.not_ended():
            if self._store.is_finished(run):
                has_result = self._store.result(run) is not None
                self.note_result(run) if has_result else self.note(run, "cancelled")

    def _adopt(self, run: bytes) -> None:
        stored = self._store.open(run)
        order = decode_order(stored.description)
        stored.close()
        if isinstance(order, TrainVertical | TrainHorizontal):
            self.history.begin(run, msgspec.structs.replace(order, seed=None), _NOBODY)
        elif isinstance(order, AnyRun):
            self.history.begin(run, order, _NOBODY)

    def _read_result(self, run: bytes) -> None:
        data = self._store.result(run)
        assert data is not None, "a run that is over without one is cancelled"
        kind = RESULTS[self.history.protocol_of(run)]
        self.history.note_result(run, msgspec.msgpack.decode(data, type=kind))

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
            log_event(_LOG, kind, run=run.hex(), text=str(trouble))

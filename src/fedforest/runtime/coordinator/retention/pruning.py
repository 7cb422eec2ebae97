"""Delete runs that ended long ago: their files, their models, and their part of the history.

A paused or failed run is cancelled first, so that parties forget it. A finished run with a model
loses it, as by `DeleteModel`. The id of a run stays taken, and a withdrawal stays, too.
"""

import logging
from dataclasses import dataclass

from fedforest.runtime.coordinator.access import Access
from fedforest.runtime.coordinator.queue import RunQueue
from fedforest.runtime.coordinator.retention.model_register import ModelRegister
from fedforest.runtime.event_log import log_event
from fedforest.runtime.messages.orders import DeleteModel, PruneRuns
from fedforest.runtime.messages.results import RunState
from fedforest.runtime.recovery.run_store import RunStore

_UNDERWAY = ("queued", "running")
_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Pruning:
    """Delete the runs that a user chooses among those it may delete."""

    _store: RunStore
    _runs: RunQueue
    _register: ModelRegister
    _access: Access

    def prune(self, order: PruneRuns, user: str) -> list[RunState]:
        """Return the runs that are meant, deleted if the request says so."""
        may_delete = self._access.shown_to(user, PruneRuns)
        found = [
            run
            for run in self._runs.records.list(order.which)
            if run.state not in _UNDERWAY and may_delete(bytes.fromhex(run.run))
        ]
        for run in found if order.deletes else ():
            self._delete(run, user)
            log_event(_LOG, "pruned", run=run.run, state=run.state, user=user)
        return found

    def _delete(self, state: RunState, user: str) -> None:
        run = bytes.fromhex(state.run)
        if self._register.has_model(state):
            self._register.delete(DeleteModel(model=state.run), user)
        elif not self._store.is_finished(run):
            self._runs.cancel(run)
        self._store.empty(run, keep=self._register.pending_files)
        self._runs.records.history.remove(run)
        self._access.forget(run)

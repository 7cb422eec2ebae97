"""The models of a coordinator as users see them: listed, withdrawn for good, and deleted.

A withdrawal counts here from the next request on. It then goes to every party of the run: at once
where the party is connected, else within a second of its return, also after a restart of this
coordinator. Parties keep it, so a coordinator that forgets it, or is restored from an older copy,
does not get them to answer again. Files at a party are deleted by its owner alone.
"""

import logging
import threading
from collections.abc import Callable, Collection

import msgspec
from msgspec.structs import replace

from fedforest.errors import ConfigurationError, FederationError
from fedforest.runtime.coordinator.access import Access
from fedforest.runtime.coordinator.end_notices import OwedEnds
from fedforest.runtime.coordinator.models import CoordinatorModels
from fedforest.runtime.coordinator.retention.owed_notices import OwedNotices
from fedforest.runtime.coordinator.run_records import RunRecords
from fedforest.runtime.coordinator.runs import LEAKAGE, Hub
from fedforest.runtime.event_log import log_event
from fedforest.runtime.messages.orders import (
    AnyOrder,
    CompleteModel,
    DeleteModel,
    EndRunEarly,
    PredictLinear,
    PredictVertical,
    ResumeRun,
    ShowTree,
    TrainVertical,
    WatchRun,
    WithdrawModel,
)
from fedforest.runtime.messages.party_requests import WithdrawPart
from fedforest.runtime.messages.results import ModelState, RunState
from fedforest.runtime.recovery.run_store import RunStore
from fedforest.runtime.trainings.registry import training_named

_FILE = "withdrawal"
_LOOK_SECONDS = 1.0  # between looks for parties that came back
_LOG = logging.getLogger(__name__)
_USES = (
    PredictVertical | PredictLinear | CompleteModel | ShowTree | WatchRun | ResumeRun | EndRunEarly
)


class _OwedWithdrawal(msgspec.Struct):
    parties: list[str]
    by: str
    asks_deletion: bool = False

    def request(self, run: bytes) -> WithdrawPart:
        return WithdrawPart(run.hex(), self.by, self.asks_deletion)


class ModelRegister:
    """List the models of finished runs, and withdraw or delete them."""

    pending_files = (_FILE, "owed")  # notices that parties have yet to hear, in a run's folder

    def __init__(  # noqa: PLR0913, PLR0917 - everything that knows something of a model
        self,
        store: RunStore,
        hub: Hub,
        models: CoordinatorModels,
        records: RunRecords,
        access: Access,
        ends: OwedEnds,
        members: Callable[[], Collection[str]] | None,
    ) -> None:
        self._store = store
        self._hub = hub
        self._models = models
        self._records = records
        self._access = access
        self._ends = ends  # a party that has yet to store its model does so first
        self._members = members
        self._owed = OwedNotices(store, hub, _FILE, _OwedWithdrawal)
        self._is_closing = threading.Event()
        self._thread = threading.Thread(target=self._tell, name="fedforest-models", daemon=True)

    def start(self) -> None:
        """Tell parties of withdrawals whenever they come back."""
        self._owed.recall()
        self._thread.start()

    def close(self) -> None:
        """Stop telling; what is pending is told after the next start."""
        self._is_closing.set()

    def check(self, order: AnyOrder) -> None:
        """Refuse a request that would use a withdrawn model, or continue it."""
        model = None
        if isinstance(order, _USES):
            model = getattr(order, "model", None) or getattr(order, "run", None)
        elif isinstance(order, TrainVertical):
            model = order.continues
        if model is not None:
            self._models.check(model)

    def list(self, user: str) -> list[ModelState]:
        """List the models that a user may see, the oldest first."""
        is_shown = self._access.shown_to(user)
        runs = [run for run in self._records.list() if is_shown(bytes.fromhex(run.run))]
        return [self._describe(run) for run in runs if self.has_model(run)]

    def show(self, model: str) -> ModelState:
        """Describe one model; raises `ConfigurationError` if its run has none."""
        found = [run for run in self._records.list() if run.run == model]
        if not found or not self.has_model(found[0]):
            raise ConfigurationError(f"run {model} has no model at this coordinator")
        return self._describe(found[0])

    def withdraw(self, order: WithdrawModel, user: str) -> ModelState:
        """Withdraw a model for good, here and at every party that is connected."""
        self.show(order.model)
        self._models.withdraw(order.model, f"user {user}")
        self._inform(order.model, _OwedWithdrawal([], user))
        log_event(_LOG, "model withdrawn", model=order.model, user=user)
        return self.show(order.model)

    def delete(self, order: DeleteModel, user: str) -> ModelState:
        """Delete what this coordinator keeps of a model; ask the owners of parties for the same."""
        self.show(order.model)
        run = bytes.fromhex(order.model)
        self._models.withdraw(order.model, f"user {user}")
        self._inform(order.model, _OwedWithdrawal([], user, asks_deletion=True))
        self._store.empty(run, keep=(LEAKAGE, "access.json", *self.pending_files))
        self._models.delete(order.model, f"user {user}")
        log_event(_LOG, "model deleted", model=order.model, user=user)
        return self.show(order.model)

    def _inform(self, model: str, notice: _OwedWithdrawal) -> None:
        """Note that the parties of a model must hear of it, and tell those that are here."""
        run = bytes.fromhex(model)
        notice.parties = sorted(self._parties_of(run))
        self._owed.keep(run, notice)
        self._pay()

    def _parties_of(self, run: bytes) -> set[str]:
        """Return the parties of a run that are still members."""
        parties = set(self._records.show(run).order.get("data", {}))
        return parties if self._members is None else parties & set(self._members())

    def _describe(self, run: RunState) -> ModelState:
        state = ModelState(run.run, run.name, run.user, run.protocol, run.ended)
        gone = self._models.withdrawal(run.run)
        if gone is None:
            return state
        return replace(
            state,
            withdrawn_by=gone.by,
            withdrawn_at=gone.at,
            deleted_by=gone.deleted_by,
            deleted_at=gone.deleted_at,
            away=self._owed.waiting(bytes.fromhex(run.run)),
        )

    def _tell(self) -> None:
        while not self._is_closing.wait(_LOOK_SECONDS):
            try:
                self._pay()
            except FederationError as error:  # a full disk, say; the next look tries again
                log_event(_LOG, "notices wait", severity=logging.WARNING, text=str(error))

    def _pay(self) -> None:
        there = self._hub.connected()
        self._ends.pay(there)
        self._owed.pay(there)

    @staticmethod
    def has_model(run: RunState) -> bool:
        """Tell whether a run has left a model."""
        return run.state == "finished" and not training_named(run.protocol).is_only_alignment

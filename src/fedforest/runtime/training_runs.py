"""Trainings carried out over the parties of a hub, from the first word to the stored result.

Everything may happen again after a restart: parties know what they did already, and the journal
tells what the coordinator did.
"""

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol, TypeVar

import msgspec

from fedforest.errors import ConfigurationError, TooFewParties
from fedforest.runtime.alignment_runs import align_for_run
from fedforest.runtime.coordinator_models import CoordinatorModel, CoordinatorModels
from fedforest.runtime.driver import ExchangeLog, Observer
from fedforest.runtime.event_log import log_event
from fedforest.runtime.jobs import Job
from fedforest.runtime.orders import (
    AlignRows,
    AnyTraining,
    TrainHorizontal,
    TrainLinear,
    TrainVertical,
)
from fedforest.runtime.owed_ends import OwedEnds
from fedforest.runtime.party_requests import BeginRun, Done, EndRun
from fedforest.runtime.results import (
    Alignment,
    HorizontalResult,
    LinearResult,
    VerticalResult,
    Waiting,
)
from fedforest.runtime.resumable import Wishes, run_with_journal
from fedforest.runtime.roles import RowChoice
from fedforest.runtime.run_leakage import run_leakage
from fedforest.runtime.run_parts import (
    RunParts,
    load_exchanges,
    save_exchanges,
    say,
    say_beside,
)
from fedforest.runtime.run_store import RunStore
from fedforest.runtime.terms import declare_terms
from fedforest.runtime.trainings import (
    Ended,
    assign_roles,
    check_growing_on,
    converse,
    describe_horizontal_result,
    describe_linear_result,
    describe_vertical_result,
)
from fedforest.runtime.validation import choose_rows, validate_horizontal
from fedforest.runtime.vertical_validation import VerticalValidation
from fedforest.transport.base import MeasuredTransport
from fedforest.tree.workers import Workers

_LOOK_SECONDS = 0.1  # between looks for parties that a run waits for
_TRAINED = "trained"  # the file of a run whose validation is not over
LEAKAGE = "leakage.json"  # who learned what, `run_leakage`
Trained = TypeVar("Trained", VerticalResult, HorizontalResult)
_LOG = logging.getLogger(__name__)


def _keep_nothing() -> None:
    """Of a model that is told to the user as a whole."""


class Hub(MeasuredTransport, Protocol):
    """A transport whose parties come and go."""

    def connected(self) -> list[str]:
        """Names of the parties that are there."""


@dataclass(frozen=True, slots=True)
class TrainingRuns:
    """Carries trainings out, one at a time."""

    _hub: Hub
    _store: RunStore
    _models: CoordinatorModels
    _workers: Workers
    _wait_seconds: float  # for parties to connect before a training begins
    _owed: OwedEnds

    def carry_out(self, job: Job, observe: Observer) -> None:
        """Do what was ordered, have every role keep its share, and keep the result."""
        started = time.perf_counter()
        self._wait_for(job)
        order, log = job.order, ExchangeLog(observers=[observe])
        result: Any
        if isinstance(order, AlignRows):
            result = align_for_run(self._parts(job, log.add), order)
        elif isinstance(order, TrainVertical):
            result = self._carry_out_vertical(job, order, log)
        elif isinstance(order, TrainLinear):
            result = self._carry_out_linear(job, order, log)
        else:
            result = self._carry_out_horizontal(job, order, log)
        spent_before = self._spent_before(order) if isinstance(order, TrainVertical) else 0.0
        leakage = run_leakage(order, result, log.exchanges, spent_before)
        is_forest = isinstance(result, VerticalResult)  # of which everybody has a share
        kept = (job.run.hex(), result.n_trees) if is_forest else (None, None)
        self._owed.note(job.run, job.left_out & order.data.keys(), *kept)
        about = {LEAKAGE: msgspec.json.encode(leakage.to_json())}
        self._store.finish(job.run, msgspec.msgpack.encode(result), about=about)
        self._store.remove(job.run, _TRAINED)
        log_event(
            _LOG,
            "finished",
            run=job.run.hex(),
            seconds=round(time.perf_counter() - started, 6),
            exchanging_seconds=round(sum(step.seconds for step in log.exchanges), 6),
            thinking_seconds=round(log.seconds["thinking"], 6),
            journal_seconds=round(log.seconds["journal"], 6),
        )

    def _carry_out_vertical(
        self, job: Job, order: TrainVertical, log: ExchangeLog
    ) -> VerticalResult:
        parts = self._parts(job, log.add) if order.align or order.validation else None
        alignment = align_for_run(parts, order) if parts and order.align else None
        rows = self._choose_rows(order, alignment)
        trained = self._recall(job, VerticalResult, log)
        if trained is None:
            trained = self._train_vertical(job, order, log, (rows, alignment))
        if parts is None or rows is None or order.validation is None or job.left_out:
            return trained  # a forest predicts only with everybody who split its nodes
        wishes = msgspec.structs.replace(order, alone=order.alone and not job.is_to_end)
        validation = VerticalValidation(wishes, rows, parts, self._models, self._hub, self._workers)
        return msgspec.structs.replace(trained, validation=validation.report(trained))

    def _train_vertical(
        self,
        job: Job,
        order: TrainVertical,
        log: ExchangeLog,
        about: tuple[RowChoice | None, Alignment | None],
    ) -> VerticalResult:
        rows, alignment = about
        trained = self._train(job, order, log, rows)
        kept = CoordinatorModel(
            trained.outline,
            tuple(order.data),
            order.parameters.n_estimators,
            self._seed_of(order),
            rows,
            label_party=order.label_party,
            label_epsilon=self._spent_before(order) + order.spent_epsilon,
        )
        ended = self._keep_shares(job, order, partial(self._models.keep, kept=kept))
        result = describe_vertical_result(order, alignment, trained, ended)
        self._note(job, order, result, log)
        return result

    def _carry_out_linear(self, job: Job, order: TrainLinear, log: ExchangeLog) -> LinearResult:
        trained = self._train(job, order, log, None)
        keep = partial(self._models.keep_linear, trained=trained)
        return describe_linear_result(trained, self._keep_shares(job, order, keep))

    def _keep_shares(
        self, job: Job, order: TrainVertical | TrainLinear, keep: Callable[[str], None]
    ) -> Ended:
        """Have every role keep its share of a model, this one included."""
        model = job.run.hex()
        # The journal is on the disk: were our share lost now, a replay would make it again.
        done = self._end(job, partial(keep, model))
        label_party = done.get(order.label_party)  # it may be given up in the end
        return Ended(model, None if label_party is None else label_party.classes)

    def _carry_out_horizontal(
        self, job: Job, order: TrainHorizontal, log: ExchangeLog
    ) -> HorizontalResult:
        result = self._recall(job, HorizontalResult, log)
        if result is None:
            trained = self._train(job, order, log, choose_rows(order, None))
            self._end(job)
            result = describe_horizontal_result(job.run.hex(), trained)
            self._note(job, order, result, log)
        if order.validation is None:
            return result
        away = {*job.left_out, *result.lost}
        parties = [party for party in order.data if party not in away]
        wishes = msgspec.structs.replace(order, alone=order.alone and not job.is_to_end)
        report = validate_horizontal(wishes, self._parts(job, log.add), parties)
        return msgspec.structs.replace(result, validation=report)

    def _train(self, job: Job, order: AnyTraining, log: ExchangeLog, rows: RowChoice | None) -> Any:
        """Train the model, from wherever the run was."""
        roles, terms = assign_roles(order, rows), declare_terms(order)
        present = {party: role for party, role in roles.items() if party not in job.left_out}
        say(self._hub, {party: BeginRun(job.run, role, terms) for party, role in present.items()})
        stored = self._store.open(job.run)
        try:
            entropies = stored.entropies()
            conversation = converse(order, job.run, entropies, self._models, self._workers)
            wishes = Wishes(job.left_out, lambda: job.is_to_end)
            return run_with_journal(conversation, self._hub, stored, log, wishes)
        finally:
            stored.close()

    def _choose_rows(self, order: TrainVertical, alignment: Alignment | None) -> RowChoice | None:
        """Those of the order or, for further trees of a forest, those that it was trained on."""
        if order.continues is None:
            return choose_rows(order, None if alignment is None else alignment.id)
        earlier = self._models.read(order.continues)
        check_growing_on(order, earlier)
        before = earlier.rows
        share = 0.0 if before is None else before.held_out
        if order.validation is not None and order.validation.share != share:
            raise ConfigurationError(
                "a warm start is validated on rows that all trees have not seen, those of the "
                f"training before: a share of {share:g}, not {order.validation.share:g}"
            )
        return before

    def _recall(self, job: Job, kind: type[Trained], log: ExchangeLog) -> Trained | None:
        """A training that is over while its validation is not; its exchanges are told again."""
        data = self._store.load(job.run, _TRAINED)
        if data is None:
            return None
        for exchange in load_exchanges(self._store, job.run):
            log.add(exchange)
        return msgspec.msgpack.decode(data, type=kind)

    def _note(
        self,
        job: Job,
        order: TrainVertical | TrainHorizontal,
        result: msgspec.Struct,
        log: ExchangeLog,
    ) -> None:
        """What is trained need not be trained again if validation is interrupted."""
        if order.validation is not None:
            own = [exchange for exchange in log.exchanges if "part" not in exchange.note]
            save_exchanges(self._store, job.run, own)
            self._store.save(job.run, _TRAINED, msgspec.msgpack.encode(result))

    def _parts(self, job: Job, observe: Observer) -> RunParts:
        return RunParts.of(job.run, declare_terms(job.order), self._store, self._hub, observe)

    def _seed_of(self, order: TrainVertical) -> int:
        """The seed of all trees of the model, those that it grew on from included."""
        if order.continues is not None:
            return self._models.read(order.continues).seed
        assert order.seed is not None
        return order.seed

    def _spent_before(self, order: TrainVertical) -> float:
        """Epsilon that earlier trainings of the same forest spent on its labels."""
        return 0.0 if order.continues is None else self._models.read(order.continues).label_epsilon

    def _wait_for(self, job: Job) -> None:
        """Until all parties are there, patience is over, or the run is cancelled."""
        wanted = {party for party in job.order.data if party not in job.left_out}
        deadline = time.monotonic() + self._wait_seconds
        is_told = False
        while missing := sorted(wanted - set(self._hub.connected())):
            if not is_told:
                log_event(_LOG, "waiting", run=job.run.hex(), parties=missing)
                job.tell(Waiting(missing))
                is_told = True
            if job.cancelling.wait(_LOOK_SECONDS) or time.monotonic() > deadline:
                raise TooFewParties(
                    f"not connected after {self._wait_seconds:g} seconds: {', '.join(missing)}; "
                    "start their party services"
                )

    def _end(self, job: Job, keep: Callable[[], None] = _keep_nothing) -> dict[str, Done]:
        """Parties keep their shares and forget the run; our own share is kept meanwhile."""
        parties = [party for party in job.order.data if party not in job.left_out]
        messages = {party: EndRun(job.run, job.run.hex()) for party in parties}
        return say_beside(self._hub, messages, keep)

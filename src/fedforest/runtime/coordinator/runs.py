"""Carry out trainings over the parties of a hub, from the first request to the stored result.

Every step may be repeated after a restart: parties know what they already did, and the journal
tells what the coordinator did.
"""

import logging
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import msgspec

from fedforest.errors import PartyLost
from fedforest.protocol.turns import MOST_SLOTS
from fedforest.runtime.coordinator.alignments import align_for_run
from fedforest.runtime.coordinator.end_notices import OwedEnds
from fedforest.runtime.coordinator.jobs import Job
from fedforest.runtime.coordinator.models import CoordinatorModels
from fedforest.runtime.coordinator.operation.absences import telling_absences
from fedforest.runtime.coordinator.operation.turns import MemoryGauge
from fedforest.runtime.coordinator.run_plans import PLAN, load_plan, peak_memory, plan_begun
from fedforest.runtime.coordinator.run_stages import (
    RunParts,
    load_exchanges,
    save_exchanges,
    say,
    say_beside,
)
from fedforest.runtime.coordinator.standing_alignments import CoordinatorStandingAlignments
from fedforest.runtime.coordinator.validation import validate_horizontal
from fedforest.runtime.coordinator.vertical_validation import VerticalValidation
from fedforest.runtime.driver import ExchangeLog, Observer
from fedforest.runtime.event_log import log_event
from fedforest.runtime.membership.run_limits import LimitsOfUsers
from fedforest.runtime.messages.party_requests import BeginRun, Done, EndRun
from fedforest.runtime.planning.plans import COORDINATOR
from fedforest.runtime.recovery.resumable import Wishes, run_with_journal
from fedforest.runtime.recovery.run_store import RunStore
from fedforest.runtime.trainings.base import CoordinatorMeans, Ended, Start
from fedforest.runtime.trainings.class_names import check_class_names
from fedforest.runtime.trainings.registry import AnyTraining, training_of
from fedforest.transport.base import MeasuredTransport
from fedforest.tree.workers import Workers

_TRAINED = "trained"  # the file with the result of a training before its validation
PEAK_MEMORY = "memory.json"  # the file with the coordinator's peak memory when a run ended
LEAKAGE = "leakage.json"  # the file with the leakage report
_LOG = logging.getLogger(__name__)


class Hub(MeasuredTransport, Protocol):
    """A transport whose parties come and go."""

    def connected(self) -> list[str]:
        """List the names of the connected parties."""


@dataclass(frozen=True, slots=True)
class TrainingRuns:
    """Carry out trainings, several at a time; each call is on a thread of its own."""

    _hub: Hub
    _store: RunStore
    _models: CoordinatorModels
    _workers: Workers
    _owed: OwedEnds
    _standing: CoordinatorStandingAlignments
    _limits: LimitsOfUsers
    _memory: MemoryGauge
    _members: Callable[[], Collection[str]] | None = None  # parties not revoked; None: unknown

    def carry_out(self, job: Job, observe: Observer) -> None:
        """Carry out a run, have every role store its portion of the model, store the result."""
        try:
            with telling_absences(job, self._hub):
                self._carry_out(job, observe)
        finally:
            self._memory.release(job.run)

    def _carry_out(self, job: Job, observe: Observer) -> None:
        started = time.perf_counter()
        order, log = job.order, ExchangeLog(observers=[observe])
        training = training_of(order)
        parts = RunParts.of(job, training.terms(order), self._store, self._hub, log.add)
        alignment = None
        if order.align:
            alignment = align_for_run(parts, order, training.roles(order), self._standing)
        start = training.start(order, self._models, alignment)
        result: Any = alignment
        if not training.is_only_alignment:
            result = self._recall(job, training, log) or self._train(job, training, start, log)
            result = self._validate(job, training, start, result, parts)
        spent_before = 0.0 if start.earlier is None else start.earlier.label_epsilon
        leakage = training.leakage(order, result, log.exchanges, spent_before)
        n_trees = training.figures(result).n_trees  # None unless parties hold partial forests
        kept = None if n_trees is None else job.run.hex()
        self._owed.note(job.run, job.left_out & order.data.keys(), kept, n_trees)
        about = {
            LEAKAGE: msgspec.json.encode(leakage.to_json()),
            PEAK_MEMORY: msgspec.json.encode(peak_memory()),
        }
        self._store.finish(job.run, msgspec.msgpack.encode(result), about=about)
        self._store.remove(job.run, _TRAINED)
        log_event(
            _LOG,
            "finished",
            run=job.run.hex(),
            user=order.asker,
            seconds=round(time.perf_counter() - started, 6),
            exchanging_seconds=round(sum(step.seconds for step in log.exchanges), 6),
            thinking_seconds=round(log.seconds["thinking"], 6),
            journal_seconds=round(log.seconds["journal"], 6),
        )

    def _train(self, job: Job, training: AnyTraining, start: Start, log: ExchangeLog) -> Any:
        """Train a model, have every role store its portion, and return the user's result."""
        order, model = job.order, job.run.hex()
        trained = self._converse(job, training, start, log)
        # The journal is on disk: if our portion were lost now, a replay would make it again.
        done = self._end(job, lambda: training.keep(order, trained, start, model, self._models))
        classes = {party: msgspec.to_builtins(reply.classes) for party, reply in done.items()}
        label_party = getattr(order, "label_party", None)
        check_class_names(classes, label_party, training.n_classes(order, trained))
        result = training.result(order, trained, Ended(model, start.alignment, classes))
        if order.validation is not None:
            self._note(job, result, log)
        return result

    def _converse(self, job: Job, training: AnyTraining, start: Start, log: ExchangeLog) -> Any:
        """Lead the conversation of a training, from where its journal ends."""
        order = job.order
        roles, terms = training.roles(order, start.rows), training.terms(order)
        present = {party: role for party, role in roles.items() if party not in job.left_out}
        begin = partial(BeginRun, job.run, terms=terms, proof=job.proof)
        begins = {party: begin(role=role) for party, role in present.items()}
        self._plan(job, say(self._hub, begins))
        stored = self._store.open(job.run)
        try:
            randomness = stored.randomness().of("coordinator")
            means = CoordinatorMeans(
                job.run, randomness, self._workers, start.earlier, n_slots=MOST_SLOTS
            )
            conversation = training.conversation(order, means)
            wishes = Wishes(job.left_out, lambda: job.is_to_end)
            return run_with_journal(conversation, self._hub, stored, log, wishes)
        finally:
            stored.close()

    def _plan(self, job: Job, begun: Mapping[str, Done]) -> None:
        """Plan the run, once; refuse it if it would pass a limit; wait for the memory it needs."""
        if self._store.load(job.run, PLAN) is None:
            planned = plan_begun(job.order, begun, self._hub, self._limits.of(job.order.asker))
            if planned is not None:
                self._store.save(job.run, PLAN, msgspec.json.encode(planned))
        plan = load_plan(self._store, job.run)
        if plan is not None:
            self._memory.take(job.run, plan["memory_bytes"][COORDINATOR], job.cancelling.is_set)

    def _validate(
        self, job: Job, training: AnyTraining, start: Start, result: Any, parts: RunParts
    ) -> Any:
        """Score a model on the held-out rows, if the user requested it."""
        order: Any = job.order
        if order.validation is None:
            return result
        wishes = msgspec.structs.replace(order, alone=order.alone and not job.is_to_end)
        if training.is_whole_at_parties:
            away = {*job.left_out, *result.lost}
            parties = [party for party in order.data if party not in away]
            report = validate_horizontal(wishes, parts, parties)
        elif start.rows is None or job.left_out:
            return result  # a forest predicts only with all parties that split its nodes
        else:
            means = self._models, self._hub, self._workers
            report = VerticalValidation(wishes, start.rows, parts, *means).report(result)
        return msgspec.structs.replace(result, validation=report)

    def _recall(self, job: Job, training: AnyTraining, log: ExchangeLog) -> Any:
        """Load a training whose validation is unfinished, and report its exchanges again."""
        data = self._store.load(job.run, _TRAINED)
        if data is None:
            return None
        for exchange in load_exchanges(self._store, job.run):
            log.add(exchange)
        return msgspec.msgpack.decode(data, type=training.result_type)

    def _note(self, job: Job, result: msgspec.Struct, log: ExchangeLog) -> None:
        """Store the trained result, so that an interrupted validation need not train again."""
        own = [exchange for exchange in log.exchanges if "part" not in exchange.note]
        save_exchanges(self._store, job.run, own)
        self._store.save(job.run, _TRAINED, msgspec.msgpack.encode(result))

    def missing(self, job: Job) -> list[str]:
        """List the parties of a run that are not connected; raise if one will not come back."""
        wanted = {party for party in job.order.data if party not in job.left_out}
        missing = sorted(wanted.difference(self._hub.connected()))
        for party in [] if self._members is None else set(missing).difference(self._members()):
            raise PartyLost.of("party.revoked", party=party)
        return missing

    def _end(self, job: Job, keep: Callable[[], None]) -> dict[str, Done]:
        """End the run at parties, which store their models; run `keep` for ours meanwhile."""
        parties = [party for party in job.order.data if party not in job.left_out]
        messages = {party: EndRun(job.run, job.run.hex()) for party in parties}
        return say_beside(self._hub, messages, keep)

"""The party's service: runs that survive a crash, and the party's models.

Every request of the coordinator comes through `answer`, one at a time. All that a run needs to be
resumed is on disk before the reply leaves. Predictions are in `predictions.py`.
"""

import logging
import secrets
import time
from collections import OrderedDict
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from fedforest.errors import DataError, PolicyRefusal, ProtocolError, ReplayError
from fedforest.privacy.randomized_response import Randomness
from fedforest.protocol.asking import Handler, Message, blame, check
from fedforest.runtime.disclosure.egress_ledger import NO_LEDGER, Departure, Ledger
from fedforest.runtime.event_log import log_event
from fedforest.runtime.membership.pins import Pins
from fedforest.runtime.membership.revocations import KeptRevocations
from fedforest.runtime.messages.envelope import RunRequest
from fedforest.runtime.messages.party_requests import (
    TO_PARTY,
    BeginRun,
    CountRows,
    DescribeData,
    Done,
    DropAlignment,
    DropModel,
    EndRun,
    FindPlaces,
    GiveShare,
    InPrediction,
    KeepRevocations,
    PlacesFound,
    RevocationsKept,
    ShareGiven,
    WithdrawPart,
    read_class_names,
)
from fedforest.runtime.messages.roles import PartyKeys
from fedforest.runtime.meters import METERS
from fedforest.runtime.party.alignments import Alignments
from fedforest.runtime.party.approval import (
    ModelUse,
    RunAccountant,
    check_continued,
    check_forest,
    check_order,
    check_origins,
    check_run,
    check_stored,
    check_use,
)
from fedforest.runtime.party.askers.proofs import AskerProofs, PartyMemory
from fedforest.runtime.party.data_sets import DataSets
from fedforest.runtime.party.handlers import OwnerLimits, RoleMaker
from fedforest.runtime.party.models import PartyModels
from fedforest.runtime.party.parts import Begun, PartsBegun, check_part, is_part, read_begun
from fedforest.runtime.party.policy import DataSetRules, Policy
from fedforest.runtime.party.predictions import PartyPredictions
from fedforest.runtime.party.retention.restoring import RestoredGuard
from fedforest.runtime.party.run import PartyRun
from fedforest.runtime.party.serving.served_rows import RowServing
from fedforest.runtime.party.spending import AlignmentQuota, Budgets, PredictionQuota
from fedforest.runtime.party.standing_alignments import PartyStandingAlignments
from fedforest.runtime.party.tasks import task_of
from fedforest.runtime.randomness import RandomnessSource
from fedforest.runtime.recovery.run_store import RunStore, StoredRun
from fedforest.runtime.trainings.origins import Origin
from fedforest.runtime.trainings.party_task import Demands, KeptOutcome, PartyStores, Work
from fedforest.transport.codec import decode, encode
from fedforest.transport.error_table import refuse
from fedforest.transport.frames import encode_frame
from fedforest.tree.canonical_json import JsonValue
from fedforest.tree.growth.batches import MakeRows
from fedforest.tree.table.pieces import Allocate
from fedforest.tree.workers import ALONE, Workers

_LOG = logging.getLogger(__name__)
MOST_RUNS = 8  # in memory; the others are on disk and are opened when needed


_PARTS = msgspec.msgpack.Decoder(PartsBegun)
_AGREED, _HAS_PARTS = "agreed", "parts"  # files of a run that stay after its end


class PartyService:
    """Answer a coordinator with the data sets of one party.

    Parameters
    ----------
    home : Path
        The party's folder, for runs and models.
    keys : PartyKeys
        The party's name, its keys and the peers it trusts.
    data : DataSets
        The data sets it can take part with.
    workers : Workers
        Threads for its kernels.
    policy : Policy
        The rules of its owner; without them, everything is allowed.
    ledger : Ledger
        The egress ledger, which records every reply before it leaves.
    randomness : callable
        The source of secret bytes for runs; tests pass a reproducible one.
    """

    def __init__(  # noqa: PLR0913 - everything that belongs to a party
        self,
        home: Path,
        keys: PartyKeys,
        data: DataSets,
        workers: Workers = ALONE,
        *,
        policy: Policy | None = None,
        ledger: Ledger = NO_LEDGER,
        randomness: Randomness = secrets.token_bytes,
        allocate: Allocate = np.empty,
        make_rows: MakeRows | None = None,
    ) -> None:
        self._policy = policy or Policy()
        self._ledger = ledger
        self._budgets = Budgets(home)
        self._alignment_quota = AlignmentQuota(home)
        self._keys = keys
        self._store = RunStore(home, randomness)
        self._models = PartyModels(home / "models")
        self._alignments = Alignments(home / "alignments")
        self._standing = PartyStandingAlignments(home)
        self._data = data
        self._roles = RoleMaker(
            keys,
            data,
            self._models,
            self._alignments,
            self._standing,
            workers,
            allocate,
            make_rows,
        )
        self._runs: OrderedDict[bytes, PartyRun] = OrderedDict()
        self._work: dict[bytes, Work] = {}
        quota = PredictionQuota(home)
        self._restored = RestoredGuard(home)
        self._memory = PartyMemory(
            self._agreement, self._standing, KeptRevocations(home), self._restored
        )
        self._proofs = AskerProofs(home, keys.name, self._memory)
        self._served = RowServing(data, self._standing, self._policy, quota)
        self._predictions = PartyPredictions(
            keys.name,
            data,
            self._models,
            self._alignments,
            self._policy,
            quota,
            ledger,
            workers,
            self._agreement,
            self._served,
            self._proofs,
        )
        self._handlers = {
            BeginRun: self._begin_run,
            EndRun: self._end_run,
            CountRows: self._predictions.count_rows,
            FindPlaces: self._find_places,
            DescribeData: self._describe_data,
            DropModel: self._drop_model,
            WithdrawPart: self._withdraw_model,
            DropAlignment: self._drop_alignment,
            KeepRevocations: self._keep_revocations,
            GiveShare: self._give_share,
        }

    def answer(self, data: bytes) -> bytes:
        """Answer one request; record the reply, or the refusal that is raised, in the ledger."""
        kind, outcome = "unreadable", "failed"
        try:
            with blame("coordinator"):
                request = decode(data, TO_PARTY)
                kind = type(request).__name__
                reply = self._answer(request)
            outcome = "answered"
            return reply
        except Exception as error:
            if isinstance(error, PolicyRefusal):
                outcome = "refused"
            self._ledger.record(_describe_refusal(error))
            raise
        finally:
            METERS.add("fedforest_requests", kind, outcome)

    def _answer(self, request: Message) -> bytes:
        if isinstance(request, RunRequest):
            return self._run(request.run).answer(request)
        if isinstance(request, InPrediction):
            return self._predictions.answer(request)
        started = time.perf_counter()
        done = self._handlers[type(request)](request)  # type: ignore[operator] # by type
        reply = encode(done)
        departure = Departure.of_reply("sent", type(done), len(reply), _find_run(request))
        part_of = request.terms.part_of if isinstance(request, BeginRun) else ""
        self._ledger.record(departure._replace(part_of=part_of))
        seconds = round(time.perf_counter() - started, 6)
        kind = type(request).__name__
        log_event(_LOG, "answered", severity=logging.DEBUG, step=kind, seconds=seconds)
        return reply

    def close(self) -> None:
        """Close all runs, so that another process can open them."""
        for run in self._runs.values():
            run.close()
        self._runs.clear()
        self._work.clear()

    def _begin_run(self, request: BeginRun) -> Done:
        if self._store.is_finished(request.run):
            return Done()  # repeated by a coordinator that was killed before it stored the end
        if self._store.has(request.run):
            begun = read_begun(self._run(request.run).description)
            is_same = (begun.role, begun.terms) == (request.role, request.terms)
            check(is_same, "the run was begun in another role, or on other terms")
            return begun.reply
        self._models.check(request.run.hex())
        if self._models.has(request.run.hex()):
            raise ProtocolError.of("run.taken", run=request.run.hex())
        self._proofs.check_new(request.run, request)
        whole = self._agreement(request.terms.part_of)
        check_part(whole, request.role, request.terms)
        rules = self._rules_of(request.role.data)
        asked = check_run(rules, request.role, request.terms)
        self._proofs.check(request, [rules, *self._rules_of_origins(asked)])
        self._check_earlier(request, asked, rules)
        self._data.renew(request.role.data)
        data = self._data.read(request.role.data)
        check_order(data, request.role, request.terms)
        if whole is not None:
            whole.check_snapshot(data, request.terms.part_of)
        if isinstance(self._keys.pins, Pins):
            self._keys.pins.note_peers(asked.peers)
        size = self._size(request.role.data, rules)
        check_forest(rules, request.terms, (size.n_rows, size.n_columns))
        # make the handler once before anything is stored: a refused role leaves no trace
        hide = partial(rules.hidden, label=request.role.label)
        self._roles.check(request.role, request.terms, OwnerLimits(hide))
        if asked.scored_model is not None:
            is_first = self._models.note_scoring(asked.scored_model, request.run)
            check(is_first, "votes of this model were scored already")
        if whole is not None and is_part(asked):
            self._note_part(whole, request)
        if asked.alignment is not None:
            self._alignment_quota.take(rules, request.terms.asker, request.role.data)
        erased = self._data.erased(request.role.data)
        reply = size if request.terms.forest is not None else Done()
        begun = Begun(request.role, request.terms, rules, erased, data.snapshot, reply)
        self._hold(self._store.begin(request.run, msgspec.msgpack.encode(begun)))
        self._log("began", request.run, begun)
        self._proofs.note(request.run, request)
        return reply

    def _log(self, event: str, run: bytes, begun: Begun) -> None:
        data, asker, whole = begun.role.data, begun.terms.asker, begun.terms.part_of
        task = type(begun.role).__name__.removesuffix("Role").lower()
        about: dict[str, Any] = {"task": task, "data": data, "user": asker}
        log_event(_LOG, event, run=run.hex(), part_of=whole or None, **about)

    def _describe_data(self, request: DescribeData) -> Done:
        """Say how large a data set is, to those who may use it."""
        rules = self._rules_of(request.data)
        check_use(rules, request.data, request.asker, None)
        self._proofs.check(request, [rules])
        self._data.renew(request.data)
        return self._size(request.data, rules)

    def _find_places(self, request: FindPlaces) -> PlacesFound:
        made_of = self._standing.data_of(request.standing)
        rules = [self._policy.rules(data) for data in (request.data, made_of)]
        self._proofs.check(request, rules)
        return self._served.find(request)

    def _size(self, data: str, rules: DataSetRules) -> Done:
        """Return the rows of a data set, and the columns that runs may see."""
        own = self._data.read(data)
        names = own.columns.column_names
        return Done(n_rows=own.n_rows, n_columns=len(names) - len(rules.hidden(names)))

    def _check_earlier(self, request: BeginRun, asked: Demands, rules: DataSetRules) -> None:
        """Refuse models and standing alignments of earlier runs that the run must not use."""
        for model in filter(None, (asked.continued_model, asked.scored_model)):
            self._check_model(model, ModelUse(request.terms.asker, asked.protocol, "run"))
        is_protected = asked.label_epsilon is not None or asked.encrypts_labels
        if asked.continued_model is not None and is_protected:
            check_continued(self._models.origins(asked.continued_model), request.role)
        for version in filter(None, (asked.extends, asked.recalls)):
            made_of, data = self._standing.data_of(version), request.role.data
            if asked.extends is not None and made_of != data:  # its limits are those of its ids
                raise DataError.of("standing.other", alignment=version, data_set=data)
            own_rules = self._policy.rules(made_of)
            check_use(own_rules, made_of, request.terms.asker, None)
            for each in (own_rules, rules):
                self._standing.check(version, each)

    def _rules_of_origins(self, asked: Demands) -> list[DataSetRules]:
        """Return the rules of all that went into the models and alignments that a run uses."""
        models = filter(None, (asked.continued_model, asked.scored_model))
        origins = [each.data for model in models for each in self._models.origins(model)]
        versions = filter(None, (asked.extends, asked.recalls))
        lists = [self._standing.data_of(version) for version in versions]
        return [self._policy.rules(data) for data in (*origins, *lists)]

    def _rules_of(self, data: str) -> DataSetRules:
        """Return the rules of a data set under the ceiling and labels of all that read its table.

        A ceiling on labels is void if they are features of another data set of the same table.
        """
        rules = self._policy.rules(data)
        if rules.label_columns is None:
            labels = self._budgets.label_columns(data, self._policy)
            rules = msgspec.structs.replace(rules, label_columns=labels)
        ceiling = self._budgets.ceiling(data, self._policy)
        return msgspec.structs.replace(rules, epsilon_ceiling=ceiling)

    def _agreement(self, run: str) -> Begun | None:
        """Return what a run began with, also after its end; None if it is unknown here."""
        if not run:
            return None
        agreed = self._store.load(bytes.fromhex(run), _AGREED)
        if agreed is None and self._is_underway(bytes.fromhex(run)):
            agreed = self._run(bytes.fromhex(run)).description
        return None if agreed is None else read_begun(agreed)

    def _note_part(self, whole: Begun, request: BeginRun) -> None:
        """Record the part before it begins; refuse one too many."""
        run = bytes.fromhex(request.terms.part_of)
        stored = self._store.load(run, _HAS_PARTS)
        before = PartsBegun() if stored is None else _PARTS.decode(stored)
        after = before.with_part(whole, request.role, request.run)
        if after is not before:
            self._store.save(run, _HAS_PARTS, msgspec.msgpack.encode(after))

    def _check_model(self, model: str, use: ModelUse) -> None:
        """Ask the rules of all data sets that went into a model."""
        origins, columns = self._models.origins(model), self._models.column_names(model)
        check_origins(self._policy, origins, columns, use)

    def _is_underway(self, run: bytes) -> bool:
        return self._store.has(run) and not self._store.is_finished(run)

    def _run(self, run: bytes) -> PartyRun:
        if run not in self._runs:
            if not self._is_underway(run):
                self._restored.check_run(run)
                raise ProtocolError.of("run.unknown", run=run.hex())
            self._hold(self._store.open(run))
        self._runs.move_to_end(run)
        return self._runs[run]

    def _hold(self, stored: StoredRun) -> None:
        """Hold a run in memory; close the least recently used one if there are too many."""
        try:
            rules = read_begun(stored.description).rules
        except ReplayError:
            stored.close()  # it can still be given up
            raise
        approve = partial(check_stored, rules)
        handler = self._make_handler(stored.run)
        self._runs[stored.run] = PartyRun(stored, handler, self._ledger, approve)
        if len(self._runs) > MOST_RUNS:
            self._let_go(next(iter(self._runs)))

    def _let_go(self, run: bytes) -> None:
        """Remove a run from memory; it stays on disk."""
        if run in self._runs:
            self._runs.pop(run).close()
        self._work.pop(run, None)

    def _make_handler(self, run: bytes) -> Any:
        def make(
            description: bytes, randomness: RandomnessSource
        ) -> tuple[Handler, tuple[type[Message], ...]]:
            begun = read_begun(description)
            begun.check_snapshot(self._data.read(begun.role.data), run.hex())
            work = self._roles.make(begun.role, begun.terms, randomness, self._limit(run, begun))
            self._work[run] = work
            return work.handler, work.requests

        return make

    def _limit(self, run: bytes, begun: Begun) -> OwnerLimits:
        """Return the limits of the rules that the run began with, not of the present policy."""
        rules = begun.rules
        spend = partial(self._budgets.book, begun.role.data, rules.epsilon_ceiling, run.hex())
        context = self._data.read(begun.role.data).identity.response_context(begun.role.label)
        response_key = self._keys.response_key(context)
        hide = partial(rules.hidden, label=begun.role.label)
        return OwnerLimits(hide, RunAccountant(rules, spend, response_key))

    def _end_run(self, request: EndRun) -> Done:
        """Store the model and delete the run; a repeated request has the same effect."""
        if request.model not in (None, request.run.hex()):
            raise ProtocolError.of("model.taken", run=request.run.hex(), model=request.model)
        is_over = not self._is_underway(request.run)
        if is_over and request.model is not None and not self._models.has(request.model):
            self._restored.check_run(request.run)  # its journal, and so its model, is lost
        done = None
        with ThreadPoolExecutor(1) as beside:  # the ledger and the model wait for one disk
            # sync the ledger first: the journal, from which it could be recovered, is deleted
            syncing = beside.submit(self._ledger.sync)
            if request.model is not None and self._is_underway(request.run):
                kept = self._keep(request.run, request.model, request.n_trees)
                done = Done(read_class_names(kept))
            syncing.result()
        if self._store.has(request.run):
            is_underway = self._is_underway(request.run)
            about = self._about(request) if is_underway else {}
            if is_underway:
                log_event(_LOG, "ended", run=request.run.hex(), keeps=request.model is not None)
            self._let_go(request.run)
            self._store.finish(request.run, about=about)  # also removes files left by a crash
        if done is None and request.model is not None and self._models.has(request.model):
            done = Done(read_class_names(self._models.classes(request.model)))
        return done or Done()

    def _about(self, request: EndRun) -> dict[str, bytes]:
        """Return what stays of a run for its scores and baselines, which come after its end."""
        if request.model is None:  # a run that is given up may have a damaged journal
            return {}
        description = self._run(request.run).description
        return {_AGREED: description} if read_begun(description).terms.validates else {}

    def _keep(self, run: bytes, kept: str, n_trees: int | None) -> JsonValue:
        """Store the outcome of a run under an id: a model, or the rows of an alignment."""
        handler = self._run(run).handler  # replayed if needed
        work = self._work[run]
        assert work.handler is handler
        begun = read_begun(self._run(run).description)
        if self._data.erased(begun.role.data) != begun.erased:
            raise DataError.of("data_set.other_now", data_set=begun.role.data, run=run.hex())
        stores = PartyStores(self._models, self._alignments, self._standing)
        before = task_of(begun.role).demands(begun.role, begun.terms).continued_model
        origins = () if before is None else self._models.origins(before)
        own = Origin.of(run, begun.role, begun.terms)
        return work.keep(KeptOutcome(kept, (*origins, own), n_trees), stores)

    def _drop_model(self, request: DropModel) -> Done:
        is_underway = self._is_underway(bytes.fromhex(request.model))
        check(not is_underway, "the run of this model has not ended")
        is_gone = self._models.drop_baseline(request.model)
        check(is_gone, "the model is no baseline; its owner alone can remove it")
        return Done()

    def _withdraw_model(self, request: WithdrawPart) -> Done:
        """Answer nothing about a model from now on; a model that is not here leaves no trace."""
        is_underway = self._is_underway(bytes.fromhex(request.model))
        check(not is_underway, "the run of this model has not ended")
        if self._models.has(request.model):
            by = f"user {request.by or '-'}, as the coordinator says"
            self._models.withdraw(request.model, by, asks_deletion=request.asks_deletion)
            log_event(_LOG, "model withdrawn", model=request.model, by=by)
        return Done()

    def _keep_revocations(self, request: KeepRevocations) -> RevocationsKept:
        return RevocationsKept(self._memory.revoked.add(request.revocations))

    def _drop_alignment(self, request: DropAlignment) -> Done:
        self._standing.remove(request.alignment)
        return Done()

    def _give_share(self, request: GiveShare) -> ShareGiven:
        self._check_model(request.model, ModelUse(request.asker, "vertical", "export"))
        origins = self._models.origins(request.model)
        self._proofs.check(request, [self._policy.rules(origin.data) for origin in origins])
        return ShareGiven(memoryview(self._models.share(request.model)))


def _find_run(request: Message) -> bytes:
    """Return the run of a request; a model has the id of the run that trained it."""
    if isinstance(request, BeginRun | EndRun):
        return request.run
    if isinstance(request, GiveShare | DropModel | WithdrawPart):
        return bytes.fromhex(request.model)
    return b""


def _describe_refusal(error: Exception) -> Departure:
    """Describe the refusal that the coordinator gets instead of a reply."""
    told = refuse(0, error, hides_names=True)
    reveals = "that the party refuses a request, and why, in words that name no column and no value"
    return Departure("refused", told.kind, reveals, len(encode_frame(told)))

"""A party as a process runs it: runs that survive its death, and its models.

Everything the coordinator says comes through `answer`, one request at a time. What a run needs to
go on is on the disk before the reply leaves. Predictions are in `party_predictions`.
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

from fedforest.errors import ProtocolError
from fedforest.privacy.randomized_response import Entropy
from fedforest.protocol.asking import Handler, Message, blame, check
from fedforest.runtime.alignments import Alignments
from fedforest.runtime.data_sets import DataSets
from fedforest.runtime.egress_ledger import NO_LEDGER, Departure, Ledger
from fedforest.runtime.entropy import EntropySource
from fedforest.runtime.envelope import RunRequest
from fedforest.runtime.event_log import log_event
from fedforest.runtime.party_models import PartyModels
from fedforest.runtime.party_predictions import PartyPredictions
from fedforest.runtime.party_requests import (
    TO_PARTY,
    BeginRun,
    CountRows,
    Done,
    DropModel,
    EndRun,
    GiveShare,
    InPrediction,
    ShareGiven,
)
from fedforest.runtime.party_run import PartyRun
from fedforest.runtime.pins import Pins
from fedforest.runtime.policy import Policy, Rules
from fedforest.runtime.role_work import AlignmentWork, Limits, RoleMaker, Work
from fedforest.runtime.roles import (
    AlignmentRole,
    AnyRole,
    HorizontalRole,
    PartyKeys,
    ScoringRole,
    VerticalRole,
)
from fedforest.runtime.run_approval import (
    RunApproval,
    check_complete_model,
    check_leaf_size,
    check_run,
)
from fedforest.runtime.run_store import RunStore, StoredRun
from fedforest.runtime.scoring_work import ScoringWork
from fedforest.runtime.spending import Budgets, PredictionQuota
from fedforest.runtime.terms import Terms
from fedforest.transport.codec import decode, encode
from fedforest.transport.error_table import refuse
from fedforest.tree.canonical_json import JsonValue
from fedforest.tree.workers import ALONE, Workers

_LOG = logging.getLogger(__name__)
MOST_RUNS = 8  # in memory; the others are on the disk, and go on from there


class _Begun(msgspec.Struct, frozen=True, array_like=True):
    """What a run was begun with; the rules are those of that moment."""

    role: AnyRole
    terms: Terms
    rules: Rules


_BEGUN = msgspec.msgpack.Decoder(_Begun)


class PartyService:
    """Answers a coordinator with the data sets of one party.

    Parameters
    ----------
    home : Path
        The party's folder, for runs and models.
    keys : PartyKeys
        Who the party is and whom it trusts.
    data : DataSets
        What it can take part with.
    workers : Workers
        Threads for its kernels.
    policy : Policy
        What its owner allows; without one, everything.
    ledger : Ledger
        Where everything is noted before it leaves.
    entropy : callable
        Where the secrets of runs are drawn from; tests pass a reproducible one.
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
        entropy: Entropy = secrets.token_bytes,
    ) -> None:
        self._policy = policy or Policy()
        self._ledger = ledger
        self._budgets = Budgets(home)
        self._keys = keys
        self._store = RunStore(home, entropy)
        self._models = PartyModels(home / "models")
        self._alignments = Alignments(home / "alignments")
        self._data = data
        self._roles = RoleMaker(keys, data, self._models, self._alignments, workers)
        self._runs: OrderedDict[bytes, PartyRun] = OrderedDict()
        self._work: dict[bytes, Work] = {}
        self._predictions = PartyPredictions(
            keys.name,
            data,
            self._models,
            self._alignments,
            self._policy,
            PredictionQuota(home),
            ledger,
            workers,
        )
        self._handlers = {
            BeginRun: self._begin_run,
            EndRun: self._end_run,
            CountRows: self._predictions.count_rows,
            DropModel: self._drop_model,
            GiveShare: self._give_share,
        }

    def answer(self, data: bytes) -> bytes:
        """The reply to one request, noted in the ledger; raises what the coordinator is told."""
        try:
            return self._answer(data)
        except Exception as error:
            self._ledger.record(_describe_refusal(error))
            raise

    def _answer(self, data: bytes) -> bytes:
        with blame("coordinator"):
            request = decode(data, TO_PARTY)
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
            log_event(_LOG, "answered", step=type(request).__name__, seconds=seconds)
            return reply

    def close(self) -> None:
        """Let another process carry the runs on."""
        for run in self._runs.values():
            run.close()
        self._runs.clear()
        self._work.clear()

    def _begin_run(self, request: BeginRun) -> Done:
        if self._store.is_finished(request.run):
            return Done()  # said again by a coordinator that was killed before it noted the end
        if self._store.has(request.run):
            begun = _BEGUN.decode(self._run(request.run).description)
            is_same = (begun.role, begun.terms) == (request.role, request.terms)
            check(is_same, "the run was begun in another role, or on other terms")
            return Done()
        rules = self._policy.rules(request.role.data)
        check_run(rules, request.role, request.terms)
        self._data.renew(request.role.data)
        if isinstance(self._keys.pins, Pins):
            self._keys.pins.note_peers(_peers_of(request.role))
        if request.terms.trains or isinstance(request.role, VerticalRole | HorizontalRole):
            check_leaf_size(rules, request.terms, self._data.read(request.role.data).n_rows)
        # made once before anything is stored: a role that cannot be leaves no trace
        self._roles.check(request.role, Limits(rules.hidden))
        if isinstance(request.role, ScoringRole):
            is_first = self._models.note_scoring(request.role.model, request.run)
            check(is_first, "votes of this model were scored already")
        begun = _Begun(request.role, request.terms, rules)
        self._hold(self._store.begin(request.run, msgspec.msgpack.encode(begun)))
        return Done()

    def _is_underway(self, run: bytes) -> bool:
        return self._store.has(run) and not self._store.is_finished(run)

    def _run(self, run: bytes) -> PartyRun:
        if run not in self._runs:
            if not self._is_underway(run):
                raise ProtocolError(f"there is no run {run.hex()} underway at this party")
            self._hold(self._store.open(run))
        self._runs.move_to_end(run)
        return self._runs[run]

    def _hold(self, stored: StoredRun) -> None:
        """Have a run in memory, and no longer the one that was silent longest."""
        self._runs[stored.run] = PartyRun(stored, self._make_handler(stored.run), self._ledger)
        if len(self._runs) > MOST_RUNS:
            self._let_go(next(iter(self._runs)))

    def _let_go(self, run: bytes) -> None:
        """Have a run on the disk only."""
        if run in self._runs:
            self._runs.pop(run).close()
        self._work.pop(run, None)

    def _make_handler(self, run: bytes) -> Any:
        def make(
            description: bytes, entropies: EntropySource
        ) -> tuple[Handler, tuple[type[Message], ...]]:
            begun = _BEGUN.decode(description)
            work = self._roles.make(begun.role, entropies, self._limit(run, begun))
            self._work[run] = work
            return work.party, work.requests

        return make

    def _limit(self, run: bytes, begun: _Begun) -> Limits:
        """What was allowed when the run began, whatever the policy says now."""
        rules = begun.rules
        spend = partial(self._budgets.book, begun.role.data, rules.epsilon_ceiling, run.hex())
        return Limits(rules.hidden, RunApproval(rules, spend, self._keys.response_key))

    def _end_run(self, request: EndRun) -> Done:
        """Keep the model and forget the run; said again, it is the same."""
        done = None
        with ThreadPoolExecutor(1) as beside:  # the ledger and the model wait for one disk
            # what is not in the ledger could be recovered from the journal until now
            syncing = beside.submit(self._ledger.sync)
            if request.model is not None and self._is_underway(request.run):
                done = Done(self._keep(request.run, request.model, request.n_trees))
            syncing.result()
        if self._store.has(request.run):
            self._let_go(request.run)
            self._store.finish(request.run)  # also takes away what a crash in here left
        if done is None and request.model is not None and self._models.has(request.model):
            done = Done(self._models.classes(request.model))
        return done or Done()

    def _keep(self, run: bytes, kept: str, n_trees: int | None) -> JsonValue:
        """Store what a run gave under an id: a model, or the rows of an alignment."""
        party = self._run(run).handler  # caught up, also after a restart
        work = self._work[run]
        assert work.party is party
        if isinstance(work, AlignmentWork):
            self._alignments.keep(kept, work.data, work.ids, work.party.rows)
            return None
        if isinstance(work, ScoringWork):
            raise ProtocolError("scoring leaves nothing to be kept")
        begun = _BEGUN.decode(self._run(run).description)
        return self._models.keep(kept, work, begun.role.data, n_trees)

    def _drop_model(self, request: DropModel) -> Done:
        is_gone = self._models.drop_baseline(request.model)
        check(is_gone, "the model is no baseline; its owner alone can remove it")
        return Done()

    def _give_share(self, request: GiveShare) -> ShareGiven:
        data = self._models.data_of(request.model)
        check_complete_model(self._policy.rules(data), data, request.asker)
        return ShareGiven(memoryview(self._models.file(request.model)))


def _peers_of(role: AnyRole) -> tuple[str, ...]:
    return role.peers if isinstance(role, HorizontalRole | AlignmentRole) else ()


def _find_run(request: Message) -> bytes:
    """The run that a request is about; a model has the id of the run that it came of."""
    if isinstance(request, BeginRun | EndRun):
        return request.run
    return bytes.fromhex(request.model) if isinstance(request, GiveShare | DropModel) else b""


def _describe_refusal(error: Exception) -> Departure:
    """What the coordinator is told instead of a reply."""
    told = refuse(0, error, hides_names=True)
    reveals = "that the party refuses a request, and why, in words that name no column and no value"
    return Departure("refused", told.kind, reveals, len(told.text.encode()))

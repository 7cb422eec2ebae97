"""The coordinator's service: it turns requests of users into runs that survive a crash.

Runs wait for their turns (`queue.py`), predictions do not. A run is on disk before any
party hears of it. A restarted coordinator resumes unfinished runs, and a user whose connection
broke can watch the run until its result is there.
"""

import logging
import secrets
import threading
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from fedforest.errors import (
    AccessRefused,
    ConfigurationError,
    DataError,
    FederationError,
    PolicyRefusal,
    TransportError,
)
from fedforest.privacy.randomized_response import Randomness
from fedforest.runtime.coordinator.access import Access
from fedforest.runtime.coordinator.alignments import remove_alignment
from fedforest.runtime.coordinator.complete_models import gather
from fedforest.runtime.coordinator.end_notices import OwedEnds
from fedforest.runtime.coordinator.models import CoordinatorModels
from fedforest.runtime.coordinator.operation.status import StatusBoard
from fedforest.runtime.coordinator.operation.turns import MemoryGauge
from fedforest.runtime.coordinator.predictions import predict, predict_linear
from fedforest.runtime.coordinator.queue import RunQueue
from fedforest.runtime.coordinator.refusal_texts import in_own_words
from fedforest.runtime.coordinator.retention.model_register import ModelRegister
from fedforest.runtime.coordinator.retention.pruning import Pruning
from fedforest.runtime.coordinator.run_plans import describe_tables
from fedforest.runtime.coordinator.runs import Hub, TrainingRuns
from fedforest.runtime.coordinator.serving.model_facts import ModelFactsReader
from fedforest.runtime.coordinator.standing_alignments import CoordinatorStandingAlignments
from fedforest.runtime.coordinator.tree_outlines import outline_tree
from fedforest.runtime.event_log import log_event, severity_of
from fedforest.runtime.membership.members import check_members, check_user
from fedforest.runtime.membership.run_limits import LimitsOfUsers
from fedforest.runtime.membership.stewardship import Stewardship
from fedforest.runtime.membership.user_roles import DEFAULT_ROLE, UserRole
from fedforest.runtime.messages.envelope import RUN_ID_BYTES
from fedforest.runtime.messages.orders import (
    AnyOrder,
    AnyRun,
    CancelRun,
    CompleteModel,
    DeleteModel,
    DescribeTables,
    EndRunEarly,
    GrantRole,
    InviteMember,
    ListAlignments,
    ListModels,
    ListRuns,
    LogOfRun,
    Order,
    PredictLinear,
    PredictVertical,
    PruneRuns,
    RemoveAlignment,
    ResumeRun,
    RevokeMember,
    RunFilter,
    ShareRun,
    ShowModel,
    ShowRun,
    ShowStatus,
    ShowTree,
    WatchRun,
    WithdrawModel,
    encode_order,
    name_asker,
    replace_seed,
)
from fedforest.runtime.messages.results import (
    AlignmentList,
    AnyEvent,
    ModelFile,
    ModelList,
    Predictions,
    RunAccepted,
    RunDetails,
    RunEvents,
    RunList,
    cut_result,
    encode_event,
)
from fedforest.runtime.messages.signed_orders import Submission, check_asker, read_submission
from fedforest.runtime.meters import METERS
from fedforest.runtime.recovery.run_store import RunStore
from fedforest.runtime.trainings.registry import check_run
from fedforest.transport.pauses import Pause, block
from fedforest.tree.workers import ALONE, Workers

_LOG = logging.getLogger(__name__)
_DEFAULT_LIMITS = LimitsOfUsers()
_READY_SECONDS = 60.0
WAIT_SECONDS = 60.0  # for parties to connect before a training begins


class CoordinatorService:
    """Answer the requests of users with the parties of a hub."""

    def __init__(  # noqa: PLR0913 - everything that belongs to a coordinator
        self,
        home: Path,
        hub: Hub,
        workers: Workers = ALONE,
        *,
        wait_seconds: float = WAIT_SECONDS,
        members: Callable[[], Collection[str]] | None = None,
        users: Callable[[], Mapping[str, UserRole]] | None = None,
        limits: LimitsOfUsers = _DEFAULT_LIMITS,
        randomness: Randomness = secrets.token_bytes,
        board: StatusBoard | None = None,
        stewardship: Stewardship | None = None,
        closed: Callable[[], str] = lambda: "",
    ) -> None:
        self._hub = hub
        self._closed = closed  # why no user is let in; empty: they are
        self._members = members  # names of the federation's parties; None: unknown
        self._users = users  # the users' roles; None: unknown, and all are scientists
        self._randomness = randomness
        self._workers = workers
        self._store = RunStore(home, randomness)
        self._access = Access(self._store, self._role_of)
        self._models = CoordinatorModels(home / "models")
        self._owed = OwedEnds(self._store, hub)
        self._standing = CoordinatorStandingAlignments(home)
        trainings = TrainingRuns(
            hub,
            self._store,
            self._models,
            workers,
            self._owed,
            self._standing,
            limits,
            MemoryGauge(limits.most_memory_at_once),
            members,
        )
        self._runs = RunQueue(home, hub, self._store, trainings, self._owed, limits, wait_seconds)
        self._records = self._runs.records
        self._register = ModelRegister(
            self._store, hub, self._models, self._records, self._access, self._owed, members
        )
        self._facts = ModelFactsReader(self._records)
        self._pruning = Pruning(self._store, self._runs, self._register, self._access)
        self._board = board or StatusBoard(home, lambda: dict.fromkeys(hub.connected(), ""))
        self._stewardship = stewardship  # None: the authority is elsewhere
        self._is_ready = threading.Event()
        self._answers: dict[type[Any], Callable[[Any], Iterator[AnyEvent | Pause]]] = {
            ShowRun: self._show,
            LogOfRun: self._tell_log,
            WatchRun: self._watch,
            ResumeRun: self._resume,
            EndRunEarly: self._end_early,
            ShareRun: self._share,
            ListAlignments: self._list_alignments,
            ShowModel: self._show_model,
            ShowTree: self._show_tree,
            InviteMember: lambda order: cut_result(self._steward.invite(order)),
            RevokeMember: lambda order: cut_result(self._steward.revoke(order)),
            GrantRole: lambda order: cut_result(self._steward.grant(order)),
        }
        self._answers_by_parties: dict[
            type[Any], Callable[[Any, Submission], Iterator[AnyEvent | Pause]]
        ] = {
            PredictVertical: self._predict,
            PredictLinear: self._predict_linear,
            CompleteModel: self._complete,
            DescribeTables: self._describe_tables,
        }
        self._answers_to: dict[type[Any], Callable[[Any, str], Iterator[AnyEvent | Pause]]] = {
            ListRuns: self._list,
            ShowStatus: self._show_status,
            CancelRun: self._cancel,
            PruneRuns: self._prune,
            RemoveAlignment: self._remove_alignment,
            ListModels: self._list_models,
            WithdrawModel: self._withdraw_model,
            DeleteModel: self._delete_model,
        }

    def start(self) -> None:
        """Resume unfinished runs, and accept requests."""
        self._runs.start()
        self._register.start()
        self._is_ready.set()

    @property
    def is_ready(self) -> bool:
        """Whether unfinished runs are known again, and requests are answered."""
        return self._is_ready.is_set()

    def n_queued(self) -> dict[str, int]:
        """Count the runs that wait and those that are worked on."""
        states = [run.state for run in self._records.list(RunFilter(states=["queued", "running"]))]
        return {state: states.count(state) for state in ("queued", "running")}

    def close(self, timeout_seconds: float = 30.0) -> None:
        """Stop after the current exchange; unfinished runs can be resumed."""
        self._register.close()
        self._runs.close(timeout_seconds)

    def serve(self, identity: object, data: bytes) -> Iterator[bytes]:
        """Yield the encoded events that answer a user's request; raises if it is invalid."""
        return block(self.serve_by_turns(identity, data))

    def serve_by_turns(self, identity: object, data: bytes) -> Iterator[bytes | Pause]:
        """Do the same, with a pause wherever the request waits for news of a run."""
        asked = read_submission(data)
        order = name_asker(asked.order, identity)
        self._is_ready.wait(_READY_SECONDS)  # users connect before all runs are known again
        if reason := self._closed():
            raise TransportError(reason)
        user = getattr(identity, "name", str(identity))
        told: dict[str, Any] = {"kind": type(order).__name__, "user": str(identity)}
        told |= _subject_of(order)
        if asked.proof:
            told["order"] = check_asker(asked.proof, order, user).hex()
        try:
            self._access.check(order, user)
        except AccessRefused as error:
            METERS.add("fedforest_requests", told["kind"], "refused")
            log_event(_LOG, "refused", severity=logging.WARNING, **told, reason=str(error))
            raise
        log_event(_LOG, "order", **told)
        has_begun, outcome = isinstance(order, WatchRun | ResumeRun | EndRunEarly), "answered"
        try:
            self._register.check(order)
            for event in self._answer(asked._replace(order=order), identity, user):
                has_begun |= isinstance(event, RunAccepted)
                yield event if isinstance(event, Pause) else encode_event(event)
        except FederationError as error:
            outcome = "failed"
            if not has_begun:  # a run that ends with an error is logged once, whoever watches it
                why = {"reason": type(error).__name__, "text": str(error)}
                log_event(_LOG, "order failed", severity=severity_of(error), **told, **why)
            raise
        finally:
            METERS.add("fedforest_requests", told["kind"], outcome)

    def _answer(self, asked: Submission, identity: object, user: str) -> Iterator[AnyEvent | Pause]:
        order, kind = asked.order, type(asked.order)
        if kind in self._answers:
            return self._answers[kind](order)
        if kind in self._answers_to:
            return self._answers_to[kind](order, user)
        if kind in self._answers_by_parties:
            return self._answers_by_parties[kind](order, asked)
        return self._train(asked, identity, user)  # what is not answered begins a run

    def _train(self, asked: Submission, identity: object, user: str) -> Iterator[AnyEvent | Pause]:
        run = self._begin(asked, identity, user)
        yield RunAccepted(run.hex())
        yield from self._runs.follow(run)

    def _complete(self, order: CompleteModel, asked: Submission) -> Iterator[AnyEvent | Pause]:
        whole = gather(order, self._models.read(order.model), self._hub, asked.proof)
        return cut_result(ModelFile(whole))

    def _show_status(self, _: ShowStatus, user: str) -> Iterator[AnyEvent | Pause]:
        queued = self._records.list(RunFilter(states=["queued", "running"]))
        is_shown, in_full = self._access.shown_to(user), self._access.sees_all(user)
        return cut_result(self._board.describe(queued, is_shown, in_full=in_full))

    def _list(self, order: ListRuns, user: str) -> Iterator[AnyEvent | Pause]:
        is_shown = self._access.shown_to(user)
        return cut_result(RunList(self._records.list(order.which, is_shown)))

    def _show(self, order: ShowRun) -> Iterator[AnyEvent | Pause]:
        run = self._run_of(order.run)
        return cut_result(self._describe(run))

    def _prune(self, order: PruneRuns, user: str) -> Iterator[AnyEvent | Pause]:
        return cut_result(RunList(self._pruning.prune(order, user)))

    def _list_models(self, _: ListModels, user: str) -> Iterator[AnyEvent | Pause]:
        return cut_result(ModelList(self._register.list(user)))

    def _withdraw_model(self, order: WithdrawModel, user: str) -> Iterator[AnyEvent | Pause]:
        return cut_result(ModelList([self._register.withdraw(order, user)]))

    def _delete_model(self, order: DeleteModel, user: str) -> Iterator[AnyEvent | Pause]:
        return cut_result(ModelList([self._register.delete(order, user)]))

    def _show_model(self, order: ShowModel) -> Iterator[AnyEvent | Pause]:
        return cut_result(ModelList([self._register.show(order.model)]))

    def _show_tree(self, order: ShowTree) -> Iterator[AnyEvent | Pause]:
        return cut_result(outline_tree(self._models.read(order.model), order.tree))

    @property
    def _steward(self) -> Stewardship:
        if self._stewardship is None:
            raise ConfigurationError(
                "this coordinator is not its federation's authority: members are made elsewhere"
            )
        return self._stewardship

    def _describe(self, run: bytes) -> RunDetails:
        return replace(self._records.show(run), shared_with=self._access.users(run))

    def _describe_tables(
        self, order: DescribeTables, asked: Submission
    ) -> Iterator[AnyEvent | Pause]:
        self._check_parties(order)
        with self._predicting(order):
            there = self._hub.connected()
            return cut_result(describe_tables(self._hub, order, there, asked.proof))

    def _share(self, order: ShareRun) -> Iterator[AnyEvent | Pause]:
        run = self._run_of(order.run)
        if self._users is not None and not order.ends:
            check_user(order.user, self._users())
        self._access.share(run, order.user, ends=order.ends)
        return cut_result(self._describe(run))

    def _tell_log(self, order: LogOfRun) -> Iterator[AnyEvent | Pause]:
        return cut_result(RunEvents(self._records.history.events(self._run_of(order.run))))

    def _watch(self, order: WatchRun) -> Iterator[AnyEvent | Pause]:
        return self._runs.follow(self._run_of(order.run))

    def _resume(self, order: ResumeRun) -> Iterator[AnyEvent | Pause]:
        run = self._run_of(order.run)
        self._runs.resume(run, frozenset(order.without))
        return self._runs.follow(run)

    def _end_early(self, order: EndRunEarly) -> Iterator[AnyEvent | Pause]:
        run = self._run_of(order.run)
        self._runs.resume(run, frozenset(order.without), is_to_end=True)
        return self._runs.follow(run)

    def _cancel(self, order: CancelRun, user: str) -> Iterator[AnyEvent | Pause]:
        run = self._run_of(order.run)
        self._runs.cancel(run)
        log_event(_LOG, "cancelled", run=run.hex(), user=user)
        return cut_result(RunList([self._records.show(run).state]))

    def _list_alignments(self, _: ListAlignments) -> Iterator[AnyEvent | Pause]:
        return cut_result(AlignmentList(self._standing.list()))

    def _remove_alignment(self, order: RemoveAlignment, user: str) -> Iterator[AnyEvent | Pause]:
        self._access.check_alignment(order.name, self._standing.read(order.name).state.user, user)
        present = self._hub.connected()
        away = remove_alignment(self._hub, present, self._standing, order.name)
        return cut_result(AlignmentList(self._standing.list(), away))

    def _predict(self, order: PredictVertical, asked: Submission) -> Iterator[AnyEvent | Pause]:
        with self._predicting(order):
            model, facts = self._models.read(order.model), self._facts.read(order.model)
            asked = asked._replace(order=facts.complete(order, self._standing))
            found = predict(asked, model, self._hub, self._workers, self._standing)
            classes = None if facts.classes is None else list(facts.classes)
            return cut_result(replace(found, classes=classes))

    def _predict_linear(
        self, order: PredictLinear, asked: Submission
    ) -> Iterator[AnyEvent | Pause]:
        with self._predicting(order):
            model = self._models.read_linear(order.model)
            scores = predict_linear(order, model, self._hub, asked)
            return cut_result(Predictions.of(scores[:, None]))

    @contextmanager
    def _predicting(
        self, order: PredictVertical | PredictLinear | DescribeTables
    ) -> Iterator[None]:
        """Fill names from the request into refusals of parties; send pending end notices first."""
        self._owed.pay(self._hub.connected())  # a party may have yet to store its partial forest
        try:
            yield
        except (DataError, PolicyRefusal) as error:
            raise in_own_words(error, order) from None

    def _run_of(self, text: str) -> bytes:
        run = bytes.fromhex(text)
        if not self._store.has(run):
            raise ConfigurationError(f"there is no run {text} at this coordinator")
        return run

    def _role_of(self, user: str) -> UserRole:
        return DEFAULT_ROLE if self._users is None else self._users().get(user, "viewer")

    def _begin(self, asked: Submission, identity: object, user: str) -> bytes:
        """Store a new run, and queue it; a signed request begins one run only."""
        order: Any = asked.order
        check_run(order)
        self._runs.check_limits(order)
        self._check_parties(order)
        self._standing.check(order)
        run = asked.id or self._randomness(RUN_ID_BYTES)
        if asked.id is not None and self._store.has(run):
            raise ConfigurationError(f"this order has begun a run already, {run.hex()}; watch it")
        self._store.begin(run, asked.proof or encode_order(_seed(order))).close()
        self._access.own(run, user)
        self._records.history.begin(run, order, str(identity))
        self._runs.enqueue(run)
        return run

    def _check_parties(self, order: Order) -> None:
        """Refuse a request that names parties which are no members, before anything waits."""
        if self._members is not None:
            check_members(order.data, self._members())


def _seed(order: AnyRun) -> AnyRun:
    """Draw the seed of a request that names none."""
    if getattr(order, "seed", None) is not None:
        return order
    return replace_seed(order, secrets.randbits(63))


def _subject_of(order: AnyOrder) -> dict[str, str]:
    """Return the run or model that a request names, for the log."""
    texts = {name: getattr(order, name, None) for name in ("run", "model", "continues")}
    return {name: text for name, text in texts.items() if text is not None}

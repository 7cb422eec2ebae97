"""The base class of trainings: one object defines a protocol's request, roles, result and reports.

Each module of this package holds both sides of one protocol: the coordinator calls its object with
requests, a party with roles, an estimator in one process with both. The objects use no socket, file
or queue; `registry.py` finds them by request, role or name.
"""

import secrets
from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, NamedTuple, Protocol, TypeVar

import msgspec

from fedforest.privacy.randomized_response import Randomness
from fedforest.privacy.spent import SpentPrivacy
from fedforest.protocol.asking import Conversation, Message
from fedforest.runtime.disclosure.leakage import LeakageReport
from fedforest.runtime.disclosure.run_leakage import Conclusions, RunLeakage, report_run
from fedforest.runtime.driver import Exchange
from fedforest.runtime.messages.orders import AnyRun, Order
from fedforest.runtime.messages.results import Alignment, ValidationReport
from fedforest.runtime.messages.roles import RowChoice
from fedforest.runtime.messages.terms import Terms
from fedforest.runtime.trainings.party_task import Columns, PartyTask, RoleT
from fedforest.runtime.trainings.warm_start import CoordinatorModel
from fedforest.tree.files.forests import StoredForest
from fedforest.tree.growth.level_loop import BATCH_BYTES
from fedforest.tree.workers import ALONE, Workers

OrderT = TypeVar("OrderT", bound=AnyRun)
Trained = TypeVar("Trained")  # what the conversation of the protocol gives
ResultT = TypeVar("ResultT", bound=msgspec.Struct)  # what the user receives


class CoordinatorStore(Protocol):
    """The coordinator's store of outlines and intercepts."""

    def read(self, model: str) -> CoordinatorModel:
        """Read a forest; raises `ModelFileError` if there is none."""

    def keep(self, model: str, kept: CoordinatorModel) -> None:
        """Store an outline."""

    def keep_linear(self, model: str, trained: Any) -> None:
        """Store the intercept of a linear model."""


@dataclass(frozen=True, slots=True)
class CoordinatorMeans:
    """The inputs of a conversation, beside its request."""

    run: bytes
    randomness: Randomness = secrets.token_bytes
    workers: Workers = ALONE
    earlier: CoordinatorModel | None = None  # the forest that gets further trees
    batch_bytes: int = BATCH_BYTES  # for the row orders of trees that grow together
    n_slots: int = 1  # batches that may grow side by side


class Start(NamedTuple):
    """The inputs of a training, beside its request."""

    alignment: Alignment | None = None
    rows: RowChoice | None = None  # None: all, in the order of the data sets
    earlier: CoordinatorModel | None = None  # the forest that gets further trees


NO_START = Start()


class Ended(NamedTuple):
    """A run whose training has ended."""

    model: str = ""  # the id under which every role stores its portion of the model
    alignment: Alignment | None = None
    classes: Mapping[str, Any] = {}  # class names by party, as replied to `EndRun`


class Circumstances(NamedTuple):
    """The circumstances of a training that reports depend on."""

    spent_before: float = 0.0  # epsilon, by earlier trainings of the same forest
    in_federation: bool = True  # every role was a process of its own
    is_seeded: bool = False  # the parties' randomness came from the random state
    forest: StoredForest | None = None  # of the result, if it is decoded already


class Reports(NamedTuple):
    """The leakage of a training, and what privacy it cost."""

    leakage: LeakageReport
    privacy_spent: SpentPrivacy | None = None


class RunFigures(msgspec.Struct, frozen=True, kw_only=True):
    """The figures of a finished run."""

    n_rows: int
    model: str | None = None
    n_trees: int | None = None  # None unless parties hold partial forests
    alignment: Alignment | None = None
    validation: ValidationReport | None = None


class Training(PartyTask[RoleT, Columns], Generic[OrderT, RoleT, Columns, Trained, ResultT]):
    """One protocol; methods that are not abstract do what most protocols need."""

    protocol: ClassVar[str]  # its name in policies, histories and reports
    order_type: ClassVar[type[Order]]
    result_type: ClassVar[type[msgspec.Struct]]
    requests: ClassVar[tuple[type[Message], ...]]
    user_learns: ClassVar[str]  # from the result
    is_only_alignment: ClassVar[bool] = False
    is_whole_at_parties: ClassVar[bool] = False  # every party holds the complete model

    @abstractmethod
    def check(self, order: OrderT) -> None:
        """Refuse an invalid request before any party is asked."""

    @abstractmethod
    def roles(self, order: OrderT, rows: RowChoice | None = None) -> Mapping[str, RoleT]:
        """Return the role of each party, with the rows to use."""

    @abstractmethod
    def terms(self, order: OrderT) -> Terms:
        """Return the terms that parties check against their policies."""

    @abstractmethod
    def conversation(self, order: OrderT, means: CoordinatorMeans) -> Conversation[Trained]:
        """Start the coordinator's side of the training from its beginning."""

    @abstractmethod
    def result(self, order: OrderT, trained: Trained, ended: Ended) -> ResultT:
        """Return the user's result."""

    @abstractmethod
    def reports(self, order: OrderT, result: ResultT, how: Circumstances) -> Reports:
        """Report the leakage, and what privacy it cost."""

    @abstractmethod
    def conclude(
        self, order: OrderT, result: ResultT, exchanges: Sequence[Exchange], spent_before: float
    ) -> Conclusions:
        """Return figures, and the leakage of all messages together."""

    def leakage(
        self,
        order: OrderT,
        result: ResultT,
        exchanges: Iterable[Exchange],
        spent_before: float = 0.0,
    ) -> RunLeakage:
        """Report the leakage of a run from its request, its result and its exchange log.

        `spent_before` is the epsilon that earlier trainings of the same forest spent on its labels.
        """
        log = list(exchanges)
        conclusions = self.conclude(order, result, log, spent_before)
        return report_run(self.protocol, (type(result), self.user_learns), log, conclusions)

    def start(
        self,
        order: OrderT,  # noqa: ARG002 - forests
        models: CoordinatorStore,  # noqa: ARG002 - forests
        alignment: Alignment | None,
    ) -> Start:
        """Choose the rows to train on and the forest that gets further trees; may raise."""
        return Start(alignment)

    def keep(
        self, order: OrderT, trained: Trained, start: Start, model: str, models: CoordinatorStore
    ) -> None:
        """Keep nothing: the user receives the whole model. Other protocols override this."""

    def n_classes(self, order: OrderT, trained: Trained) -> int:  # noqa: ARG002 - of most protocols
        """Return how many classes the label party has to name; 0 if none."""
        return 0

    def named_classes(self, result: ResultT) -> Sequence[Any] | None:  # noqa: ARG002 - of most protocols
        """Return the class names in the user's result; None if there are none."""
        return None

    def figures(self, result: ResultT) -> RunFigures:
        """Return the figures of a result for the history."""
        told: Any = result
        return RunFigures(
            model=told.model,
            n_rows=told.n_rows,
            n_trees=getattr(told, "n_trees", None),
            alignment=getattr(told, "alignment", None),
            validation=getattr(told, "validation", None),
        )

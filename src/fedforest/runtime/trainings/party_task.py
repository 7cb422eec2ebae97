"""The base class of a party's tasks: read the data of a role, make a handler, store the outcome.

A training is such a task; so are scoring and a baseline, which only come with a training. The same
role, data and secret bytes always make the same handler: recovery by replay depends on it.
"""

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from fedforest.protocol.aggregation.introduction import PartyIdentity
from fedforest.protocol.alignment.payloads import IdForm
from fedforest.protocol.alignment.standing_alignment import StandingIds
from fedforest.protocol.asking import Handler, Message
from fedforest.protocol.label_door import OWNER, Accountant
from fedforest.protocol.linear.party import LinearShare
from fedforest.protocol.vertical.party import PartyModel
from fedforest.runtime.messages.orders import AlignmentMethod
from fedforest.runtime.messages.roles import AlignmentRole, Role, RowChoice
from fedforest.runtime.messages.terms import Terms
from fedforest.runtime.randomness import RandomnessSource
from fedforest.runtime.trainings.origins import Origins
from fedforest.tree.canonical_json import JsonValue
from fedforest.tree.files.forests import StoredForest
from fedforest.tree.growth.batches import MakeRows
from fedforest.tree.table.pieces import Allocate, TableSource
from fedforest.tree.workers import ALONE, Workers

RoleT = TypeVar("RoleT", bound=Role)
Columns = TypeVar("Columns")  # what a handler needs of a data set; handlers only read it

Classes = NDArray[Any] | None  # in order; None for regression, and if they are unknown


class RememberedRows(Protocol):
    """The keys of a data set's rows, the same in all runs."""

    def response_context(self, label: str | None) -> bytes:
        """Name all that permanent responses to a label depend on beside the row and parameters."""

    def keys(self, secret: bytes) -> NDArray[np.uint64]:
        """Return a number for each row that is its own; raises `DataError` if an id is shared."""


class PartyData(Protocol):
    """A data set of a party."""

    @property
    def name(self) -> str:
        """The party's name for the data set."""

    @property
    def n_rows(self) -> int:
        """The number of rows."""

    @property
    def identity(self) -> RememberedRows:
        """The identity of the rows."""

    def features(self, without: Collection[str | None] = ()) -> TableSource:
        """Return all columns but these."""

    def select(self, names: Collection[str]) -> TableSource:
        """Return these columns; raises `DataError` if one is missing."""

    def column(self, name: str) -> NDArray[Any]:
        """Return the values of one column; raises `UnknownColumn` if there is none."""

    def check_has(self, name: str) -> None:
        """Raise `UnknownColumn` if there is no column of this name."""

    def own_ids(self) -> list[bytes]:
        """Return the ids that rows are aligned by; an empty one leaves its row out."""

    @property
    def id_form(self) -> IdForm:
        """The form of the ids, which other parties' ids must have, too."""


class Keys(Protocol):
    """A party's identity, the pins of the parties it trusts, and its lasting secret."""

    @property
    def pins(self) -> Mapping[str, str]:
        """Fingerprints of the parties that it trusts."""

    def response_key(self, context: bytes) -> bytes:
        """Return the key from which permanent responses of all runs are drawn in one context."""

    def member(self, randomness: RandomnessSource) -> PartyIdentity:
        """Return the party as a member of one run."""


class ModelSource(Protocol):
    """The models of a party."""

    def read(self, model: str) -> tuple[PartyModel, Classes]:
        """Read the party's partial forest and, at the label party, its classes."""

    def read_forest(self, model: str) -> StoredForest:
        """Read a horizontal forest."""

    def is_noisy(self, model: str) -> bool:
        """Tell whether this party's labels went into the model only with noise."""


class StandingSource(Protocol):
    """The standing alignments of a party."""

    def read(self, version: str) -> StandingIds:
        """Read one; raises `DataError` if there is none, or it has expired."""


class Holdings(Protocol):
    """The keys, models and rows that a party has before a run."""

    @property
    def keys(self) -> Keys:
        """The party's identity and pins."""

    @property
    def models(self) -> ModelSource:
        """The models of earlier runs."""

    @property
    def standing(self) -> StandingSource:
        """The standing alignments."""

    def take_rows(self, data: Any, choice: RowChoice | None) -> Any:
        """Return the rows of a data set that a role uses; raises `DataError` if there are none."""


@dataclass(frozen=True, slots=True)
class PartyMeans:
    """The inputs of a handler, beside its role and columns."""

    randomness: RandomnessSource
    keys: Keys
    terms: Terms
    accountant: Accountant = OWNER  # asked before labels leave, noise is agreed or trees start
    workers: Workers = ALONE
    allocate: Allocate = np.empty  # for arrays as large as the table
    make_rows: MakeRows | None = None  # of a party on a cluster


class KeptOutcome(NamedTuple):
    """The id to store the outcome of a run under, and what went into it."""

    id: str
    origins: Origins  # the last one is the run itself
    n_trees: int | None = None  # only for a party that was away when the training ended


class ModelStore(Protocol):
    """A party's store of models."""

    def keep_partial(
        self, kept: KeptOutcome, share: PartyModel, about: Mapping[str, JsonValue]
    ) -> None:
        """Store a partial forest."""

    def keep_forest(self, kept: KeptOutcome, file: bytes, *, is_noisy: bool) -> None:
        """Store a whole forest."""

    def keep_linear(
        self, kept: KeptOutcome, share: LinearShare, about: Mapping[str, JsonValue]
    ) -> None:
        """Store the coefficients of this party's columns."""


class AlignmentStore(Protocol):
    """A party's store of the rows that it has in common with others."""

    def keep(
        self, alignment: str, data: str, ids: Sequence[bytes], rows: NDArray[np.int64]
    ) -> None:
        """Store rows of a data set with these ids."""


class StandingStore(Protocol):
    """A party's store of standing alignments."""

    def keep(self, version: str, ids: StandingIds, role: AlignmentRole) -> None:
        """Store one, with the name and the days that its role gives it."""


class PartyStores(NamedTuple):
    """A party's stores of models and alignments."""

    models: ModelStore
    alignments: AlignmentStore
    standing: StandingStore


class Work(Protocol):
    """One run at a party: its handler, the requests it accepts, and how to store the outcome."""

    @property
    def handler(self) -> Handler:
        """The handler that answers the coordinator, within the contract of the run."""

    @property
    def requests(self) -> tuple[type[Message], ...]:
        """The types of requests that the handler accepts."""

    def keep(self, kept: KeptOutcome, stores: PartyStores) -> JsonValue:
        """Store the outcome of the run; return the class names if this party knows them."""


class Sums(NamedTuple):
    """The protection of sums over parties, for the policy to check."""

    aggregation: str
    least_participants: int
    noise: str
    scope: str = "run"  # how long they keep their participants


class Demands(NamedTuple):
    """The demands of a role on the owner of the data, for the policy to check."""

    protocol: str | None  # the name in the policy; None: the role has a rule of its own
    alignment: AlignmentMethod | None = None
    standing_days: int = 0  # for which the alignment is to be kept
    extends: str | None = None  # the standing alignment that gets further ids
    recalls: str | None = None  # the standing alignment whose rows are used
    scores: bool = False
    stands_alone: bool = False
    grows_trees: bool = False
    gives_labels: bool = False
    label_epsilon: float | None = None  # of the labels that leave; None: without noise
    encrypts_labels: bool = False  # they leave so that nobody else can read them
    sums: Sums | None = None
    peers: tuple[str, ...] = ()  # parties whose fingerprints the role needs
    scored_model: str | None = None  # the model whose votes are scored, once
    continued_model: str | None = None  # the model that gets further trees


class PartyTask(ABC, Generic[RoleT, Columns]):
    """One kind of role at a party."""

    role_type: ClassVar[type[Role]]

    @abstractmethod
    def demands(self, role: RoleT, terms: Terms) -> Demands:
        """Return what the owner of the data must allow."""

    @abstractmethod
    def read(self, role: RoleT, data: Any, holdings: Holdings) -> Columns:
        """Read what the role needs; raises `DataError` if the data does not fit the role.

        `data` is a `PartyData` or a type of the party with its methods.
        """

    @abstractmethod
    def work(self, role: RoleT, columns: Columns, means: PartyMeans) -> Work:
        """Make a fresh handler."""

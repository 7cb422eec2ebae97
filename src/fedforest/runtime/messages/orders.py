"""Requests of users to a federation, as they are sent and as journals store them.

A request names data sets and columns at parties; it holds no row. Decoding checks it: an unknown
field, a wrong type or an invalid parameter is refused before any party is asked.
"""

import math
from dataclasses import fields
from typing import Annotated, Any, Literal

import msgspec

from fedforest.errors import ConfigurationError
from fedforest.privacy.global_dp import GlobalDP
from fedforest.privacy.local_dp import LocalDP
from fedforest.protocol.aggregation.base import choose_least
from fedforest.protocol.aggregation.options import Masked, Ring, Shamir
from fedforest.protocol.aggregation.plugs import Plug
from fedforest.protocol.horizontal.order import Participation, Scope
from fedforest.protocol.vertical.order import EarlyStopping
from fedforest.tree.growth.parameters import ForestParameters
from fedforest.tree.table.class_labels import Label
from fedforest.tree.table.targets import MAX_CLASSES

Seed = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
RunName = Annotated[str, msgspec.Meta(pattern=r"^[\w .-]{0,64}$")]
PartyName = Annotated[str, msgspec.Meta(max_length=64)]
GivenName = Annotated[str, msgspec.Meta(max_length=1000)]  # of a data set or a column
StateName = Literal["queued", "running", "paused", "failed", "finished", "cancelled"]
Parties = Annotated[list[PartyName], msgspec.Meta(max_length=1000)]
ClassWeights = Annotated[list[tuple[Label, float]], msgspec.Meta(max_length=MAX_CLASSES)]
ClassWeight = Literal["balanced"] | ClassWeights | None
RoleText = Annotated[str, msgspec.Meta(max_length=32)]  # as in `runtime/membership/user_roles.py`
AlignmentMethod = Literal["keyed-hash", "psi"]
# Of rows, id column by id column: texts, whole numbers in decimal
IdColumn = Annotated[
    list[Annotated[str, msgspec.Meta(max_length=1000)]],
    msgspec.Meta(min_length=1, max_length=1_000_000),
]
NamedIds = Annotated[list[IdColumn], msgspec.Meta(min_length=1, max_length=16)]
MOST_DAYS = 3660
STANDARD_DAYS = 30  # that a standing alignment lives


class StandingName(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A standing alignment by its name."""

    standing: RunName


# False: rows are in the same order; True: "keyed-hash"
Align = bool | AlignmentMethod | StandingName
Settings = Annotated[list[float], msgspec.Meta(max_length=1000)]
Setting = int | float | bool | GivenName | Settings | None

_CHOICES: dict[str, Any] = {
    kind.__name__: kind for kind in (Masked, Ring, Shamir, LocalDP, GlobalDP)
}


class OptionChoice(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One of our option classes by name, and its settings."""

    name: GivenName
    settings: Annotated[dict[GivenName, Setting], msgspec.Meta(max_length=16)]

    @classmethod
    def of(cls, option: Any) -> "OptionChoice":
        """Describe an option such as `Masked(k=2)`."""
        settings = {part.name: _plain(getattr(option, part.name)) for part in fields(option)}
        return cls(type(option).__name__, settings)

    def make(self) -> Any:
        """Make the option; raises `ConfigurationError` if there is no such option."""
        if self.name not in _CHOICES:
            raise ConfigurationError(f"there is no option {self.name!r}")
        try:
            return _CHOICES[self.name](**self.settings)
        except TypeError:
            raise ConfigurationError(f"{self.name} has no such settings") from None


def _plain(value: Any) -> Setting:
    return list(map(float, value)) if isinstance(value, tuple | list) else value


class Order(msgspec.Struct, frozen=True, kw_only=True, tag=True, forbid_unknown_fields=True):
    """Base of requests; `data` names the data set of each party."""

    data: Annotated[dict[PartyName, GivenName], msgspec.Meta(max_length=1000)]
    asker: str = ""  # the user; the coordinator replaces what the user writes here

    @property
    def align(self) -> Align:
        """How rows are aligned by their ids first; requests that allow it have a field."""
        return False

    @property
    def alignment_method(self) -> AlignmentMethod:
        """The method of an alignment; True means keyed hashes, which need no further library."""
        if isinstance(self.align, StandingName):
            return "psi"
        return "keyed-hash" if isinstance(self.align, bool) else self.align

    @property
    def validation(self) -> "Validation | None":
        """The rows to hold out; requests that allow it have a field."""
        return None


class Validation(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The fraction of rows that is held out, to score the model on."""

    share: Annotated[float, msgspec.Meta(gt=0, le=0.5)] = 0.2


class TrainingOrderOnWire(Order, frozen=True, kw_only=True):
    """Base of requests for forests; without a seed, the coordinator draws one."""

    label: GivenName
    parameters: ForestParameters
    name: RunName = ""  # the user's name for the run
    seed: Seed | None = None
    weight: GivenName | None = None
    class_weight: ClassWeight = None
    validation: Validation | None = None
    alone: bool = False  # also score the baseline of each party; needs validation
    # bytes of the row orders of trees that grow together, at each role; None: the standard
    batch_bytes: Annotated[int, msgspec.Meta(ge=1 << 16)] | None = None

    @property
    def is_regression(self) -> bool:
        """Whether the label is a number."""
        return self.parameters.task == "regression"


class TrainVertical(TrainingOrderOnWire, frozen=True, kw_only=True):
    """A forest over the columns of all parties, in the order of `data`."""

    label_party: PartyName
    label_epsilon: float | None = None
    encrypts_labels: bool = False  # only the label party sees labels, gains and leaves
    out_of_bag: bool = False
    hard_votes: bool = False
    early_stopping: EarlyStopping | None = None
    continues: GivenName | None = None  # the model to add trees to
    align: Align = False  # by the ids of the data sets; otherwise rows are in the same order

    @property
    def spent_epsilon(self) -> float:
        """The epsilon that the training spends on each label; infinite without noise."""
        return math.inf if self.label_epsilon is None else self.label_epsilon

    @property
    def with_left_out(self) -> bool:
        """Whether trees vote on their out-of-bag rows."""
        return self.out_of_bag or self.early_stopping is not None


class AlignRows(Order, frozen=True, kw_only=True):
    """Find the rows that all parties have; each stores its own under the id of the run."""

    method: AlignmentMethod = "keyed-hash"
    name: RunName = ""  # keep it as a standing alignment under this name
    days: Annotated[int, msgspec.Meta(ge=1, le=MOST_DAYS)] | None = None  # None: the standard
    extends: RunName = ""  # the standing alignment that gets the ids that are new

    @property
    def align(self) -> AlignmentMethod:
        """The method: rows are always aligned."""
        return self.method


class TrainHorizontal(TrainingOrderOnWire, frozen=True, kw_only=True):
    """Extra-trees over the rows of all parties."""

    aggregation: OptionChoice | None = None
    privacy: OptionChoice | None = None
    participation: float = 1.0
    participation_scope: Scope = "tree"
    min_participants: Annotated[int, msgspec.Meta(ge=1)] | None = None

    @property
    def least(self) -> int:
        """The least number of parties in every sum."""
        return choose_least(self.min_participants, is_protected=self.aggregation is not None)

    @property
    def scope(self) -> Scope:
        """How long sums keep their participants; plain sums have none to keep."""
        if self.aggregation is None:
            return "run"
        return Participation(self.participation, self.participation_scope).kept_for

    @property
    def share_of_sums(self) -> float | None:
        """The fraction of the parties that a protected sum is over; None for plain sums."""
        return None if self.aggregation is None else self.participation

    def plug(self) -> Plug:
        """Return the aggregation of sums."""
        return "plain" if self.aggregation is None else self.aggregation.make()

    def noise(self) -> LocalDP | GlobalDP | None:
        """Return the noise on labels; None without noise."""
        return None if self.privacy is None else self.privacy.make()


class TrainLinear(Order, frozen=True, kw_only=True):
    """A linear model over the columns of all parties: logistic for two classes, or regression."""

    label: GivenName
    label_party: PartyName
    is_regression: bool
    penalty: Annotated[float, msgspec.Meta(ge=0.0)]
    max_iter: Annotated[int, msgspec.Meta(ge=1)]
    tol: Annotated[float, msgspec.Meta(ge=0.0)]
    name: RunName = ""  # the user's name for the run
    weight: GivenName | None = None
    class_weight: ClassWeight = None


class PredictLinear(Order, frozen=True, kw_only=True):
    """The scores of a linear model for all rows of the parties' data sets."""

    model: GivenName


class PredictVertical(Order, frozen=True, kw_only=True):
    """The votes of a vertical forest on rows of the parties' data sets, or the rows' leaves.

    Under a standing alignment, `rows` are numbers in its common order, and `ids` name rows.
    """

    model: GivenName
    rows: list[Annotated[int, msgspec.Meta(ge=0, lt=2**31)]] | None = None  # None: all
    ids: NamedIds | None = None  # instead of rows, under a standing alignment
    id_party: PartyName = ""  # that finds ids; empty: the first one of the alignment
    lookahead: Annotated[int, msgspec.Meta(ge=1)] | None = None  # None: the coordinator chooses
    hard_votes: bool | None = False  # None: as the run of the model was ordered
    leaves: bool = False
    key: Annotated[bytes, msgspec.Meta(max_length=32)] = b""  # of the asker, for sealed votes
    align: Align = False  # by the ids of the data sets; otherwise rows are in the same order


class DescribeTables(Order, frozen=True, kw_only=True):
    """The sizes of data sets, for the plan of a run over them."""


class CompleteModel(
    msgspec.Struct, frozen=True, kw_only=True, tag=True, forbid_unknown_fields=True
):
    """Join a vertical forest into one complete model; every party must allow it."""

    model: GivenName
    asker: str = ""  # as in `Order`


AnyTraining = TrainVertical | TrainHorizontal | TrainLinear
AnyRun = AnyTraining | AlignRows  # requests that begin a run


def replace_seed(order: AnyRun, seed: int | None) -> AnyRun:
    """Return the request with another seed; unchanged if it has no field for one."""
    return msgspec.structs.replace(order, seed=seed) if hasattr(order, "seed") else order


RunText = Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{32}$")]


class AboutRun(msgspec.Struct, frozen=True, kw_only=True, tag=True, forbid_unknown_fields=True):
    """Base of requests about an existing run."""

    run: RunText


class WatchRun(AboutRun, frozen=True, kw_only=True):
    """Send the events of a run until its result."""


class ResumeRun(AboutRun, frozen=True, kw_only=True):
    """Resume a paused run, without the parties in `without` if that is possible."""

    without: Parties = []


class EndRunEarly(AboutRun, frozen=True, kw_only=True):
    """Finish a run with its complete trees, and without the parties in `without`."""

    without: Parties = []


class CancelRun(AboutRun, frozen=True, kw_only=True):
    """Cancel a run after the current exchange; only the coordinator's history keeps it."""


class ShareRun(AboutRun, frozen=True, kw_only=True):
    """Share a run and its model with another user, or end that."""

    user: PartyName
    ends: bool = False


class ShowRun(AboutRun, frozen=True, kw_only=True):
    """Send everything about a run."""


class LogOfRun(AboutRun, frozen=True, kw_only=True):
    """Send the events and exchanges of a run."""


class AboutModel(msgspec.Struct, frozen=True, kw_only=True, tag=True, forbid_unknown_fields=True):
    """Base of requests about a model, which has the id of its run."""

    model: RunText


class ShowModel(AboutModel, frozen=True, kw_only=True):
    """Say whether a model may be used, or who withdrew it."""


class ShowTree(AboutModel, frozen=True, kw_only=True):
    """Send the outline of one tree of a vertical forest: shape, owners of splits, leaves."""

    tree: Annotated[int, msgspec.Meta(ge=0, lt=2**31)] = 0


class WithdrawModel(AboutModel, frozen=True, kw_only=True):
    """Withdraw a model for good: from the next request on it answers nothing."""


class DeleteModel(AboutModel, frozen=True, kw_only=True):
    """Withdraw a model, and delete what the coordinator keeps of it."""


class ListModels(msgspec.Struct, frozen=True, tag=True, forbid_unknown_fields=True):
    """List the models that the user may see."""


class RunFilter(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The runs that a request is about; what is empty chooses all. Times are since 1970."""

    states: Annotated[list[StateName], msgspec.Meta(max_length=6)] = []
    user: PartyName = ""
    name: PartyName = ""  # * stands for any letters
    data: GivenName = ""  # a data set of any party
    before: float | None = None  # when the run was ordered
    after: float | None = None
    latest: Annotated[int, msgspec.Meta(ge=1)] | None = None  # only so many, the last ordered


class ListRuns(msgspec.Struct, frozen=True, tag=True, forbid_unknown_fields=True):
    """List runs, also those that ended."""

    which: RunFilter = RunFilter()


class PruneRuns(msgspec.Struct, frozen=True, tag=True, forbid_unknown_fields=True):
    """List the runs that ended and may go, and delete them if asked to."""

    which: RunFilter
    deletes: bool = False


class ShowStatus(msgspec.Struct, frozen=True, tag=True, forbid_unknown_fields=True):
    """Show the state of the federation, as far as the user may see it."""


class InviteMember(msgspec.Struct, frozen=True, kw_only=True, tag=True, forbid_unknown_fields=True):
    """Make an invitation that lets one newcomer in, once."""

    role: Literal["party", "user"]
    name: PartyName
    user_role: RoleText = "scientist"  # of a user
    valid_seconds: Annotated[float, msgspec.Meta(gt=0, le=30 * 86400)] = 86400.0


class RevokeMember(msgspec.Struct, frozen=True, tag=True, forbid_unknown_fields=True):
    """Refuse a member for good, and cut its connections."""

    name: PartyName


class GrantRole(msgspec.Struct, frozen=True, kw_only=True, tag=True, forbid_unknown_fields=True):
    """Change what a user may do."""

    name: PartyName
    user_role: RoleText


class ListAlignments(msgspec.Struct, frozen=True, tag=True, forbid_unknown_fields=True):
    """List all standing alignments."""


class RemoveAlignment(msgspec.Struct, frozen=True, tag=True, forbid_unknown_fields=True):
    """Remove a standing alignment at every role."""

    name: RunName


AnyOrder = (
    TrainVertical
    | TrainHorizontal
    | TrainLinear
    | AlignRows
    | PredictVertical
    | PredictLinear
    | DescribeTables
    | CompleteModel
    | WatchRun
    | ResumeRun
    | EndRunEarly
    | CancelRun
    | ShareRun
    | ShowRun
    | LogOfRun
    | ListRuns
    | ListAlignments
    | RemoveAlignment
    | PruneRuns
    | ListModels
    | ShowModel
    | WithdrawModel
    | DeleteModel
    | ShowStatus
    | ShowTree
    | InviteMember
    | RevokeMember
    | GrantRole
)


def name_asker(order: AnyOrder, identity: object) -> AnyOrder:
    """Set the asker of a request to the name in the user's certificate, for parties' policies."""
    if not isinstance(order, Order | CompleteModel):
        return order
    return msgspec.structs.replace(order, asker=getattr(identity, "name", str(identity)))


_ENCODER = msgspec.msgpack.Encoder()
_DECODER = msgspec.msgpack.Decoder(AnyOrder)


def encode_order(order: AnyOrder) -> bytes:
    """Encode a request."""
    return _ENCODER.encode(order)


def decode_order(data: bytes) -> AnyOrder:
    """Decode a request; raises `ConfigurationError` if it is invalid."""
    try:
        order: AnyOrder = _DECODER.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ConfigurationError(
            f"this is no order that a federation understands: {error}"
        ) from None
    return order

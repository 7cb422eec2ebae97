"""What users ask a federation for, as it travels and as journals keep it.

An order names data sets and columns at parties; it holds no row. It is checked as it is decoded:
an unknown field, a wrong type or a parameter that cannot be is refused before anybody is asked.
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
from fedforest.protocol.vertical.order import EarlyStopping
from fedforest.tree.parameters import ForestParameters

Seed = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
RunName = Annotated[str, msgspec.Meta(pattern=r"^[\w .-]{0,64}$")]
Label = str | int | float | bool
ClassWeight = Literal["balanced"] | list[tuple[Label, float]] | None
Setting = int | float | bool | str | list[float] | None

_CHOICES: dict[str, Any] = {
    kind.__name__: kind for kind in (Masked, Ring, Shamir, LocalDP, GlobalDP)
}


class Choice(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One of our option classes by name, and what it was made with."""

    name: str
    settings: dict[str, Setting]

    @classmethod
    def of(cls, option: Any) -> "Choice":
        """Describe an option such as `Masked(k=2)`."""
        settings = {part.name: _plain(getattr(option, part.name)) for part in fields(option)}
        return cls(type(option).__name__, settings)

    def make(self) -> Any:
        """The option again; raises `ConfigurationError` for what is none."""
        if self.name not in _CHOICES:
            raise ConfigurationError(f"there is no option {self.name!r}")
        try:
            return _CHOICES[self.name](**self.settings)
        except TypeError:
            raise ConfigurationError(f"{self.name} has no such settings") from None


def _plain(value: Any) -> Setting:
    return list(map(float, value)) if isinstance(value, tuple | list) else value


class Order(msgspec.Struct, frozen=True, kw_only=True, tag=True, forbid_unknown_fields=True):
    """Root of what users ask for; `data` names the data set that each party takes part with."""

    data: dict[str, str]
    asker: str = ""  # who gave the order: whatever a user writes here, the coordinator replaces


class Validation(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Rows that are kept out of training, to see how good the model is."""

    share: Annotated[float, msgspec.Meta(gt=0, le=0.5)] = 0.2


class TrainingOrderOnWire(Order, frozen=True, kw_only=True):
    """What all trainings have in common; without a seed, the coordinator draws one."""

    label: str
    parameters: ForestParameters
    name: RunName = ""  # what its user calls it
    seed: Seed | None = None
    weight: str | None = None
    class_weight: ClassWeight = None
    validation: Validation | None = None
    alone: bool = False  # also what each party would reach without the others; needs validation

    @property
    def is_regression(self) -> bool:
        """Whether the label is a number."""
        return self.parameters.task == "regression"


class TrainVertical(TrainingOrderOnWire, frozen=True, kw_only=True):
    """A forest over the columns of all parties, in the order of `data`."""

    label_party: str
    label_epsilon: float | None = None
    out_of_bag: bool = False
    hard_votes: bool = False
    early_stopping: EarlyStopping | None = None
    continues: str | None = None  # the model to grow on from
    align: bool = False  # by the ids of the data sets; otherwise rows are in the same order

    @property
    def spent_epsilon(self) -> float:
        """What the training spends on each label; infinite where labels are not noisy."""
        return math.inf if self.label_epsilon is None else self.label_epsilon

    @property
    def with_left_out(self) -> bool:
        """Whether trees are to say something of rows that they left out."""
        return self.out_of_bag or self.early_stopping is not None


class AlignRows(Order, frozen=True, kw_only=True):
    """Find the rows that all parties have; each keeps its own under the id of the run."""


class TrainHorizontal(TrainingOrderOnWire, frozen=True, kw_only=True):
    """Extra-trees over the rows of all parties."""

    aggregation: Choice | None = None
    privacy: Choice | None = None
    participation: float = 1.0
    participation_scope: Literal["tree", "step", "run"] = "tree"
    min_participants: Annotated[int, msgspec.Meta(ge=1)] | None = None

    @property
    def least(self) -> int:
        """Parties that take part in every sum, at least."""
        return choose_least(self.min_participants, is_protected=self.aggregation is not None)

    def plug(self) -> Plug:
        """How sums are formed."""
        return "plain" if self.aggregation is None else self.aggregation.make()

    def noise(self) -> LocalDP | GlobalDP | None:
        """How labels are made noisy."""
        return None if self.privacy is None else self.privacy.make()


class TrainLinear(Order, frozen=True, kw_only=True):
    """A linear model over the columns of all parties: logistic for two classes, or of numbers."""

    label: str
    label_party: str
    is_regression: bool
    penalty: Annotated[float, msgspec.Meta(ge=0.0)]
    max_iter: Annotated[int, msgspec.Meta(ge=1)]
    tol: Annotated[float, msgspec.Meta(ge=0.0)]
    name: RunName = ""  # what its user calls it
    weight: str | None = None
    class_weight: ClassWeight = None


class PredictLinear(Order, frozen=True, kw_only=True):
    """The scores of a linear model for all rows of the parties' data sets."""

    model: str


class PredictVertical(Order, frozen=True, kw_only=True):
    """What a vertical forest says about rows of the parties' data sets, or in which leaves."""

    model: str
    rows: list[Annotated[int, msgspec.Meta(ge=0, lt=2**31)]] | None = None  # None: all
    lookahead: Annotated[int, msgspec.Meta(ge=1)] | None = None  # None: to be chosen
    hard_votes: bool = False
    leaves: bool = False
    align: bool = False  # by the ids of the data sets; otherwise rows are in the same order


class CompleteModel(
    msgspec.Struct, frozen=True, kw_only=True, tag=True, forbid_unknown_fields=True
):
    """Put a vertical forest together as a whole; every party must allow it."""

    model: str
    asker: str = ""  # as in `Order`


AnyTraining = TrainVertical | TrainHorizontal | TrainLinear
AnyRun = AnyTraining | AlignRows  # what parties are asked to take part in

RunText = Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{32}$")]


class AboutRun(msgspec.Struct, frozen=True, kw_only=True, tag=True, forbid_unknown_fields=True):
    """Root of what users ask about a run that was begun before."""

    run: RunText


class WatchRun(AboutRun, frozen=True, kw_only=True):
    """Tell of the run until its result is there."""


class ResumeRun(AboutRun, frozen=True, kw_only=True):
    """Go on with a paused run; parties in `without` are not waited for where that is possible."""

    without: list[str] = []


class EndRunEarly(AboutRun, frozen=True, kw_only=True):
    """Finish a run with the trees that are complete, and without the parties that are gone."""

    without: list[str] = []


class CancelRun(AboutRun, frozen=True, kw_only=True):
    """Give a run up, after the exchange under way; only the coordinator's history remembers it."""


class ShowRun(AboutRun, frozen=True, kw_only=True):
    """Tell everything about a run."""


class LogOfRun(AboutRun, frozen=True, kw_only=True):
    """Tell what happened in a run."""


class ListRuns(msgspec.Struct, frozen=True, tag=True, forbid_unknown_fields=True):
    """Tell of all runs, those that are over included."""


AnyOrder = (
    TrainVertical
    | TrainHorizontal
    | TrainLinear
    | AlignRows
    | PredictVertical
    | PredictLinear
    | CompleteModel
    | WatchRun
    | ResumeRun
    | EndRunEarly
    | CancelRun
    | ShowRun
    | LogOfRun
    | ListRuns
)


def sign_order(order: AnyOrder, identity: object) -> AnyOrder:
    """The order with the name of who gave it, by the certificate; parties' policies ask for it."""
    if not isinstance(order, Order | CompleteModel):
        return order
    return msgspec.structs.replace(order, asker=getattr(identity, "name", str(identity)))


_ENCODER = msgspec.msgpack.Encoder()
_DECODER = msgspec.msgpack.Decoder(AnyOrder)


def encode_order(order: AnyOrder) -> bytes:
    """The bytes of an order."""
    return _ENCODER.encode(order)


def decode_order(data: bytes) -> AnyOrder:
    """The order again; raises `ConfigurationError` for what is none."""
    try:
        order: AnyOrder = _DECODER.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ConfigurationError(
            f"this is no order that a federation understands: {error}"
        ) from None
    return order

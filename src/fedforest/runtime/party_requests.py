"""What a coordinator's service says to a party's around the messages of a protocol.

A run begins with a role, goes on with numbered requests (`runtime/envelope.py`) and ends with the
id of the model to be kept. Everything may be said again: a party that did it already says so again.
"""

from typing import Annotated, Any, ClassVar

import msgspec

from fedforest.protocol.asking import Message
from fedforest.runtime.envelope import RunId, RunRequest, Sequence
from fedforest.runtime.roles import AnyRole, KeptId, RowChoice
from fedforest.runtime.terms import RunText, Terms

ModelId = KeptId


class BeginRun(Message, frozen=True):
    """Take part in a run in this role, on these terms."""

    run: RunId
    role: AnyRole
    terms: Terms = Terms()


class EndRun(Message, frozen=True):
    """The run is over: keep your share of what it gave, a model or an alignment, or nothing."""

    run: RunId
    model: ModelId | None
    n_trees: Annotated[int, msgspec.Meta(ge=1, lt=2**31)] | None = None  # to who was away meanwhile


class BeginPrediction(msgspec.Struct, frozen=True, array_like=True):
    """Which rows of which data set go through which model."""

    model: ModelId
    data: str
    rows: memoryview | None  # <i4; None: all
    choice: RowChoice | None = None  # what rows are counted among
    asker: str = ""
    part_of: RunText = ""  # the run whose forest is validated by it


class InPrediction(Message, frozen=True):
    """A numbered request of a prediction; the first one says what it is about."""

    prediction: RunId
    sequence: Sequence
    begin: BeginPrediction | None
    payload: memoryview


class CountRows(Message, frozen=True):
    """Say how many rows the data set has that the model is to predict."""

    model: ModelId
    data: str
    choice: RowChoice | None = None
    asker: str = ""


class DropModel(Message, frozen=True):
    """Forget a forest that was grown only to be scored beside another one."""

    model: ModelId


class GiveShare(Message, frozen=True):
    """Give your share of a model away, to be made whole; you may refuse."""

    model: ModelId
    asker: str = ""


class ShareGiven(Message, frozen=True):
    """A party's splits, bins and column names, with which it parts knowingly."""

    reveals: ClassVar[str] = "all splits of the party, with their thresholds and column names"

    share: memoryview


class Done(Message, frozen=True):
    """The party did it; the label party adds what class numbers mean, when a run ends."""

    reveals: ClassVar[str] = (
        "that the party did it; of the label party, when a run ends, the names of classes; "
        "where asked for, the number of rows of a data set"
    )

    classes: Any = None
    n_rows: Annotated[int, msgspec.Meta(ge=0, lt=2**31)] = 0
    largest_lookahead: Annotated[int, msgspec.Meta(ge=1)] | None = None  # where rows are counted


TO_PARTY = (BeginRun, RunRequest, EndRun, InPrediction, CountRows, DropModel, GiveShare)

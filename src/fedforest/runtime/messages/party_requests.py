"""Requests from a coordinator's service to a party's, around the messages of a protocol.

A run begins with a role, goes on with numbered requests (`envelope.py`) and ends: parties store its
outcome under the run's own id, or nothing. Every request may be repeated: the party then replies as
before.
"""

from typing import Annotated, ClassVar

import msgspec

from fedforest.protocol.asking import Message, Request
from fedforest.runtime.messages.envelope import RunId, RunRequest, Sequence
from fedforest.runtime.messages.names import Asker, DataSetName, KeptId, RunText
from fedforest.runtime.messages.orders import NamedIds
from fedforest.runtime.messages.revocations import Revocations
from fedforest.runtime.messages.roles import AnyRole, RowChoice
from fedforest.runtime.messages.terms import Terms
from fedforest.tree.table.class_labels import Label
from fedforest.tree.table.targets import MAX_CLASSES

# the request that its user signed (`signed_orders.py`); empty: the coordinator vouches for the user
Proof = Annotated[bytes, msgspec.Meta(max_length=2**24)]


class ClassNames(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The labels of all classes in order, as `pack_labels` describes them."""

    dtype: Annotated[str, msgspec.Meta(max_length=16)]
    labels: Annotated[list[Label], msgspec.Meta(max_length=MAX_CLASSES)]


class Done(Message, frozen=True):
    """The party did it; when a run ends, the label party adds the class names."""

    reveals: ClassVar[str] = (
        "that the party did it; of the label party, when a run ends, the names of classes; "
        "when a run begins, and where asked for, the number of rows and columns of a data set"
    )

    classes: ClassNames | None = None
    n_rows: Annotated[int, msgspec.Meta(ge=0, lt=2**31)] = 0
    n_columns: Annotated[int, msgspec.Meta(ge=0, lt=2**31)] = 0  # that runs may see
    largest_lookahead: Annotated[int, msgspec.Meta(ge=1)] | None = None  # in reply to `CountRows`


def read_class_names(packed: object) -> ClassNames | None:
    """Read the result of `pack_labels`; None stays None."""
    return msgspec.convert(packed, ClassNames | None)


class BeginRun(Request[Done], frozen=True):
    """Take part in a run in this role, on these terms."""

    run: RunId
    role: AnyRole
    terms: Terms = Terms()
    proof: Proof = b""


class EndRun(Request[Done], frozen=True):
    """End a run: store your portion of its outcome, a model or an alignment, or nothing."""

    run: RunId
    model: KeptId | None  # the id of the run, or None: nothing is stored
    n_trees: Annotated[int, msgspec.Meta(ge=1, lt=2**31)] | None = None  # for a party that was away


class BeginPrediction(msgspec.Struct, frozen=True, array_like=True):
    """The model, the data set and the rows of a prediction."""

    model: KeptId
    data: DataSetName
    rows: memoryview | None  # <i4; None: all
    choice: RowChoice | None = None  # the rows that `rows` are numbers of
    asker: Asker = ""
    part_of: RunText = ""  # the run whose forest the prediction validates
    standing: KeptId | None = None  # `rows` are numbers in the common order of this alignment
    proof: Proof = b""


class InPrediction(Message, frozen=True):
    """A numbered request of a prediction; the first one has `begin`."""

    prediction: RunId
    sequence: Sequence
    begin: BeginPrediction | None
    payload: memoryview


class PlacesFound(Message, frozen=True):
    """The number of each id in the common order, <i4; -1 for ids that not all parties have."""

    reveals: ClassVar[str] = (
        "which of the ids that the asker named all parties have, and their numbers in the "
        "standing alignment"
    )

    places: memoryview


class FindPlaces(Request[PlacesFound], frozen=True):
    """Find ids that an asker names in a standing alignment, to predict their rows."""

    standing: KeptId
    data: DataSetName
    ids: NamedIds
    asker: Asker = ""
    proof: Proof = b""


class CountRows(Request[Done], frozen=True):
    """Count the rows of the data set that the model would predict."""

    model: KeptId
    data: DataSetName
    choice: RowChoice | None = None
    asker: Asker = ""
    proof: Proof = b""


class DescribeData(Request[Done], frozen=True):
    """Say how many rows and columns a data set has, for the plan of a run."""

    data: DataSetName
    asker: Asker = ""
    proof: Proof = b""


class DropModel(Request[Done], frozen=True):
    """Delete a baseline."""

    model: KeptId


class WithdrawPart(Request[Done], frozen=True):
    """Withdraw a model for good: a user wants it used no more, or its files deleted."""

    model: KeptId
    by: Asker = ""
    asks_deletion: bool = False  # by the party's owner, who alone deletes files


class DropAlignment(Request[Done], frozen=True):
    """Remove a standing alignment, with all that it was extended from."""

    alignment: KeptId


class RevocationsKept(Message, frozen=True):
    """The revocations that the party knows and the coordinator did not name."""

    reveals: ClassVar[str] = "which revocations the party heard of before"

    unnamed: Revocations


class KeepRevocations(Request[RevocationsKept], frozen=True):
    """Keep these revocations, whatever becomes of the coordinator, and name others you know."""

    revocations: Revocations


class ShareGiven(Message, frozen=True):
    """A party's partial forest: its splits, bins and column names."""

    reveals: ClassVar[str] = "all splits of the party, with their thresholds and column names"

    share: memoryview


class GiveShare(Request[ShareGiven], frozen=True):
    """Send your partial forest for a complete model; you may refuse."""

    model: KeptId
    asker: Asker = ""
    proof: Proof = b""


# in a user's name
Asked = BeginRun | BeginPrediction | FindPlaces | CountRows | DescribeData | GiveShare

TO_PARTY = (
    BeginRun,
    RunRequest,
    EndRun,
    InPrediction,
    FindPlaces,
    CountRows,
    DescribeData,
    DropModel,
    WithdrawPart,
    DropAlignment,
    KeepRevocations,
    GiveShare,
)

"""Replies of a coordinator's service to a user: events while it works, then a result.

A result may be large, so it is sent in pieces among the events.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from fedforest.errors import ProtocolError, TransportError
from fedforest.printable import printable_in
from fedforest.protocol.payloads import SealedVotes
from fedforest.runtime.driver import Exchange
from fedforest.runtime.messages.status import FederationStatus
from fedforest.tree.forest.metrics import Judgement

PIECE_BYTES = 1 << 20


class Event(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """Base of events."""


class RunAccepted(Event, frozen=True):
    """The request is valid and its run has an id; other runs may come first."""

    run: str


class Exchanged(Event, frozen=True):
    """The figures of one request and reply with some parties; no content."""

    request: str
    n_parties: int
    bytes_to: dict[str, int]
    bytes_from: dict[str, int]
    seconds: float
    note: dict[str, Any]

    @classmethod
    def of(cls, exchange: Exchange) -> "Exchanged":
        note = {
            key: [value.start, value.stop] if isinstance(value, range) else value
            for key, value in exchange.note.items()
        }
        return cls(
            exchange.request,
            exchange.n_parties,
            dict(exchange.bytes_to),
            dict(exchange.bytes_from),
            exchange.seconds,
            note,
        )

    def to_exchange(self) -> Exchange:
        """Convert back to the coordinator's `Exchange`."""
        note = dict(self.note)
        if "trees" in note:
            note["trees"] = range(*note["trees"])
        return Exchange(
            self.request, self.n_parties, self.bytes_to, self.bytes_from, self.seconds, note
        )


class Waiting(Event, frozen=True):
    """The run waits for parties that are not connected."""

    parties: list[str]


Told = Exchanged | Waiting


class Progress(Event, frozen=True):
    """The events since the last `Progress`."""

    events: list[Told]


class ResultPiece(Event, frozen=True):
    """The next part of the result."""

    data: memoryview


class Finished(Event, frozen=True):
    """The last part of the result, which is complete now."""

    data: memoryview


class Alignment(msgspec.Struct, frozen=True, array_like=True, kw_only=True):
    """The number of rows that all parties have, of how many; rows with a duplicate id are left out.

    Each party stores the numbers of its rows, in the common order, under the alignment's id.
    """

    n_common: int
    n_rows: dict[str, int]
    n_duplicates: dict[str, int]  # rows without an id of their own
    id: str = ""
    standing: str = ""  # the name it is kept under
    expires: float | None = None  # in seconds since 1970


class StandingState(msgspec.Struct, frozen=True, array_like=True, kw_only=True):
    """A standing alignment, as its coordinator knows it. Times are in seconds since 1970."""

    name: str
    data: dict[str, str]  # by party, in order: the first one meets all others
    n_common: int
    user: str
    created: float
    expires: float
    n_extensions: int = 0


class AlignmentList(msgspec.Struct, frozen=True, array_like=True):
    """The standing alignments of a coordinator; parties that were away when one was removed."""

    alignments: list[StandingState]
    away: list[str] = []


class Scores(msgspec.Struct, frozen=True, array_like=True, kw_only=True):
    """The quality of predictions of held-out rows, computed where the labels are."""

    n_rows: int
    values: dict[str, float]  # such as "accuracy", "auc", "rmse"; without undefined ones
    confusion: list[list[int]] | None = None  # true class by predicted class

    @classmethod
    def of(cls, judged: Judgement) -> "Scores":
        confusion = None if judged.confusion is None else judged.confusion.tolist()
        return cls(n_rows=judged.n_rows, values=dict(judged.values), confusion=confusion)


class ValidationReport(msgspec.Struct, frozen=True, array_like=True, kw_only=True):
    """Scores of the federated model and, if requested, of each party's baseline (`alone`).

    In horizontal training every party scores its own held-out rows: `by_party` has the federated
    model's scores there.
    """

    federated: Scores
    alone: dict[str, Scores] = {}
    by_party: dict[str, Scores] = {}


class VerticalResult(msgspec.Struct, frozen=True, array_like=True, kw_only=True):
    """A vertical training: everything its user may know, and the id of the stored model."""

    model: str
    n_trees: int
    n_rows: int
    columns_per_party: dict[str, int]
    importances: dict[str, bytes | None]  # <f8, in the order of a party's columns
    classes: Any  # packed labels, or None for regression
    out_of_bag_curve: bytes | None = None
    out_of_bag_votes: bytes | None = None
    n_steps: list[int] = []
    n_extra_steps: list[int] = []
    smallest_group: int | None = None  # rows of the smallest child that the coordinator saw
    alignment: Alignment | None = None
    validation: ValidationReport | None = None


class HorizontalResult(msgspec.Struct, frozen=True, array_like=True, kw_only=True):
    """A horizontal training: the model that all parties hold."""

    model: str
    file: bytes
    n_rows: int
    candidates_per_node: int
    n_trees_begun: int
    lost: list[str]
    smallest_group: int | None = None  # the same; None under noise
    validation: ValidationReport | None = None


class LinearResult(msgspec.Struct, frozen=True, array_like=True, kw_only=True):
    """The user's part of a linear model; coefficients stay with the parties."""

    model: str
    intercept: float  # the score of a row whose every standardised term is zero
    n_rows: int
    columns_per_party: dict[str, int]
    n_iter: int
    has_converged: bool
    classes: Any  # packed labels, or None for regression


class Predictions(msgspec.Struct, frozen=True, array_like=True):
    """Votes (rows, outputs), leaves (trees, rows) or scores (rows, 1).

    Rows are in the common order if aligned. Votes of a forest of encrypted labels are sealed for
    the asker's key instead (`runtime/client/predictions.py`): the label party's key and the votes,
    block by block. Where rows were named by ids, `found` has a bit for each, set if all parties
    have it, and the others have no prediction.
    """

    shape: tuple[int, int]
    dtype: str
    data: bytes
    alignment: Alignment | None = None
    sealed: list[tuple[bytes, bytes]] = []
    found: bytes | None = None
    classes: list[Any] | None = None  # names, in the order of votes; None: a regression

    @classmethod
    def of(cls, values: NDArray[Any], alignment: Alignment | None = None) -> "Predictions":
        dtype = "<f8" if values.dtype.kind == "f" else "<i4"
        data = np.ascontiguousarray(values, dtype).tobytes()
        return cls(values.shape, dtype, data, alignment)

    @classmethod
    def of_sealed(
        cls,
        votes: Sequence[SealedVotes],
        shape: tuple[int, int],
        alignment: Alignment | None = None,
    ) -> "Predictions":
        sealed = [(bytes(block.key), bytes(block.data)) for block in votes]
        return cls(shape, "<f8", b"", alignment, sealed)

    def read(self) -> NDArray[Any]:
        return np.frombuffer(self.data, self.dtype).reshape(self.shape).copy()


class TablesDescribed(msgspec.Struct, frozen=True, array_like=True):
    """The sizes of the tables of those parties that are there, and how fast the slowest line is."""

    sizes: dict[str, tuple[int, int]]  # rows and columns, with label and weight
    latency_seconds: float
    bytes_per_second: float


class ModelFile(msgspec.Struct, frozen=True, array_like=True):
    """A model in one file."""

    file: bytes


class RunState(msgspec.Struct, frozen=True, array_like=True):
    """The state of a run: queued, running, paused, failed, finished or cancelled.

    A failed run was refused before it began, or by a policy; it can be resumed after the reason for
    the refusal is removed. Times are in seconds since 1970.
    """

    run: str
    state: str
    doing: str  # the present level, or why the run is paused or failed
    name: str = ""
    user: str = ""
    protocol: str = ""
    created: float = 0.0
    ended: float | None = None
    n_exchanges: int = 0
    n_bytes: int = 0  # to and from all parties


class RunList(msgspec.Struct, frozen=True, array_like=True):
    """All runs of a coordinator."""

    runs: list[RunState]


class RunDetails(msgspec.Struct, frozen=True, array_like=True, kw_only=True):
    """Everything that a coordinator stores about a run."""

    state: RunState
    order: dict[str, Any]  # the user's request
    started: float | None = None
    bytes_to: dict[str, int] = {}
    bytes_from: dict[str, int] = {}
    model: str | None = None
    n_rows: int | None = None
    n_trees: int | None = None
    alignment: Alignment | None = None
    classes: Sequence[Any] | None = None  # names, in the order of confusion matrices
    validation: ValidationReport | None = None
    leakage: dict[str, Any] | None = None  # the leakage report of a finished run
    plan: dict[str, Any] | None = None  # what the run was to cost, as `RunPlan` describes it
    peak_memory_bytes: int | None = None  # of the coordinator's process when the run ended
    shared_with: list[str] = []  # users


class TreeOutline(msgspec.Struct, frozen=True, array_like=True, kw_only=True):
    """One tree of a vertical forest, without columns and thresholds; arrays go by node."""

    tree: int
    n_trees: int
    parties: list[str]
    children: bytes  # <i4: the left child, whose right neighbour is the right one; -1: a leaf
    owner: bytes  # <i2: the party of a split; -1: a leaf
    label: bytes  # <i4: of leaves, the most frequent class; -1 where there is none
    value: bytes  # <f8: of leaves, its fraction, or the number
    n_classes: int  # 0: regression
    has_leaves: bool  # False: only the label party knows them


class InvitationMade(msgspec.Struct, frozen=True, array_like=True):
    """The token of an invitation."""

    token: str


class MembersChanged(msgspec.Struct, frozen=True, array_like=True):
    """The members that a request was about."""

    names: list[str]


class ModelState(msgspec.Struct, frozen=True, array_like=True):
    """A model of a finished run; its id is that of the run. Times are in seconds since 1970."""

    model: str
    name: str
    user: str
    protocol: str
    created: float | None
    withdrawn_by: str = ""
    withdrawn_at: float | None = None
    deleted_by: str = ""
    deleted_at: float | None = None
    away: list[str] = []  # parties that have yet to hear of the withdrawal

    @property
    def state(self) -> str:
        """Whether the model may be used."""
        if self.withdrawn_at is None:
            return "usable"
        return "withdrawn" if self.deleted_at is None else "deleted"


class ModelList(msgspec.Struct, frozen=True, array_like=True):
    """Models of a coordinator."""

    models: list[ModelState]


class LoggedEvent(msgspec.Struct, frozen=True, array_like=True):
    """A change of a run's state, or one party's part in one of its exchanges."""

    at: float
    kind: str
    text: str
    number: int = 0
    party: str = ""
    first_tree: int | None = None
    last_tree: int | None = None
    level: int | None = None
    open_nodes: int | None = None
    bytes_to: int = 0
    bytes_from: int = 0
    seconds: float = 0.0


class RunEvents(msgspec.Struct, frozen=True, array_like=True):
    """The events of a run, by time."""

    events: list[LoggedEvent]


# to be read by people
RECORDS = (
    Alignment,
    AlignmentList,
    RunList,
    RunDetails,
    RunEvents,
    ModelList,
    FederationStatus,
)

Result = (
    VerticalResult
    | HorizontalResult
    | LinearResult
    | Alignment
    | Predictions
    | ModelFile
    | TablesDescribed
    | RunList
    | RunDetails
    | RunEvents
    | AlignmentList
    | ModelList
    | FederationStatus
    | TreeOutline
    | InvitationMade
    | MembersChanged
)
News = RunAccepted | Told  # the events that a user sees
AnyEvent = RunAccepted | Progress | ResultPiece | Finished

_ENCODER = msgspec.msgpack.Encoder()
_EVENTS = msgspec.msgpack.Decoder(AnyEvent)


def encode_event(event: AnyEvent) -> bytes:
    """Encode an event."""
    return _ENCODER.encode(event)


def decode_event(data: bytes) -> AnyEvent:
    """Decode an event."""
    try:
        event: AnyEvent = _EVENTS.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise ProtocolError("the coordinator sent something that is no event") from None
    return event


def cut_result(result: Result | bytes) -> Iterator[AnyEvent]:
    """Cut a result, which may be encoded already, into events."""
    data = memoryview(result if isinstance(result, bytes) else _ENCODER.encode(result))
    while len(data) > PIECE_BYTES:
        yield ResultPiece(data[:PIECE_BYTES])
        data = data[PIECE_BYTES:]
    yield Finished(data)


def follow(events: Iterable[AnyEvent], kind: type[Any], tell: Callable[[News], None]) -> Any:
    """Pass each event to `tell`, and return the result; raises if the stream ends without it.

    Texts of events and records are made printable: users of other machines have chosen some.
    """
    pieces: list[memoryview] = []
    for event in events:
        if isinstance(event, RunAccepted):
            tell(printable_in(event))
        elif isinstance(event, Progress):
            for told in event.events:
                tell(printable_in(told))
        else:
            pieces.append(event.data)
            if isinstance(event, Finished):
                return _read_result(b"".join(pieces), kind)
    raise TransportError("the coordinator closed the connection before the result was there")


def _read_result(data: bytes, kind: type[Any]) -> Any:
    try:
        result = msgspec.msgpack.decode(data, type=kind)
        return printable_in(result) if isinstance(result, RECORDS) else result
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise ProtocolError("the coordinator sent a result of another kind") from None

"""What a coordinator's service tells whoever gave an order: events while it works, then a result.

A result may be large, so it travels in pieces among the events.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from fedforest.errors import ProtocolError, TransportError
from fedforest.runtime.driver import Exchange
from fedforest.tree.scores import Judgement

PIECE_BYTES = 1 << 20


class Event(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """Root of events."""


class Accepted(Event, frozen=True):
    """The order is understood and has an id now; others may be served first."""

    run: str


class Exchanged(Event, frozen=True):
    """One request and reply with some parties; no content."""

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
        """As the coordinator noted it."""
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
    """What happened since the last time."""

    events: list[Told]


class Piece(Event, frozen=True):
    """The next part of the result."""

    data: memoryview


class Finished(Event, frozen=True):
    """The last part of the result, which is complete now."""

    data: memoryview


class Alignment(msgspec.Struct, frozen=True, array_like=True, kw_only=True):
    """How many rows are in everybody's data set, of how many; ids that stand twice are left out.

    Each party keeps the numbers of its rows, in the common order, under the alignment's id.
    """

    n_common: int
    n_rows: dict[str, int]
    n_duplicates: dict[str, int]  # rows without an id of their own
    id: str = ""


class Scores(msgspec.Struct, frozen=True, array_like=True, kw_only=True):
    """How good predictions of held-out rows are, computed where the labels are."""

    n_rows: int
    values: dict[str, float]  # such as "accuracy", "auc", "rmse"; what is undefined is not there
    confusion: list[list[int]] | None = None  # true class by predicted class

    @classmethod
    def of(cls, judged: Judgement) -> "Scores":
        confusion = None if judged.confusion is None else judged.confusion.tolist()
        return cls(n_rows=judged.n_rows, values=dict(judged.values), confusion=confusion)


class ValidationReport(msgspec.Struct, frozen=True, array_like=True, kw_only=True):
    """Scores of the federated model and, where asked for, of what each party has alone.

    In horizontal training every party scores its own held-out rows: `by_party` says how good the
    federated model is there, beside `alone`.
    """

    federated: Scores
    alone: dict[str, Scores] = {}
    by_party: dict[str, Scores] = {}


class VerticalResult(msgspec.Struct, frozen=True, array_like=True, kw_only=True):
    """A vertical training: everything its user may know, and the id of the model at its roles."""

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
    """A horizontal training: the model that everybody holds."""

    model: str
    file: bytes
    n_rows: int
    candidates_per_node: int
    n_trees_begun: int
    lost: list[str]
    smallest_group: int | None = None  # the same; None under noise
    validation: ValidationReport | None = None


class LinearResult(msgspec.Struct, frozen=True, array_like=True, kw_only=True):
    """A linear model: what its user may know; coefficients stay with the parties."""

    model: str
    intercept: float  # the score of a row whose every standardised term is zero
    n_rows: int
    columns_per_party: dict[str, int]
    n_iter: int
    has_converged: bool
    classes: Any  # packed labels, or None for regression


class Predictions(msgspec.Struct, frozen=True, array_like=True):
    """Votes (rows, outputs), leaves (trees, rows) or scores (rows, 1).

    Rows are in the common order if aligned.
    """

    shape: tuple[int, int]
    dtype: str
    data: bytes
    alignment: Alignment | None = None

    @classmethod
    def of(cls, values: NDArray[Any], alignment: Alignment | None = None) -> "Predictions":
        dtype = "<f8" if values.dtype.kind == "f" else "<i4"
        data = np.ascontiguousarray(values, dtype).tobytes()
        return cls(values.shape, dtype, data, alignment)

    def read(self) -> NDArray[Any]:
        return np.frombuffer(self.data, self.dtype).reshape(self.shape).copy()


class ModelFile(msgspec.Struct, frozen=True, array_like=True):
    """A model in one file."""

    file: bytes


class RunState(msgspec.Struct, frozen=True, array_like=True):
    """How far a run is: queued, running, paused, failed, finished or cancelled.

    A failed run was refused before it began, or by a policy; it can be resumed once somebody has
    changed what it was refused for. Times count from 1970.
    """

    run: str
    state: str
    doing: str  # the level it is at, or why it is paused or failed
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
    """Everything that a coordinator remembers of a run."""

    state: RunState
    order: dict[str, Any]  # in the user's words
    started: float | None = None
    bytes_to: dict[str, int] = {}
    bytes_from: dict[str, int] = {}
    model: str | None = None
    n_rows: int | None = None
    n_trees: int | None = None
    alignment: Alignment | None = None
    classes: Sequence[Any] | None = None  # names, in the order of confusion matrices
    validation: ValidationReport | None = None
    leakage: dict[str, Any] | None = None  # who learned what, once it is over


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
    """What happened in a run, in the order of time."""

    events: list[LoggedEvent]


Result = (
    VerticalResult
    | HorizontalResult
    | LinearResult
    | Alignment
    | Predictions
    | ModelFile
    | RunList
    | RunDetails
    | RunEvents
)
News = Accepted | Told  # what its user hears of a run
AnyEvent = Accepted | Progress | Piece | Finished

_ENCODER = msgspec.msgpack.Encoder()
_EVENTS = msgspec.msgpack.Decoder(AnyEvent)


def encode_event(event: AnyEvent) -> bytes:
    """The bytes of an event."""
    return _ENCODER.encode(event)


def decode_event(data: bytes) -> AnyEvent:
    """An event again."""
    try:
        event: AnyEvent = _EVENTS.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise ProtocolError("the coordinator sent something that is no event") from None
    return event


def cut_result(result: Result | bytes) -> Iterator[AnyEvent]:
    """The events that carry a result, which may be encoded already."""
    data = memoryview(result if isinstance(result, bytes) else _ENCODER.encode(result))
    while len(data) > PIECE_BYTES:
        yield Piece(data[:PIECE_BYTES])
        data = data[PIECE_BYTES:]
    yield Finished(data)


def follow(events: Iterable[AnyEvent], kind: type[Any], tell: Callable[[News], None]) -> Any:
    """Tell of everything that happens until the result is there; raises where it does not come."""
    pieces: list[memoryview] = []
    for event in events:
        if isinstance(event, Accepted):
            tell(event)
        elif isinstance(event, Progress):
            for told in event.events:
                tell(told)
        else:
            pieces.append(event.data)
            if isinstance(event, Finished):
                return _read_result(b"".join(pieces), kind)
    raise TransportError("the coordinator closed the connection before the result was there")


def _read_result(data: bytes, kind: type[Any]) -> Any:
    try:
        return msgspec.msgpack.decode(data, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise ProtocolError("the coordinator sent a result of another kind") from None

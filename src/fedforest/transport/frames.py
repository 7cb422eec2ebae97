"""The frames on a party's stream: small and typed; long messages are cut into pieces.

A piece names the request it belongs to, so that several messages can share a stream and a late
reply never answers another request. Frames are msgpack, checked as they are decoded.
"""

from collections.abc import Iterator
from typing import Annotated

import msgspec

from fedforest.errors import ProtocolError, TransportError, VersionMismatch

# Of all messages together: whoever changes the format of one raises it (docs/decisions/0011).
# `tests/transport/wire.txt` pins what this version means; `make wire` writes it.
PROTOCOL_VERSION = 7
PIECE_BYTES = 2**20
LARGEST_FRAME = PIECE_BYTES + 4096  # a piece with its head, or the longest refusal
MAX_MESSAGE_BYTES = 2**30

RequestId = Annotated[int, msgspec.Meta(ge=0, lt=2**62)]
LONGEST_TEXT = 2000  # characters: several parties may refuse at once
ShortText = Annotated[str, msgspec.Meta(max_length=64)]
LongText = Annotated[str, msgspec.Meta(max_length=LONGEST_TEXT)]


class Hello(msgspec.Struct, frozen=True, array_like=True, tag=0):
    """The party's first frame."""

    protocol_version: int
    party: ShortText


class Welcome(msgspec.Struct, frozen=True, array_like=True, tag=1):
    """The coordinator's first frame: the party is connected."""

    protocol_version: int


class Piece(msgspec.Struct, frozen=True, array_like=True, tag=2, eq=False):
    """A part of a request or of its reply; pieces of one message come in order."""

    request_id: RequestId
    index: Annotated[int, msgspec.Meta(ge=0, lt=2**31)]
    is_last: bool
    data: memoryview


class Refusal(msgspec.Struct, frozen=True, array_like=True, tag=3):
    """The frame in place of a reply: the kind of an error and its public fields.

    A party sends a code with fields that its peers may see, and no text (`error_texts.py`).
    """

    request_id: RequestId
    kind: ShortText
    code: ShortText = ""
    fields: Annotated[dict[ShortText, LongText | int | float], msgspec.Meta(max_length=16)] = {}
    party: ShortText = ""  # whom the error names, where it names somebody
    text: LongText = ""  # of the coordinator, for its user


class Forget(msgspec.Struct, frozen=True, array_like=True, tag=4):
    """The coordinator no longer waits for this request's reply."""

    request_id: RequestId


class Probe(msgspec.Struct, frozen=True, array_like=True, tag=5, eq=False):
    """A frame that the party sends back at once, to measure the network."""

    number: Annotated[int, msgspec.Meta(ge=0, lt=2**31)]
    data: memoryview


Frame = Hello | Welcome | Piece | Refusal | Forget | Probe

_ENCODER = msgspec.msgpack.Encoder()
_DECODER = msgspec.msgpack.Decoder(Frame)


def check_version(version: int, who: str) -> None:
    """Refuse a peer of another version before it is told anything else."""
    if version != PROTOCOL_VERSION:
        raise VersionMismatch(
            f"{who} speaks version {version} of the protocol, and we speak version "
            f"{PROTOCOL_VERSION}; install the same release of fedforest at both ends"
        )


def encode_frame(frame: Frame) -> bytes:
    return _ENCODER.encode(frame)


def decode_frame(data: bytes) -> Frame:
    """Return the frame; its content is a view of `data`."""
    try:
        frame: Frame = _DECODER.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise ProtocolError.stating(
            "a frame of the stream is not valid"
        ) from None  # quotes no content
    return frame


def split_message(request_id: int, data: bytes) -> Iterator[bytes]:
    """The frames of a message, each made when it is needed."""
    view = memoryview(data)
    last = max(0, len(view) - 1) // PIECE_BYTES
    for index in range(last + 1):
        part = view[index * PIECE_BYTES : (index + 1) * PIECE_BYTES]
        yield _ENCODER.encode(Piece(request_id, index, index == last, part))


class Inbox:
    """The messages that arrive on one stream, put together from their pieces.

    All pieces but the last are full, so that the limit in bytes also limits their number. The limit
    is for all unfinished messages together.
    """

    def __init__(self, max_message_bytes: int = MAX_MESSAGE_BYTES) -> None:
        self._max_message_bytes = max_message_bytes
        self._pieces: dict[int, list[memoryview]] = {}
        self._size = 0  # of all pieces that are kept
        self._refused: set[int] = set()  # the rest of what was too long is still under way

    def add(self, piece: Piece) -> bytes | None:
        """The whole message if this piece was its last one.

        A message that grows too long raises `TransportError` once; its other pieces are dropped.
        """
        if piece.request_id in self._refused:
            if piece.is_last:
                self._refused.remove(piece.request_id)
            return None
        try:
            _check_piece(piece, len(self._pieces.get(piece.request_id, ())))
        except ProtocolError:
            self.discard(piece.request_id)
            raise
        if self._size + len(piece.data) > self._max_message_bytes:
            self.discard(piece.request_id)
            if not piece.is_last:
                self._refused.add(piece.request_id)
            raise TransportError.of("message.beyond", limit=self._max_message_bytes)
        self._pieces.setdefault(piece.request_id, []).append(piece.data)
        self._size += len(piece.data)
        return b"".join(self._forget(piece.request_id)) if piece.is_last else None

    def discard(self, request_id: int) -> None:
        """Drop what has arrived of a message."""
        self._forget(request_id)
        self._refused.discard(request_id)

    def _forget(self, request_id: int) -> list[memoryview]:
        pieces = self._pieces.pop(request_id, [])
        self._size -= sum(map(len, pieces))
        return pieces

    @property
    def n_unfinished(self) -> int:
        return len(self._pieces)


def _check_piece(piece: Piece, n_before: int) -> None:
    """Refuse a piece that `split_message` does not make."""
    if piece.index != n_before:
        raise ProtocolError.stating("the pieces of a message are out of order")
    if len(piece.data) != PIECE_BYTES and not piece.is_last:
        raise ProtocolError.stating("a piece that is not the last one of its message is not full")
    if len(piece.data) == 0 and piece.index > 0:
        raise ProtocolError.stating("the last piece of a message is empty")


def check_size(data: bytes, max_message_bytes: int) -> None:
    """Refuse to send what the other side would not take."""
    if len(data) > max_message_bytes:
        raise TransportError.of("message.too_long", n_bytes=len(data), limit=max_message_bytes)

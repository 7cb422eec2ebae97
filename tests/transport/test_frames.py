"""Frames on a stream: messages are put together from pieces, everything else is refused."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedforest.errors import ProtocolError, TransportError
from fedforest.transport.frames import (
    LARGEST_FRAME,
    LONGEST_TEXT,
    PIECE_BYTES,
    Forget,
    Frame,
    Hello,
    Inbox,
    Piece,
    Probe,
    Refusal,
    Welcome,
    check_size,
    decode_frame,
    encode_frame,
    split_message,
)

FULL = bytes(PIECE_BYTES)


def piece(request_id: int, index: int, data: bytes, *, is_last: bool = False) -> Piece:
    return Piece(request_id, index, is_last, memoryview(data))


LARGEST_ID = 2**62 - 1
EXAMPLES: tuple[Frame, ...] = (
    Hello(1, "bank"),
    Welcome(1),
    piece(LARGEST_ID, 2**31 - 1, bytes(PIECE_BYTES), is_last=True),
    Refusal(LARGEST_ID, "DataError", "stated", {"statement": "é" * 500}, "x" * 64),
    Forget(0),
    Probe(3, memoryview(b"12")),
)


@pytest.mark.parametrize("frame", EXAMPLES, ids=lambda frame: type(frame).__name__)
def test_a_frame_arrives_as_it_left_and_is_short_enough_to_travel(frame: Frame) -> None:
    data = encode_frame(frame)
    assert len(data) <= LARGEST_FRAME
    arrived = decode_frame(data)
    assert type(arrived) is type(frame)
    assert encode_frame(arrived) == data


@given(st.binary(max_size=200))
def test_bytes_are_a_frame_or_are_refused_without_being_quoted(data: bytes) -> None:
    assert complaint_about(data) in {None, "a frame of the stream is not valid"}


def complaint_about(data: bytes) -> str | None:
    try:
        decode_frame(data)
    except ProtocolError as error:
        return str(error)
    return None


@given(st.data())
def test_a_changed_frame_is_a_frame_or_is_refused(data: st.DataObject) -> None:
    frame = bytearray(encode_frame(data.draw(st.sampled_from([*EXAMPLES[:2], *EXAMPLES[3:]]))))
    frame[data.draw(st.integers(0, len(frame) - 1))] = data.draw(st.integers(0, 255))
    assert complaint_about(bytes(frame)) in {None, "a frame of the stream is not valid"}


@pytest.mark.parametrize(
    "frame",
    [
        piece(-1, 0, b"", is_last=True),
        piece(2**62, 0, b"", is_last=True),
        piece(1, -1, b"", is_last=True),
        Hello(1, "x" * 65),
        Refusal(1, "DataError", text="x" * (LONGEST_TEXT + 1)),
        Refusal(1, "DataError", "stated", {"statement": "x" * (LONGEST_TEXT + 1)}),
        Refusal(1, "DataError", "stated", {str(number): 0 for number in range(17)}),
        Refusal(1, "x" * 65, ""),
    ],
)
def test_values_out_of_range_are_refused(frame: Frame) -> None:
    with pytest.raises(ProtocolError):
        decode_frame(encode_frame(frame))


@given(
    st.integers(0, 3),
    st.integers(-2, 2),
    st.lists(st.integers(0, 2), min_size=1, max_size=3, unique=True),
)
def test_messages_that_share_a_stream_come_out_whole(
    n_pieces: int, more: int, request_ids: list[int]
) -> None:
    n_bytes = max(0, n_pieces * PIECE_BYTES + more)
    sent = {number: np.random.default_rng(number).bytes(n_bytes) for number in request_ids}
    inbox, received = Inbox(), {}
    streams = [split_message(number, data) for number, data in sent.items()]
    for frames in zip(*streams, strict=True):  # a piece of each in turn
        for data in frames:
            assert len(data) <= LARGEST_FRAME
            frame = decode_frame(data)
            assert isinstance(frame, Piece)
            whole = inbox.add(frame)
            if whole is not None:
                received[frame.request_id] = whole
    assert received == sent
    assert inbox.n_unfinished == 0


@pytest.mark.parametrize("indices", [[1], [0, 0], [0, 2], [0, 1, 1]])
def test_pieces_out_of_order_are_refused(indices: list[int]) -> None:
    inbox = Inbox()
    for index in indices[:-1]:
        assert inbox.add(piece(5, index, FULL)) is None
    with pytest.raises(ProtocolError, match="out of order"):
        inbox.add(piece(5, indices[-1], FULL))
    assert inbox.n_unfinished == 0


@pytest.mark.parametrize("data", [b"", b"x", FULL[:-1], FULL + b"x"])
def test_only_the_last_piece_may_be_shorter_than_the_others(data: bytes) -> None:
    inbox = Inbox()
    assert inbox.add(piece(5, 0, FULL)) is None
    with pytest.raises(ProtocolError, match="not full"):
        inbox.add(piece(5, 1, data))
    assert inbox.n_unfinished == 0


def test_an_empty_piece_after_others_is_refused() -> None:
    inbox = Inbox()
    assert inbox.add(piece(5, 0, FULL)) is None
    with pytest.raises(ProtocolError, match="empty"):
        inbox.add(piece(5, 1, b"", is_last=True))


def test_a_message_that_grows_too_long_is_refused_once_and_keeps_nothing() -> None:
    inbox = Inbox(max_message_bytes=PIECE_BYTES + 2)
    assert inbox.add(piece(1, 0, FULL)) is None
    with pytest.raises(TransportError, match=f"{PIECE_BYTES + 2} bytes"):
        inbox.add(piece(1, 1, FULL))
    assert inbox.n_unfinished == 0
    assert inbox.add(piece(1, 2, b"c" * 100)) is None
    assert inbox.add(piece(1, 3, b"d", is_last=True)) is None
    assert inbox.add(piece(1, 0, b"another", is_last=True)) == b"another"


def test_the_limit_holds_for_all_unfinished_messages_together() -> None:
    inbox = Inbox(max_message_bytes=2 * PIECE_BYTES)
    assert inbox.add(piece(1, 0, FULL)) is None
    assert inbox.add(piece(2, 0, FULL)) is None
    with pytest.raises(TransportError, match="longer than"):
        inbox.add(piece(3, 0, FULL))
    assert inbox.n_unfinished == 2
    inbox.discard(1)
    assert inbox.add(piece(4, 0, FULL, is_last=True)) == FULL


def test_a_message_may_be_as_long_as_the_limit() -> None:
    assert Inbox(4).add(piece(1, 0, b"1234", is_last=True)) == b"1234"
    check_size(b"1234", 4)
    with pytest.raises(TransportError, match="5 bytes"):
        check_size(b"12345", 4)


def test_a_forgotten_message_begins_anew() -> None:
    inbox = Inbox()
    inbox.add(piece(1, 0, FULL))
    inbox.discard(1)
    assert inbox.add(piece(1, 0, b"new", is_last=True)) == b"new"

"""Messages as bytes: what was encoded is decoded, all else is refused."""

from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedforest.errors import ProtocolError
from fedforest.protocol.asking import Message
from fedforest.protocol.horizontal.messages import TakeForest
from fedforest.protocol.payloads import Gains, LabelScale, Outcomes, RowBits, TableSize
from fedforest.protocol.vertical import messages
from fedforest.protocol.vertical.prediction import classical_walk
from fedforest.protocol.vertical.prediction import messages as prediction_messages
from fedforest.transport.codec import LARGE, decode, encode

REQUESTS = (*messages.REQUESTS, *prediction_messages.REQUESTS)

EXAMPLES = (
    messages.BinColumns(2**64 - 1, 255),
    messages.ColumnsBinned(TableSize(3, 4), LabelScale(0, 0.5, -2.0)),
    messages.ShareLabels((2, 0, 1), 0.5),
    messages.FindSplits(None, memoryview(b"\x01\x02")),
    messages.FindSplits(
        messages.RowMoves(
            memoryview(b"\x07"), RowBits(memoryview(b"")), RowBits(memoryview(b"\xff"))
        ),
        memoryview(b""),
    ),
    messages.SplitsFound(Gains.of(np.array([1.0, -np.inf]))),
    prediction_messages.RouteRows(0, 5, 2**31 - 1, memoryview(b"\x00")),
)


@pytest.mark.parametrize("message", EXAMPLES, ids=lambda message: type(message).__name__)
def test_a_message_arrives_as_it_left(message: Message) -> None:
    arrived = decode(encode(message), (type(message),))
    assert plain(arrived) == plain(message)
    assert encode(arrived) == encode(message)


@pytest.mark.parametrize("n_bytes", [LARGE - 1, LARGE, LARGE + 1])
def test_a_message_with_much_content_is_encoded_as_any_other(n_bytes: int) -> None:
    content = memoryview(bytes(n_bytes - 1) + b"\x01")
    for message in (
        TakeForest(content),
        prediction_messages.LeapRows(0, 5, content),
        prediction_messages.RowsLeapt(Outcomes(content)),
    ):
        assert encode(message) == msgspec.msgpack.encode(message)
        assert plain(decode(encode(message), (type(message),))) == plain(message)


def plain(value: Any) -> Any:
    if isinstance(value, msgspec.Struct):
        return [type(value), *(plain(getattr(value, name)) for name in value.__struct_fields__)]
    return bytes(value) if isinstance(value, memoryview) else value


def test_a_message_of_an_unexpected_type_is_refused_and_the_expected_ones_are_named() -> None:
    data = encode(messages.BinColumns(1, 255))
    with pytest.raises(ProtocolError, match="SweepRows or LeapRows or RouteRows"):
        decode(data, prediction_messages.REQUESTS)


def test_the_refusal_does_not_repeat_what_was_sent() -> None:
    data = encode(messages.BinColumns(1, 255)).replace(b"BinColumns", b"Secret!")
    with pytest.raises(ProtocolError) as caught:
        decode(data, messages.REQUESTS)
    assert "Secret" not in str(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__


@pytest.mark.parametrize(
    ("kind", "fields"),
    [
        (messages.BinColumns, (-1, 255)),
        (messages.BinColumns, (1, 1)),
        (messages.BinColumns, (1, 256)),
        (messages.StartTrees, (b"", True, -1, 1, False)),
        (messages.StartTrees, (b"", True, 2**31, 1, False)),
        (messages.StartTrees, (b"", 1, 5, 1, False)),
        (messages.WeighColumns, (b"", b"", 2**31, False)),
        (messages.ShareLabels, ((-1, 0), None)),
        (prediction_messages.RouteRows, (0, 1, 0, None)),
        (prediction_messages.RouteRows, (0, 1, 2**31, None)),
        (prediction_messages.SweepRows, (0, 1, 0)),
        (prediction_messages.SweepRows, (0, 1, 9)),
        (classical_walk.AskSplit, (-1, 0)),
        (messages.FindSplits, (None, "text")),
        (messages.FindSplits, (None,)),
    ],
)
def test_a_field_out_of_range_or_of_another_type_is_refused(
    kind: type[Message], fields: tuple[Any, ...]
) -> None:
    data = msgspec.msgpack.encode([kind.__name__, *fields])
    with pytest.raises(ProtocolError, match=f"not a valid {kind.__name__}"):
        decode(data, (kind,))


@given(st.binary(max_size=200))
def test_any_bytes_are_a_message_or_refused(data: bytes) -> None:
    try:
        message = decode(data, REQUESTS)
    except ProtocolError:
        return
    assert isinstance(message, REQUESTS)


@pytest.mark.parametrize(
    "start",
    [b"\xc6\xff\xff\xff\xff", b"\xdd\xff\xff\xff\xff", b"\xdf\xff\xff\xff\xff", b"\x91" * 99999],
)
@pytest.mark.parametrize("prefix", [b"", b"\x93\xabShareLabels", b"\x93\xaaFindSplits\xc0"])
def test_a_short_message_that_claims_to_be_huge_or_deep_is_refused_at_once(
    start: bytes, prefix: bytes
) -> None:
    with pytest.raises(ProtocolError, match="not a valid"):
        decode(prefix + start, REQUESTS)

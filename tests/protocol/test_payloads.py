"""What may leave a party, and what is refused when it arrives."""

from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst
from numpy.typing import NDArray

from fedforest.errors import ProtocolError
from fedforest.protocol.aggregation import messages as aggregation_messages
from fedforest.protocol.aggregation import payloads as aggregation_payloads
from fedforest.protocol.aggregation.messages import CountParts
from fedforest.protocol.alignment import messages as alignment_messages
from fedforest.protocol.alignment import payloads as alignment_payloads
from fedforest.protocol.asking import Accepted, Message, Payload, Request
from fedforest.protocol.horizontal import messages as horizontal_messages
from fedforest.protocol.horizontal import payloads as horizontal_payloads
from fedforest.protocol.horizontal.payloads import DeclaredColumns, DeclaredLabels
from fedforest.protocol.linear import messages as linear_messages
from fedforest.protocol.payloads import (
    MAY_LEAVE,
    Count,
    Gains,
    Importances,
    NodeSums,
    OutOfBagScores,
    OutOfBagVotes,
    RowBits,
    from_bytes,
    to_bytes,
)
from fedforest.protocol.scoring import messages as scoring_messages
from fedforest.protocol.scoring import payloads as scoring_payloads
from fedforest.protocol.vertical import messages
from fedforest.protocol.vertical.encrypted import messages as encrypted_messages
from fedforest.protocol.vertical.encrypted import payloads as encrypted_payloads
from fedforest.protocol.vertical.prediction import classical_walk
from fedforest.protocol.vertical.prediction import messages as prediction_messages
from tests.protocol.named_replies import replies_to

MODULES: tuple[Any, ...] = (
    messages,
    prediction_messages,
    classical_walk,
    encrypted_messages,
    linear_messages,
    aggregation_messages,
    horizontal_messages,
    alignment_messages,
    scoring_messages,
)
REPLIES: tuple[type[Message], ...] = (
    Accepted,
    *replies_to(request for module in MODULES for request in module.REQUESTS),
)
ALLOWED = (
    *MAY_LEAVE,
    *encrypted_payloads.MAY_LEAVE,
    *aggregation_payloads.MAY_LEAVE,
    *horizontal_payloads.MAY_LEAVE,
    *alignment_payloads.MAY_LEAVE,
    *scoring_payloads.MAY_LEAVE,
)
DECLARED = (DeclaredColumns, DeclaredLabels)  # horizontal parties tell names to everybody
CHOSEN = (alignment_payloads.IdForm,)  # by the owner, of few choices


def forbidden_fields(reply: type[Message]) -> list[str]:
    """Fields of a reply that are not, or not only, of a type on the allow-list."""
    fields = msgspec.structs.fields(reply)
    return [field.name for field in fields if not may_leave(field.type)]


def may_leave(kind: Any) -> bool:
    if get_origin(kind) in (Union, UnionType):
        options = [option for option in get_args(kind) if option is not NoneType]
        return len(options) > 0 and all(map(may_leave, options))
    if get_origin(kind) is tuple:
        content, *rest = get_args(kind)
        return rest == [...] and may_leave(content)
    return kind in ALLOWED


@pytest.mark.parametrize("reply", REPLIES, ids=lambda reply: reply.__name__)
def test_a_reply_holds_only_what_may_leave_a_party(reply: type[Message]) -> None:
    assert forbidden_fields(reply) == []


BASES = (Message, Request, CountParts)


def test_every_message_that_a_coordinator_expects_is_a_known_reply() -> None:
    known = {reply.__name__ for reply in REPLIES}
    requests = {request.__name__ for module in MODULES for request in module.REQUESTS}
    defined = {
        name
        for module in MODULES
        for name, value in vars(module).items()
        if isinstance(value, type) and issubclass(value, Message) and value not in BASES
    }
    assert defined <= known | requests


class Careless(Message, frozen=True):
    """What a reply must not be."""

    gains: Gains
    maybe_gains: Gains | None
    column_name: str
    values: memoryview
    names: tuple[str, ...]
    edges: NDArray[np.float64] | None
    either: Gains | bytes
    moves: messages.RowMoves
    many_gains: tuple[Gains, ...]
    many_names: tuple[Gains | str, ...]
    pair: tuple[Gains, str]


def test_the_walk_over_replies_finds_a_field_that_may_not_leave() -> None:
    careless = ["column_name", "values", "names", "edges", "either", "moves"]
    assert forbidden_fields(Careless) == [*careless, "many_names", "pair"]


def test_what_may_leave_is_made_of_bytes_and_numbers_alone() -> None:
    for payload in set(ALLOWED) - {*DECLARED, *CHOSEN}:
        assert issubclass(payload, Payload)
        for field in msgspec.structs.fields(payload):
            kind, *_ = get_args(field.type) or (field.type,)  # in Annotated[kind, limits]
            assert kind in (memoryview, float, int, *CHOSEN)


def test_what_an_owner_chooses_is_one_of_few_choices() -> None:
    for kind in CHOSEN:
        for field in msgspec.structs.fields(kind):
            is_choice = get_origin(field.type) is Literal
            assert is_choice or field.type in (bool, Count)


def test_what_is_declared_holds_names_and_sizes_and_nothing_of_a_row() -> None:
    fields = {field.name: field.type for kind in DECLARED for field in msgspec.structs.fields(kind)}
    texts = {name for name, kind in fields.items() if "str" in str(kind)}
    assert texts == {"names", "categories", "dtype", "classes"}
    assert fields.keys() - texts == {
        *("has_names", "kinds", "has_missing", "target_exponent", "weight_exponent")
    }


NUMBERS = npst.arrays(np.float64, st.integers(0, 20), elements=st.floats(-1e30, 1e30))


@given(NUMBERS)
def test_gains_arrive_as_they_left(scores: NDArray[np.float64]) -> None:
    assert Gains.of(scores).read(len(scores)).tobytes() == scores.tobytes()


@pytest.mark.parametrize("bad", [np.nan, np.inf, 1e300, -1e300])
def test_a_gain_that_no_split_can_have_is_refused(bad: float) -> None:
    Gains.of(np.array([1.0, -np.inf])).read(2)
    with pytest.raises(ProtocolError, match="gain"):
        Gains.of(np.array([1.0, bad])).read(2)


@pytest.mark.parametrize("payload", [Gains, OutOfBagScores, Importances])
def test_too_few_or_too_many_numbers_are_refused(payload: Any) -> None:
    sent = payload.of(np.ones(3))
    assert len(sent.read(3)) == 3
    for length in (0, 2, 4):
        with pytest.raises(ProtocolError, match="24 bytes"):
            sent.read(length)


def test_scores_may_be_missing_but_not_infinite() -> None:
    assert np.isnan(OutOfBagScores.of(np.array([np.nan])).read(1)).all()
    with pytest.raises(ProtocolError, match="infinite"):
        OutOfBagScores.of(np.array([-np.inf])).read(1)


def test_votes_may_be_missing_but_not_infinite() -> None:
    votes = np.array([[0.5, np.nan], [1.0, 0.0]])
    assert OutOfBagVotes.of(votes).read(2, 2).tobytes() == votes.tobytes()
    with pytest.raises(ProtocolError, match="infinite"):
        OutOfBagVotes.of(votes / 0.5 + np.inf).read(2, 2)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_an_importance_that_is_no_number_is_refused(bad: float) -> None:
    with pytest.raises(ProtocolError, match="importance"):
        Importances.of(np.array([0.5, bad])).read(2)


@given(st.lists(st.lists(st.booleans(), max_size=40), max_size=6))
def test_row_bits_are_counted_node_by_node(nodes: list[list[bool]]) -> None:
    packed = [np.packbits(np.array(bits, np.uint8), bitorder="little") for bits in nodes]
    sent = RowBits.of(np.concatenate([np.zeros(0, np.uint8), *packed]))
    bits, n_left = sent.read(np.array([len(bits) for bits in nodes], np.int64))
    assert n_left.tolist() == [sum(bits) for bits in nodes]
    assert bits.tobytes() == bytes(sent.data)


def test_row_bits_of_the_wrong_length_are_refused() -> None:
    sent = RowBits.of(np.array([1, 1], np.uint8))
    sent.read(np.array([9]))
    for sizes in ([8], [17], [3, 4, 5], []):
        with pytest.raises(ProtocolError, match="row bits"):
            sent.read(np.array(sizes, np.int64))


@pytest.mark.parametrize("place", range(3, 8))
def test_row_bits_that_are_padded_with_ones_are_refused(place: int) -> None:
    sent = RowBits.of(np.array([1 << place], np.uint8))
    with pytest.raises(ProtocolError, match="padded"):
        sent.read(np.array([3]))


@given(npst.arrays(np.int64, st.tuples(st.integers(0, 5), st.integers(0, 4))))
def test_node_sums_arrive_as_they_left(sums: NDArray[np.int64]) -> None:
    assert NodeSums.of(sums).read(*sums.shape).tolist() == sums.tolist()


@given(
    npst.arrays(
        np.int64,
        st.tuples(st.integers(0, 5), st.integers(0, 4)),
        elements=st.integers(-(2**62), 2**62),
    )
)
def test_node_sums_told_by_column_arrive_as_they_left(sums: NDArray[np.int64]) -> None:
    assert NodeSums.of_columns(sums).read_columns(*sums.shape).tolist() == sums.tolist()


@pytest.mark.parametrize(
    "data", [b"", b"\0", b"\0\0", b"\0\0\x07", b"\0\0\x03\0", b"\x80\0\x03", b"\0\xff\x03"]
)
def test_node_sums_told_by_column_that_are_not_as_needed_are_refused(data: bytes) -> None:
    zeros = NodeSums(memoryview(b"\0\0\x03"))
    assert zeros.read_columns(1, 2).tolist() == [[0, 0]]
    with pytest.raises(ProtocolError, match="node sums"):
        NodeSums(memoryview(data)).read_columns(1, 2)


@pytest.mark.parametrize("data", [b"", b"\x01", b"\x01\x02\x03", b"\x01\x80", b"\xff" * 12])
def test_node_sums_that_are_not_as_many_as_needed_are_refused(data: bytes) -> None:
    with pytest.raises(ProtocolError, match="node sums"):
        NodeSums(memoryview(data)).read(1, 2)


@given(NUMBERS, st.sampled_from(["<f8", ">f8", "<i8"]))
def test_arrays_become_bytes_of_one_kind_everywhere(array: NDArray[Any], dtype: str) -> None:
    with np.errstate(invalid="ignore"):
        expected = array.astype(dtype)
    data = to_bytes(expected, dtype)
    read = from_bytes(data, dtype, len(array), "numbers")
    assert read.tobytes() == expected.tobytes()
    assert read.flags.writeable

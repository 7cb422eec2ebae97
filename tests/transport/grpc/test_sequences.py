"""Exchanges that are begun before others have ended: a party reads them in their order."""

import threading
from collections.abc import Iterator

import pytest

from fedforest.errors import PartyLost
from fedforest.transport.frames import PIECE_BYTES
from fedforest.transport.grpc.channel import ChannelLimits
from tests.faulty_proxy import Fault, FaultyProxy, Harm
from tests.transport.grpc_federations import DEADLINE_SECONDS, GrpcFederation

N_REQUESTS = 12


@pytest.fixture
def federation() -> Iterator[GrpcFederation]:
    with GrpcFederation() as federation:
        yield federation


def _nothing() -> None:
    """There is no work beside."""


class Reader:
    """Answers with the length of a request, and keeps each that came for the first time."""

    def __init__(self) -> None:
        self.heard: list[int] = []
        self.may_answer = threading.Event()
        self.may_answer.set()

    def __call__(self, request: bytes) -> bytes:
        assert self.may_answer.wait(DEADLINE_SECONDS)
        if len(request) not in self.heard:
            self.heard.append(len(request))
        return b"%d" % len(request)


def test_a_short_request_does_not_overtake_a_long_one(federation: GrpcFederation) -> None:
    reader = Reader()
    federation.join("bank", reader)
    begin = federation.hub.in_sequence()
    sizes = [5 * PIECE_BYTES + 1, 3, 2 * PIECE_BYTES, 1, 2]
    pending = [begin({"bank": bytes(size)}) for size in sizes]
    assert [each.replies(_nothing)["bank"] for each in pending] == [b"%d" % n for n in sizes]
    assert reader.heard == sizes


def test_further_requests_arrive_while_the_first_is_not_answered(
    federation: GrpcFederation,
) -> None:
    reader = Reader()
    federation.join("bank", reader)
    federation.join("shop")
    reader.may_answer.clear()
    begin = federation.hub.in_sequence()
    first = begin({"bank": b"a"})
    second = begin({"shop": b"echo"})
    assert second.replies(_nothing) == {"shop": b"echo"}
    reader.may_answer.set()
    assert first.replies(_nothing) == {"bank": b"1"}


@pytest.mark.parametrize("at_byte", [400, 9_000, 150_000, 400_000])
def test_the_order_survives_a_connection_that_breaks(
    federation: GrpcFederation, at_byte: int
) -> None:
    reader = Reader()
    with FaultyProxy(federation.hub.address) as proxy:
        federation.join("bank", reader, address=proxy.address)
        proxy.plan([Fault(Harm.DROP, at_byte, from_party=None, seconds=0.0)])
        begin = federation.hub.in_sequence()
        sizes = [(7 - k % 7) * 10_000 + k for k in range(N_REQUESTS)]
        pending = [begin({"bank": bytes(size)}) for size in sizes]
        assert [each.replies(_nothing)["bank"] for each in pending] == [b"%d" % n for n in sizes]
        assert proxy.n_faults_left == 0
    assert reader.heard == sizes


def test_a_sequence_that_is_given_up_leaves_nothing_behind() -> None:
    with GrpcFederation(limits=ChannelLimits(patience_seconds=0.2)) as federation:
        reader = Reader()
        federation.join("bank", reader)
        begin = federation.hub.in_sequence()
        reader.may_answer.clear()
        pending = [begin({"bank": b"x" * n}) for n in (1, 2)]
        lost = begin({"gone": b""})
        with pytest.raises(PartyLost):
            lost.replies(_nothing)
        for each in pending:
            each.end()
        reader.may_answer.set()
        assert federation.hub.exchange({"bank": b"four"}) == {"bank": b"4"}

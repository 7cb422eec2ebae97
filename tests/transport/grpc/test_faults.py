"""Streams that end, peers that lie, networks that do harm: the right reply, or a named error."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import grpc
import pytest

from fedforest.errors import PartyLost, RemoteProtocolError, TooFewParties, TransportError
from fedforest.transport.base import Transport
from fedforest.transport.frames import LARGEST_FRAME, PIECE_BYTES, Hello, Refusal
from fedforest.transport.grpc.channel import ChannelLimits
from fedforest.transport.grpc.coordinator import GrpcHub
from fedforest.transport.grpc.party import Endpoint
from tests.contracts.endpoints import Spec, build
from tests.contracts.trainings import train_vertically
from tests.faulty_proxy import Fault, FaultyProxy, Harm, draw_faults
from tests.transport.grpc_federations import (
    DEADLINE_SECONDS,
    GrpcFederation,
    RawParty,
    answer,
    wait_until,
)

ROOT = Path(__file__).parents[3]
LOUD_HARMS = tuple(harm for harm in Harm if harm is not Harm.SILENCE)


@pytest.fixture
def federation() -> Iterator[GrpcFederation]:
    with GrpcFederation() as federation:
        yield federation


@pytest.fixture
def raw(federation: GrpcFederation) -> Iterator[RawParty]:
    with RawParty(federation.hub.address, federation.issue("bank"), "bank") as party:
        federation.hub.wait_for_parties(["bank"], DEADLINE_SECONDS)
        yield party


@contextmanager
def asking(hub: GrpcHub, data: bytes = b"question") -> Iterator["Question"]:
    """Ask 'bank' on another thread."""
    with ThreadPoolExecutor(1) as executor:
        yield Question(hub, executor, data)


class Question:
    def __init__(self, hub: GrpcHub, executor: ThreadPoolExecutor, data: bytes) -> None:
        self._future = executor.submit(hub.exchange, {"bank": data}, patience_seconds=2)

    def reply(self) -> bytes:
        return self._future.result(DEADLINE_SECONDS)["bank"]


def test_a_revoked_party_ends_what_is_asked_of_it_at_once(
    federation: GrpcFederation, raw: RawParty
) -> None:
    del raw  # it is connected, and never answers
    identity = federation.issue("bank").identity
    with ThreadPoolExecutor(1) as executor:
        asked = executor.submit(federation.hub.exchange, {"bank": b"?"}, patience_seconds=60)
        wait_until(lambda: federation.hub._exchanges.n_open == 1, "it is asked")
        federation.hub.revoke(identity)
        for reply in (asked, executor.submit(federation.hub.exchange, {"bank": b"?"})):
            with pytest.raises(PartyLost, match="'bank': it was revoked, and does not come back"):
                reply.result(10)


def test_a_late_reply_does_not_answer_the_next_request() -> None:
    with (
        GrpcFederation(limits=ChannelLimits(answer_seconds=0.3)) as federation,
        RawParty(federation.hub.address, federation.issue("bank"), "bank") as raw,
    ):
        federation.hub.wait_for_parties(["bank"], DEADLINE_SECONDS)
        with asking(federation.hub) as first:
            late = raw.next_request()
            with pytest.raises(PartyLost, match=r"no reply within 0\.3 seconds"):
                first.reply()
        federation.hub._limits = ChannelLimits()
        with asking(federation.hub) as second:
            raw.send(answer(late.request_id, b"late"))
            raw.send(Refusal(late.request_id, "DataError", "late too"))
            frame = next(f for f in raw.frames() if type(f).__name__ == "Piece")
            assert frame.request_id != late.request_id  # type: ignore[union-attr]
            raw.send(answer(frame.request_id, b"right"))  # type: ignore[union-attr]
            assert second.reply() == b"right"


def test_a_party_is_told_when_nobody_waits_for_its_reply_any_more() -> None:
    with (
        GrpcFederation(limits=ChannelLimits(answer_seconds=0.3)) as federation,
        RawParty(federation.hub.address, federation.issue("bank"), "bank") as raw,
    ):
        federation.hub.wait_for_parties(["bank"], DEADLINE_SECONDS)
        with asking(federation.hub) as question:
            request = raw.next_request()
            with pytest.raises(PartyLost):
                question.reply()
        frame = next(raw.frames())
        assert type(frame).__name__ == "Forget"
        assert frame.request_id == request.request_id  # type: ignore[union-attr]


def test_a_repeated_reply_is_dropped(federation: GrpcFederation, raw: RawParty) -> None:
    for number in range(3):
        with asking(federation.hub) as question:
            request = raw.next_request()
            for _ in range(3):
                raw.send(answer(request.request_id, b"reply %d" % number))
            assert question.reply() == b"reply %d" % number


def test_a_party_cannot_answer_for_another(federation: GrpcFederation, raw: RawParty) -> None:
    with RawParty(federation.hub.address, federation.issue("shop"), "shop") as other:
        federation.hub.wait_for_parties(["shop"], DEADLINE_SECONDS)
        with asking(federation.hub) as question:
            request = raw.next_request()
            other.send(answer(request.request_id, b"from the shop"))
            other.send(Refusal(request.request_id, "DataError", "from the shop"))
            time.sleep(0.2)
            raw.send(answer(request.request_id, b"from the bank"))
            assert question.reply() == b"from the bank"


@pytest.mark.parametrize(
    ("harmful", "complaint"),
    [
        (b"\xc1", "not valid"),
        (b"", "not valid"),
        ("out of order", "out of order"),
        ("a second hello", "sends no Hello"),
    ],
)
def test_a_party_that_breaks_the_protocol_is_named_at_once(
    federation: GrpcFederation, raw: RawParty, harmful: bytes | str, complaint: str
) -> None:
    with asking(federation.hub) as question:
        request = raw.next_request()
        if isinstance(harmful, bytes):
            raw.send_bytes(harmful)
        elif harmful == "out of order":
            raw.send(answer(request.request_id, b"x", index=1))
        else:
            raw.send(Hello(1, "bank"))
        with pytest.raises(RemoteProtocolError, match=complaint) as caught:
            question.reply()
    assert caught.value.party == "bank"
    wait_until(lambda: federation.hub.connected() == [], "it is cut off")


def test_a_frame_above_the_limit_ends_the_stream(federation: GrpcFederation) -> None:
    unlimited = ("grpc.max_send_message_length", -1)  # as a sender with other software would be
    bank = federation.issue("bank")
    with RawParty(federation.hub.address, bank, "bank", options=[unlimited]) as raw:
        federation.hub.wait_for_parties(["bank"], DEADLINE_SECONDS)
        raw.send_bytes(bytes(LARGEST_FRAME + 1))
        assert "SERVER: Received message larger than max" in next(ended(raw))
        wait_until(lambda: federation.hub.connected() == [], "it is cut off")


def test_a_reply_that_grows_too_long_is_refused_and_its_sender_named() -> None:
    with (
        GrpcFederation(limits=ChannelLimits(max_message_bytes=3 * PIECE_BYTES)) as federation,
        RawParty(federation.hub.address, federation.issue("bank"), "bank") as raw,
    ):
        federation.hub.wait_for_parties(["bank"], DEADLINE_SECONDS)
        with asking(federation.hub) as question:
            request = raw.next_request()
            for index in range(4):
                part = bytes(PIECE_BYTES)
                raw.send(answer(request.request_id, part, index=index, is_last=False))
            with pytest.raises(RemoteProtocolError, match="longer than"):
                question.reply()


def test_messages_above_the_limit_are_not_sent() -> None:
    with GrpcFederation(limits=ChannelLimits(max_message_bytes=1000)) as federation:
        federation.join("bank", lambda data: data * 1000)
        with pytest.raises(TransportError, match="1001 bytes"):
            federation.hub.exchange({"bank": bytes(1001)})
        with pytest.raises(TransportError, match="party 'bank': a message of 1000000 bytes"):
            federation.hub.exchange({"bank": bytes(1000)})
        assert federation.hub.exchange({"bank": b"x"}) == {"bank": b"x" * 1000}


def test_a_party_refuses_a_request_above_its_own_limit_and_stays_connected() -> None:
    with GrpcFederation() as federation:
        federation.limits = ChannelLimits(max_message_bytes=PIECE_BYTES)
        federation.join("bank")
        for n_pieces in (2, 20):
            with pytest.raises(TransportError, match="party 'bank': a message is longer"):
                federation.hub.exchange({"bank": bytes(n_pieces * PIECE_BYTES)})
            assert federation.hub.exchange({"bank": b"x"}) == {"bank": b"x"}


def test_a_request_waits_for_a_party_that_comes_later(federation: GrpcFederation) -> None:
    with ThreadPoolExecutor(1) as executor:
        future = executor.submit(federation.hub.exchange, {"bank": b"x"})
        time.sleep(0.1)
        federation.join("bank")
        assert future.result(DEADLINE_SECONDS) == {"bank": b"x"}


def test_a_request_is_sent_again_to_a_party_that_comes_back(federation: GrpcFederation) -> None:
    asked = threading.Event()
    never = threading.Event()

    def hang(_: bytes) -> bytes:
        asked.set()
        never.wait(0.5)
        return b"from the first"

    federation.join("bank", hang)
    with ThreadPoolExecutor(1) as executor:
        future = executor.submit(federation.hub.exchange, {"bank": b"x"})
        assert asked.wait(DEADLINE_SECONDS)
        federation.stop_last()
        federation.join("bank", lambda _: b"from the second")
        assert future.result(DEADLINE_SECONDS) == {"bank": b"from the second"}


def test_a_party_that_stays_away_is_lost_after_patience(federation: GrpcFederation) -> None:
    federation.join("shop")
    started = time.monotonic()
    with pytest.raises(PartyLost, match="did not come back") as caught:
        federation.hub.exchange({"shop": b"", "bank": b""}, patience_seconds=0.5)
    assert time.monotonic() - started >= 0.5
    assert caught.value.party == "bank"
    answers = federation.hub.exchange(
        {"shop": b"1", "bank": b"2"}, may_lose=True, patience_seconds=0.1
    )
    assert answers == {"shop": b"1"}


def test_a_party_that_comes_and_goes_is_lost_after_patience_in_all(
    federation: GrpcFederation,
) -> None:
    """It leaves whenever it is asked: patience is not renewed by a short visit."""
    is_over = threading.Event()

    def come_and_go() -> None:
        while not is_over.is_set():
            with RawParty(federation.hub.address, federation.issue("bank"), "bank") as raw:
                next(raw.frames(), None)
            is_over.wait(0.2)

    with ThreadPoolExecutor(1) as executor:
        visits = executor.submit(come_and_go)
        try:
            with pytest.raises(PartyLost):
                federation.hub.exchange({"bank": b""}, patience_seconds=1.0)
        finally:
            is_over.set()
            federation.hub.close()
        visits.exception(DEADLINE_SECONDS)


def test_who_is_missing_is_named(federation: GrpcFederation) -> None:
    federation.join("shop")
    with pytest.raises(TooFewParties, match=r"0\.1 seconds: bank, club"):
        federation.hub.wait_for_parties(["club", "shop", "bank"], 0.1)


def test_a_newer_stream_takes_the_place_of_an_older_one(federation: GrpcFederation) -> None:
    with RawParty(federation.hub.address, federation.issue("bank"), "bank") as older:
        federation.hub.wait_for_parties(["bank"], DEADLINE_SECONDS)
        federation.link("bank", lambda _: b"newer")
        assert list(ended(older)) == ["a newer connection of this party took over"]
        assert federation.hub.exchange({"bank": b""}) == {"bank": b"newer"}


def ended(raw: RawParty) -> Iterator[str]:
    """Why a stream ended."""
    try:
        for _ in raw.frames():
            pass
    except grpc.RpcError as error:
        yield error.details()


def test_a_bug_at_a_party_tells_nothing_but_that_there_is_one(federation: GrpcFederation) -> None:
    def fail(data: bytes) -> bytes:
        raise ValueError(f"row {data!r}")

    federation.join("bank", fail)
    for _ in range(2):
        with pytest.raises(RemoteProtocolError) as caught:
            federation.hub.exchange({"bank": b"secret"})
        assert str(caught.value) == "party 'bank': internal error at the party, see its log"


def test_parties_reconnect_when_the_coordinator_is_back_and_answer(
    federation: GrpcFederation,
) -> None:
    links = [federation.join(name) for name in ("bank", "shop")]
    address = federation.hub.address
    for _ in range(2):
        federation.hub.close()
        wait_until(lambda: not any(link.is_connected for link in links), "they notice")
        federation.hub = GrpcHub(federation.coordinator, address)
        federation.hub.start()
        federation.hub.wait_for_parties(["bank", "shop"], DEADLINE_SECONDS)
        assert federation.hub.exchange({"bank": b"1", "shop": b"2"}) == {"bank": b"1", "shop": b"2"}


def test_an_exchange_ends_with_an_error_when_the_hub_is_closed(federation: GrpcFederation) -> None:
    with ThreadPoolExecutor(1) as executor:
        future = executor.submit(federation.hub.exchange, {"bank": b""})
        time.sleep(0.2)
        federation.hub.close()
        with pytest.raises(TransportError, match="closed"):
            future.result(DEADLINE_SECONDS)
    with pytest.raises(TransportError, match="not running"):
        federation.hub.exchange({"bank": b""})


def test_two_coordinators_cannot_share_an_address(federation: GrpcFederation) -> None:
    with pytest.raises(TransportError, match="in use"):
        GrpcHub(federation.coordinator, federation.hub.address).start()


class Numbered:
    """Numbers the requests to each party, so that a repeated one can be told from a new one."""

    def __init__(self, inner: Transport) -> None:
        self._inner = inner
        self._last: dict[str, int] = {}

    def exchange(
        self, requests: Mapping[str, bytes], *, may_lose: bool = False
    ) -> dict[str, bytes]:
        numbered = {}
        for party, data in requests.items():
            self._last[party] = self._last.get(party, 0) + 1
            numbered[party] = self._last[party].to_bytes(8, "big") + data
        return self._inner.exchange(numbered, may_lose=may_lose)


def answer_once(endpoint: Endpoint) -> Endpoint:
    """Answers a request that comes again with the reply it gave before."""
    last: list[bytes] = [b"", b""]

    def answer(data: bytes) -> bytes:
        if data[:8] != last[0]:
            assert int.from_bytes(data[:8], "big") == int.from_bytes(last[0], "big") + 1
            last[:] = [data[:8], endpoint(data[8:])]
        return last[1]

    return answer


def train_through(faults_of: Mapping[str, list[Fault]]) -> tuple[dict[str, bytes], int]:
    """A vertical training whose parties connect through faulty proxies; faults that were met."""
    with GrpcFederation() as federation:
        proxies = {name: FaultyProxy(federation.hub.address, f) for name, f in faults_of.items()}
        for proxy in proxies.values():
            proxy.__enter__()
        try:

            def connect(specs: Mapping[str, Spec]) -> Transport:
                for party, spec in specs.items():
                    endpoint = answer_once(build(spec))
                    federation.link(party, endpoint, address=proxies[party].address)
                return Numbered(federation.hub)

            files = train_vertically(connect)
        finally:
            for proxy in proxies.values():
                proxy.__exit__()
    return files, sum(p.n_connections for p in proxies.values()) - len(proxies)


@pytest.fixture(scope="module")
def undisturbed() -> dict[str, bytes]:
    files, n_reconnects = train_through({"p0": [], "p1": [], "p2": []})
    assert n_reconnects == 0
    return files


@pytest.mark.parametrize("harm", LOUD_HARMS)
def test_a_training_ends_with_the_same_bytes_whatever_happens_to_connections(
    harm: Harm, undisturbed: dict[str, bytes]
) -> None:
    faults = {f"p{k}": draw_faults(k, 3, [harm]) for k in range(3)}
    files, n_reconnects = train_through(faults)
    assert files == undisturbed
    assert n_reconnects > 0 or harm is Harm.DELAY


@pytest.mark.parametrize(
    "seed",
    [0, 1, *(pytest.param(seed, marks=pytest.mark.exhaustive) for seed in range(2, 25))],
)
def test_a_training_ends_with_the_same_bytes_through_a_network_of_all_faults(
    seed: int, undisturbed: dict[str, bytes]
) -> None:
    faults = {f"p{k}": draw_faults(10 * seed + k, 4, LOUD_HARMS) for k in range(3)}
    assert train_through(faults)[0] == undisturbed


def test_a_connection_that_dies_inside_a_long_message_is_made_up_for(
    federation: GrpcFederation,
) -> None:
    data = os.urandom(5 * PIECE_BYTES)
    faults = [
        Fault(Harm.DROP, 2 * PIECE_BYTES, from_party=False),  # the request
        Fault(Harm.CORRUPT, 3 * PIECE_BYTES, from_party=True),  # the reply
    ]
    with FaultyProxy(federation.hub.address, faults) as proxy:
        federation.join("bank", address=proxy.address)
        assert federation.hub.exchange({"bank": data}) == {"bank": data}
        assert proxy.n_connections == 3


@pytest.mark.slow
def test_a_network_that_falls_silent_is_noticed_on_both_sides_within_20_seconds(
    federation: GrpcFederation,
) -> None:
    with FaultyProxy(federation.hub.address, [Fault(Harm.SILENCE, 20_000)]) as proxy:
        link = federation.join("bank", address=proxy.address)
        assert federation.hub.exchange({"bank": b"x"}) == {"bank": b"x"}
        started = time.monotonic()
        reply = federation.hub.exchange({"bank": bytes(10**6)})  # does not get through at first
        assert reply == {"bank": bytes(10**6)}
        assert time.monotonic() - started < 20
        assert proxy.n_connections == 2
        assert link.is_connected


@contextmanager
def party_process(federation: GrpcFederation, folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    federation.issue("bank").save(folder)
    command = [sys.executable, "-m", "tests.transport.echo_party"]
    process = subprocess.Popen([*command, federation.hub.address, str(folder), "bank"], cwd=ROOT)
    try:
        federation.hub.wait_for_parties(["bank"], DEADLINE_SECONDS)
        yield process
    finally:
        process.kill()
        process.wait(DEADLINE_SECONDS)


def test_a_killed_party_is_noticed_at_once(federation: GrpcFederation, tmp_path: Path) -> None:
    with party_process(federation, tmp_path) as process:
        assert federation.hub.exchange({"bank": b"x"}) == {"bank": b"x"}
        process.kill()
        wait_until(lambda: federation.hub.connected() == [], "it is noticed", 5.0)
        with pytest.raises(PartyLost):
            federation.hub.exchange({"bank": b"x"}, patience_seconds=0.1)


@pytest.mark.slow
def test_a_frozen_party_is_noticed_within_20_seconds_and_answers_when_it_thaws(
    federation: GrpcFederation, tmp_path: Path
) -> None:
    with party_process(federation, tmp_path) as process, ThreadPoolExecutor(1) as executor:
        assert federation.hub.exchange({"bank": b"x"}) == {"bank": b"x"}
        process.send_signal(signal.SIGSTOP)
        future = executor.submit(federation.hub.exchange, {"bank": b"y"})
        wait_until(lambda: federation.hub.connected() == [], "it is noticed", 20.0)
        assert not future.done()
        process.send_signal(signal.SIGCONT)
        assert future.result(DEADLINE_SECONDS) == {"bank": b"y"}

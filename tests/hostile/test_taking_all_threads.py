"""A user wants the coordinator to have no thread, and no memory, left for others: real calls."""

import contextlib
import threading
from collections.abc import Iterator
from pathlib import Path

import grpc
import msgspec
import pytest

from fedforest.errors import TransportError
from fedforest.runtime.messages.orders import (
    ListRuns,
    ShareRun,
    TrainVertical,
    WatchRun,
    encode_order,
)
from fedforest.runtime.messages.results import RunAccepted, decode_event
from fedforest.transport.frames import PIECE_BYTES, PROTOCOL_VERSION, Piece, encode_frame
from fedforest.transport.grpc.channel import (
    SUBMIT,
    VERSION_KEY,
    ChannelLimits,
    method_of,
    open_channel,
)
from fedforest.transport.grpc.client import GrpcClient
from fedforest.transport.identity import Identity
from fedforest.transport.pauses import Pause
from fedforest.transport.tls import Credentials
from tests.hostile.lying_parties import federation_with
from tests.integration import local_federation
from tests.runtime.service_recordings import vertical_order
from tests.transport.grpc_federations import DAY, DEADLINE_SECONDS, GrpcFederation, wait_until

GREEDY = ("ann", "ben", "eve")
CALLS_EACH = 32  # as many as one user may have
FEW = 10  # of one connection


def users(federation: GrpcFederation, *names: str) -> list[Credentials]:
    return [federation.authority.issue("user", name, DAY) for name in names]


@contextlib.contextmanager
def calls(
    federation: GrpcFederation, credentials: Credentials, n_calls: int, request: bytes
) -> Iterator[list[Iterator[bytes]]]:
    """Begin calls on connections of their own, ten on each, and read the first event of each."""
    with contextlib.ExitStack() as stack:
        begun = []
        for number in range(n_calls):
            if number % FEW == 0:
                client = stack.enter_context(GrpcClient(federation.hub.address, credentials))
            begun.append(client.submit(request))
            next(begun[-1])
        yield begun


def n_busy(federation: GrpcFederation) -> int:
    """How many of the threads of calls do not wait for work."""
    clients = federation.hub._clients
    assert clients is not None
    pool = clients._threads
    return len(pool._threads) - pool._idle_semaphore._value


@pytest.mark.slow
def test_ninety_six_watchers_of_a_run_hold_no_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a real coordinator whose run waits for a party: 70 calls once held all 64 threads."""
    away = {"bank": "columns", "away": "columns"}
    order = msgspec.structs.replace(vertical_order(), data=away)
    assert isinstance(order, TrainVertical)
    monkeypatch.setattr(local_federation, "WAIT_SECONDS", DEADLINE_SECONDS)  # for the party
    with federation_with(tmp_path) as local:
        serve = local.coordinator.serve_by_turns
        with GrpcFederation(serve_client=serve) as federation, contextlib.ExitStack() as stack:
            owner, other = users(federation, "owner", "other")
            ordering = stack.enter_context(GrpcClient(federation.hub.address, owner))
            accepted = decode_event(next(ordering.submit(encode_order(order))))
            assert isinstance(accepted, RunAccepted)
            watching = encode_order(WatchRun(run=accepted.run))
            for user in users(federation, *GREEDY):
                sharing = ShareRun(run=accepted.run, user=user.identity.name)
                list(ordering.submit(encode_order(sharing)))
                stack.enter_context(calls(federation, user, CALLS_EACH, watching))
            clients = federation.hub._clients
            assert clients is not None
            assert clients.n_calls >= len(GREEDY) * CALLS_EACH
            wait_until(lambda: n_busy(federation) == 0, "nobody holds a thread")
            with GrpcClient(federation.hub.address, other) as client:
                assert len(list(client.submit(encode_order(ListRuns())))) >= 1
        local.coordinator.close()


def test_calls_of_one_user_that_work_leave_threads_to_others() -> None:
    is_over, at_work = threading.Event(), threading.Semaphore(0)

    def serve(identity: Identity, _request: bytes) -> Iterator[bytes]:
        yield b"begun"
        if identity.name == "greedy":
            at_work.release()
            is_over.wait(DEADLINE_SECONDS)

    limits = ChannelLimits(calls_at_work_of_one_user=4)
    with GrpcFederation(limits=limits, serve_client=serve) as federation:
        greedy, other = users(federation, "greedy", "other")
        with contextlib.ExitStack() as stack:
            stack.callback(is_over.set)
            client = stack.enter_context(GrpcClient(federation.hub.address, greedy))
            waiting = [client.submit(b"x") for _ in range(FEW)]
            for call in waiting[:4]:
                next(call)
            for _ in range(4):
                assert at_work.acquire(timeout=DEADLINE_SECONDS)
            for user in (other, other, other):
                with GrpcClient(federation.hub.address, user) as modest:
                    assert list(modest.submit(b"x")) == [b"begun"]
            assert not at_work.acquire(blocking=False)
            is_over.set()
            assert [list(call) for call in waiting[4:]] == [[b"begun"]] * (FEW - 4)


def test_a_call_that_ends_while_it_waits_is_closed_and_one_that_gets_news_goes_on() -> None:
    news, closed = Pause(), threading.Event()

    def serve(_identity: Identity, request: bytes) -> Iterator[bytes | Pause]:
        try:
            yield b"begun"
            yield Pause(0.01)
            yield news
            yield b"news"
        finally:
            if request == b"leaves":
                closed.set()

    with GrpcFederation(serve_client=serve) as federation:
        (ann,) = users(federation, "ann")
        with GrpcClient(federation.hub.address, ann) as client:
            leaving, staying = client.submit(b"leaves"), client.submit(b"stays")
            assert next(leaving) == next(staying) == b"begun"
            leaving.close()  # type: ignore[attr-defined] # a generator
            assert closed.wait(DEADLINE_SECONDS)
            news.set()
            assert list(staying) == [b"news"]


class Unfinished:
    """A request whose pieces a test sends one by one, and whose last never comes."""

    def __init__(self, federation: GrpcFederation, credentials: Credentials) -> None:
        self._channel = open_channel(federation.hub.address, credentials)
        self._next, self._is_over = threading.Semaphore(0), False
        version = ((VERSION_KEY, str(PROTOCOL_VERSION)),)
        self.call = method_of(self._channel, SUBMIT)(self._pieces(), metadata=version)

    def send(self, n_pieces: int = 1) -> None:
        self._next.release(n_pieces)

    def close(self) -> None:
        self._is_over = True
        self._next.release()
        self.call.cancel()
        self._channel.close()

    def why_refused(self) -> str:
        with pytest.raises(grpc.RpcError) as caught:
            next(self.call)
        return str(caught.value.details())

    def _pieces(self) -> Iterator[bytes]:
        index = 0
        while self._next.acquire(timeout=DEADLINE_SECONDS) and not self._is_over:
            yield encode_frame(Piece(0, index, is_last=False, data=memoryview(bytes(PIECE_BYTES))))
            index += 1


def test_eight_unfinished_requests_hold_no_more_than_their_users_may() -> None:
    """Once they held 64 MiB each. Short requests of others are answered meanwhile."""
    limits = ChannelLimits(unfinished_request_bytes=16 * PIECE_BYTES)

    def echo(_identity: Identity, request: bytes) -> Iterator[bytes]:
        yield str(len(request)).encode()

    with (
        GrpcFederation(limits=limits, serve_client=echo) as federation,
        contextlib.ExitStack() as stack,
    ):
        greedy, other = users(federation, "greedy", "other")
        clients = federation.hub._clients
        assert clients is not None
        requests = []
        for number in range(8):
            requests.append(Unfinished(federation, greedy))
            stack.callback(requests[-1].close)
            requests[-1].send()
            if number < 4:
                held = (number + 1) * PIECE_BYTES
                wait_until(lambda n=held: clients._unfinished.total() == n, "it is there")  # type: ignore[misc] # bound now
        for refused in requests[4:]:
            assert "unfinished requests of" in refused.why_refused()
        assert clients._unfinished.total() == 4 * PIECE_BYTES
        with GrpcClient(federation.hub.address, other) as client:
            assert list(client.submit(bytes(100))) == [b"100"]
            assert list(client.submit(bytes(3 * PIECE_BYTES))) == [str(3 * PIECE_BYTES).encode()]
        for held_one in requests[:4]:
            held_one.close()
        wait_until(lambda: not clients._unfinished, "nothing is held")


def test_a_request_has_one_deadline_however_its_pieces_come() -> None:
    limits = ChannelLimits(request_seconds=0.5)
    with GrpcFederation(limits=limits, serve_client=lambda *_: iter(())) as federation:
        (slow,) = users(federation, "slow")
        request = Unfinished(federation, slow)
        try:
            request.send(2)
            assert "did not come in time" in request.why_refused()
        finally:
            request.close()


def test_what_a_request_may_have_is_small_beside_what_messages_may() -> None:
    limits = ChannelLimits()
    assert limits.max_request_bytes <= 2**24
    assert limits.unfinished_request_bytes <= 2**26
    with GrpcFederation(serve_client=lambda *_: iter(())) as federation:
        (ann,) = users(federation, "ann")
        with (
            GrpcClient(federation.hub.address, ann) as client,
            pytest.raises(TransportError, match="longer than"),
        ):
            list(client.submit(bytes(limits.max_request_bytes + 1)))

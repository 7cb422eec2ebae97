"""Users' calls: one request, events as they come, the coordinator's own errors."""

import os
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import grpc
import pytest

from fedforest.errors import (
    BudgetExhausted,
    PartyLost,
    RemoteProtocolError,
    TransportError,
    VersionMismatch,
)
from fedforest.transport.frames import PIECE_BYTES, PROTOCOL_VERSION, Piece, encode_frame
from fedforest.transport.grpc import client as grpc_client
from fedforest.transport.grpc.channel import (
    SUBMIT,
    VERSION_KEY,
    ChannelLimits,
    method_of,
    open_channel,
)
from fedforest.transport.grpc.client import GrpcClient, submit
from fedforest.transport.grpc.client_calls import ServeClient
from fedforest.transport.grpc.outbox import Outbox
from fedforest.transport.identity import Identity
from fedforest.transport.tls import Credentials
from tests.transport.grpc_federations import DAY, DEADLINE_SECONDS, GrpcFederation, wait_until


def federation_that(serve: ServeClient, **options: ChannelLimits) -> GrpcFederation:
    return GrpcFederation(serve_client=serve, limits=options.get("limits"))


def ann(federation: GrpcFederation) -> Credentials:
    return federation.authority.issue("user", "ann", DAY)


def echo(identity: Identity, request: bytes) -> Iterator[bytes]:
    yield identity.name.encode()
    yield request


@pytest.mark.parametrize("n_bytes", [0, 10, PIECE_BYTES, 5 * PIECE_BYTES + 1])
def test_a_user_gets_the_events_of_its_call_and_the_coordinator_knows_who_asks(
    n_bytes: int,
) -> None:
    request = os.urandom(n_bytes)
    with federation_that(echo) as federation:
        assert list(submit(federation.hub.address, ann(federation), request)) == [b"ann", request]


@pytest.mark.parametrize("version", [PROTOCOL_VERSION - 1, PROTOCOL_VERSION + 1, "odd"])
def test_a_user_of_another_version_is_told_both_before_anything_else(
    version: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(grpc_client, "PROTOCOL_VERSION", version)
    said = 0 if version == "odd" else version
    with federation_that(echo) as federation:
        events = submit(federation.hub.address, ann(federation), b"")
        with pytest.raises(
            VersionMismatch, match=rf"ann speaks version {said} .* {PROTOCOL_VERSION};"
        ):
            next(events)


def test_events_come_as_they_are_made() -> None:
    may_go_on = threading.Event()

    def serve(_: Identity, __: bytes) -> Iterator[bytes]:
        yield b"first"
        assert may_go_on.wait(DEADLINE_SECONDS)
        yield b"second"

    with federation_that(serve) as federation:
        events = submit(federation.hub.address, ann(federation), b"")
        assert next(events) == b"first"
        may_go_on.set()
        assert list(events) == [b"second"]


@pytest.mark.parametrize(
    "error",
    [
        PartyLost("it stays away", "bank"),
        RemoteProtocolError("its gains are not numbers", "shop"),
        BudgetExhausted("epsilon of 'bank' is spent"),
    ],
)
def test_the_coordinators_errors_are_raised_as_they_are(error: Exception) -> None:
    def serve(_: Identity, __: bytes) -> Iterator[bytes]:
        yield b"begun"
        raise error

    with federation_that(serve) as federation:
        events = submit(federation.hub.address, ann(federation), b"")
        assert next(events) == b"begun"
        with pytest.raises(type(error)) as caught:
            next(events)
        assert (str(caught.value), vars(caught.value)) == (str(error), vars(error))


def test_a_bug_of_the_coordinator_tells_nothing_but_that_there_is_one() -> None:
    def serve(_: Identity, request: bytes) -> Iterator[bytes]:
        yield b""
        raise ValueError(request)

    with federation_that(serve) as federation:
        events = submit(federation.hub.address, ann(federation), b"secret")
        assert next(events) == b""
        with pytest.raises(TransportError, match="see its log") as caught:
            next(events)
        assert "secret" not in str(caught.value)


def test_who_makes_events_hears_that_the_user_has_left() -> None:
    has_ended = threading.Event()

    def serve(_: Identity, __: bytes) -> Iterator[bytes]:
        try:
            while True:
                yield b"tick"
        finally:
            has_ended.set()

    with federation_that(serve) as federation:
        events = submit(federation.hub.address, ann(federation), b"")
        assert next(events) == b"tick"
        events.close()  # type: ignore[attr-defined] # it is a generator
        assert has_ended.wait(DEADLINE_SECONDS)


def test_one_connection_serves_many_callers() -> None:
    with (
        federation_that(echo) as federation,
        GrpcClient(federation.hub.address, ann(federation)) as client,
        ThreadPoolExecutor(8) as executor,
    ):

        def call(number: int) -> bool:
            return list(client.submit(b"%d" % number)) == [b"ann", b"%d" % number]

        assert all(executor.map(call, range(50)))


def test_a_request_above_the_limit_is_refused_on_both_sides() -> None:
    with federation_that(echo, limits=ChannelLimits(max_message_bytes=100)) as federation:
        user = ann(federation)
        with (
            GrpcClient(federation.hub.address, user, limits=federation.limits) as client,
            pytest.raises(TransportError, match="101 bytes"),
        ):
            list(client.submit(bytes(101)))
        with pytest.raises(TransportError, match="longer than the 100 bytes"):
            list(submit(federation.hub.address, user, bytes(101)))


def test_a_revoked_user_is_cut_off() -> None:
    def serve(_: Identity, __: bytes) -> Iterator[bytes]:
        while True:
            yield b"tick"

    with federation_that(serve) as federation:
        events = submit(federation.hub.address, ann(federation), b"")
        assert next(events) == b"tick"
        federation.hub.revoke(Identity("testing", "user", "ann"))
        with pytest.raises(TransportError):
            for _ in events:
                pass
        with pytest.raises(TransportError, match="was revoked"):
            list(submit(federation.hub.address, ann(federation), b""))


def test_a_user_is_refused_from_the_first_call_after_its_revocation_was_written() -> None:
    gone: set[Identity] = set()
    with GrpcFederation(serve_client=echo, is_revoked=gone.__contains__) as federation:
        user = ann(federation)
        with GrpcClient(federation.hub.address, user) as client:
            assert list(client.submit(b"1")) == [b"ann", b"1"]
            gone.add(user.identity)
            with pytest.raises(TransportError, match="was revoked"):
                list(client.submit(b"2"))  # on the connection that was open before


def test_a_request_that_is_not_whole_when_its_user_is_revoked_is_not_carried_out() -> None:
    carried_out = threading.Event()

    def serve(_: Identity, request: bytes) -> Iterator[bytes]:
        carried_out.set()
        yield request

    with federation_that(serve) as federation:
        user, calls = ann(federation), federation.hub._clients
        assert calls is not None
        channel = open_channel(federation.hub.address, user)
        outbox = Outbox()
        call = method_of(channel, SUBMIT)(
            outbox, metadata=((VERSION_KEY, str(PROTOCOL_VERSION)),), timeout=DEADLINE_SECONDS
        )
        try:
            half = Piece(0, 0, is_last=False, data=memoryview(bytes(PIECE_BYTES)))
            assert outbox.put(encode_frame(half))
            wait_until(lambda: calls.n_calls == 1, "half of a request is there")
            federation.hub.revoke(user.identity)
            outbox.put(encode_frame(Piece(0, 1, is_last=True, data=memoryview(b"rest"))))
            with pytest.raises(grpc.RpcError) as caught:
                next(call)
            assert caught.value.code() is grpc.StatusCode.PERMISSION_DENIED
            wait_until(lambda: calls.n_calls == 0, "the call is over")
            assert not carried_out.wait(0.2)
        finally:
            outbox.close()
            channel.close()


def test_a_coordinator_that_is_not_there_is_a_named_error() -> None:
    with federation_that(echo) as federation:
        user, address = ann(federation), federation.hub.address
    with pytest.raises(TransportError, match="is it running"):
        list(submit(address, user, b""))


def test_a_coordinator_without_users_says_so() -> None:
    with GrpcFederation() as federation, pytest.raises(TransportError):
        list(submit(federation.hub.address, ann(federation), b""))


def test_no_call_stays_in_memory() -> None:
    with federation_that(echo) as federation:
        for _ in range(5):
            list(submit(federation.hub.address, ann(federation), b""))
        calls = federation.hub._clients
        assert calls is not None
        wait_until(lambda: calls.n_calls == 0, "all calls are over")

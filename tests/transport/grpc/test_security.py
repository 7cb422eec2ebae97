"""Who is not let in: a wrong certificate in the handshake, somebody else's by name.

Every test first shows that nothing was let in, and then that the reason is told.
"""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import grpc
import pytest

from fedforest.errors import ConfigurationError, PartyLost, TransportError, VersionMismatch
from fedforest.transport.authority import make_authority
from fedforest.transport.frames import PROTOCOL_VERSION, Hello, Welcome, encode_frame
from fedforest.transport.grpc import party_stream as grpc_party_stream
from fedforest.transport.grpc.channel import (
    CONVERSE,
    SERVICE,
    ChannelLimits,
    failure_of,
    method_of,
    open_channel,
    server_credentials,
)
from fedforest.transport.grpc.client import submit
from fedforest.transport.grpc.coordinator import GrpcHub
from fedforest.transport.grpc.outbox import Outbox
from fedforest.transport.grpc.party import GrpcLink
from fedforest.transport.identity import Identity, host_name_of_coordinator
from fedforest.transport.tls import Credentials
from tests.transport.grpc_federations import (
    DAY,
    DEADLINE_SECONDS,
    GrpcFederation,
    wait_until,
)

HELLO = Hello(PROTOCOL_VERSION, "bank")
LONG_AGO = datetime.now(UTC) - timedelta(days=30)


@pytest.fixture
def federation() -> Iterator[GrpcFederation]:
    with GrpcFederation(serve_client=lambda _identity, request: iter([request])) as federation:
        yield federation


def knock(federation: GrpcFederation, channel: Any, hello: Hello = HELLO) -> Any:
    """Say hello as a party over any channel; the error that this ends with."""
    with channel:
        greeting = iter([encode_frame(hello)])
        call = channel.stream_stream(f"/{SERVICE}/{CONVERSE}")(greeting, timeout=DEADLINE_SECONDS)
        with pytest.raises(grpc.RpcError) as caught:
            next(call)
    assert federation.hub.connected() == []
    return caught.value


def tls_channel(federation: GrpcFederation, credentials: Any) -> Any:
    options = [("grpc.ssl_target_name_override", host_name_of_coordinator("testing"))]
    return grpc.secure_channel(federation.hub.address, credentials, options=options)


def trouble_of(federation: GrpcFederation, name: str, credentials: Credentials) -> str:
    """Why a link with these credentials is not let in."""
    link = federation.link(name, credentials=credentials)
    wait_until(lambda: link.trouble is not None, "the link is refused")
    assert federation.hub.connected() == []
    assert not link.is_connected
    return str(link.trouble)


def test_a_connection_without_tls_is_refused(federation: GrpcFederation) -> None:
    error = knock(federation, grpc.insecure_channel(federation.hub.address))
    assert error.code() is grpc.StatusCode.UNAVAILABLE


def test_a_peer_without_a_certificate_is_refused(federation: GrpcFederation) -> None:
    no_certificate = grpc.ssl_channel_credentials(federation.coordinator.authority)
    error = knock(federation, tls_channel(federation, no_certificate))
    assert error.code() is grpc.StatusCode.UNAVAILABLE


def test_a_certificate_of_another_authority_is_refused_in_the_handshake(
    federation: GrpcFederation,
) -> None:
    stranger = make_authority("testing", DAY).issue("party", "bank", DAY)
    posing = replace(stranger, authority=federation.coordinator.authority)
    tls = grpc.ssl_channel_credentials(posing.authority, posing.key, posing.certificate)
    error = knock(federation, tls_channel(federation, tls))
    assert error.code() is grpc.StatusCode.UNAVAILABLE
    assert "no connection" in trouble_of(federation, "bank", posing)


def test_a_party_of_another_authority_does_not_trust_the_coordinator(
    federation: GrpcFederation,
) -> None:
    stranger = make_authority("testing", DAY).issue("party", "bank", DAY)
    assert "no secure connection" in trouble_of(federation, "bank", stranger)


def test_an_expired_certificate_is_refused_in_the_handshake(federation: GrpcFederation) -> None:
    expired = federation.authority.issue("party", "bank", DAY, starting=LONG_AGO)
    tls = grpc.ssl_channel_credentials(expired.authority, expired.key, expired.certificate)
    error = knock(federation, tls_channel(federation, tls))
    assert error.code() is grpc.StatusCode.UNAVAILABLE


def test_a_party_whose_certificate_expired_is_told_when(federation: GrpcFederation) -> None:
    expired = federation.authority.issue("party", "bank", DAY, starting=LONG_AGO)
    trouble = trouble_of(federation, "bank", expired)
    assert f"expired on {LONG_AGO + DAY:%Y-%m-%d}" in trouble


def test_a_certificate_that_is_not_valid_yet_is_refused(federation: GrpcFederation) -> None:
    future = datetime.now(UTC) + 30 * DAY
    early = federation.authority.issue("party", "bank", DAY, starting=future)
    tls = grpc.ssl_channel_credentials(early.authority, early.key, early.certificate)
    error = knock(federation, tls_channel(federation, tls))
    assert error.code() is grpc.StatusCode.UNAVAILABLE


def test_a_party_may_not_speak_for_another(federation: GrpcFederation) -> None:
    trouble = trouble_of(federation, "bank", federation.issue("shop"))
    assert "fedforest:testing/party/shop may not speak for party 'bank'" in trouble


def test_a_connected_party_is_not_disturbed_by_who_poses_as_it(federation: GrpcFederation) -> None:
    federation.join("bank", lambda data: data.upper())
    link = federation.link("bank", credentials=federation.issue("shop"))
    wait_until(lambda: link.trouble is not None, "the link is refused")
    assert federation.hub.exchange({"bank": b"hello"}) == {"bank": b"HELLO"}


def test_a_user_may_not_pose_as_a_party(federation: GrpcFederation) -> None:
    user = federation.authority.issue("user", "bank", DAY)
    trouble = trouble_of(federation, "bank", user)
    assert "fedforest:testing/user/bank is no party's certificate" in trouble


def test_a_party_may_not_pose_as_a_user(federation: GrpcFederation) -> None:
    with pytest.raises(TransportError, match="party/bank is no user's certificate"):
        list(submit(federation.hub.address, federation.issue("bank"), b""))


def test_the_coordinators_certificate_opens_no_connections(federation: GrpcFederation) -> None:
    own = federation.coordinator
    tls = grpc.ssl_channel_credentials(own.authority, own.key, own.certificate)
    error = knock(federation, tls_channel(federation, tls))
    assert error.code() is grpc.StatusCode.UNAVAILABLE  # a certificate for the other direction


def test_an_identity_of_another_federation_is_refused_though_the_authority_signed_it(
    federation: GrpcFederation,
) -> None:
    elsewhere = replace(federation.authority, federation="elsewhere").issue("party", "bank", DAY)
    tls = grpc.ssl_channel_credentials(elsewhere.authority, elsewhere.key, elsewhere.certificate)
    error = knock(federation, tls_channel(federation, tls))
    assert error.code() is grpc.StatusCode.PERMISSION_DENIED
    assert "of another federation" in error.details()


@contextmanager
def impostor(credentials: Credentials) -> Iterator[tuple[str, list[bytes]]]:
    """A coordinator that is none: its address, and all it hears."""
    heard: list[bytes] = []

    def listen(frames: Any, _: Any) -> Iterator[bytes]:
        heard.extend(frames)
        yield b""

    handlers = {CONVERSE: grpc.stream_stream_rpc_method_handler(listen)}
    server = grpc.server(ThreadPoolExecutor(2))
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, handlers),))
    port = server.add_secure_port("127.0.0.1:0", server_credentials(lambda: credentials))
    server.start()
    try:
        yield f"127.0.0.1:{port}", heard
    finally:
        server.stop(grace=None).wait(DEADLINE_SECONDS)


@pytest.mark.parametrize("who", ["a party", "of another authority", "expired"])
def test_a_party_tells_nothing_to_an_impostor(federation: GrpcFederation, who: str) -> None:
    strangers = make_authority("testing", DAY)
    credentials = {
        "a party": federation.issue("shop"),
        "of another authority": strangers.issue("coordinator", "main", DAY),
        "expired": federation.authority.issue("coordinator", "main", DAY, starting=LONG_AGO),
    }[who]
    with impostor(credentials) as (address, heard):
        link = federation.link("bank", address=address)
        wait_until(lambda: link.trouble is not None, "the impostor is refused")
        assert heard == []
    assert "no secure connection" in str(link.trouble)


def test_a_party_goes_on_trying_when_it_is_refused(federation: GrpcFederation) -> None:
    link = federation.link("bank", credentials=federation.issue("shop"))
    wait_until(lambda: link.trouble is not None, "refused once")
    link.trouble = None
    wait_until(lambda: link.trouble is not None, "refused again")


def test_a_hub_needs_a_coordinators_certificate(federation: GrpcFederation) -> None:
    with pytest.raises(ConfigurationError, match="no coordinator's certificate"):
        GrpcHub(federation.issue("bank"))


def test_revoking_an_identity_cuts_it_off_and_keeps_it_out(federation: GrpcFederation) -> None:
    link = federation.join("bank")
    federation.hub.revoke(Identity("testing", "party", "bank"))
    wait_until(lambda: "was revoked" in str(link.trouble), "the party is told")
    assert federation.hub.connected() == []
    with pytest.raises(PartyLost):
        federation.hub.exchange({"bank": b""}, patience_seconds=0.5)


@pytest.mark.parametrize(
    ("hello", "complaint"),
    [
        (
            Hello(PROTOCOL_VERSION + 1, "bank"),
            f"fedforest:testing/party/bank speaks version {PROTOCOL_VERSION + 1} of the protocol, "
            f"and we speak version {PROTOCOL_VERSION}; install the same release",
        ),
        (Welcome(PROTOCOL_VERSION), "says hello first"),
    ],
)
def test_a_party_that_does_not_greet_as_it_should_is_told_so(
    federation: GrpcFederation, hello: Hello, complaint: str
) -> None:
    bank = federation.issue("bank")
    tls = grpc.ssl_channel_credentials(bank.authority, bank.key, bank.certificate)
    error = knock(federation, tls_channel(federation, tls), hello)
    assert "refuses us" in str(failure_of(error, "here"))
    is_mismatch = isinstance(failure_of(error, "here"), VersionMismatch)
    assert is_mismatch == (hello.protocol_version != PROTOCOL_VERSION)
    assert complaint in error.details()


def test_a_party_notices_a_coordinator_of_another_version(
    federation: GrpcFederation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(grpc_party_stream, "PROTOCOL_VERSION", PROTOCOL_VERSION + 1)
    link = federation.link("bank")
    told = (
        f"the coordinator speaks version {PROTOCOL_VERSION + 1} of the protocol, and we speak "
        f"version {PROTOCOL_VERSION}"
    )
    wait_until(lambda: told in str(link.trouble), "the party says why it is not connected")
    assert not link.is_connected


def test_a_party_that_says_nothing_is_sent_away() -> None:
    with GrpcFederation(limits=ChannelLimits(greeting_seconds=0.2)) as federation:
        bank = federation.issue("bank")
        with open_channel(federation.hub.address, bank) as channel:
            call = method_of(channel, CONVERSE)(Outbox(), timeout=DEADLINE_SECONDS)
            with pytest.raises(grpc.RpcError) as caught:
                next(call)
    assert "no hello within 0.2 seconds" in caught.value.details()


def test_a_link_that_is_told_to_stop_before_it_connects_ends(federation: GrpcFederation) -> None:
    stop = threading.Event()
    stop.set()
    GrpcLink(federation.hub.address, federation.issue("bank"), "bank", bytes).run(stop)
    assert federation.hub.connected() == []

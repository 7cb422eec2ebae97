"""Every call of a coordinator's port by everybody: who gets in is written down here."""

import logging
from collections.abc import Iterator
from typing import Any

import grpc
import pytest

from fedforest.transport.authority import make_authority
from fedforest.transport.frames import PROTOCOL_VERSION, Hello, Piece, encode_frame
from fedforest.transport.grpc.channel import (
    CONVERSE,
    DESCRIBE,
    RENEW,
    SERVICE,
    SUBMIT,
    VERSION_KEY,
    open_channel,
)
from fedforest.transport.tls import Credentials
from tests.transport.grpc_federations import DAY, DEADLINE_SECONDS, GrpcFederation

ALLOWED = {
    SUBMIT: {"user"},
    CONVERSE: {"party"},
    RENEW: {"user", "party"},
    DESCRIBE: {"user", "party"},
}
# unavailable: the handshake failed
REFUSED = grpc.StatusCode.PERMISSION_DENIED, grpc.StatusCode.UNAVAILABLE
CALLERS = ("user", "party", "revoked user", "revoked party", "other user", "other party", "same")


@pytest.fixture(scope="module")
def federation() -> Iterator[GrpcFederation]:
    def echo(_identity: object, request: bytes) -> Iterator[bytes]:
        yield request

    with GrpcFederation(serve_client=echo, renew=lambda _who, shown: shown) as federation:
        yield federation


def credentials_of(federation: GrpcFederation, caller: str) -> Credentials:
    """Make the certificate of a caller; `other` is of another federation, `same` of its name."""
    authority = federation.authority
    if caller.startswith("other"):
        authority = make_authority("elsewhere", DAY)
    if caller == "same":  # a federation that somebody else called alike
        authority = make_authority(federation.authority.federation, DAY)
    role: Any = "party" if caller.endswith("party") else "user"
    made = authority.issue(role, caller.replace(" ", "-"), DAY)
    if caller.startswith("revoked"):
        federation.hub.revoke(made.identity)
    return made


def is_answered(federation: GrpcFederation, credentials: Credentials, method: str) -> bool:
    channel = open_channel(federation.hub.address, credentials)
    version = ((VERSION_KEY, str(PROTOCOL_VERSION)),)
    path = f"/{SERVICE}/{method}"
    try:
        if method in {RENEW, DESCRIBE}:
            channel.unary_unary(path)(b"", metadata=version, timeout=DEADLINE_SECONDS)
            return True
        name = credentials.identity.name
        said = encode_frame(
            Hello(PROTOCOL_VERSION, name)
            if method == CONVERSE
            else Piece(0, 0, is_last=True, data=memoryview(b"x"))
        )
        call = channel.stream_stream(path)(iter([said]), metadata=version, timeout=DEADLINE_SECONDS)
        return next(call) is not None
    except grpc.RpcError as error:
        if error.code() in REFUSED:
            return False
        raise
    finally:
        channel.close()


@pytest.mark.parametrize("caller", CALLERS)
def test_a_call_is_answered_to_those_alone_who_may_make_it(
    federation: GrpcFederation, caller: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "fedforest")
    credentials = credentials_of(federation, caller)
    for method, allowed in ALLOWED.items():
        assert is_answered(federation, credentials, method) == (caller in allowed), method
    refusals = [line for line in caplog.messages if str(credentials.identity) in line]
    if caller in {"user", "party", "revoked user", "revoked party"}:  # others shake no hand
        assert len(refusals) == sum(caller not in allowed for allowed in ALLOWED.values())


def test_who_shows_no_certificate_gets_in_nowhere(federation: GrpcFederation) -> None:
    authority = federation.coordinator.authority
    target = (
        "grpc.ssl_target_name_override",
        f"coordinator.{federation.authority.federation}.fedforest",
    )
    for method in ALLOWED:
        with grpc.secure_channel(
            federation.hub.address, grpc.ssl_channel_credentials(authority), options=[target]
        ) as channel:
            with pytest.raises(grpc.RpcError) as caught:
                channel.unary_unary(f"/{SERVICE}/{method}")(b"", timeout=DEADLINE_SECONDS)
            assert caught.value.code() is grpc.StatusCode.UNAVAILABLE

"""The settings that both ends of a gRPC connection share: methods, limits, keepalive, mutual TLS.

There is no way to open or to accept a connection without certificates.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import grpc

from fedforest.errors import TransportError, VersionMismatch
from fedforest.printable import printable
from fedforest.transport.frames import LARGEST_FRAME, MAX_MESSAGE_BYTES
from fedforest.transport.identity import host_name_of_coordinator
from fedforest.transport.tls import Credentials

SERVICE = "fedforest"
CONVERSE = "Converse"  # a party's stream
SUBMIT = "Submit"  # a user's call
RENEW = "Renew"  # the next certificate of a party or a user
DESCRIBE = "Describe"  # the coordinator's release and clock, for all members
RELEASE_KEY = "fedforest-release"  # what a party's stream says beside its hello
VERSION_KEY = "fedforest-protocol-version"  # what a user's call says beside its request
OTHER_VERSION = grpc.StatusCode.FAILED_PRECONDITION
_REFUSALS = {
    grpc.StatusCode.PERMISSION_DENIED,
    grpc.StatusCode.INVALID_ARGUMENT,
    grpc.StatusCode.RESOURCE_EXHAUSTED,
    OTHER_VERSION,
}

# A silent peer is asked for a sign of life and given up PING_PATIENCE_MS later: a frozen one is
# noticed within 14 seconds. Without ping_timeout_ms that takes more than a minute.
PING_EVERY_MS = 7_000
PING_PATIENCE_MS = 6_000
CONNECT_MS = 10_000

Options = list[tuple[str, int | str]]

_BOTH_ENDS: Options = [
    ("grpc.max_receive_message_length", LARGEST_FRAME),
    ("grpc.max_send_message_length", LARGEST_FRAME),
    ("grpc.keepalive_time_ms", PING_EVERY_MS),
    ("grpc.keepalive_timeout_ms", PING_PATIENCE_MS),
    ("grpc.http2.ping_timeout_ms", PING_PATIENCE_MS),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.max_pings_without_data", 0),
]


@dataclass(frozen=True, slots=True)
class ChannelLimits:
    """The limits on sizes and waiting times."""

    max_message_bytes: int = MAX_MESSAGE_BYTES
    patience_seconds: float = 60.0  # for a party that is away, in all, during one request
    answer_seconds: float = 3600.0  # for the reply of a party, present or not
    greeting_seconds: float = 10.0  # for what a peer has to say before it is let in
    unknown_connections: int = 128  # of peers that have not proven who they are
    unknown_of_one_host: int = 32
    connections_of_one_member: int = 32
    calls_of_one_user: int = 32  # at the same time
    calls_at_work_of_one_user: int = 8  # that hold a thread; those that wait for a run hold none
    max_request_bytes: int = 2**24  # of a user
    # of all unfinished requests together, and of those of one user: a quarter
    unfinished_request_bytes: int = 2**26
    request_seconds: float = 60.0  # for a user to send a whole request
    reading_seconds: float = 60.0  # for a user to take the next piece of an answer


def server_options(limits: ChannelLimits, n_connections: int) -> Options:
    """Return the options with which the coordinator accepts connections, and how many."""
    return [
        *_BOTH_ENDS,
        ("grpc.server_handshake_timeout_ms", int(1000 * limits.greeting_seconds)),
        ("grpc.max_allowed_incoming_connections", n_connections),
        ("grpc.max_concurrent_streams", limits.calls_of_one_user // 2),  # clients wait for theirs
        ("grpc.so_reuseport", 0),  # a second coordinator at the same address is an error
        ("grpc.http2.min_ping_interval_without_data_ms", PING_EVERY_MS // 2),
        ("grpc.http2.max_ping_strikes", 0),
    ]


def server_credentials(current: Callable[[], Credentials]) -> Any:
    """TLS of the coordinator, which demands a certificate of its authority from everybody.

    A caller is shown the current certificate, which may be renewed in between. gRPC asks for it at
    every handshake, and may crash if a certificate is replaced during handshakes: so gRPC gets a
    new one only if it changed.
    """
    shown: Credentials | None = None

    def configure() -> Any:
        nonlocal shown
        credentials = current()
        if credentials is shown:
            return None  # as before
        shown = credentials
        return grpc.ssl_server_certificate_configuration(
            [(credentials.key, credentials.certificate)], root_certificates=credentials.authority
        )

    return grpc.dynamic_ssl_server_credentials(
        configure(), configure, require_client_authentication=True
    )


def open_channel(
    address: str, credentials: Credentials, other_options: Sequence[tuple[str, int | str]] = ()
) -> Any:
    """Open a channel to a coordinator: the peer must hold a coordinator's certificate."""
    federation = credentials.identity.federation
    tls = grpc.ssl_channel_credentials(
        credentials.authority, credentials.key, credentials.certificate
    )
    options = [
        *other_options,  # the first of a name counts
        *_BOTH_ENDS,
        ("grpc.ssl_target_name_override", host_name_of_coordinator(federation)),
        ("grpc.use_local_subchannel_pool", 1),  # a new channel tries at once
        ("grpc.min_reconnect_backoff_ms", CONNECT_MS),  # also the deadline of connecting
        ("grpc.enable_retries", 0),
        ("grpc.enable_http_proxy", 0),
    ]
    return grpc.secure_channel(address, tls, options=options)


def method_of(channel: Any, name: str) -> Callable[..., Any]:
    """A method of the coordinator that takes and gives streams of bytes."""
    call: Callable[..., Any] = channel.stream_stream(f"/{SERVICE}/{name}")
    return call


def failure_of(error: Any, address: str) -> TransportError:
    """The error that a call which ended is told as."""
    kind = VersionMismatch if error.code() is OTHER_VERSION else TransportError
    return kind(describe_failure(error, address))


def describe_failure(error: Any, address: str) -> str:
    """One line on why a call ended, and what to do."""
    code, details = error.code(), printable(error.details() or "no details")
    if code in _REFUSALS:
        return f"the coordinator at {address} refuses us: {details}"
    if "handshake" in details.lower() or "certificate" in details.lower():
        return (
            f"no secure connection to {address}: the certificate of the coordinator or ours was "
            f"refused, so check the authority and the dates; or it is crowded ({details})"
        )
    if code is grpc.StatusCode.UNAVAILABLE:
        return (
            f"no connection to the coordinator at {address} ({details}); is it running, and does "
            "it accept our certificate?"
        )
    return f"the connection to {address} ended: {code.name}, {details}"

"""The first contact of somebody who has no certificate yet, over TLS on a port of its own.

The newcomer knows the authority by the fingerprint in its invitation. It first asks for the
authority's certificate, over a connection that it does not trust, and compares. Then it opens a
second one, which TLS itself authenticates by that authority: only there the invitation's secret is
shown. Its private key stays where it was made.

    newcomer → coordinator   AskAuthority()                   coordinator → newcomer   Card
    newcomer → coordinator   Application(secret, request)     coordinator → newcomer   Answer
"""

import hmac
import socket
import ssl
import time
from typing import TypeVar

import msgspec

from fedforest.errors import ConfigurationError, ProtocolError, TransportError
from fedforest.printable import printable
from fedforest.transport.identity import host_name_of_coordinator
from fedforest.transport.tls import digest_certificate

DEADLINE_SECONDS = 20.0  # of one connection, from handshake to answer
LARGEST_MESSAGE = 16 * 1024
_LENGTH_BYTES = 4


class AskAuthority(msgspec.Struct, frozen=True, array_like=True, tag=0):
    """Show the authority's certificate."""


class Application(msgspec.Struct, frozen=True, array_like=True, tag=1):
    """An invited newcomer's request for a certificate of its key."""

    secret: bytes
    request: bytes  # PEM; signed by the key

    def __repr__(self) -> str:
        return "<Application>"  # a secret shows up in no log


class Card(msgspec.Struct, frozen=True, array_like=True):
    """The authority's certificate, PEM."""

    authority: bytes


class Answer(msgspec.Struct, frozen=True, array_like=True):
    """A certificate (PEM), or why there is none."""

    certificate: bytes = b""
    reason: str = ""


Kind = TypeVar("Kind")


def apply(
    address: str, federation: str, fingerprint: bytes, application: Application
) -> tuple[bytes, bytes]:
    """Ask for a certificate; returns it and the authority's.

    Raises `TransportError` where nobody answers or the wrong one does, before anything was shown;
    `ConfigurationError` with the coordinator's reason where it refuses.
    """
    stranger = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    stranger.minimum_version = ssl.TLSVersion.TLSv1_3
    stranger.check_hostname = False
    stranger.verify_mode = ssl.CERT_NONE  # what comes is compared with the fingerprint instead
    authority = _ask(address, stranger, federation, AskAuthority(), Card).authority
    _check_authority(authority, fingerprint)
    known = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    known.minimum_version = ssl.TLSVersion.TLSv1_3
    known.load_verify_locations(cadata=authority.decode())
    answer = _ask(address, known, federation, application, Answer)
    if not answer.certificate:
        raise ConfigurationError(f"the coordinator refuses: {printable(answer.reason)}")
    return answer.certificate, authority


def _ask(
    address: str,
    context: ssl.SSLContext,
    federation: str,
    message: msgspec.Struct,
    kind: type[Kind],
) -> Kind:
    """One connection: a message there, another one back."""
    deadline = time.monotonic() + DEADLINE_SECONDS
    try:
        with socket.create_connection(split_address(address), DEADLINE_SECONDS) as raw:
            raw.settimeout(max(0.0, deadline - time.monotonic()))
            host = host_name_of_coordinator(federation)
            with context.wrap_socket(raw, server_hostname=host) as connection:
                send(connection, message)
                return receive(connection, kind, deadline)
    except ssl.SSLCertVerificationError as error:
        raise TransportError(
            f"whoever answers at {address} holds no certificate of the federation's coordinator "
            f"({error.verify_message}). Nothing was shown to it; ask the operator"
        ) from None
    except (OSError, ProtocolError) as error:
        what = error.strerror if isinstance(error, OSError) else str(error)
        raise TransportError(
            f"no coordinator to enrol with at {address}: {what or type(error).__name__}; ask its "
            "operator whether it runs and its port of newcomers can be reached, then repeat this"
        ) from None


def _check_authority(authority: bytes, fingerprint: bytes) -> None:
    try:
        is_same = hmac.compare_digest(digest_certificate(authority), fingerprint)
    except ConfigurationError:  # not even a certificate
        is_same = False
    if not is_same:
        raise TransportError(
            "whoever answers is not the coordinator of the invitation: its authority has another "
            "fingerprint. Nothing was shown to it; ask the operator for a fresh invitation"
        )


def split_address(address: str) -> tuple[str, int]:
    """Host and port of `host:port` or `[host]:port`."""
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal() or int(port) >= 2**16:
        raise ConfigurationError(f"{address!r} is no address; it has the form host:port")
    return host.strip("[]"), int(port)


def send(connection: ssl.SSLSocket, message: msgspec.Struct) -> None:
    data = msgspec.msgpack.encode(message)
    connection.sendall(len(data).to_bytes(_LENGTH_BYTES, "big") + data)


def receive(connection: ssl.SSLSocket, kind: type[Kind], deadline: float) -> Kind:
    """A message before a moment of the monotonic clock; raises `ProtocolError` where it is none."""
    length = int.from_bytes(_read(connection, _LENGTH_BYTES, deadline), "big")
    if length > LARGEST_MESSAGE:
        raise ProtocolError("a message of an enrolment is too long")
    try:
        return msgspec.msgpack.decode(_read(connection, length, deadline), type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise ProtocolError("a message of an enrolment cannot be read") from None


def _read(connection: ssl.SSLSocket, n_bytes: int, deadline: float) -> bytes:
    parts = bytearray()
    while len(parts) < n_bytes:
        left = deadline - time.monotonic()
        if left <= 0:
            raise ProtocolError("an enrolment takes too long")
        connection.settimeout(left)
        part = connection.recv(n_bytes - len(parts))
        if not part:
            raise ProtocolError("the other side closed the connection")
        parts += part
    return bytes(parts)

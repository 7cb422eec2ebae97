"""A client that chooses the version of TLS itself, and speaks HTTP/2 by the byte."""

import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
HEADERS, SETTINGS = 1, 4
END_HEADERS = 4
CALL = {
    ":method": "POST",
    ":scheme": "https",
    ":path": "/fedforest/Converse",
    ":authority": "coordinator.testing.fedforest",
    "content-type": "application/grpc",
    "te": "trailers",
}


@contextmanager
def connect(
    address: str, credentials: Path, version: ssl.TLSVersion, *, is_member: bool = True
) -> Iterator[ssl.SSLSocket]:
    """Shake hands in this version and no other."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.load_verify_locations(credentials / "authority.pem")
    if is_member:
        context.load_cert_chain(credentials / "certificate.pem", credentials / "key.pem")
    context.minimum_version = context.maximum_version = version
    context.set_alpn_protocols(["h2"])
    host, _, port = address.rpartition(":")
    with (
        socket.create_connection((host, int(port)), 10.0) as raw,
        context.wrap_socket(raw) as connection,
    ):
        yield connection


def call(connection: ssl.SSLSocket) -> bytes:
    """Open a party's stream; everything that comes back until the connection ends."""
    fields = b"".join(
        b"\x00" + bytes([len(part := name.encode())]) + part + bytes([len(value)]) + value.encode()
        for name, value in CALL.items()
    )
    connection.sendall(
        PREFACE + _frame(SETTINGS, 0, 0, b"") + _frame(HEADERS, END_HEADERS, 1, fields)
    )
    received = b""
    connection.settimeout(3.0)
    try:
        while data := connection.recv(65536):
            received += data
    except TimeoutError:
        pass  # the call is over, the connection stays
    return received


def _frame(kind: int, flags: int, stream: int, data: bytes) -> bytes:
    return len(data).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + data

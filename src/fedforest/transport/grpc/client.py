"""A user's side of the gRPC transport: submit a request to a coordinator and watch its events."""

from collections.abc import Iterator
from typing import Any

import grpc

from fedforest.errors import ProtocolError, RemoteProtocolError
from fedforest.transport.error_table import error_of_coordinator
from fedforest.transport.frames import (
    PROTOCOL_VERSION,
    Inbox,
    Piece,
    Refusal,
    check_size,
    decode_frame,
    split_message,
)
from fedforest.transport.grpc.channel import (
    SUBMIT,
    VERSION_KEY,
    ChannelLimits,
    failure_of,
    method_of,
    open_channel,
)
from fedforest.transport.tls import Credentials


class GrpcClient:
    """A connection to a coordinator for any number of calls, from any threads."""

    def __init__(
        self, address: str, credentials: Credentials, *, limits: ChannelLimits | None = None
    ) -> None:
        self._address = address
        self._limits = limits if limits is not None else ChannelLimits()
        self._channel = open_channel(address, credentials)

    def submit(self, request: bytes) -> Iterator[bytes]:
        """The events that the coordinator answers with; closing the iterator ends the call.

        Raises the coordinator's own error, `TransportError` where it cannot be reached, and
        `VersionMismatch` where it speaks another version.
        """
        check_size(request, self._limits.max_message_bytes)
        version = ((VERSION_KEY, str(PROTOCOL_VERSION)),)
        call = method_of(self._channel, SUBMIT)(split_message(0, request), metadata=version)
        try:
            yield from self._read(call)
        except grpc.RpcError as error:
            raise failure_of(error, self._address) from None
        finally:
            call.cancel()

    def _read(self, call: Any) -> Iterator[bytes]:
        inbox = Inbox(self._limits.max_message_bytes)
        for data in call:
            try:
                frame = decode_frame(data)
                if isinstance(frame, Refusal):
                    raise error_of_coordinator(frame)
                if not isinstance(frame, Piece):
                    raise ProtocolError(f"an event is no {type(frame).__name__}")
                event = inbox.add(frame)
            except ProtocolError as error:
                if isinstance(error, RemoteProtocolError):
                    raise
                raise RemoteProtocolError(str(error), "coordinator") from None
            if event is not None:
                yield event

    def close(self) -> None:
        self._channel.close()

    def __enter__(self) -> "GrpcClient":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def submit(address: str, credentials: Credentials, request: bytes) -> Iterator[bytes]:
    """One call over a connection of its own."""
    with GrpcClient(address, credentials) as client:
        yield from client.submit(request)

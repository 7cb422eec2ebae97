"""What a coordinator tells every member of itself: its release, its protocol and its clock.

The answer is the same in all versions of the protocol, so that a member that is refused for its
version learns which one the coordinator has.
"""

import time
from typing import Any

import grpc
import msgspec

from fedforest.errors import RemoteProtocolError, TransportError
from fedforest.release import __version__
from fedforest.transport.frames import PROTOCOL_VERSION
from fedforest.transport.grpc.channel import DESCRIBE, SERVICE, describe_failure, open_channel
from fedforest.transport.tls import Credentials

_DEADLINE_SECONDS = 10.0
_LONGEST_BYTES = 10_000


class Description(msgspec.Struct, frozen=True):
    """The coordinator's release, protocol version, and seconds since 1970 by its clock."""

    release: str
    protocol_version: int
    now: float


def describe_itself() -> bytes:
    """Encode the description of this coordinator."""
    return msgspec.json.encode(Description(__version__, PROTOCOL_VERSION, time.time()))


def ask_description(address: str, credentials: Credentials) -> Description:
    """Ask a coordinator for its description; raises `TransportError` with its refusal."""
    with open_channel(address, credentials) as channel:
        ask: Any = channel.unary_unary(f"/{SERVICE}/{DESCRIBE}")
        try:
            answer: bytes = ask(b"", timeout=_DEADLINE_SECONDS)
        except grpc.RpcError as error:
            raise TransportError(describe_failure(error, address)) from None
    try:
        return msgspec.json.decode(answer[:_LONGEST_BYTES], type=Description)
    except msgspec.DecodeError:
        raise RemoteProtocolError("it describes itself in other words", "coordinator") from None

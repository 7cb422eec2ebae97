"""The next certificate for whoever holds one in date: one call to the coordinator, same key."""

from typing import Any

import grpc

from fedforest.errors import ConfigurationError, TransportError
from fedforest.printable import printable
from fedforest.transport.grpc.channel import RENEW, SERVICE, describe_failure, open_channel
from fedforest.transport.tls import Credentials

_DEADLINE_SECONDS = 20.0


def renew_certificate(address: str, credentials: Credentials) -> bytes:
    """A certificate (PEM) for the same key and identity that is good for longer.

    Raises `ConfigurationError` where the coordinator gives none, `TransportError` where it cannot
    be reached.
    """
    with open_channel(address, credentials) as channel:
        renew: Any = channel.unary_unary(f"/{SERVICE}/{RENEW}")
        try:
            certificate: bytes = renew(b"", timeout=_DEADLINE_SECONDS)
        except grpc.RpcError as error:
            if error.code() is grpc.StatusCode.PERMISSION_DENIED:
                raise ConfigurationError(
                    f"the coordinator refuses: {printable(error.details())}"
                ) from None
            if error.code() is grpc.StatusCode.UNIMPLEMENTED:
                raise ConfigurationError(
                    "the coordinator renews no certificates: its folder holds no authority; have "
                    "a new one issued where this one came from"
                ) from None
            raise TransportError(describe_failure(error, address)) from None
    return certificate

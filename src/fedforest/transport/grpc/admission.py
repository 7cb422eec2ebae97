"""The doorkeeper of the hub: refuses parties that may not connect to a coordinator.

The handshake has let in only certificates of the federation's authority, in date. Here the identity
in the certificate decides: its federation, its role, and the party it wants to speak for.
"""

import asyncio
import logging
from datetime import UTC, datetime
from typing import Any, NoReturn

import grpc

from fedforest.errors import ConfigurationError, FederationError, ProtocolError, VersionMismatch
from fedforest.transport.frames import Hello, check_version, decode_frame
from fedforest.transport.grpc.channel import OTHER_VERSION, VERSION_KEY
from fedforest.transport.identity import Identity, Role
from fedforest.transport.tls import read_expiry, read_identity

_LOG = logging.getLogger(__name__)


class Admission:
    """Lets identities in, or ends their call with the reason."""

    def __init__(self, federation: str, greeting_seconds: float) -> None:
        self._federation = federation
        self._greeting_seconds = greeting_seconds
        self._revoked: set[Identity] = set()

    def revoke(self, identity: Identity) -> None:
        """From now on this identity is refused."""
        self._revoked.add(identity)

    async def identify(self, context: Any, *roles: Role) -> Identity:
        """The caller's identity, if it may use a method of these roles."""
        try:
            identity = read_identity(shown_certificate(context))
            self._check(identity, roles)
        except ConfigurationError as error:
            await _refuse(context, error)
        return identity

    def _check(self, identity: Identity, roles: tuple[Role, ...]) -> None:
        if identity.federation != self._federation:
            raise ConfigurationError(f"{identity} is of another federation")
        if identity.role not in roles:
            raise ConfigurationError(f"{identity} is no {' or '.join(roles)}'s certificate")
        if identity in self._revoked:
            raise ConfigurationError(f"{identity} was revoked")

    async def compare_versions(self, context: Any, identity: Identity) -> None:
        """Take a caller of our version only; who says none is of the first release."""
        said = dict(context.invocation_metadata()).get(VERSION_KEY, "1")
        try:
            check_version(int(said) if said.isdecimal() else 0, str(identity))
        except VersionMismatch as error:
            await _refuse(context, error)

    async def greet(self, context: Any, identity: Identity) -> None:
        """Take the hello of a party; its name must be the one in its certificate."""
        try:
            async with asyncio.timeout(self._greeting_seconds):
                data = await context.read()
            _check_hello(data, identity)
        except TimeoutError:
            seconds = self._greeting_seconds
            await _refuse(context, ProtocolError(f"it said no hello within {seconds:g} seconds"))
        except FederationError as error:
            await _refuse(context, error)


def shown_certificate(context: Any) -> bytes:
    """The caller's certificate (PEM), whose key the handshake has proven."""
    certificates = context.auth_context().get("x509_pem_cert", [])
    if len(certificates) != 1:
        raise ConfigurationError("there is no certificate")
    return bytes(certificates[0])


def seconds_until_expiry(context: Any) -> float:
    """Return the seconds until the caller's certificate expires: a connection lives no longer."""
    left = read_expiry(shown_certificate(context)) - datetime.now(UTC)
    return left.total_seconds()


def _check_hello(data: Any, identity: Identity) -> None:
    hello = decode_frame(data) if data is not grpc.aio.EOF else None
    if not isinstance(hello, Hello):
        raise ProtocolError("a party says hello first")
    check_version(hello.protocol_version, str(identity))
    if hello.party != identity.name:
        raise ConfigurationError(f"{identity} may not speak for party {hello.party!r}")


async def _refuse(context: Any, error: FederationError) -> NoReturn:
    _LOG.warning("refused a connection from %s: %s", context.peer(), error)
    if isinstance(error, VersionMismatch):
        code = OTHER_VERSION
    elif isinstance(error, ConfigurationError):
        code = grpc.StatusCode.PERMISSION_DENIED
    else:
        code = grpc.StatusCode.INVALID_ARGUMENT
    await context.abort(code, str(error))
    raise error  # never reached: abort raises

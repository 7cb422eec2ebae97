"""The doorkeeper of the hub: refuses parties that may not connect to a coordinator.

The handshake has let in only certificates of the federation's authority, in date. Here the identity
in the certificate decides: its federation, its role, and the party it wants to speak for.
"""

import asyncio
import logging
from collections import defaultdict
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from typing import Any, NoReturn

import grpc

from fedforest.errors import (
    ConfigurationError,
    FederationError,
    ProtocolError,
    TransportError,
    VersionMismatch,
)
from fedforest.transport.frames import Hello, check_version, decode_frame
from fedforest.transport.grpc.channel import OTHER_VERSION, VERSION_KEY, ChannelLimits
from fedforest.transport.grpc.connections import Connections
from fedforest.transport.identity import Identity, Role
from fedforest.transport.rare_lines import RareLine
from fedforest.transport.tls import TLS_VERSION, read_expiry, read_identity

_LOG = logging.getLogger(__name__)
_HELLO_SECONDS = 0.1  # between hellos or renewals of one member: who comes more often waits
_REFUSAL_LINES = 20  # of one member before only some are logged


class Admission:
    """Lets identities in, or ends their call with the reason."""

    def __init__(
        self,
        federation: str,
        connections: Connections,
        limits: ChannelLimits,
        is_revoked: Callable[[Identity], bool],
    ) -> None:
        self._federation = federation
        self._is_revoked = is_revoked
        self._connections = connections
        self._greeting_seconds = limits.greeting_seconds
        self._revoked: set[Identity] = set()
        self._next_hello: dict[Identity, float] = {}
        self._refusals: defaultdict[str, RareLine] = defaultdict(
            partial(RareLine, _LOG, at_once=_REFUSAL_LINES)
        )

    def revoke(self, identity: Identity) -> None:
        """From now on this identity is refused."""
        self._revoked.add(identity)

    async def identify(self, context: Any, *roles: Role) -> Identity:
        """The caller's identity, if it may use a method of these roles."""
        try:
            identity = read_identity(shown_certificate(context))
            self._check(identity, roles)
            _check_tls(context)
            if not self._connections.admit(identity, context.peer()):
                raise TransportError(f"{identity} has too many connections open; close some")
        except (ConfigurationError, TransportError) as error:
            await self._refuse(context, error)
        return identity

    def _check(self, identity: Identity, roles: tuple[Role, ...]) -> None:
        if identity.federation != self._federation:
            raise ConfigurationError(f"{identity} is of another federation")
        if identity.role not in roles:
            raise ConfigurationError(f"{identity} is no {' or '.join(roles)}'s certificate")
        if identity in self._revoked or self._is_revoked(identity):
            raise ConfigurationError(f"{identity} was revoked")

    async def compare_versions(self, context: Any, identity: Identity) -> None:
        """Refuse callers of other versions; a caller without a version is of the first release."""
        said = dict(context.invocation_metadata()).get(VERSION_KEY, "1")
        try:
            check_version(int(said) if said.isdecimal() else 0, str(identity))
        except VersionMismatch as error:
            await self._refuse(context, error)

    async def greet(self, context: Any, identity: Identity) -> None:
        """Take the hello of a party; its name must be the one in its certificate."""
        await self.keep_pace(identity)
        try:
            async with asyncio.timeout(self._greeting_seconds):
                data = await context.read()
            _check_hello(data, identity)
        except TimeoutError:
            seconds = self._greeting_seconds
            error = ProtocolError(f"it said no hello within {seconds:g} seconds")
            await self._refuse(context, error)
        except FederationError as error:
            await self._refuse(context, error)

    async def keep_pace(self, identity: Identity) -> None:
        """Wait until this identity's next hello, or its next renewal, is due."""
        now = asyncio.get_running_loop().time()
        due = max(now, self._next_hello.get(identity, 0.0))
        self._next_hello[identity] = due + _HELLO_SECONDS
        if due > now:
            await asyncio.sleep(due - now)

    async def _refuse(self, context: Any, error: FederationError) -> NoReturn:
        names = context.auth_context().get("x509_subject_alternative_name", [b""])
        line = self._refusals[names[0].decode(errors="replace")]
        line.warn("refused a connection from %s: %s", context.peer(), error)
        await context.abort(_code_of(error), str(error))
        raise error  # never reached: abort raises


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


def _check_tls(context: Any) -> None:
    """Refuse an older version, where gRPC was not told in time to agree on none."""
    said = context.auth_context().get("ssl_tls_version", [TLS_VERSION.encode()])
    if said != [TLS_VERSION.encode()]:
        raise ConfigurationError(f"connections use {TLS_VERSION}")


def _code_of(error: FederationError) -> grpc.StatusCode:
    if isinstance(error, VersionMismatch):
        return OTHER_VERSION
    if isinstance(error, TransportError):
        return grpc.StatusCode.RESOURCE_EXHAUSTED
    if isinstance(error, ConfigurationError):
        return grpc.StatusCode.PERMISSION_DENIED
    return grpc.StatusCode.INVALID_ARGUMENT

"""The connections to a coordinator's port: their number, owners, and age while unproven.

gRPC accepts connections by itself. It has limits for the number of connections and the time of a
handshake, but none for one address or one member: a stranger could open enough silent connections
to keep members out. So the coordinator looks through the descriptors of its own process and shuts
connections that no member has proven to be its own: the old ones, and the oldest of too many
(docs/decisions/0030). Where the system does not list them, only gRPC's own limits hold.
"""

import asyncio
import logging
import os
import resource
import socket
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from ipaddress import IPv6Address, ip_address
from typing import Any, NamedTuple
from urllib.parse import unquote

import grpc

from fedforest.transport.grpc.channel import ChannelLimits
from fedforest.transport.identity import Identity
from fedforest.transport.rare_lines import RareLine

_LOG = logging.getLogger(__name__)
_DESCRIPTORS = "/dev/fd"  # of this process, on Linux and on macOS
_LOOK_SECONDS, _LOOK_SOON_SECONDS = 0.25, 0.05
_END_SECONDS = 2.0  # for a caller to take why its call ends
_MOST_DESCRIPTORS = 2**16
_MOST_CONNECTIONS = 2**11


class PeerAddress(NamedTuple):
    """The other end of a connection."""

    host: str
    port: int


class Connections:
    """All connections to one port of this process; used on one thread."""

    def __init__(self, limits: ChannelLimits) -> None:
        self._limits = limits
        self._members: dict[PeerAddress, Identity] = {}
        self._unknown_since: dict[PeerAddress, float] = {}
        self._shut_line = RareLine(_LOG)
        self._port = 0

    def listen_at(self, port: int) -> None:
        """Watch the connections to this port from now on."""
        self._port = port

    def admit(self, identity: Identity, peer: str) -> bool:
        """Note that a connection is a member's; False if the member has too many."""
        place = read_peer(peer)
        if self._members.get(place) == identity:
            return True
        n_others = sum(other == identity for other in self._members.values())
        if n_others >= self._limits.connections_of_one_member:
            return False
        self._members[place] = identity
        return True

    def look(self) -> float:
        """Shut unknown connections that are too old or too many, and forget those that are gone.

        Returns after how many seconds to look again: soon where strangers crowd in.
        """
        opened = _list_connections(self._port)
        now = time.monotonic()
        self._members = {peer: self._members[peer] for peer in opened if peer in self._members}
        self._unknown_since = {
            peer: self._unknown_since.get(peer, now) for peer in opened if peer not in self._members
        }
        chosen = self._choose(now)
        for peer in chosen:
            if _shut(opened[peer], peer):
                self._shut_line.warn("a connection from %s that said nothing was shut", peer.host)
        return _LOOK_SOON_SECONDS if chosen else _LOOK_SECONDS

    async def end_call(self, context: Any, code: grpc.StatusCode, reason: str) -> None:
        """Tell a caller why its call ends; the connection of one that does not read is shut."""
        timer = asyncio.get_running_loop().call_later(_END_SECONDS, self._shut, context.peer())
        try:
            await context.abort(code, reason)
        finally:
            timer.cancel()

    def _shut(self, peer: str) -> None:
        place = read_peer(peer)
        descriptor = _list_connections(self._port).get(place)
        if descriptor is not None and _shut(descriptor, place):
            self._shut_line.warn("a connection from %s that reads nothing was shut", place.host)

    def _choose(self, now: float) -> list[PeerAddress]:
        """Choose what to shut. Members are known soon, so the oldest are least likely theirs."""
        limits, unknown = self._limits, sorted(self._unknown_since, key=self._unknown_since.get)  # type: ignore[arg-type] # all are in it
        n_left, n_of_host = len(unknown), Counter(peer.host for peer in unknown)
        chosen = []
        for peer in unknown:
            if (
                now - self._unknown_since[peer] > limits.greeting_seconds
                or n_left > limits.unknown_connections
                or n_of_host[peer.host] > limits.unknown_of_one_host
            ):
                chosen.append(peer)
                n_left -= 1
                n_of_host[peer.host] -= 1
        return chosen


def most_connections() -> int:
    """How many connections gRPC may accept: half of all descriptors; files need the others."""
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    is_unlimited = limit == resource.RLIM_INFINITY
    return _MOST_CONNECTIONS if is_unlimited else min(_MOST_CONNECTIONS, limit // 2)


def raise_descriptor_limit() -> None:
    """Let this process open as many files and connections as the system allows, within reason."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _MOST_DESCRIPTORS if hard == resource.RLIM_INFINITY else min(_MOST_DESCRIPTORS, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def read_peer(peer: str) -> PeerAddress:
    """Read what gRPC calls the other end: `ipv4:127.0.0.1:4000` or `ipv6:%5B::1%5D:4000`."""
    host, _, port = unquote(peer).partition(":")[2].rpartition(":")
    return PeerAddress(_one_form(host.strip("[]")), int(port) if port.isdecimal() else 0)


def _one_form(host: str) -> str:
    """Write an address in the form that both gRPC and the system's answers are brought to."""
    try:
        address = ip_address(host.partition("%")[0])
    except ValueError:
        return host
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return str(mapped or address)


def _list_connections(port: int) -> dict[PeerAddress, int]:
    """List the connections to a port with their descriptors; gRPC may close them meanwhile."""
    found = {}
    with suppress(OSError):
        for name in os.listdir(_DESCRIPTORS):
            with suppress(OSError), _borrow(int(name)) as connection:
                own = connection.getsockname()
                if isinstance(own, tuple) and own[1:2] == (port,):
                    host, other = connection.getpeername()[:2]  # a listening socket has none
                    found[PeerAddress(_one_form(host), other)] = int(name)
    return found


def _shut(descriptor: int, peer: PeerAddress) -> bool:
    """Shut a connection if the descriptor is still its own; gRPC then closes it."""
    with suppress(OSError), _borrow(descriptor) as connection:
        host, port = connection.getpeername()[:2]
        if PeerAddress(_one_form(host), port) == peer:
            connection.shutdown(socket.SHUT_RDWR)
            return True
    return False


@contextmanager
def _borrow(descriptor: int) -> Iterator[socket.socket]:
    """Use a descriptor of somebody else as a socket; raises `OSError` where it is none.

    It is neither copied nor closed: a process that closes any descriptor of a file, such as a copy
    of a database's, loses its locks on the file.
    """
    borrowed = socket.socket(fileno=descriptor)
    try:
        yield borrowed
    finally:
        borrowed.detach()

"""The parties connected to a hub, and waiting for those that are not.

It lives on the event loop of the hub; any thread may ask for the connected parties and the speed of
their networks. A party has one stream: a newer one takes over.
"""

import asyncio
import logging
from typing import Any

import grpc

from fedforest.errors import TooFewParties
from fedforest.protocol.network import Network
from fedforest.transport.grpc.party_stream import UNMEASURED, PartyStream

_LOG = logging.getLogger(__name__)


class Presence:
    """The streams of the parties that are there now, by their names."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._streams: dict[str, PartyStream] = {}
        self._change: asyncio.Future[None] = loop.create_future()  # parties come or go

    def names(self) -> set[str]:
        return {name for name, stream in list(self._streams.items()) if not stream.is_gone}

    def releases(self) -> dict[str, str]:
        streams = list(self._streams.items())
        return {name: stream.release for name, stream in streams if not stream.is_gone}

    def latencies(self) -> dict[str, float]:
        """The seconds to each party and back, measured when it connected."""
        streams = list(self._streams.items())
        return {
            name: stream.network.latency_seconds for name, stream in streams if not stream.is_gone
        }

    def network(self) -> Network:
        """The slowest way to a party, measured when it connected."""
        networks = [stream.network for stream in list(self._streams.values())]
        if not networks:
            return UNMEASURED
        return Network(
            max(network.latency_seconds for network in networks),
            min(network.bytes_per_second for network in networks),
        )

    def find(self, party: str) -> PartyStream | None:
        """The stream of a party, which may have gone a moment ago."""
        return self._streams.get(party)

    def enter(self, stream: PartyStream, peer: str) -> None:
        """Enter a party's new stream from this address; it replaces an older one."""
        older = self._streams.get(stream.party)
        self._streams[stream.party] = stream
        if older is not None:
            older.cut(grpc.StatusCode.ABORTED, "a newer connection of this party took over")
        self._announce()
        _LOG.info("party %r connected from %s", stream.party, peer)

    def leave(self, stream: PartyStream) -> None:
        """A stream has ended; its party is gone unless it came back on another."""
        if self._streams.get(stream.party) is stream:
            del self._streams[stream.party]
            _LOG.warning("party %r is disconnected", stream.party)
            self._announce()

    async def require(self, names: set[str], timeout_seconds: float) -> None:
        """Return when all these parties are connected; `TooFewParties` names who is missing."""
        await self.wait_for(names, timeout_seconds)
        missing = sorted(names - self.names())
        if missing:
            raise TooFewParties(
                f"not connected after {timeout_seconds:g} seconds: {', '.join(missing)}; start "
                "their party services"
            )

    async def wait_for(
        self, names: set[str], timeout_seconds: float, unless: "asyncio.Future[Any] | None" = None
    ) -> None:
        """Return when these parties are connected, the time is over, or `unless` is done."""
        deadline = self._loop.time() + timeout_seconds
        while not names <= self.names() and not (unless is not None and unless.done()):
            left = deadline - self._loop.time()
            if left <= 0:
                return
            events = {self._change} if unless is None else {self._change, unless}
            await asyncio.wait(events, timeout=left, return_when=asyncio.FIRST_COMPLETED)

    def _announce(self) -> None:
        """Wake everybody who waits for parties."""
        self._change.set_result(None)
        self._change = self._loop.create_future()

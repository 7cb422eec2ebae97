"""The coordinator's end of one party's stream: frames out, frames in, and how fast they travel.

Lives on the event loop of the hub. A stream ends once and for all: a party that comes back opens
a new one.
"""

import asyncio
import logging
import time
from collections.abc import Callable
from typing import Any

import grpc

from fedforest.errors import FederationError, ProtocolError, TransportError
from fedforest.protocol.network import Network
from fedforest.transport.frames import (
    PROTOCOL_VERSION,
    Forget,
    Frame,
    Inbox,
    Piece,
    Probe,
    Refusal,
    Welcome,
    decode_frame,
    encode_frame,
    split_message,
)

_LOG = logging.getLogger(__name__)

_PROBE_SIZES = (64, 64, 64, 2**17)  # bytes: three for the latency, one for the bandwidth
UNMEASURED = Network(latency_seconds=2e-3, bytes_per_second=1e8)

Answer = Piece | Refusal


class PartyStream:
    """One connection of one party."""

    def __init__(self, party: str, context: Any, max_message_bytes: int) -> None:
        self.party = party
        self.release = ""  # of the party's installation, as it says
        self.violation: FederationError | None = None  # how the party broke the protocol
        self.inbox = Inbox(max_message_bytes)
        self.is_gone = False
        self._context = context
        self._cut: asyncio.Future[tuple[Any, str]] = asyncio.get_running_loop().create_future()
        self._writing = asyncio.Lock()
        self._network = _Measurement()

    @property
    def network(self) -> Network:
        return self._network.result

    async def serve(self, take: Callable[["PartyStream", Answer], None]) -> None:
        """Hand all answers on until the party leaves or is cut off, which `ending` says."""
        reading = asyncio.ensure_future(self._read(take))
        try:
            await self._send(Welcome(PROTOCOL_VERSION))
            await self._send(self._network.start())
            ends: set[asyncio.Future[Any]] = {reading, self._cut}
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        finally:
            reading.cancel()
            self.is_gone = True

    @property
    def ending(self) -> tuple[Any, str] | None:
        """Return why the stream is cut off, as a code and a text; None if it is open."""
        return self._cut.result() if self._cut.done() else None

    def cut(self, code: Any, reason: str) -> None:
        """End the stream; the party is told why."""
        if not self._cut.done():
            self._cut.set_result((code, reason))

    async def deliver(
        self, request_id: int, data: bytes, reply: "asyncio.Future[bytes | None]"
    ) -> None:
        """Send a request piece by piece, unless it is settled or the stream ends before.

        Must not be cancelled: where a write was begun and not ended, none can follow.
        """
        for frame in split_message(request_id, data):  # other messages may be sent in between
            await self._write(frame)
            if self.is_gone or reply.done():  # parties may refuse what they have not read
                break

    def forget(self, request_id: int) -> None:
        """The reply is no longer waited for, here and, when it hears of it, at the party."""
        self.inbox.discard(request_id)
        if not self.is_gone:
            keep(asyncio.ensure_future(self._send(Forget(request_id))))

    async def _send(self, frame: Frame) -> None:
        await self._write(encode_frame(frame))

    async def _write(self, frame: bytes) -> None:
        async with self._writing:
            if self.is_gone:
                return
            try:
                await self._context.write(frame)
            except (grpc.aio.BaseError, asyncio.CancelledError):
                # gRPC says "cancelled" of a stream that the party has left
                self.is_gone = True
                self.cut(grpc.StatusCode.UNAVAILABLE, "the stream cannot be written to")

    async def _read(self, take: Callable[["PartyStream", Answer], None]) -> None:
        while (data := await self._context.read()) is not grpc.aio.EOF:
            try:
                frame = decode_frame(data)
                if isinstance(frame, Piece | Refusal):
                    take(self, frame)
                elif isinstance(frame, Probe):
                    self._measure(frame)
                else:
                    raise ProtocolError(f"a party sends no {type(frame).__name__}")
            except (ProtocolError, TransportError) as error:
                _LOG.warning("party %r is cut off: %s", self.party, error)
                self.violation = error
                self.cut(grpc.StatusCode.INVALID_ARGUMENT, str(error))
                return

    def _measure(self, echo: Probe) -> None:
        following = self._network.take(echo)
        if following is not None:
            keep(asyncio.ensure_future(self._send(following)))  # reading never waits for writing


class _Measurement:
    """Times probes that the party sends back."""

    def __init__(self) -> None:
        self.result = UNMEASURED
        self._sent_at = 0.0
        self._number = -1
        self._seconds: list[float] = []

    def start(self) -> Probe:
        return self._next_probe()

    def take(self, echo: Probe) -> Probe | None:
        """Note an echo; the next probe, if there is one."""
        if echo.number != self._number or len(echo.data) != _PROBE_SIZES[self._number]:
            raise ProtocolError("a probe came back changed")
        self._seconds.append(time.perf_counter() - self._sent_at)
        if len(self._seconds) < len(_PROBE_SIZES):
            return self._next_probe()
        self._number = -1  # an echo more is one too many
        latency = min(self._seconds[:-1])
        # both ways; never slower than if all of the large probe's time were transfer
        transfer = max(self._seconds[-1] - latency, self._seconds[-1] / 20)
        self.result = Network(latency, 2 * _PROBE_SIZES[-1] / transfer)
        return None

    def _next_probe(self) -> Probe:
        self._number += 1
        self._sent_at = time.perf_counter()
        return Probe(self._number, memoryview(bytes(_PROBE_SIZES[self._number])))


_RUNNING: set[asyncio.Future[None]] = set()


def keep(task: asyncio.Future[None]) -> None:
    """Hold a task that nobody waits for until it is done: the loop itself does not."""
    _RUNNING.add(task)
    task.add_done_callback(_RUNNING.discard)

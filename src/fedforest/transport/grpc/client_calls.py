"""Users' calls to a coordinator: one request in, a stream of events out.

Each call is answered on a thread of its own; as many as there are threads are answered at the same
time, the others wait. A slow reader slows the one who makes its events, and is cut off in the end.
"""

import asyncio
import logging
from collections import defaultdict
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError, ThreadPoolExecutor
from typing import Any

import grpc

from fedforest.errors import FederationError, ProtocolError
from fedforest.transport.error_table import refuse
from fedforest.transport.frames import (
    Inbox,
    Piece,
    check_size,
    decode_frame,
    encode_frame,
    split_message,
)
from fedforest.transport.grpc.admission import seconds_until_expiry
from fedforest.transport.grpc.channel import ChannelLimits
from fedforest.transport.grpc.connections import Connections
from fedforest.transport.identity import Identity

_LOG = logging.getLogger(__name__)
_MAX_CALLS = 64

ServeClient = Callable[[Identity, bytes], Iterator[bytes]]
Send = Callable[[bytes], None]


class ClientCalls:
    """Answers users' calls with what `serve` yields."""

    def __init__(self, serve: ServeClient, connections: Connections, limits: ChannelLimits) -> None:
        self._serve = serve
        self._connections = connections
        self._limits = limits
        self._threads = ThreadPoolExecutor(_MAX_CALLS, thread_name_prefix="fedforest-call")
        self._calls: dict[Identity, set[asyncio.Future[str]]] = defaultdict(set)

    async def serve(self, identity: Identity, context: Any) -> None:
        """One call, from its first byte to its last event; runs on the hub's loop."""
        if len(self._calls.get(identity, ())) >= self._limits.calls_of_one_user:
            reason = f"{identity} has too many calls under way; wait for some to end"
            await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, reason)
        loop = asyncio.get_running_loop()
        is_cut: asyncio.Future[str] = loop.create_future()
        expired = f"the certificate of {identity} has expired"
        expiry = loop.call_later(seconds_until_expiry(context), _cut, is_cut, expired)
        self._calls[identity].add(is_cut)
        try:
            request = await self._receive(context)
            answering = self._answer(identity, request, context, is_cut)
            ends: set[asyncio.Future[Any]] = {answering, is_cut}
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
            if is_cut.done():
                denied = grpc.StatusCode.PERMISSION_DENIED
                await self._connections.end_call(context, denied, is_cut.result())
        except ProtocolError as error:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))
        finally:
            expiry.cancel()
            self._calls[identity].discard(is_cut)
            if not self._calls[identity]:
                del self._calls[identity]

    @property
    def n_calls(self) -> int:
        """Return the number of calls that are being answered."""
        return sum(map(len, self._calls.values()))

    def cut(self, identity: Identity) -> None:
        """End all calls of this identity."""
        for is_cut in self._calls.get(identity, set()):
            _cut(is_cut, f"{identity} was revoked")

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def _receive(self, context: Any) -> bytes:
        inbox = Inbox(min(self._limits.max_request_bytes, self._limits.max_message_bytes))
        while True:
            try:
                async with asyncio.timeout(self._limits.greeting_seconds):
                    data = await context.read()
            except TimeoutError:
                raise ProtocolError("the request did not come in time") from None
            frame = None if data is grpc.aio.EOF else decode_frame(data)
            if not isinstance(frame, Piece):
                raise ProtocolError("a user's call is one request, in pieces")
            request = _add(inbox, frame)
            if request is not None:
                return request

    def _answer(
        self, identity: Identity, request: bytes, context: Any, is_cut: "asyncio.Future[str]"
    ) -> "asyncio.Future[None]":
        loop = asyncio.get_running_loop()

        def send(frame: bytes) -> None:
            """Write a frame from the thread; raises where the call is over."""
            writing = asyncio.run_coroutine_threadsafe(context.write(frame), loop)
            try:
                writing.result(self._limits.reading_seconds)
            except TimeoutError:
                loop.call_soon_threadsafe(_cut, is_cut, "nothing was read for too long")
                raise

        return loop.run_in_executor(self._threads, self._make_events, identity, request, send)

    def _make_events(self, identity: Identity, request: bytes, send: Send) -> None:
        """On the thread of the call."""
        try:
            for event in self._serve(identity, request):
                check_size(event, self._limits.max_message_bytes)
                for frame in split_message(0, event):
                    send(frame)
        except (CancelledError, TimeoutError, grpc.aio.BaseError):
            _LOG.info("%s left before its call was answered", identity)
        except FederationError as error:
            send(encode_frame(refuse(0, error, hides_names=False)))
        except Exception as error:  # noqa: BLE001 - a bug ends its request, not the service
            _LOG.exception("a call of %s failed", identity)
            send(encode_frame(refuse(0, error, hides_names=False)))


def _cut(is_cut: "asyncio.Future[str]", reason: str) -> None:
    if not is_cut.done():
        is_cut.set_result(reason)


def _add(inbox: Inbox, piece: Piece) -> bytes | None:
    try:
        return inbox.add(piece)
    except FederationError as error:
        raise ProtocolError(str(error)) from None

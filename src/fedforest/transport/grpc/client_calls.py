"""Users' calls to a coordinator: one request in, a stream of events out.

A call that works has a thread; one that waits for news of a run has none, so that any number of
watchers leaves the threads to others. Of one user only some calls work at the same time, and what
users have sent of unfinished requests is limited in bytes and time. A slow reader slows the one who
makes its events, and is cut off in the end.
"""

import asyncio
import logging
from collections import Counter, defaultdict
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import CancelledError, ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import grpc

from fedforest.errors import FederationError, ProtocolError, TransportError
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
from fedforest.transport.pauses import Pause

_LOG = logging.getLogger(__name__)
_MAX_CALLS = 64

ServeClient = Callable[[Identity, bytes], Iterator[bytes | Pause]]
Send = Callable[[bytes], None]


class ClientCalls:
    """Answers users' calls with what `serve` yields."""

    def __init__(self, serve: ServeClient, connections: Connections, limits: ChannelLimits) -> None:
        self._serve = serve
        self._connections = connections
        self._limits = limits
        self._threads = ThreadPoolExecutor(_MAX_CALLS, thread_name_prefix="fedforest-call")
        self._calls: dict[Identity, set[asyncio.Future[str]]] = defaultdict(set)
        self._turns: dict[Identity, asyncio.Semaphore] = {}
        self._unfinished: Counter[Identity] = Counter()  # bytes

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
        receiving = asyncio.ensure_future(self._receive(identity, context))
        answering: asyncio.Task[None] | None = None
        try:
            await _first_of(receiving, is_cut)
            if not is_cut.done():  # what is cut in the middle of its request is not carried out
                work = self._answer(identity, receiving.result(), context, is_cut)
                answering = asyncio.ensure_future(work)
                await _first_of(answering, is_cut)
            if is_cut.done():
                denied = grpc.StatusCode.PERMISSION_DENIED
                await self._connections.end_call(context, denied, is_cut.result())
        except ProtocolError as error:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))
        except TransportError as error:
            await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, str(error))
        finally:
            expiry.cancel()
            receiving.cancel()
            if answering is not None:
                answering.cancel()
            self._calls[identity].discard(is_cut)
            if not self._calls[identity]:
                del self._calls[identity]
                self._turns.pop(identity, None)

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

    async def _receive(self, identity: Identity, context: Any) -> bytes:
        """Take a whole request; what is unfinished counts for its user until then."""
        limits = self._limits
        inbox, n_bytes = Inbox(min(limits.max_request_bytes, limits.max_message_bytes)), 0
        try:
            async with asyncio.timeout(self._limits.request_seconds):
                while True:
                    piece = await self._read_piece(context)
                    self._check_room(identity, len(piece.data))
                    n_bytes += len(piece.data)
                    self._unfinished[identity] += len(piece.data)
                    request = _add(inbox, piece)
                    if request is not None:
                        return request
        except TimeoutError:
            raise ProtocolError("the request did not come in time") from None
        finally:
            self._unfinished[identity] -= n_bytes
            if not self._unfinished[identity]:
                del self._unfinished[identity]

    async def _read_piece(self, context: Any) -> Piece:
        async with asyncio.timeout(self._limits.greeting_seconds):
            data = await context.read()
        frame = None if data is grpc.aio.EOF else decode_frame(data)
        if not isinstance(frame, Piece):
            raise ProtocolError("a user's call is one request, in pieces")
        return frame

    def _check_room(self, identity: Identity, n_bytes: int) -> None:
        """Refuse more of a request than there is room for, beside other unfinished ones."""
        limit = self._limits.unfinished_request_bytes
        if self._unfinished[identity] + n_bytes > limit // 4:
            raise TransportError(
                f"unfinished requests of {identity} together are longer than {limit // 4} bytes; "
                "send one after the other"
            )
        if self._unfinished.total() + n_bytes > limit:
            raise TransportError("too many long requests come in at the moment; ask again")

    async def _answer(
        self, identity: Identity, request: bytes, context: Any, is_cut: "asyncio.Future[str]"
    ) -> None:
        """Have the events of a call made by turns: on a thread, then without one while it waits."""
        loop = asyncio.get_running_loop()

        def send(frame: bytes) -> None:
            """Write a frame from the thread; raises where the call is over."""
            writing = asyncio.run_coroutine_threadsafe(context.write(frame), loop)
            try:
                writing.result(self._limits.reading_seconds)
            except TimeoutError:
                loop.call_soon_threadsafe(_cut, is_cut, "nothing was read for too long")
                raise

        most = self._limits.calls_at_work_of_one_user
        turns = self._turns.setdefault(identity, asyncio.Semaphore(most))
        events = self._serve(identity, request)
        while True:
            async with turns:
                working = loop.run_in_executor(
                    self._threads, self._make_events, identity, events, send
                )
                pause = await asyncio.shield(working)
            if pause is None:
                return
            try:
                await _pass(pause, loop)
            except asyncio.CancelledError:
                self._threads.submit(_close, events)
                raise

    def _make_events(
        self, identity: Identity, events: Iterator[bytes | Pause], send: Send
    ) -> Pause | None:
        """Send events until the call has to wait, or has ended; on a thread."""
        pause: Pause | None = None
        try:
            pause = self._send_events(events, send)
        except (CancelledError, TimeoutError, grpc.aio.BaseError):
            _LOG.info("%s left before its call was answered", identity)
        except FederationError as error:
            send(encode_frame(refuse(0, error, hides_names=False)))
        except Exception as error:  # noqa: BLE001 - a bug ends its request, not the service
            _LOG.exception("a call of %s failed", identity)
            send(encode_frame(refuse(0, error, hides_names=False)))
        finally:
            if pause is None:
                _close(events)
        return pause

    def _send_events(self, events: Iterator[bytes | Pause], send: Send) -> Pause | None:
        for event in events:
            if isinstance(event, Pause):
                if not event.is_set:
                    return event
                continue
            check_size(event, self._limits.max_message_bytes)
            for frame in split_message(0, event):
                send(frame)
        return None


async def _first_of(*ends: "asyncio.Future[Any]") -> None:
    await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)


def _close(events: Iterator[bytes | Pause]) -> None:
    """Have who makes events hear that there is nobody any more to take them."""
    if isinstance(events, Generator):
        events.close()


async def _pass(pause: Pause, loop: asyncio.AbstractEventLoop) -> None:
    """Wait for the end of a pause without a thread."""
    is_over = asyncio.Event()

    def tell() -> None:
        with suppress(RuntimeError):  # the loop was closed
            loop.call_soon_threadsafe(is_over.set)

    pause.on_set(tell)
    with suppress(TimeoutError):
        async with asyncio.timeout(pause.seconds):
            await is_over.wait()


def _cut(is_cut: "asyncio.Future[str]", reason: str) -> None:
    if not is_cut.done():
        is_cut.set_result(reason)


def _add(inbox: Inbox, piece: Piece) -> bytes | None:
    try:
        return inbox.add(piece)
    except FederationError as error:
        raise ProtocolError(str(error)) from None

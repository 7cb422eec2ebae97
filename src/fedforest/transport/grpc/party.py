"""A party's side of the gRPC transport: one outbound stream, opened again whenever it ends.

The reader takes frames from the stream, a worker answers whole requests one at a time, gRPC's own
thread writes. Requests that wait and frames to write are few, so that either side slows the other.
A repeated request reaches the endpoint again: that the reply is the same is the endpoint's promise.
"""

import logging
import random
import threading
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import grpc

from fedforest.errors import (
    ConfigurationError,
    FederationError,
    ProtocolError,
    StorageError,
    TransportError,
    VersionMismatch,
)
from fedforest.release import __version__
from fedforest.transport.error_table import refuse
from fedforest.transport.frames import (
    PROTOCOL_VERSION,
    Forget,
    Frame,
    Hello,
    Inbox,
    Piece,
    Probe,
    Welcome,
    check_size,
    check_version,
    decode_frame,
    encode_frame,
    split_message,
)
from fedforest.transport.grpc.channel import (
    CONVERSE,
    RELEASE_KEY,
    ChannelLimits,
    describe_failure,
    method_of,
    open_channel,
)
from fedforest.transport.grpc.outbox import Outbox
from fedforest.transport.grpc.waiting_requests import WaitingRequests
from fedforest.transport.tls import Credentials

_LOG = logging.getLogger(__name__)

_FIRST_DELAY_SECONDS = 0.1
_LONGEST_DELAY_SECONDS = 10.0
_END_SECONDS = 10.0

Endpoint = Callable[[bytes], bytes]


class GrpcLink:
    """Connects a party to its coordinator; `endpoint` answers requests, on one thread."""

    def __init__(
        self,
        address: str,
        credentials: Credentials,
        name: str,
        endpoint: Endpoint,
        *,
        limits: ChannelLimits | None = None,
    ) -> None:
        if not name:
            raise ConfigurationError.stating("a party needs a name to connect by")
        self.trouble: str | None = None  # why there is no connection, in one line
        self._address = address
        self._credentials = credentials
        self._name = name
        self._endpoint = endpoint
        self._limits = limits if limits is not None else ChannelLimits()
        self._work = _Work(self._limits.max_message_bytes)
        self._session: _Stream | None = None

    @property
    def is_connected(self) -> bool:
        session = self._session
        return session is not None and session.is_welcome and not session.is_closed

    def run(self, stop: threading.Event) -> None:
        """Stay connected until told to stop; log errors and try again."""
        threads = [
            threading.Thread(target=self._answer_all, name="fedforest-party", daemon=True),
            threading.Thread(target=self._end_when, args=(stop,), daemon=True),
        ]
        for thread in threads:
            thread.start()
        delay = _FIRST_DELAY_SECONDS
        try:
            while not stop.is_set():
                delay = min(2 * delay, _LONGEST_DELAY_SECONDS)
                if self._connect(stop):
                    delay = _FIRST_DELAY_SECONDS
                # jitter, so that parties do not all come back at once
                stop.wait(delay * random.uniform(0.5, 1.0))
        finally:
            stop.set()
            self._work.close()
            threads[0].join(_END_SECONDS)  # one that is stuck ends with the process

    def use_credentials(self, credentials: Credentials) -> None:
        """Connect anew with another certificate; the coordinator repeats open requests."""
        self._credentials = credentials
        session = self._session
        if session is not None:
            session.close()

    def _connect(self, stop: threading.Event) -> bool:
        """One connection, until it ends; whether the coordinator had let us in."""
        credentials = self._credentials
        try:
            _check_date(credentials)
            channel = open_channel(self._address, credentials)
        except FederationError as error:
            self._note(str(error))
            return False
        session = _Stream(self._limits)
        self._session = session
        try:
            with channel:
                session.open(channel, self._name)
                if not stop.is_set():
                    session.read(self._work)
            self._note(f"the coordinator at {self._address} closed the connection")
        except grpc.RpcError as error:
            if self._credentials is not credentials:
                _LOG.info("party %r connects anew with another certificate", self._name)
            elif not stop.is_set():
                self._note(describe_failure(error, self._address))
        except VersionMismatch as error:
            self._note(str(error))
        except ProtocolError as error:
            self._note(f"the coordinator at {self._address} broke the protocol: {error}")
        finally:
            session.close()
        return session.is_welcome

    def _note(self, trouble: str) -> None:
        self.trouble = trouble
        _LOG.warning("party %r: %s", self._name, trouble)

    def _end_when(self, stop: threading.Event) -> None:
        stop.wait()
        session = self._session
        if session is not None:
            session.close()

    def _answer_all(self) -> None:
        """On the worker's thread."""
        while (work := self._work.get()) is not None:
            session, request_id, request = work.stream, work.request_id, work.data
            del work
            if session.waits_for(request_id):
                session.reply(request_id, self._endpoint, request)
            del session, request  # else they stay in memory until the next request comes


class _Stream:
    """One stream to the coordinator."""

    def __init__(self, limits: ChannelLimits) -> None:
        self.is_welcome = False
        self._limits = limits
        self._outbox = Outbox()
        self._inbox = Inbox(limits.max_message_bytes)
        self._waiting: set[int] = set()
        self._call: Any = None

    def open(self, channel: Any, name: str) -> None:
        self._put(Hello(PROTOCOL_VERSION, name))
        release = ((RELEASE_KEY, __version__),)
        self._call = method_of(channel, CONVERSE)(self._outbox, metadata=release)

    def read(self, work: "_Work") -> None:
        """Take frames until the stream ends."""
        for data in self._call:
            frame = decode_frame(data)
            if isinstance(frame, Piece):
                request = self._take(frame)
                if request is not None:
                    self._enqueue(frame.request_id, request, work)
                    del request
            elif isinstance(frame, Forget):
                self._inbox.discard(frame.request_id)
                self._waiting.discard(frame.request_id)
            elif isinstance(frame, Probe):
                self._put(frame)
            elif isinstance(frame, Welcome):
                check_version(frame.protocol_version, "the coordinator")
                self.is_welcome = True
                _LOG.info("connected to the coordinator")
            else:
                raise ProtocolError(f"a coordinator sends no {type(frame).__name__}")

    def close(self) -> None:
        self._outbox.close()
        if self._call is not None:
            self._call.cancel()

    @property
    def is_closed(self) -> bool:
        return self._outbox.is_closed

    def waits_for(self, request_id: int) -> bool:
        """Whether anybody would hear the reply; else the request comes again, or never."""
        return request_id in self._waiting and not self.is_closed

    def reply(self, request_id: int, endpoint: Endpoint, request: bytes) -> None:
        """Answer a request; errors travel as far as the table of errors allows."""
        try:
            answer = endpoint(request)
            check_size(answer, self._limits.max_message_bytes)
        except FederationError as error:
            # as text: who keeps log records must not keep the request by the error's traceback
            is_ours = isinstance(error, StorageError)  # no fault of the request
            _LOG.log(
                logging.ERROR if is_ours else logging.WARNING, f"a request was refused: {error}"
            )
            self._put(refuse(request_id, error, hides_names=True))
        except Exception as error:  # noqa: BLE001 - a bug ends its request, not the service
            _LOG.exception("a request could not be answered")
            self._put(refuse(request_id, error, hides_names=True))
        else:
            for frame in split_message(request_id, answer):
                if request_id in self._waiting and not self._outbox.put(frame):
                    break
        self._waiting.discard(request_id)

    def _enqueue(self, request_id: int, request: bytes, work: "_Work") -> None:
        self._waiting.add(request_id)
        if not work.put(self, request_id, request):
            self._waiting.discard(request_id)
            error = TransportError.stating(
                "too many requests wait for this party; ask fewer at a time"
            )
            self._put(refuse(request_id, error, hides_names=True))

    def _take(self, piece: Piece) -> bytes | None:
        try:
            return self._inbox.add(piece)
        except TransportError as error:
            self._put(refuse(piece.request_id, error, hides_names=True))
            return None

    def _put(self, frame: Frame) -> None:
        self._outbox.put(encode_frame(frame))


_Work = WaitingRequests[_Stream]


def _check_date(credentials: Credentials) -> None:
    if credentials.expires <= datetime.now(UTC):
        raise ConfigurationError(
            f"our certificate expired on {credentials.expires:%Y-%m-%d}; ask the "
            "coordinator's operator for an invitation and join again in a new folder"
        )

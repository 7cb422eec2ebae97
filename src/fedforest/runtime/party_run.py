"""A party's part in one run, which survives that the party is killed at any moment.

Before a reply leaves, the request it answers is in the party's journal. After a restart a fresh
handler is given all journaled requests again. Handlers are deterministic and draw from the run's
stored secret, so it comes to the same state and the same last reply; digests of replies prove it.

A request is answered once. The same one again gets the same bytes; another one in its place, an
older one, or one that skips some is refused. A handler that refuses a request is as it was before
(every protocol promises that), so nothing is recorded of it; after any other failure the handler is
built anew from the journal.
"""

import logging
import time
from collections.abc import Callable
from hashlib import blake2b
from threading import Lock
from typing import NamedTuple

import msgspec

from fedforest.errors import FederationError, LocalProtocolError, ReplayError
from fedforest.protocol.asking import Handler, Message, blame, check
from fedforest.runtime.endpoint import make_endpoint
from fedforest.runtime.entropy import EntropySource, RunEntropies
from fedforest.runtime.envelope import RunRequest
from fedforest.runtime.event_log import log_event
from fedforest.runtime.run_store import StoredRun

# (description, entropies) -> (handler, requests it accepts). What it makes depends on nothing else
# that could change during a run, and draws from nothing but the entropies.
_LOG = logging.getLogger(__name__)

MakeHandler = Callable[[bytes, EntropySource], tuple[Handler, tuple[type[Message], ...]]]

_DIGEST_BYTES = 32


class _Answered(msgspec.Struct, frozen=True, array_like=True):
    """A record of the journal: a request, and what tells its reply from others."""

    request: memoryview
    reply_digest: bytes


class _Live(NamedTuple):
    """A handler that has seen all journaled requests, and the last of them."""

    handler: Handler
    clocked: "_Clocked"
    endpoint: Callable[[bytes | memoryview], bytes]
    entropies: RunEntropies
    request_digest: bytes = b""
    reply: bytes = b""


class _Clocked:
    """A handler, and how long it took for the last request."""

    def __init__(self, handler: Handler) -> None:
        self._handler = handler
        self.step = ""
        self.seconds = 0.0

    def handle(self, request: Message) -> Message:
        """Answer one request."""
        self.step = type(request).__name__
        started = time.perf_counter()
        reply = self._handler.handle(request)
        self.seconds = time.perf_counter() - started
        return reply


class PartyRun:
    """Answers the requests of one run, each of them once."""

    def __init__(self, stored: StoredRun, make_handler: MakeHandler) -> None:
        self._stored = stored
        self._make_handler = make_handler
        self._lock = Lock()  # a repeated request may come while the first is being handled
        self._live: _Live | None = None

    @property
    def run(self) -> bytes:
        """The run's id."""
        return self._stored.run

    @property
    def description(self) -> bytes:
        """What the run was begun with."""
        return self._stored.description

    @property
    def n_answered(self) -> int:
        """Requests that were answered so far."""
        return self._stored.journal.n_records

    @property
    def handler(self) -> Handler:
        """The protocol's party in its present state, to take the model from."""
        with self._lock:
            return self._caught_up().handler

    def answer(self, request: RunRequest) -> bytes:
        """The reply, which may leave now: whatever happens, this request has no other.

        Raises `RemoteProtocolError` where the request is not the next one, `StorageError` where it
        cannot be recorded, `ReplayError` where the table or the release changed during the run.
        """
        with self._lock:
            n_answered = self.n_answered
            self._check_place(request, n_answered)
            live = self._caught_up()
            if request.sequence == n_answered:
                with blame("coordinator"):
                    is_same = _digest(request.payload) == live.request_digest
                    check(is_same, f"another request in place of {n_answered}, which was answered")
                return live.reply
            return self._handle(live, request)

    def close(self) -> None:
        """Let the run be opened again."""
        with self._lock:
            self._live = None
            self._stored.close()

    def _check_place(self, request: RunRequest, n_answered: int) -> None:
        with blame("coordinator"):
            check(request.run == self.run, "a request of another run")
            check(
                request.sequence >= max(1, n_answered),
                f"request {request.sequence} is over: {n_answered} were answered already",
            )
            check(
                request.sequence <= n_answered + 1,
                f"request {request.sequence} cannot be answered: this party has seen "
                f"{n_answered} and misses those between; its journal is an old copy, or the "
                "coordinator's is of another run",
            )

    def _handle(self, live: _Live, request: RunRequest) -> bytes:
        self._live = None  # if anything but a refusal happens, it has to be built anew
        started = time.perf_counter()
        digest = _digest(request.payload)
        live.entropies.begin(request.sequence, digest)
        try:
            reply = live.endpoint(request.payload)
        except LocalProtocolError:
            raise  # our own fault: what the handler did before is not known
        except FederationError:
            self._live = live
            raise
        answered = _Answered(request.payload, _digest(reply))
        appending = time.perf_counter()
        self._stored.append(answered)
        ended = time.perf_counter()
        self._live = live._replace(request_digest=digest, reply=reply)
        log_event(
            _LOG,
            "answered",
            run=self.run.hex(),
            sequence=request.sequence,
            step=live.clocked.step,
            bytes_to=len(request.payload),
            bytes_from=len(reply),
            seconds=round(ended - started, 6),
            handling_seconds=round(live.clocked.seconds, 6),
            journal_seconds=round(ended - appending, 6),
        )
        return reply

    def _caught_up(self) -> _Live:
        if self._live is None:
            self._live = self._replay()
        return self._live

    def _replay(self) -> _Live:
        """A fresh handler that is given everything again."""
        entropies = self._stored.entropies()
        handler, accepted = self._make_handler(self.description, entropies)
        clocked = _Clocked(handler)
        endpoint = make_endpoint(clocked, accepted)
        digest, reply = b"", b""
        for number, answered in enumerate(self._stored.records(_Answered), start=1):
            digest = _digest(answered.request)
            entropies.begin(number, digest)
            reply = self._answer_again(endpoint, answered.request, number)
            if _digest(reply) != answered.reply_digest:
                raise self._differs(number, "has another answer now than it was given before")
        return _Live(handler, clocked, endpoint, entropies, digest, reply)

    def _answer_again(
        self, endpoint: Callable[[bytes | memoryview], bytes], request: memoryview, number: int
    ) -> bytes:
        try:
            return endpoint(request)
        except FederationError as error:
            raise self._differs(
                number, f"was answered before and is refused now: {error}"
            ) from error

    def _differs(self, number: int, how: str) -> ReplayError:
        return ReplayError(
            f"run {self.run.hex()} cannot be resumed: request {number} {how}. The table, the "
            "settings or the release of this party changed; put back what there was, or begin anew"
        )


def _digest(data: bytes | memoryview) -> bytes:
    return blake2b(data, digest_size=_DIGEST_BYTES).digest()

"""A party's part in one run, which survives that the party is killed at any moment.

Before a reply leaves, the request it answers is on the party's disk. After a restart a fresh
handler is given all journaled requests again. Handlers are deterministic and draw from the run's
stored secret, so it comes to the same state and the same replies; digests of replies prove it.

A request is answered once. The last two, asked again, get the same bytes; another one in their
place, an older one, or one that skips some is refused. A handler that refuses a request is as it
was before (every protocol promises that), so nothing is kept of it; after any other failure the
handler is built anew from the journal.
"""

import logging
import time
from collections.abc import Callable, Mapping
from hashlib import blake2b
from threading import Lock
from typing import NamedTuple

import msgspec

from fedforest.errors import FederationError, LocalProtocolError, ReplayError
from fedforest.protocol.asking import Handler, Message, blame, check
from fedforest.runtime.egress_ledger import NO_LEDGER, Kind, Ledger, RunEgress
from fedforest.runtime.endpoint import make_endpoint
from fedforest.runtime.entropy import EntropySource, RunEntropies
from fedforest.runtime.envelope import RunRequest
from fedforest.runtime.event_log import log_event
from fedforest.runtime.run_store import StoredRun

# (description, entropies) -> (handler, requests it accepts). What it makes depends on nothing else
# that could change during a run, and draws from nothing but the entropies.
MakeHandler = Callable[[bytes, EntropySource], tuple[Handler, tuple[type[Message], ...]]]

_LOG = logging.getLogger(__name__)

N_REMEMBERED = 2  # replies: the coordinator brings an exchange to the disk during the next one
_DIGEST_BYTES = 32


class _Record(msgspec.Struct, frozen=True, array_like=True):
    """Of the journal: a request, or a digest of the reply to the request before it.

    Requests are on the disk before their replies leave. A digest is not waited for: without it the
    request is handled again.
    """

    request: memoryview | None = None
    reply_digest: bytes = b""


class _Said(NamedTuple):
    """A reply, and what tells the request from others."""

    request_digest: bytes
    reply: bytes
    kind: type[Message]


class Clocked:
    """A handler, what its last reply was, and how long that took."""

    def __init__(self, handler: Handler) -> None:
        self._handler = handler
        self.step = ""
        self.reply: type[Message] = Message
        self.seconds = 0.0

    def handle(self, request: Message) -> Message:
        """Answer one request."""
        self.step = type(request).__name__
        started = time.perf_counter()
        reply = self._handler.handle(request)
        self.seconds = time.perf_counter() - started
        self.reply = type(reply)
        return reply


class _Live(NamedTuple):
    """A handler that has seen all journaled requests, and its last replies."""

    handler: Handler
    endpoint: Callable[[bytes | memoryview], bytes]
    entropies: RunEntropies
    clocked: Clocked
    said: Mapping[int, _Said] = {}
    n_answered: int = 0

    def handle(self, number: int, request: memoryview) -> "_Live":
        """The same handler after one more request."""
        digest = _digest(request)
        self.entropies.begin(number, digest)
        said = _Said(digest, self.endpoint(request), self.clocked.reply)
        kept = {n: old for n, old in self.said.items() if n > number - N_REMEMBERED}
        return self._replace(said={**kept, number: said}, n_answered=number)

    def last_digest(self) -> bytes:
        return _digest(self.said[self.n_answered].reply)


class PartyRun:
    """Answers the requests of one run, each of them once."""

    def __init__(
        self, stored: StoredRun, make_handler: MakeHandler, ledger: Ledger = NO_LEDGER
    ) -> None:
        self._egress = RunEgress(ledger, stored.run)
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
        with self._lock:
            return self._caught_up().n_answered

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
            live = self._caught_up()
            self._check_place(request, live.n_answered)
            if request.sequence <= live.n_answered:
                return self._repeat(live, request)
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
                request.sequence > n_answered - N_REMEMBERED,
                f"request {request.sequence} is over: {n_answered} were answered already",
            )
            check(
                request.sequence <= n_answered + 1,
                f"request {request.sequence} cannot be answered: this party has seen "
                f"{n_answered} and misses those between; its journal is an old copy, or the "
                "coordinator's is of another run",
            )

    def _handle(self, live: _Live, request: RunRequest) -> bytes:
        journal, started = self._stored.journal, time.perf_counter()
        self._stored.write(_Record(request.payload))
        journal.sync_soon()  # while the handler is at work
        written = time.perf_counter()
        self._live = None  # if anything but a refusal happens, it has to be built anew
        try:
            after = live.handle(request.sequence, request.payload)
        except BaseException as error:
            journal.take_back()  # it has no answer, so it was not asked
            if isinstance(error, FederationError) and not isinstance(error, LocalProtocolError):
                self._live = live
            raise
        self._stored.write(_Record(reply_digest=after.last_digest()))  # while the disk is at work
        self._note("sent", after)
        answered = time.perf_counter()
        journal.wait()
        self._live = after
        reply, ended = after.said[after.n_answered].reply, time.perf_counter()
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
            journal_seconds=round(ended - answered + written - started, 6),
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
        clocked = Clocked(handler)
        live = _Live(handler, make_endpoint(clocked, accepted), entropies, clocked)
        pending: memoryview | None = None
        for record in self._stored.records(_Record):
            if record.request is not None:
                pending = record.request
                continue
            assert pending is not None  # a digest follows its request
            live, pending = self._answer_again(live, pending), None
            if live.last_digest() != record.reply_digest:
                raise self._differs(live.n_answered, "has another answer now than before")
            self._note("recovered", live)
        return live if pending is None else self._answer_pending(live, pending)

    def _answer_again(self, live: _Live, request: memoryview) -> _Live:
        number = live.n_answered + 1
        try:
            return live.handle(number, request)
        except FederationError as error:
            raise self._differs(number, f"was answered and is refused now: {error}") from error

    def _answer_pending(self, live: _Live, request: memoryview) -> _Live:
        """The party was killed with this request at hand; whether its answer left is not known."""
        try:
            after = live.handle(live.n_answered + 1, request)
        except Exception as error:
            self._stored.journal.take_back()  # it had no answer then, either
            if not isinstance(error, FederationError):
                raise
            return self._replay()
        self._stored.write(_Record(reply_digest=after.last_digest()))
        self._note("recovered", after)
        return after

    def _repeat(self, live: _Live, request: RunRequest) -> bytes:
        """The reply that the same request had."""
        said = live.said[request.sequence]
        with blame("coordinator"):
            is_same = _digest(request.payload) == said.request_digest
            check(is_same, f"another request in place of {request.sequence}, which was answered")
        self._egress.note("resent", request.sequence, said.kind, len(said.reply))
        return said.reply

    def _note(self, kind: Kind, live: _Live) -> None:
        """The last reply may leave from now on, or may have left before a restart."""
        said = live.said[live.n_answered]
        self._egress.note(kind, live.n_answered, said.kind, len(said.reply))

    def _differs(self, number: int, how: str) -> ReplayError:
        return ReplayError(
            f"run {self.run.hex()} cannot be resumed: request {number} {how}. The table, the "
            "settings or the release of this party changed; put back what there was, or begin anew"
        )


def _digest(data: bytes | memoryview) -> bytes:
    return blake2b(data, digest_size=_DIGEST_BYTES).digest()

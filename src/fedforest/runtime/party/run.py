"""One run at a party; it survives a kill of the party's process at any moment.

Before a reply leaves, its request is on the party's disk. After a restart a fresh handler gets all
journaled requests again. Handlers are deterministic and draw from the run's stored secret, so the
fresh one reaches the same state and the same replies; digests of replies prove it.

A request is answered once. If one of the last five is repeated, it gets the same bytes. A different
request in their place, an older one, or one that skips some is refused. A handler that refuses a
request does not change its state (every protocol promises that), so nothing is journaled; after any
other failure the handler is rebuilt from the journal.
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
from fedforest.protocol.turns import MOST_SLOTS
from fedforest.runtime.disclosure.egress_ledger import NO_LEDGER, Kind, Ledger, RunEgress
from fedforest.runtime.endpoint import make_endpoint
from fedforest.runtime.event_log import log_event
from fedforest.runtime.messages.envelope import RunRequest
from fedforest.runtime.randomness import RandomnessSource, RunRandomness
from fedforest.runtime.recovery.run_store import StoredRun

# (description, randomness) -> (handler, requests it accepts). The handler depends on nothing else
# that could change during a run, and draws secret bytes from the randomness only.
MakeHandler = Callable[[bytes, RandomnessSource], tuple[Handler, tuple[type[Message], ...]]]

_LOG = logging.getLogger(__name__)

# replies: of questions side by side, and of one that the coordinator writes to disk meanwhile
N_REMEMBERED = MOST_SLOTS + 1
_DIGEST_BYTES = 32


class _Record(msgspec.Struct, frozen=True, array_like=True):
    """A journal record: a request, or a digest of the reply to the request before it.

    Requests are on disk before their replies leave. A digest may be written later: without it the
    request is handled again.
    """

    request: memoryview | None = None
    reply_digest: bytes = b""


class _Said(NamedTuple):
    """A reply, and a digest of its request."""

    request_digest: bytes
    reply: bytes
    kind: type[Message]


class Clocked:
    """A handler that records the type of its last reply and the time it took."""

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
    randomness: RunRandomness
    clocked: Clocked
    said: Mapping[int, _Said] = {}
    n_answered: int = 0

    def handle(self, number: int, request: memoryview) -> "_Live":
        """Handle one more request; return the state after it."""
        digest = _digest(request)
        self.randomness.begin(number, digest)
        said = _Said(digest, self.endpoint(request), self.clocked.reply)
        kept = {n: old for n, old in self.said.items() if n > number - N_REMEMBERED}
        return self._replace(said={**kept, number: said}, n_answered=number)

    def last_digest(self) -> bytes:
        return _digest(self.said[self.n_answered].reply)


def _allow(_n_bytes: int) -> None:
    """Allow a journal of any length."""


class PartyRun:
    """Answer the requests of one run, each of them once."""

    def __init__(
        self,
        stored: StoredRun,
        make_handler: MakeHandler,
        ledger: Ledger = NO_LEDGER,
        approve_stored: Callable[[int], None] = _allow,
    ) -> None:
        """`approve_stored` refuses a journal that would have so many bytes."""
        self._approve_stored = approve_stored
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
        """The stored role, terms and rules, encoded, that the run began with."""
        return self._stored.description

    @property
    def n_answered(self) -> int:
        """The number of requests answered so far."""
        with self._lock:
            return self._caught_up().n_answered

    @property
    def handler(self) -> Handler:
        """The protocol's party in its present state, to take the model from."""
        with self._lock:
            return self._caught_up().handler

    def answer(self, request: RunRequest) -> bytes:
        """Return the reply, which may be sent now: the request is journaled and has no other.

        Raises `RemoteProtocolError` if the request is not the next one, `StorageError` if it cannot
        be recorded, `ReplayError` if the table or the release changed during the run.
        """
        with self._lock:
            live = self._caught_up()
            self._check_place(request, live.n_answered)
            if request.sequence <= live.n_answered:
                return self._repeat(live, request)
            return self._handle(live, request)

    def close(self) -> None:
        """Close the stored run, so that it can be opened again."""
        with self._lock:
            self._live = None
            self._stored.close()

    def _check_place(self, request: RunRequest, n_answered: int) -> None:
        with blame("coordinator"):
            check(request.run == self.run, "a request of another run")
            check(
                request.sequence > n_answered - N_REMEMBERED,
                "request {sequence} is over: {n_answered} were answered already",
                sequence=request.sequence,
                n_answered=n_answered,
            )
            check(
                request.sequence <= n_answered + 1,
                "request {sequence} cannot be answered: this party has seen {n_answered} and "
                "misses those between; its journal is an old copy, or the coordinator's is of "
                "another run",
                sequence=request.sequence,
                n_answered=n_answered,
            )

    def _handle(self, live: _Live, request: RunRequest) -> bytes:
        journal, started = self._stored.journal, time.perf_counter()
        self._approve_stored(journal.n_bytes + len(request.payload))
        self._stored.write(_Record(request.payload))
        journal.sync_soon()  # while the handler is at work
        written = time.perf_counter()
        self._live = None  # after any failure but a refusal, the handler must be rebuilt
        try:
            after = live.handle(request.sequence, request.payload)
        except BaseException as error:
            journal.take_back()  # a request without an answer is not journaled
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
            severity=logging.DEBUG,
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
        """Make a fresh handler and give it all journaled requests again."""
        randomness = self._stored.randomness()
        handler, accepted = self._make_handler(self.description, randomness)
        clocked = Clocked(handler)
        live = _Live(handler, make_endpoint(clocked, accepted), randomness, clocked)
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
        """Handle the request at which the party was killed; its reply may or may not have left."""
        try:
            after = live.handle(live.n_answered + 1, request)
        except Exception as error:
            self._stored.journal.take_back()  # it had no answer before the kill, either
            if not isinstance(error, FederationError):
                raise
            return self._replay()
        self._stored.write(_Record(reply_digest=after.last_digest()))
        self._note("recovered", after)
        return after

    def _repeat(self, live: _Live, request: RunRequest) -> bytes:
        """Return the earlier reply to the same request."""
        said = live.said[request.sequence]
        with blame("coordinator"):
            is_same = _digest(request.payload) == said.request_digest
            check(
                is_same,
                "another request in place of {sequence}, which was answered",
                sequence=request.sequence,
            )
        self._egress.note("resent", request.sequence, said.kind, len(said.reply))
        return said.reply

    def _note(self, kind: Kind, live: _Live) -> None:
        """Record the last reply in the egress ledger before it leaves, or after a restart."""
        said = live.said[live.n_answered]
        self._egress.note(kind, live.n_answered, said.kind, len(said.reply))

    def _differs(self, number: int, how: str) -> ReplayError:
        return ReplayError(
            f"run {self.run.hex()} cannot be resumed: request {number} {how}. The table, the "
            "settings or the release of this party changed; put back what there was, or begin anew"
        )


def _digest(data: bytes | memoryview) -> bytes:
    return blake2b(data, digest_size=_DIGEST_BYTES).digest()

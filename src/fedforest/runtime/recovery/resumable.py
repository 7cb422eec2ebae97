"""Run a coordinator so that it can be killed at any moment and go on where it was.

Replies are synced to the disk during the next exchange, and are there before the one after it
begins. Watchers are called during the same time, so that no request waits for the disk or for
watchers. To resume, a fresh conversation is given the journaled replies; it makes the same requests
again, which digests prove, and then goes on asking. So the last exchange, and all whose replies
were not taken yet, may be asked for again: parties answer them once (`runtime/party/run.py`) and
repeat those answers. Questions asked ahead (`Ask.is_ahead`) are sent, answered and recorded in the
order in which they were asked.

Replies that the coordinator refuses are not recorded, so no error becomes part of a run. A party
that is lost, `PartyLost`, leaves the run as it was before the exchange: it can be resumed once the
party is back, go on without it where the protocol can (`left_out`), or end early with what is
complete (`ends_early`).
"""

import time
from collections import Counter, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from typing import Any, Generic, TypeVar

import msgspec

from fedforest.errors import ConfigurationError, PartyLost, ReplayError
from fedforest.protocol.asking import Ask, Conversation, EndEarly
from fedforest.runtime.driver import (
    ExchangeLog,
    decode_replies,
    describe_exchange,
    encode_requests,
)
from fedforest.runtime.messages.envelope import RunRequest
from fedforest.runtime.recovery.run_store import StoredRun
from fedforest.transport.base import PendingReplies, Transport, Work, beginning_exchanges
from fedforest.transport.codec import encode

Result = TypeVar("Result")

_DIGEST_BYTES = 32


class _Nobody:
    """The replies of an exchange whose parties were all given up."""

    def replies(self, work: Work) -> dict[str, bytes]:
        work()
        return {}

    def end(self) -> None:
        """Do nothing: no party was asked."""


_NOBODY = _Nobody()


def _never() -> bool:
    return False


@dataclass(frozen=True, slots=True)
class Wishes:
    """The operator's decisions about a run; they may differ at every resumption."""

    left_out: frozenset[str] = frozenset()  # parties that are not waited for any more
    ends_early: Callable[[], bool] = field(default=_never)  # looked at in every exchange


class _Exchanged(msgspec.Struct, frozen=True, array_like=True):
    """A record of the journal: the parties' replies, and a digest of the requests."""

    requests_digest: bytes
    replies: dict[str, bytes]  # whoever was asked and is not here was left out
    seconds: float
    ends_early: bool


@dataclass(slots=True, eq=False)
class _Question:
    """A question of the coordinator as it travels; an exchange with one party."""

    ask: Ask
    requests: dict[str, bytes]
    numbers: dict[str, int]  # of the request at each party
    is_dropped: bool = False  # the run ends early, and the replies are not collected
    pending: PendingReplies | None = None
    began: float = 0.0

    def digest(self) -> bytes:
        """Differs where anybody is asked anything else."""
        digest = blake2b(digest_size=_DIGEST_BYTES, person=b"requests")
        for party, data in sorted(self.requests.items()):
            for part in (party.encode(), data):
                digest.update(len(part).to_bytes(8, "little"))
                digest.update(part)
        return digest.digest()


def run_with_journal(
    conversation: Conversation[Result],
    transport: Transport,
    stored: StoredRun,
    log: ExchangeLog | None = None,
    wishes: Wishes | None = None,
) -> Result:
    """Carry every question to the parties until the coordinator is done, from wherever it was.

    The conversation must be fresh, and the same as when the run was begun: made of the stored
    description and randomness alone. Parties must answer `RunRequest`s as `PartyRun` does.
    """
    run = _Run(conversation, transport, stored, log or ExchangeLog(), wishes or Wishes())
    try:
        run.begin()
        for number, record in enumerate(stored.records(_Exchanged), start=1):
            run.recall(record, number)
        while run.is_under_way:
            run.carry()
        run.settle()
    finally:
        run.withdraw()
    return run.result()


class _Run(Generic[Result]):
    """A conversation, its open questions, and how often each party was asked so far."""

    def __init__(
        self,
        conversation: Conversation[Result],
        transport: Transport,
        stored: StoredRun,
        log: ExchangeLog,
        wishes: Wishes,
    ) -> None:
        self._conversation = conversation
        self._begin_exchange = beginning_exchanges(transport)
        self._stored = stored
        self._log = log
        self._wishes = wishes
        self._n_asked: Counter[str] = Counter()
        self._open: deque[_Question] = deque()  # whose replies are not collected, in order
        self._results: list[Result] = []  # one, once the coordinator has come to its end
        self._has_ended = False
        self._collected = 0.0  # when the last replies came
        self._unsettled: tuple[_Question, _Exchanged] | None = None

    @property
    def is_under_way(self) -> bool:
        """Whether the coordinator speaks on, or replies to its questions are due."""
        return not self._results or bool(self._open)

    def result(self) -> Result:
        return self._results[0]

    def begin(self) -> None:
        self._listen(lambda: next(self._conversation))

    def recall(self, record: _Exchanged, number: int) -> None:
        """Give the coordinator the replies that it had before, if it asks what it asked before."""
        if not self._open:
            raise self.differs(number, "is of a question that is not asked any more")
        question = self._open[0]
        if question.digest() != record.requests_digest:
            raise self.differs(number, "answers another question than is asked now")
        self._tell(question, record)
        self._note(question, record, is_replayed=True)

    def carry(self) -> None:
        """Take the replies to the oldest question; they are recorded while others are underway.

        Parties know their last replies, so that a crash may take those with it that were not
        recorded: asked again, they answer the same, and the conversation goes on as it did.
        """
        for asked in self._open:
            if asked.pending is None:
                self._send(asked)
        question = self._open[0]
        assert question.pending is not None
        try:
            replies = question.pending.replies(self._settle)
        finally:
            self.settle()  # where that was not done beside it
        began, self._collected = max(question.began, self._collected), time.perf_counter()
        ends_early = not self._has_ended and self._wishes.ends_early()
        record = _Exchanged(b"", replies, self._collected - began, ends_early)
        self._tell(question, record)
        self._unsettled = (question, record)
        if ends_early or self._wishes.left_out:
            self.settle()  # now: asked again, the operator might wish otherwise

    def settle(self) -> None:
        """Have nothing left that is not on the disk; parties wait for it meanwhile."""
        with self._log.clock("journal"):
            self._settle()

    def withdraw(self) -> None:
        """Withdraw all open questions; a run that is resumed asks them again."""
        for question in self._open:
            if question.pending is not None:
                question.pending.end()

    def _settle(self) -> None:
        """Bring the last exchange to the disk, if it is not there yet, and tell who watches."""
        if self._unsettled is None:
            return
        question, record = self._unsettled
        self._unsettled = None
        digest = question.digest()
        self._stored.append(msgspec.structs.replace(record, requests_digest=digest))
        self._note(question, record, is_replayed=False)

    def _send(self, question: _Question) -> None:
        """Begin the exchange with all parties that were not given up."""
        given_up = sorted(question.requests.keys() & self._wishes.left_out)
        may_miss = question.ask.may_lose or question.is_dropped or self._wishes.ends_early()
        if given_up and not may_miss:
            raise PartyLost(
                "it was given up, but the run cannot go on without it. Resume the run when it is "
                "back, or end the run early with the trees that are complete",
                given_up[0],
            )
        envelopes = {
            party: encode(RunRequest(self._stored.run, question.numbers[party], memoryview(data)))
            for party, data in question.requests.items()
            if party not in self._wishes.left_out
        }
        question.began = time.perf_counter()
        question.pending = self._begin_exchange(envelopes) if envelopes else _NOBODY

    def _tell(self, question: _Question, record: _Exchanged) -> None:
        """Give the coordinator its replies, or word that it shall end; listen to what follows."""
        replies = decode_replies(question.ask, record.replies)
        self._open.popleft()
        if record.ends_early:
            self._has_ended = True
            self._end_early(replies)
        elif not question.is_dropped:
            self._listen(lambda: self._conversation.send(replies))

    def _note(self, question: _Question, record: _Exchanged, *, is_replayed: bool) -> None:
        ask = question.ask
        if is_replayed:
            ask = replace(ask, note={**(ask.note or {}), "replayed": True})
        replies, seconds = record.replies, record.seconds
        self._log.add(describe_exchange(ask, question.requests, replies, seconds))

    def _end_early(self, replies: Mapping[str, Any]) -> None:
        """End the coordinator; replies to what else it asked ahead are not collected."""
        for other in self._open:
            other.is_dropped = True
        try:
            self._listen(lambda: self._conversation.throw(EndEarly(replies)))
        except EndEarly:
            raise ConfigurationError(
                f"run {self._stored.run.hex()} cannot end early: nothing of it is complete yet. "
                "Resume it, or give it up"
            ) from None

    def _listen(self, let_speak: Callable[[], Ask]) -> None:
        """Note the next questions, up to one whose replies the coordinator waits for."""
        with self._log.clock("thinking"):
            try:
                ask = let_speak()
                while not ask.collects:
                    if ask.requests:
                        self._note_question(ask)
                        if not ask.is_ahead:
                            break
                    ask = self._conversation.send({})  # goes on, or there is nobody to ask
            except StopIteration as done:
                self._results.append(done.value)

    def _note_question(self, ask: Ask) -> None:
        self._n_asked.update(ask.requests.keys())
        numbers = {party: self._n_asked[party] for party in ask.requests}
        self._open.append(_Question(ask, encode_requests(ask.requests), numbers))

    def differs(self, number: int, how: str) -> ReplayError:
        return ReplayError(
            f"run {self._stored.run.hex()} cannot be resumed: record {number} of its journal {how}."
            " The settings or the release of the coordinator changed; put back what there was, or "
            "begin anew"
        )

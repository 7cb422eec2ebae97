"""Run a coordinator so that it can be killed at any moment and go on where it was.

Replies are synced to the disk during the next exchange, and are there before the one after it
begins. Watchers are called during the same time, so that no request waits for the disk or for
watchers. To resume, a fresh conversation is given the journaled replies; it makes the same requests
again, which digests prove, and then goes on asking. So the last two exchanges may be asked for
again: parties answer them once (`runtime/party/run.py`) and repeat those answers.

Replies that the coordinator refuses are not recorded, so no error becomes part of a run. A party
that is lost, `PartyLost`, leaves the run as it was before the exchange: it can be resumed once the
party is back, go on without it where the protocol can (`left_out`), or end early with what is
complete (`ends_early`).
"""

import time
from collections import Counter
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
from fedforest.transport.base import Transport, working_beside
from fedforest.transport.codec import encode

Result = TypeVar("Result")

_DIGEST_BYTES = 32


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


@dataclass(frozen=True, slots=True)
class _Question:
    """A question of the coordinator as it travels; an exchange with one party."""

    ask: Ask
    requests: dict[str, bytes]

    def digest(self) -> bytes:
        """Differs where anybody is asked anything else."""
        digest = blake2b(digest_size=_DIGEST_BYTES, person=b"requests")
        for party, data in sorted(self.requests.items()):
            for part in (party.encode(), data):
                digest.update(len(part).to_bytes(8, "little"))
                digest.update(part)
        return digest.digest()


@dataclass(frozen=True, slots=True)
class _Done(Generic[Result]):
    """The coordinator has come to its end."""

    result: Result


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
    state = run.begin()
    for number, record in enumerate(stored.records(_Exchanged), start=1):
        if isinstance(state, _Done):
            raise run.differs(number, "is of a question that is not asked any more")
        state = run.recall(state, record, number)
    while isinstance(state, _Question):
        state = run.carry(state)
    run.settle()
    return state.result


class _Run(Generic[Result]):
    """A conversation, and how often each party was asked so far."""

    def __init__(
        self,
        conversation: Conversation[Result],
        transport: Transport,
        stored: StoredRun,
        log: ExchangeLog,
        wishes: Wishes,
    ) -> None:
        self._conversation = conversation
        self._exchange_beside = working_beside(transport)
        self._stored = stored
        self._log = log
        self._wishes = wishes
        self._n_asked: Counter[str] = Counter()
        self._has_ended = False
        self._unsettled: tuple[_Question, _Exchanged] | None = None

    def begin(self) -> _Question | _Done[Result]:
        return self._listen(lambda: next(self._conversation))

    def recall(
        self, question: _Question, record: _Exchanged, number: int
    ) -> _Question | _Done[Result]:
        """Give the coordinator the replies that it had before, if it asks what it asked before."""
        if question.digest() != record.requests_digest:
            raise self.differs(number, "answers another question than is asked now")
        state = self._tell(question, record)
        self._note(question, record, is_replayed=True)
        return state

    def carry(self, question: _Question) -> _Question | _Done[Result]:
        """One exchange, recorded while the next one is underway.

        Parties know their last two replies, so that a crash may take one exchange with it: asked
        again, they answer the same, and the conversation goes on as it did.
        """
        started = time.perf_counter()
        try:
            replies = self._exchange(question)
        finally:
            self.settle()  # where that was not done beside it
        seconds = time.perf_counter() - started
        ends_early = not self._has_ended and self._wishes.ends_early()
        record = _Exchanged(b"", replies, seconds, ends_early)
        state = self._tell(question, record)
        self._unsettled = (question, record)
        if ends_early or self._wishes.left_out:
            self.settle()  # now: asked again, the operator might wish otherwise
        return state

    def settle(self) -> None:
        """Have nothing left that is not on the disk; parties wait for it meanwhile."""
        with self._log.clock("journal"):
            self._settle()

    def _settle(self) -> None:
        """Bring the last exchange to the disk, if it is not there yet, and tell who watches."""
        if self._unsettled is None:
            return
        question, record = self._unsettled
        self._unsettled = None
        digest = question.digest()
        self._stored.append(msgspec.structs.replace(record, requests_digest=digest))
        self._note(question, record, is_replayed=False)

    def _exchange(self, question: _Question) -> dict[str, bytes]:
        given_up = sorted(question.requests.keys() & self._wishes.left_out)
        may_miss = question.ask.may_lose or self._wishes.ends_early()
        if given_up and not may_miss:
            raise PartyLost(
                "it was given up, but the run cannot go on without it. Resume the run when it is "
                "back, or end the run early with the trees that are complete",
                given_up[0],
            )
        envelopes = {
            party: encode(RunRequest(self._stored.run, self._n_asked[party] + 1, memoryview(data)))
            for party, data in question.requests.items()
            if party not in self._wishes.left_out
        }
        return self._exchange_beside(envelopes, self._settle) if envelopes else {}

    def _tell(self, question: _Question, record: _Exchanged) -> _Question | _Done[Result]:
        """Give the coordinator its replies, or word that it shall end; listen to what follows."""
        replies = decode_replies(question.ask, record.replies)
        if record.ends_early:
            state = self._end_early(replies)
        else:
            state = self._listen(lambda: self._conversation.send(replies))
        self._has_ended |= record.ends_early
        self._n_asked.update(question.requests.keys())
        return state

    def _note(self, question: _Question, record: _Exchanged, *, is_replayed: bool) -> None:
        ask = question.ask
        if is_replayed:
            ask = replace(ask, note={**(ask.note or {}), "replayed": True})
        replies, seconds = record.replies, record.seconds
        self._log.add(describe_exchange(ask, question.requests, replies, seconds))

    def _end_early(self, replies: Mapping[str, Any]) -> _Question | _Done[Result]:
        try:
            return self._listen(lambda: self._conversation.throw(EndEarly(replies)))
        except EndEarly:
            raise ConfigurationError(
                f"run {self._stored.run.hex()} cannot end early: nothing of it is complete yet. "
                "Resume it, or give it up"
            ) from None

    def _listen(self, let_speak: Callable[[], Ask]) -> _Question | _Done[Result]:
        """The next question that somebody is asked, or the result."""
        try:
            with self._log.clock("thinking"):
                ask = let_speak()
                while not ask.requests:
                    ask = self._conversation.send({})  # nobody to ask: no exchange
        except StopIteration as done:
            return _Done(done.value)
        return _Question(ask, encode_requests(ask.requests))

    def differs(self, number: int, how: str) -> ReplayError:
        return ReplayError(
            f"run {self._stored.run.hex()} cannot be resumed: record {number} of its journal {how}."
            " The settings or the release of the coordinator changed; put back what there was, or "
            "begin anew"
        )

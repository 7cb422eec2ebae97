"""Requests on their way to parties and replies on their way back, for one hub.

A request outlives the stream it was sent on: when the party comes back it is sent again, so that
endpoints must answer a repeated request with the same reply. Late replies answer nothing. Callers
block on their threads; all else happens on the hub's event loop.
"""

import asyncio
import secrets
from collections.abc import Callable, Mapping
from functools import partial
from typing import NamedTuple

from fedforest.errors import FederationError, PartyLost, RemoteProtocolError
from fedforest.transport.error_table import error_of_party
from fedforest.transport.frames import Refusal
from fedforest.transport.grpc.party_stream import Answer, PartyStream, keep
from fedforest.transport.grpc.presence import Presence
from fedforest.transport.grpc.questions import PendingExchange, Question, Questions

_LOOP_SECONDS = 30.0  # for a loop that should have answered long ago


class ExchangeWait(NamedTuple):
    """The patience of an exchange, and whether it can do without lost parties."""

    patience_seconds: float  # for each party, while it is away
    answer_seconds: float  # for all replies
    may_lose: bool = False


class Exchanges:
    """Asks parties as soon as they are there, and gives their answers to whoever waits."""

    def __init__(self, loop: asyncio.AbstractEventLoop, presence: Presence) -> None:
        self._loop = loop
        self._presence = presence
        self._questions = Questions()
        self._revoked: set[str] = set()  # parties that never come back
        self._next_id = secrets.randbits(48)  # so that no two hubs use the same ids

    @property
    def n_open(self) -> int:
        """Requests whose replies are waited for."""
        return len(self._questions)

    def carry_out(
        self, requests: Mapping[str, bytes], waiting: ExchangeWait, work: Callable[[], None] | None
    ) -> dict[str, bytes]:
        """On the calling thread: ask all, do the work meanwhile, and return the answers."""
        if not requests:
            if work is not None:
                work()
            return {}
        exchange = PendingExchange(self._questions)
        self._loop.call_soon_threadsafe(partial(self._begin, exchange, requests, waiting))
        try:  # the loop ends it in time; more is only waited for a loop that has stopped
            if work is not None:
                exchange.is_under_way.wait(_LOOP_SECONDS)
                work()
            answers = exchange.outcome.result(waiting.answer_seconds + _LOOP_SECONDS)
        except BaseException:
            if not exchange.outcome.done():
                self._loop.call_soon_threadsafe(exchange.end)
            raise
        return {party: reply for party, reply in answers.items() if reply is not None}

    # On the calling thread, above; on the loop's thread, below.

    def take(self, stream: PartyStream, answer: Answer) -> None:
        """Pass an answer to the exchange that waits for it; drop late and repeated answers."""
        question = self._questions.find(answer.request_id, stream.party)
        if question is None:
            stream.inbox.discard(answer.request_id)
        elif isinstance(answer, Refusal):
            stream.inbox.discard(answer.request_id)
            question.refuse(error_of_party(answer, stream.party))
        else:
            data = stream.inbox.add(answer)
            if data is not None:
                question.answer(data)

    def ask_again(self, stream: PartyStream) -> None:
        """Repeat a stream's open requests on the next one, unless the party broke the protocol."""
        for question in self._questions:
            if question.stream is not stream or question.is_settled:
                continue
            if stream.violation is not None:
                question.fail(RemoteProtocolError(str(stream.violation), stream.party))
            else:
                keep(asyncio.ensure_future(self._carry(question)))

    def revoke(self, party: str) -> None:
        """Fail what is asked of this party, now and later, at once: it never comes back."""
        self._revoked.add(party)
        for question in self._questions:
            if question.party == party:
                question.fail(PartyLost.of("party.revoked", party=party))

    def fail_all(self, error: FederationError) -> None:
        """Fail all exchanges, because no answer can arrive any more."""
        for question in self._questions:
            question.fail(error)

    def _begin(
        self, exchange: PendingExchange, requests: Mapping[str, bytes], waiting: ExchangeWait
    ) -> None:
        asked = {party: self._ask(party, data, waiting) for party, data in requests.items()}
        exchange.begin(asked, waiting.answer_seconds)
        self._loop.call_soon(exchange.is_under_way.set)  # behind the first steps of `_carry`

    def _ask(self, party: str, data: bytes, waiting: ExchangeWait) -> Question:
        self._next_id += 1
        question = Question(self._next_id, party, data, may_lose=waiting.may_lose)
        question.patience_seconds = waiting.patience_seconds
        self._questions.open(question)
        keep(asyncio.ensure_future(self._carry(question)))
        return question

    async def _carry(self, question: Question) -> None:
        """Send a request on the stream of its party, as soon as there is one."""
        if question.party in self._revoked:
            question.fail(PartyLost.of("party.revoked", party=question.party))
            return
        party, before = question.party, self._loop.time()
        await self._presence.wait_for({party}, question.patience_seconds, unless=question.reply)
        question.patience_seconds -= self._loop.time() - before
        if question.is_settled:
            return
        stream = self._presence.find(party)
        if stream is None or stream.is_gone:
            what = (
                "it is not connected and did not come back in time; start its service, and a "
                "paused run goes on"
            )
            question.fail(PartyLost(what, party))
            return
        question.stream = stream
        await stream.deliver(question.request_id, question.data, question.reply)

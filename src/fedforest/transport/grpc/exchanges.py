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
_STREAM_SECONDS = 0.05  # between looks whether the end of a stream was noticed


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
        return self.in_sequence(waiting)(requests).replies(work)

    def in_sequence(
        self, waiting: ExchangeWait
    ) -> Callable[[Mapping[str, bytes]], "AwaitedExchange"]:
        """Return how the calling thread begins exchanges; each party reads them in this order."""
        last: dict[str, Question] = {}  # to each party; only the loop's thread looks

        def begin(requests: Mapping[str, bytes]) -> AwaitedExchange:
            exchange = PendingExchange(self._questions)
            self._loop.call_soon_threadsafe(partial(self._begin, exchange, requests, waiting, last))
            return AwaitedExchange(self._loop, exchange, waiting.answer_seconds + _LOOP_SECONDS)

        return begin

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
        asked = [q for q in self._questions if q.stream is stream and not q.is_settled]
        for question in asked:
            question.deliver_again()
        for question in asked:
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
        self,
        exchange: PendingExchange,
        requests: Mapping[str, bytes],
        waiting: ExchangeWait,
        last: dict[str, Question],
    ) -> None:
        asked = {p: self._ask(p, data, waiting, last.get(p)) for p, data in requests.items()}
        last.update(asked)
        exchange.begin(asked, waiting.answer_seconds)
        self._loop.call_soon(exchange.is_under_way.set)  # behind the first steps of `_carry`

    def _ask(
        self, party: str, data: bytes, waiting: ExchangeWait, before: Question | None
    ) -> Question:
        self._next_id += 1
        question = Question(self._next_id, party, data, may_lose=waiting.may_lose)
        question.before = None if before is None or before.is_settled else before
        question.patience_seconds = waiting.patience_seconds
        self._questions.open(question)
        keep(asyncio.ensure_future(self._carry(question)))
        return question

    async def _carry(self, question: Question) -> None:
        """Send a request on the stream of its party, as soon as there is one."""
        if question.party in self._revoked:
            question.fail(PartyLost.of("party.revoked", party=question.party))
            return
        party, stream = question.party, await self._find_stream(question)
        if question.is_settled:
            return
        if stream is None or stream.is_gone:
            what = (
                "it is not connected and did not come back in time; start its service, and a "
                "paused run goes on"
            )
            question.fail(PartyLost(what, party))
            return
        question.stream = stream
        await stream.deliver(question.request_id, question.data, question.reply)
        if not stream.is_gone:
            question.note_delivered()

    async def _find_stream(self, question: Question) -> PartyStream | None:
        """Wait for the party, and until it has the question before this one."""
        party = question.party
        while True:
            await question.wait_for_turn()
            began = self._loop.time()
            await self._presence.wait_for({party}, question.patience_seconds, unless=question.reply)
            question.patience_seconds -= self._loop.time() - began
            stream = self._presence.find(party)
            if question.is_settled or stream is None or question.follows(stream):
                return stream
            await asyncio.sleep(_STREAM_SECONDS)  # the question before is to be delivered again


class AwaitedExchange:
    """An exchange under way, for the thread that began it."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, exchange: PendingExchange, longest_seconds: float
    ) -> None:
        self._loop, self._exchange, self._longest_seconds = loop, exchange, longest_seconds

    def replies(self, work: Callable[[], None] | None = None) -> dict[str, bytes]:
        """Wait for all replies; the work is done once requests were handed to the streams."""
        exchange = self._exchange
        try:  # the loop ends it in time; more is only waited for a loop that has stopped
            if work is not None:
                exchange.is_under_way.wait(_LOOP_SECONDS)
                work()
            answers = exchange.outcome.result(self._longest_seconds)
        except BaseException:
            self.end()
            raise
        return {party: reply for party, reply in answers.items() if reply is not None}

    def end(self) -> None:
        """Withdraw the requests, if there is no reply yet."""
        if not self._exchange.outcome.done():
            self._loop.call_soon_threadsafe(self._exchange.end)

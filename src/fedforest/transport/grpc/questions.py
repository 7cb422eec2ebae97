"""Requests whose replies a hub waits for.

A question is settled once: by a reply, by an error, or, where its party may be lost, by nothing.
Tasks that work for a question check whether it is settled; none is interrupted. The last question
of an exchange, when settled, wakes the waiting thread directly, without a turn of the loop.
"""

import asyncio
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from typing import TYPE_CHECKING

from fedforest.errors import (
    ConfigurationError,
    DataError,
    FederationError,
    MaskingError,
    PartyLost,
    PolicyRefusal,
)
from fedforest.transport.error_table import join_refusals

if TYPE_CHECKING:
    from fedforest.transport.grpc.party_stream import PartyStream

# Whoever is refused one thing hears what the others refuse, too, if they say so within this time.
GATHERING_SECONDS = 1.0
_OTHERS_MAY_REFUSE = (ConfigurationError, DataError, MaskingError, PolicyRefusal)


class Question:
    """One request to one party."""

    def __init__(self, request_id: int, party: str, data: bytes, *, may_lose: bool) -> None:
        self.request_id = request_id
        self.party = party
        self.data = data
        self.reply: asyncio.Future[bytes | None] = asyncio.get_running_loop().create_future()
        self.patience_seconds = 0.0  # what is left of it
        self.stream: PartyStream | None = None  # the one it was sent on
        self.when_settled: Callable[[], None] = _nobody_waits
        self.before: Question | None = None  # reaches the same party first
        self._delivered: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._may_lose = may_lose
        self._is_answered = False

    @property
    def is_settled(self) -> bool:
        return self.reply.done()

    def follows(self, stream: "PartyStream | None") -> bool:
        """Whether the question before it is settled, or was delivered on this stream."""
        before = self.before
        if before is None or before.is_settled:
            self.before = None  # else questions would hold all their predecessors
            return True
        return before.stream is stream and before._delivered.done()

    async def wait_for_turn(self) -> None:
        """Wait until the question before it was delivered, on whatever stream."""
        before = self.before
        if before is not None and not before._delivered.done():
            await asyncio.wait({before._delivered})

    def note_delivered(self) -> None:
        if not self._delivered.done():
            self._delivered.set_result(None)

    def deliver_again(self) -> None:
        """Its stream has ended: whoever follows waits anew."""
        if self._delivered.done():
            self._delivered = asyncio.get_running_loop().create_future()

    def answer(self, data: bytes) -> None:
        self._is_answered = True
        if not self.reply.done():
            self.reply.set_result(data)
            self.when_settled()

    def refuse(self, error: Exception) -> None:
        """The party answers with an error."""
        self._is_answered = True
        self.fail(error)

    def fail(self, error: Exception) -> None:
        if self.reply.done():
            return
        if isinstance(error, PartyLost) and self._may_lose:
            self.reply.set_result(None)
        else:
            self.reply.set_exception(error)
        self.when_settled()

    def close(self) -> None:
        """Withdraw the question; the party is told if it has not answered."""
        self.note_delivered()  # nothing waits for it any more
        self.before = None
        if not self.reply.done():
            self.reply.cancel()
        elif not self.reply.cancelled():
            self.reply.exception()  # seen, also where another party's error was raised
        if self.stream is not None and not self._is_answered:
            self.stream.forget(self.request_id)


class Questions:
    """All open questions of a hub, by their ids."""

    def __init__(self) -> None:
        self._by_id: dict[int, Question] = {}

    def __len__(self) -> int:
        return len(self._by_id)

    def __iter__(self) -> Iterator[Question]:
        return iter(list(self._by_id.values()))

    def open(self, question: Question) -> None:
        self._by_id[question.request_id] = question

    def close(self, question: Question) -> None:
        del self._by_id[question.request_id]
        question.close()

    def find(self, request_id: int, party: str) -> Question | None:
        """The question, if it was for this party and waits for a reply still."""
        question = self._by_id.get(request_id)
        if question is None or question.party != party or question.is_settled:
            return None
        return question


class PendingExchange:
    """Questions of one exchange, whose outcome another thread waits for.

    It ends when all questions are settled, when one fails, or at its deadline. After a refusal that
    other parties may share, such as of a missing fingerprint, it waits a moment for theirs.
    """

    def __init__(self, questions: Questions) -> None:
        self.outcome: Future[dict[str, bytes | None]] = Future()
        self.is_under_way = threading.Event()  # what can be sent at once is
        self._questions = questions
        self._asked: dict[str, Question] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._gathering: asyncio.TimerHandle | None = None

    def begin(self, asked: dict[str, Question], timeout_seconds: float) -> None:
        """Wait for these questions, which are open and not settled yet."""
        self._asked = asked
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(timeout_seconds, self._expire, timeout_seconds)
        for question in asked.values():
            question.when_settled = self._look

    def end(self) -> None:
        """Withdraw the questions."""
        for timer in (self._timer, self._gathering):
            if timer is not None:
                timer.cancel()
        for question in self._asked.values():
            question.when_settled = _nobody_waits
            self._questions.close(question)
        self._asked = {}

    def _look(self) -> None:
        """A question is settled: perhaps the exchange is over."""
        questions = self._asked.values()
        settled = [question.reply for question in questions if question.is_settled]
        errors = list(filter(None, (reply.exception() for reply in settled)))
        is_over = len(settled) == len(questions)
        if errors and (is_over or not _may_be_shared(errors)):
            self._fail()
        elif errors and self._gathering is None:
            loop = asyncio.get_running_loop()
            self._gathering = loop.call_later(GATHERING_SECONDS, self._fail)
        elif is_over:
            answers = {party: question.reply.result() for party, question in self._asked.items()}
            self.end()
            self.outcome.set_result(answers)

    def _fail(self) -> None:
        """With what was refused, by whomever; another error than a refusal goes before."""
        settled = [question.reply for question in self._asked.values() if question.is_settled]
        errors = list(filter(None, (reply.exception() for reply in settled)))
        others = [error for error in errors if not isinstance(error, _OTHERS_MAY_REFUSE)]
        self.end()
        self.outcome.set_exception(others[0] if others else join_refusals(_refusals(errors)))

    def _expire(self, seconds: float) -> None:
        for party, question in list(self._asked.items()):
            question.fail(PartyLost(f"no reply within {seconds:g} seconds; see its log", party))


def _may_be_shared(errors: list[BaseException]) -> bool:
    return all(isinstance(error, _OTHERS_MAY_REFUSE) for error in errors)


def _refusals(errors: list[BaseException]) -> list[FederationError]:
    return [error for error in errors if isinstance(error, FederationError)]


def _nobody_waits() -> None:
    """Ignore the outcome of a question without an exchange that waits for it."""

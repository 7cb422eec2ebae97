"""Requests whose replies a hub waits for.

A question is settled once: by a reply, by an error, or, where its party may be lost, by nothing.
Everybody who works for it looks whether it is settled; nobody is interrupted.
"""

import asyncio
from collections.abc import Iterator
from typing import TYPE_CHECKING

from fedforest.errors import PartyLost

if TYPE_CHECKING:
    from fedforest.transport.grpc_party_stream import PartyStream


class Question:
    """One request to one party."""

    def __init__(self, request_id: int, party: str, data: bytes, *, may_lose: bool) -> None:
        self.request_id = request_id
        self.party = party
        self.data = data
        self.reply: asyncio.Future[bytes | None] = asyncio.get_running_loop().create_future()
        self.patience_seconds = 0.0  # what is left of it
        self.stream: PartyStream | None = None  # the one it was sent on
        self._may_lose = may_lose
        self._is_answered = False

    @property
    def is_settled(self) -> bool:
        return self.reply.done()

    def answer(self, data: bytes) -> None:
        self._is_answered = True
        if not self.reply.done():
            self.reply.set_result(data)

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

    def close(self) -> None:
        """Nobody asks any more; the party is told if it has not answered."""
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

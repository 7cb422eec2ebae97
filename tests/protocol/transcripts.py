"""Conversations on record, and recorded replies repeated to a fresh coordinator, one changed."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from fedforest.protocol.asking import Conversation, Message
from fedforest.runtime.driver import run
from fedforest.transport.base import Transport
from fedforest.transport.codec import decode


@dataclass
class Recorder:
    """Keeps every request and reply that another transport carries."""

    inner: Transport
    requests: list[dict[str, bytes]] = field(default_factory=list)
    replies: list[dict[str, bytes]] = field(default_factory=list)

    def exchange(
        self, requests: Mapping[str, bytes], *, may_lose: bool = False
    ) -> dict[str, bytes]:
        self.requests.append(dict(requests))
        self.replies.append(self.inner.exchange(requests, may_lose=may_lose))
        return self.replies[-1]

    def everything(self) -> bytes:
        """All bytes that were sent, either way."""
        return b"\n".join(data for sent in self.requests + self.replies for data in sent.values())

    def requests_to(self, party: str) -> list[bytes]:
        return [sent[party] for sent in self.requests if party in sent]


class Replaced(Exception):  # noqa: N818 - what happened, not what went wrong
    """The replaced reply was taken; what follows would not fit the recorded replies any more."""


@dataclass
class Replay:
    """A transport that repeats recorded replies up to one, which it replaces."""

    replies: list[dict[str, bytes]]
    at: int
    party: str
    bad: bytes
    n_asked: int = 0

    def exchange(
        self,
        requests: Mapping[str, bytes],
        *,
        may_lose: bool = False,  # noqa: ARG002 - nobody is lost here
    ) -> dict[str, bytes]:
        now, self.n_asked = self.n_asked, self.n_asked + 1
        if now > self.at:
            raise Replaced
        replies = dict(self.replies[now])
        assert replies.keys() == requests.keys()
        if now == self.at:
            replies[self.party] = self.bad
        return replies


@dataclass(frozen=True, eq=False)
class RecordedReplies:
    """An honest run: how to begin it again, and all replies."""

    begin: Callable[[], Conversation[Any]]
    replies: list[dict[str, bytes]]

    def places_of(self, kind: str) -> list[tuple[int, str]]:
        """(exchange, party) of every reply of a kind."""
        return [
            (at, party)
            for at, replies in enumerate(self.replies)
            for party, data in replies.items()
            if kind.encode() in data[: len(kind) + 4]
        ]

    def replace(self, at: int, party: str, bad: bytes) -> None:
        """Run up to the replaced reply and just past it."""
        run(self.begin(), Replay(self.replies, at, party, bad))

    def reply(self, kind: type[Message], nth: int = 0) -> tuple[int, str, Any]:
        at, party = self.places_of(kind.__name__)[nth]
        return at, party, decode(self.replies[at][party], (kind,))

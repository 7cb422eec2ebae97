"""Runs a coordinator over a transport and keeps count of what it cost."""

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

from fedforest.protocol.asking import Ask, Conversation, Message, blame
from fedforest.transport.base import ExchangeReading, Transport, reading_answers
from fedforest.transport.codec import decode, encode

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Exchange:
    """One request and reply with some parties; no content."""

    request: str
    n_parties: int
    bytes_to: Mapping[str, int]
    bytes_from: Mapping[str, int]
    seconds: float
    note: Mapping[str, Any]

    @property
    def n_bytes(self) -> int:
        """Bytes in both directions."""
        return sum(self.bytes_to.values()) + sum(self.bytes_from.values())


Observer = Callable[[Exchange], None]


@dataclass(slots=True)
class ExchangeLog:
    """Every exchange of a run, in order."""

    exchanges: list[Exchange] = field(default_factory=list)
    observers: list[Observer] = field(default_factory=list)
    seconds: defaultdict[str, float] = field(  # by activity, exchanging apart
        default_factory=lambda: defaultdict(float)
    )

    def add(self, exchange: Exchange) -> None:
        """Note an exchange and tell whoever listens."""
        self.exchanges.append(exchange)
        for observe in self.observers:
            observe(exchange)

    @contextmanager
    def clock(self, activity: str) -> Iterator[None]:
        """What is done inside is counted as this activity of the coordinator."""
        started = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[activity] += time.perf_counter() - started

    @property
    def bytes_by_party(self) -> dict[str, int]:
        """Bytes that left each party."""
        total: Counter[str] = Counter()
        for exchange in self.exchanges:
            total.update(exchange.bytes_from)
        return dict(total)


def run(
    conversation: Conversation[Result], transport: Transport, log: ExchangeLog | None = None
) -> Result:
    """Carry every question of the coordinator to the parties until it is done."""
    log = log if log is not None else ExchangeLog()
    exchange = reading_answers(transport)
    replies: Mapping[str, Message] | None = None
    try:
        while True:
            ask = next(conversation) if replies is None else conversation.send(replies)
            replies = _carry(ask, exchange, log)
    except StopIteration as done:
        return done.value  # type: ignore[no-any-return] # the generator's result
    finally:
        conversation.close()  # after an error it is over, too


def _carry(ask: Ask, exchange: ExchangeReading, log: ExchangeLog) -> dict[str, Message]:
    if not ask.requests:
        return {}  # nobody to ask: no exchange
    started = time.perf_counter()
    requests = encode_requests(ask)
    reply_of: dict[str, Message] = {}

    def read(party: str, data: bytes) -> None:
        reply_of[party] = decode_reply(ask, party, data)
        if ask.read is not None:
            ask.read(party, reply_of[party])

    answers = exchange(requests, read, may_lose=ask.may_lose)
    log.add(describe_exchange(ask, requests, answers, time.perf_counter() - started))
    return {party: reply_of[party] for party in answers}


def encode_requests(ask: Ask) -> dict[str, bytes]:
    """By party; the same request to many parties is encoded once."""
    encoded: dict[int, bytes] = {}
    for request in ask.requests.values():
        if id(request) not in encoded:
            encoded[id(request)] = encode(request)
    return {party: encoded[id(request)] for party, request in ask.requests.items()}


def decode_replies(ask: Ask, answers: Mapping[str, bytes]) -> dict[str, Message]:
    """By party; one that is not of the asked type is its sender's fault."""
    return {party: decode_reply(ask, party, data) for party, data in answers.items()}


def decode_reply(ask: Ask, party: str, data: bytes) -> Message:
    """A party's answer, if it is of the asked type."""
    with blame(party):
        return decode(data, (ask.reply,))


def describe_exchange(
    ask: Ask, requests: Mapping[str, bytes], answers: Mapping[str, bytes], seconds: float
) -> Exchange:
    """What an exchange was about and what it cost."""
    return Exchange(
        type(next(iter(ask.requests.values()))).__name__,
        len(requests),
        {party: len(data) for party, data in requests.items()},
        {party: len(data) for party, data in answers.items()},
        seconds,
        ask.note or {},
    )

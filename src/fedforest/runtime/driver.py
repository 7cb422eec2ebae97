"""Runs a coordinator over a transport and keeps count of what it cost."""

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

from fedforest.protocol.asking import Ask, Conversation, Message, blame
from fedforest.transport.base import Transport
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
    replies: Mapping[str, Message] | None = None
    try:
        while True:
            ask = next(conversation) if replies is None else conversation.send(replies)
            replies = _carry(ask, transport, log)
    except StopIteration as done:
        return done.value  # type: ignore[no-any-return] # the generator's result


def _carry(ask: Ask, transport: Transport, log: ExchangeLog) -> dict[str, Message]:
    if not ask.requests:
        return {}  # nobody to ask: no exchange
    started = time.perf_counter()
    requests = encode_requests(ask)
    answers = transport.exchange(requests, may_lose=ask.may_lose)
    replies = decode_replies(ask, answers)
    log.add(describe_exchange(ask, requests, answers, time.perf_counter() - started))
    return replies


def encode_requests(ask: Ask) -> dict[str, bytes]:
    """By party; the same request to many parties is encoded once."""
    encoded: dict[int, bytes] = {}
    for request in ask.requests.values():
        if id(request) not in encoded:
            encoded[id(request)] = encode(request)
    return {party: encoded[id(request)] for party, request in ask.requests.items()}


def decode_replies(ask: Ask, answers: Mapping[str, bytes]) -> dict[str, Message]:
    """By party; one that is not of the asked type is its sender's fault."""
    replies = {}
    for party, data in answers.items():
        with blame(party):
            replies[party] = decode(data, (ask.reply,))
    return replies


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

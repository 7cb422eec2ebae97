"""Run a coordinator's conversation over a transport, and log bytes and seconds."""

import time
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

from fedforest.protocol.asking import Ask, Conversation, Message, Request, blame
from fedforest.transport.base import ExchangeReading, Transport, reading_answers
from fedforest.transport.codec import decode, encode

Reply = TypeVar("Reply", bound=Message)
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Exchange:
    """The figures of one request and reply with some parties; no content."""

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
    seconds: defaultdict[str, float] = field(  # by activity, without exchanges
        default_factory=lambda: defaultdict(float)
    )

    def add(self, exchange: Exchange) -> None:
        """Record an exchange and call all observers."""
        self.exchanges.append(exchange)
        for observe in self.observers:
            observe(exchange)

    @contextmanager
    def clock(self, activity: str) -> Iterator[None]:
        """Count the time of the block as this activity of the coordinator."""
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
    """Carry the coordinator's requests to the parties until the conversation ends."""
    log = log if log is not None else ExchangeLog()
    exchange = reading_answers(transport)
    replies: Mapping[str, Message] | None = None
    ahead: deque[Mapping[str, Message]] = deque()  # to be collected: here nothing waits for a line
    try:
        while True:
            ask = next(conversation) if replies is None else conversation.send(replies)
            replies = ahead.popleft() if ask.collects else _carry(ask, exchange, log)
            if ask.is_ahead:
                ahead.append(replies)
                replies = {}
    except StopIteration as done:
        return done.value  # type: ignore[no-any-return] # the generator's result
    finally:
        conversation.close()  # also after an error


def ask_once(
    requests: Mapping[str, Request[Reply]],
    exchange: Callable[[dict[str, bytes]], Mapping[str, bytes]],
) -> dict[str, Reply]:
    """Make one exchange outside of a conversation; return the replies by party."""
    answers = exchange(encode_requests(requests))
    return {party: decode_reply(requests[party], party, data) for party, data in answers.items()}


def _carry(ask: Ask, exchange: ExchangeReading, log: ExchangeLog) -> dict[str, Message]:
    if not ask.requests:
        return {}  # no requests: no exchange
    started = time.perf_counter()
    requests = encode_requests(ask.requests)
    reply_of: dict[str, Message] = {}

    def read(party: str, data: bytes) -> None:
        reply_of[party] = decode_reply(ask.requests[party], party, data)
        if ask.read is not None:
            ask.read(party, reply_of[party])

    answers = exchange(requests, read, may_lose=ask.may_lose)
    log.add(describe_exchange(ask, requests, answers, time.perf_counter() - started))
    return {party: reply_of[party] for party in answers}


def encode_requests(requests: Mapping[str, Request[Message]]) -> dict[str, bytes]:
    """Encode requests by party; the same request to many parties is encoded once."""
    encoded: dict[int, bytes] = {}
    for request in requests.values():
        if id(request) not in encoded:
            encoded[id(request)] = encode(request)
    return {party: encoded[id(request)] for party, request in requests.items()}


def decode_replies(ask: Ask, answers: Mapping[str, bytes]) -> dict[str, Message]:
    """Decode the replies by party."""
    return {
        party: decode_reply(ask.requests[party], party, data) for party, data in answers.items()
    }


def decode_reply(request: Request[Reply], party: str, data: bytes) -> Reply:
    """Decode a party's reply; a reply of another type than the request names blames the party."""
    with blame(party):
        return decode(data, (request.reply,))  # type: ignore[return-value] # as `Request` reads it


def describe_exchange(
    ask: Ask, requests: Mapping[str, bytes], answers: Mapping[str, bytes], seconds: float
) -> Exchange:
    """Describe an exchange and its cost."""
    return Exchange(
        type(next(iter(ask.requests.values()))).__name__,
        len(requests),
        {party: len(data) for party, data in requests.items()},
        {party: len(data) for party, data in answers.items()},
        seconds,
        ask.note or {},
    )

"""Small federations that form sums, over a network that loses, delays and records messages.

A question is the name of a sum; a party looks up its vector under that name. The network carries
bytes as every transport does, and does what the driver does with lost parties.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from fedforest.errors import PartyLost, ProtocolError
from fedforest.masking.key_agreement import Randomness
from fedforest.protocol.aggregation.base import Aggregation, Gathered, Segment, SummingParty
from fedforest.protocol.aggregation.introduction import PartyIdentity, make_members
from fedforest.protocol.aggregation.messages import REQUESTS
from fedforest.protocol.aggregation.options import Masked, Ring, Shamir
from fedforest.protocol.aggregation.plugs import Plug, make_aggregation, make_aggregator
from fedforest.protocol.asking import Ask, Conversation, Message, blame
from fedforest.runtime.endpoint import make_endpoint
from fedforest.transport.codec import decode, encode

Result = TypeVar("Result")
Vectors = Mapping[bytes, NDArray[np.int64]]

PROTECTED: tuple[Plug, ...] = (Masked(), Masked(k=1), Ring(), Shamir(2), Shamir(3))
PLUGS: tuple[Plug, ...] = ("plain", *PROTECTED)
RUN = b"run number 1"


def seeded_randomness(*seed: int) -> Randomness:
    """Bytes as a test wants them: the same every time."""
    return np.random.default_rng(seed).bytes


@dataclass
class Answers:
    """What a party would say to each question, and how often it was made to compute it."""

    vectors: dict[bytes, NDArray[np.int64]]
    n_computed: int = 0

    def __call__(self, questions: Sequence[memoryview]) -> list[NDArray[np.int64]]:
        if not self.vectors.keys() >= set(map(bytes, questions)):
            raise ProtocolError("a question that nobody understands")
        self.n_computed += len(questions)
        return [self.vectors[bytes(question)] for question in questions]


@dataclass
class Network:
    """Carries bytes. Parties can be cut off (they hear nothing) or slow (their reply is late)."""

    endpoints: Mapping[str, Callable[[bytes], bytes]]
    cut_off: set[str] = field(default_factory=set)
    slow: set[str] = field(default_factory=set)
    late: list[tuple[str, bytes]] = field(default_factory=list)
    requests: list[dict[str, bytes]] = field(default_factory=list)
    replies: list[dict[str, bytes]] = field(default_factory=list)

    def run(self, conversation: Conversation[Result]) -> Result:
        """Carry every question until the coordinator is done."""
        replies: Mapping[str, Any] | None = None
        try:
            while True:
                ask = next(conversation) if replies is None else conversation.send(replies)
                replies = self._carry(ask)
        except StopIteration as done:
            return done.value  # type: ignore[no-any-return] # the generator's result

    def _carry(self, ask: Ask) -> dict[str, Message]:
        self.requests.append({party: encode(request) for party, request in ask.requests.items()})
        self.replies.append({})
        for party, data in self.requests[-1].items():
            try:
                self.replies[-1][party] = self._deliver(party, data)
            except PartyLost:
                if not ask.may_lose:
                    raise
        replies = {}
        for party, data in self.replies[-1].items():
            with blame(party):
                replies[party] = decode(data, (ask.requests[party].reply,))
        return replies

    def _deliver(self, party: str, data: bytes) -> bytes:
        if party in self.cut_off:
            raise PartyLost("no answer; is it running?", party)
        reply = self.endpoints[party](data)
        if party in self.slow:
            self.late.append((party, reply))
            raise PartyLost("no answer in time", party)
        return reply

    def everything(self) -> bytes:
        """All bytes that the coordinator saw or sent."""
        sent = [*self.requests, *self.replies]
        return b"\n".join(data for messages in sent for data in messages.values())


@dataclass
class Federation:
    """A coordinator, parties, and what each of them holds."""

    names: tuple[str, ...]
    answers: dict[str, Answers]
    parties: dict[str, SummingParty]
    members: dict[str, PartyIdentity]
    aggregation: Aggregation
    network: Network

    def introduce(self) -> "Federation":
        self.network.run(self.aggregation.introduce(self.names))
        return self

    def gather(self, step: int, segments: Sequence[Segment]) -> Gathered:
        return self.network.run(self.aggregation.gather(step, segments))

    def segment(self, question: bytes, participants: Sequence[str] | None = None) -> Segment:
        names = self.names if participants is None else tuple(participants)
        length = len(next(iter(self.answers.values())).vectors[question])
        return Segment(names, question, length)

    def expected(self, segment: Segment) -> NDArray[np.int64]:
        return plain_sum(
            [self.answers[name].vectors[segment.question] for name in segment.participants]
        )


def plain_sum(vectors: Sequence[NDArray[np.int64]]) -> NDArray[np.int64]:
    """The sum in Python's own integers."""
    return np.array([sum(map(int, column)) for column in zip(*vectors, strict=True)], np.int64)


def federation(
    plug: Plug,
    vectors: Mapping[str, Vectors],
    *,
    run: bytes = RUN,
    seed: int = 0,
    **options: Any,
) -> Federation:
    """Parties that hold these vectors by question."""
    names = tuple(vectors)
    members = make_members(
        {name: seeded_randomness(seed, number) for number, name in enumerate(names)}
    )
    answers = {name: Answers(dict(vectors[name])) for name in names}
    parties = {
        name: SummingParty(make_aggregator(plug, member=members[name], **options), answers[name])
        for name in names
    }
    endpoints = {name: make_endpoint(party, REQUESTS) for name, party in parties.items()}
    randomness = seeded_randomness(seed, 10**6)
    aggregation = make_aggregation(plug, run, randomness, **options)
    return Federation(names, answers, parties, members, aggregation, Network(endpoints))


def some_vectors(
    n_parties: int, lengths: Sequence[int] = (5,), seed: int = 0
) -> dict[str, dict[bytes, NDArray[np.int64]]]:
    """Parties p0, p1, ... with small counts under the questions q0, q1, ..."""
    rng = np.random.default_rng(seed)
    return {
        f"p{party}": {
            b"q%d" % place: rng.integers(-50, 1000, length) for place, length in enumerate(lengths)
        }
        for party in range(n_parties)
    }

"""How a sum over parties is formed: what a coordinator asks for and what every plug offers.

A *segment* is one sum: a question, and the parties whose answers are added up. What a question
means is known to whoever asks it and to the callback that answers it, never here. Numbers must be
small enough for their sum to stay below `LARGEST_SUM`: whoever chooses their unit sees to it.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from fedforest.errors import (
    ConfigurationError,
    LocalProtocolError,
    MaskingError,
    ProtocolError,
    TooFewParties,
)
from fedforest.protocol.aggregation.messages import Part
from fedforest.protocol.aggregation.payloads import LARGEST_SUM, is_in_range
from fedforest.protocol.asking import Conversation, Message, answer, blame, check

AnswerQuestion = Callable[[memoryview], NDArray[np.int64]]
Handlers = dict[type[Message], Callable[[Any], Message]]
Note = Mapping[str, Any] | None

LEAST_PARTICIPANTS = 2  # of a protected sum: the sum over one party is that party's own


@dataclass(frozen=True, slots=True)
class Segment:
    """One sum that is wanted: the answers of these parties to this question.

    No number of the sum is above `largest` in magnitude. The tighter it is, the surer is it noticed
    when masks did not cancel or shares do not belong together.
    """

    participants: tuple[str, ...]
    question: bytes
    length: int  # numbers in an answer, and in the sum
    largest: int = LARGEST_SUM - 1

    def __post_init__(self) -> None:
        if len(set(self.participants)) != len(self.participants):
            raise LocalProtocolError("a party takes part in a sum twice")
        if not 0 <= self.largest < LARGEST_SUM:
            raise LocalProtocolError("a sum is wanted that not every plug could carry")


@dataclass(frozen=True, slots=True, eq=False)
class Gathered:
    """The exact sum of each segment; none at all if a party was lost.

    After a loss, ask again under a new step number and without the lost parties.
    """

    sums: list[NDArray[np.int64]]
    lost: frozenset[str]


class Aggregation(Protocol):
    """The coordinator's side of a plug."""

    def introduce(self, parties: Sequence[str]) -> Conversation[None]:
        """Let parties exchange the keys that the plug needs; once, before the first sum."""

    def gather(
        self, step: int, segments: Sequence[Segment], note: Note = None
    ) -> Conversation[Gathered]:
        """The sum of each segment; `step` was never used before in this run."""


class Aggregator(Protocol):
    """A party's side of a plug."""

    def handlers(self) -> Handlers:
        """What answers each type of request."""


class SummingParty:
    """A party that takes part in sums and does nothing else."""

    def __init__(self, aggregator: Aggregator) -> None:
        self._handlers = aggregator.handlers()

    def handle(self, request: Message) -> Message:
        """Answer one request; a refused one changes nothing."""
        return answer(self._handlers, request)


def require_participants(segments: Sequence[Segment], least: int) -> None:
    """Refuse, before anything is asked, sums over so few parties that they would be exposed."""
    for segment in segments:
        n_participants = len(segment.participants)
        if n_participants < least:
            raise TooFewParties(
                f"a sum over {n_participants} participant(s) would give away what each of them "
                f"holds; at least {least} must take part"
            )


def check_least(least: int) -> int:
    """Refuse a floor below which a party's own numbers would be exposed."""
    if least < LEAST_PARTICIPANTS:
        raise ConfigurationError(
            f"least_participants={least}: a protected sum needs {LEAST_PARTICIPANTS} or more"
        )
    return least


def choose_least(demanded: int | None, *, is_protected: bool) -> int:
    """How many parties every sum is over at least: as many as demanded, and as protection needs."""
    needed = LEAST_PARTICIPANTS if is_protected else 1
    return needed if demanded is None else max(needed, demanded)


def check_min_participants(demanded: int | None, n_parties: int, *, is_protected: bool) -> None:
    """Refuse, before anybody is asked, a number of participants that cannot be."""
    needed = choose_least(None, is_protected=is_protected)
    if demanded is not None and not needed <= demanded <= n_parties:
        raise ConfigurationError(
            f"min_participants is {demanded}; it must be at least {needed} here, and at most "
            f"{n_parties}, the number of parties"
        )


def places_by_party(segments: Sequence[Segment]) -> dict[str, list[int]]:
    """For each party the places of the segments it takes part in."""
    places: dict[str, list[int]] = {}
    for place, segment in enumerate(segments):
        for party in segment.participants:
            places.setdefault(party, []).append(place)
    return places


class PartsByParty:
    """The parts of segments that each party is asked for.

    Parties that take part in the same segments are given one and the same tuple, so that their
    requests are encoded once.
    """

    def __init__(self, segments: Sequence[Segment], *, name_participants: bool) -> None:
        self._parts = [
            Part(segment.participants if name_participants else (), memoryview(segment.question))
            for segment in segments
        ]
        self.places = places_by_party(segments)

    def requests(self, build: Callable[[tuple[Part, ...]], Message]) -> dict[str, Message]:
        """One request for each party, built of its parts."""
        built: dict[tuple[int, ...], Message] = {}
        requests = {}
        for party, places in self.places.items():
            key = tuple(places)
            if key not in built:
                built[key] = build(tuple(self._parts[place] for place in places))
            requests[party] = built[key]
        return requests

    def read(
        self, step: int, replies: Mapping[str, Any], segments: Sequence[Segment]
    ) -> list[list[NDArray[Any]]]:
        """The vectors of every segment, in any order, out of `reply.sums` of everybody."""
        vectors: list[list[NDArray[Any]]] = [[] for _ in segments]
        for party, places in self.places.items():
            with blame(party):
                reply = replies[party]
                reply.step.check_is(step)
                check(len(reply.sums) == len(places), "not one vector for every question")
                for place, sums in zip(places, reply.sums, strict=True):
                    vectors[place].append(sums.read(segments[place].length))
        return vectors


def who_is_lost(asked: Mapping[str, Any], replies: Mapping[str, Any]) -> frozenset[str]:
    """Parties that were asked and did not answer."""
    return frozenset(asked.keys() - replies.keys())


def compute_answer(answer_question: AnswerQuestion, question: memoryview) -> NDArray[np.int64]:
    """A party's own vector; one that no plug could carry is our own fault."""
    plain = answer_question(question)
    if plain.ndim != 1 or plain.dtype != np.int64:
        raise LocalProtocolError("an answer is not one vector of 64-bit integers")
    if not is_in_range(plain):
        raise LocalProtocolError("an answer is too large to be summed: its unit is too small")
    return np.ascontiguousarray(plain)


def add_plain(vectors: Sequence[NDArray[np.int64]], segment: Segment) -> NDArray[np.int64]:
    """The exact sum, where the first vector was; refused where it is larger than it can be."""
    # every number is below LARGEST_SUM: that was checked when it was read
    may_wrap = len(vectors) * LARGEST_SUM >= 2**63 and sum(map(_largest, vectors)) >= 2**63
    total = vectors[0] if vectors else np.zeros(segment.length, np.int64)
    for vector in vectors[1:]:
        total += vector
    if may_wrap or not is_in_range(total, segment.largest):
        raise ProtocolError("what the parties say adds up to more than a sum can be")
    return total


def require_in_range(total: NDArray[np.int64], segment: Segment) -> NDArray[np.int64]:
    """Where masks did not cancel, numbers are random; one too large, and no sum is used."""
    if not is_in_range(total, segment.largest):
        raise MaskingError(
            "masks did not cancel, or a sum is larger than it can be: parties do not agree on "
            "keys, peers or questions, or one of them sent something else; introduce them anew"
        )
    return total


def _largest(vector: NDArray[np.int64]) -> int:
    return max(int(vector.max()), -int(vector.min())) if len(vector) else 0

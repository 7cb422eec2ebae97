"""How a sum over parties is formed: what a coordinator asks for and what every plug offers.

A *segment* is one sum: a question, and the parties whose answers are added up. What a question
means is known to whoever asks it and to the callback that answers it, never here. Numbers must be
small enough for their sum to stay below `LARGEST_SUM`: whoever chooses their unit sees to it.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Any, NamedTuple, Protocol, Union

import numpy as np
from numpy.typing import NDArray

from fedforest.errors import (
    ConfigurationError,
    LocalProtocolError,
    MaskingError,
    ProtocolError,
    TooFewParties,
)
from fedforest.kernels.runs import add_runs, find_runs
from fedforest.protocol.aggregation.messages import Part
from fedforest.protocol.aggregation.payloads import LARGEST_SUM, is_in_range
from fedforest.protocol.asking import Conversation, Message, answer, blame

OwnVectors = Union["Answers", Sequence[NDArray[np.int64]]]  # end to end, or each for itself
AnswerQuestions = Callable[[Sequence[memoryview]], OwnVectors]
Handlers = dict[type[Message], Callable[[Any], Message]]
Note = Mapping[str, Any] | None

_TOO_MUCH = "what the parties say adds up to more than a sum can be"

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


def places_by_party(segments: Sequence[Segment]) -> dict[str, tuple[int, ...]]:
    """For each party the places of the segments it takes part in."""
    places: dict[str, list[int]] = {}
    for place, segment in enumerate(segments):
        for party in segment.participants:
            places.setdefault(party, []).append(place)
    return {party: tuple(own) for party, own in places.items()}


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
        self._segments = segments
        self.places = places_by_party(segments)

    def requests(self, build: Callable[[tuple[Part, ...]], Message]) -> dict[str, Message]:
        """One request for each party, built of its parts."""
        built: dict[tuple[int, ...], Message] = {}
        requests = {}
        for party, places in self.places.items():
            if places not in built:
                built[places] = build(tuple([self._parts[place] for place in places]))
            requests[party] = built[places]
        return requests

    def read(self, step: int, party: str, reply: Any) -> NDArray[Any]:
        """A party's vectors, end to end, out of `reply.sums`; those of others do not matter."""
        with blame(party):
            reply.step.check_is(step)
            length = sum([self._segments[place].length for place in self.places[party]])
            vector: NDArray[Any] = reply.sums.read(length)
        return vector

    def add_up(self, vectors: Mapping[str, NDArray[Any]]) -> list[NDArray[np.int64]]:
        """The sum of each segment modulo 2^64, of everybody's vectors as they were read."""
        ends = list(accumulate([segment.length for segment in self._segments], initial=0))
        bounds, n_numbers = np.array(ends), ends[-1]
        total: NDArray[np.uint64] | None = None
        for party, vector in vectors.items():
            words = vector.view(np.uint64)
            if total is None and len(words) == n_numbers:
                total = words  # the first takes part in everything: its copy is added to
                continue
            total = np.zeros(n_numbers, np.uint64) if total is None else total
            add_runs(total, words, find_runs(bounds, self.places[party]))
        total = np.zeros(n_numbers, np.uint64) if total is None else total
        sums = total.view(np.int64)
        return [sums[first:last] for first, last in pairwise(ends)]


def who_is_lost(asked: Mapping[str, Any], replies: Mapping[str, Any]) -> frozenset[str]:
    """Parties that were asked and did not answer."""
    return frozenset(asked.keys() - replies.keys())


class Answers(NamedTuple):
    """A party's own vectors, one for each question of a request, end to end."""

    together: NDArray[np.int64]
    lengths: list[int]

    @classmethod
    def of(cls, vectors: Sequence[NDArray[np.int64]]) -> "Answers":
        """Of vectors that are each for itself."""
        if any(plain.ndim != 1 or plain.dtype != np.int64 for plain in vectors):
            raise LocalProtocolError("an answer is not one vector of 64-bit integers")
        is_one = len(vectors) == 1
        together = np.ascontiguousarray(vectors[0]) if is_one else np.concatenate(vectors)
        return cls(together, [len(plain) for plain in vectors])

    def each(self) -> list[NDArray[np.int64]]:
        """One by one."""
        ends = accumulate(self.lengths, initial=0)
        return [self.together[first:last] for first, last in pairwise(ends)]


def compute_answers(answer_questions: AnswerQuestions, parts: Sequence[Part]) -> Answers:
    """A party's own vectors; those that no plug could carry are our own fault."""
    own = answer_questions([part.question for part in parts])
    n_answers = len(own.lengths) if isinstance(own, Answers) else len(own)
    if n_answers != len(parts):
        raise LocalProtocolError("not every question has its answer")
    answers = own if isinstance(own, Answers) else Answers.of(own)
    if not is_in_range(answers.together):
        raise LocalProtocolError("an answer is too large to be summed: its unit is too small")
    return answers


def require_no_wrap(vectors: Sequence[NDArray[np.int64]]) -> None:
    """Refuse numbers whose sum over parties might be beyond 64 bits, and look small."""
    # every number is below LARGEST_SUM: that was checked when it was read
    may_wrap = len(vectors) * LARGEST_SUM >= 2**63 and sum(map(_largest, vectors)) >= 2**63
    if may_wrap:
        raise ProtocolError(_TOO_MUCH)


def require_possible(total: NDArray[np.int64], segment: Segment) -> NDArray[np.int64]:
    """A plain sum, refused where it is larger than it can be."""
    if not is_in_range(total, segment.largest):
        raise ProtocolError(_TOO_MUCH)
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

"""The interface of sums over parties: a coordinator's questions, and the methods of every plug.

A *segment* is one sum: a question, and the parties whose answers are added up. This module does not
interpret questions; only their sender and the callback that answers them do. The caller chooses the
unit of the numbers, so that their sum stays below `LARGEST_SUM`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from fedforest.errors import (
    ConfigurationError,
    LocalProtocolError,
    MaskingError,
    ProtocolError,
    TooFewParties,
)
from fedforest.kernels.sums.spans import add_runs, find_runs
from fedforest.protocol.aggregation.messages import CountParts, Part
from fedforest.protocol.aggregation.payloads import LARGEST_SUM, is_in_range
from fedforest.protocol.asking import Conversation, Message, Request, answer, blame

AnswerQuestions = Callable[[Sequence[memoryview]], Sequence[NDArray[np.int64]]]
Handlers = dict[type[Message], Callable[[Any], Message]]
Note = Mapping[str, Any] | None
OneRequest = TypeVar("OneRequest", bound=Request[Message])

_TOO_MUCH = "what the parties say adds up to more than a sum can be"

LEAST_PARTICIPANTS = 2  # of a protected sum: the sum over one party is that party's own


@dataclass(frozen=True, slots=True)
class Segment:
    """One requested sum: of the answers of these parties to this question.

    No number of the sum is above `largest` in magnitude. A tighter bound detects more reliably that
    masks did not cancel or that shares do not belong together. Where all numbers are counts, never
    below zero, `largest_count` is a closer bound of those of honest parties: some may share a word.
    """

    participants: tuple[str, ...]
    question: bytes
    length: int  # numbers in an answer, and in the sum
    largest: int = LARGEST_SUM - 1
    largest_count: int | None = None

    def __post_init__(self) -> None:
        if len(set(self.participants)) != len(self.participants):
            raise LocalProtocolError("a party takes part in a sum twice")
        if not 0 <= self.largest < LARGEST_SUM:
            raise LocalProtocolError("a sum is wanted that not every plug could carry")


@dataclass(frozen=True, slots=True, eq=False)
class Gathered:
    """The exact sum of each segment; empty if a party was lost.

    After a loss, ask again under a new step number and without the lost parties.
    """

    sums: list[NDArray[np.int64]]
    lost: frozenset[str]


class Aggregation(Protocol):
    """The coordinator's side of a plug."""

    @property
    def is_protected(self) -> bool:
        """Whether sums hide what each party adds to them."""

    def introduce(self, parties: Sequence[str]) -> Conversation[None]:
        """Let parties exchange the keys that the plug needs; once, before the first sum."""

    def gather(
        self, step: int, segments: Sequence[Segment], note: Note = None
    ) -> Conversation[Gathered]:
        """Return the sum of each segment; `step` must be new in this run."""


class Admitted(NamedTuple):
    """The admission of a request to count that a party takes part in."""

    reply: Message | None  # the stored reply, if the same request was answered before
    hop: int = 0  # number of the exchange within its step
    digests: Sequence[bytes] = ()  # one per part, to tell sums apart; empty for plain sums


class Aggregator(Protocol):
    """A party's side of a plug.

    A request to count is admitted, the party computes its vectors, and they leave protected.
    """

    @property
    def party(self) -> str | None:
        """The party's name among the participants of protected sums; None for plain sums."""

    @property
    def counts(self) -> type[CountParts[Message]]:
        """The type of the request to count."""

    def handlers(self) -> Handlers:
        """Return the handler of each type of request that asks for no vectors."""

    def bind(self, agreed: bytes) -> None:
        """Bind all keys to what the parties agreed on, before they are introduced."""

    def admit(self, request: Any, told: Sequence[bytes] = ()) -> Admitted:
        """Refuse sums that this party must not join, and steps that are over.

        `told` is, per part, what the answer depends on beside the question, the same at all
        participants: protections are bound to it.
        """

    def protect(self, request: Any, admitted: Admitted, own: "Answers") -> Message:
        """Return the reply with the party's own vectors, one per part, and remember it."""


class SummingParty:
    """A party that only takes part in sums."""

    def __init__(self, aggregator: Aggregator, answer_questions: AnswerQuestions) -> None:
        self._aggregator = aggregator
        self._answer_questions = answer_questions

    def handle(self, request: Message) -> Message:
        """Answer one request; a refused request changes nothing."""
        aggregator = self._aggregator
        return answer({**aggregator.handlers(), aggregator.counts: self._count}, request)

    def _count(self, request: CountParts[Message]) -> Message:
        admitted = self._aggregator.admit(request)
        if admitted.reply is not None:
            return admitted.reply
        own = Answers.of(self._answer_questions([part.question for part in request.parts]))
        return self._aggregator.protect(request, admitted, own)


def require_participants(segments: Sequence[Segment], least: int) -> None:
    """Refuse, before any request is sent, sums over so few parties that they would be exposed."""
    for segment in segments:
        n_participants = len(segment.participants)
        if n_participants < least:
            raise TooFewParties(
                f"a sum over {n_participants} participant(s) would give away what each of them "
                f"holds; at least {least} must take part"
            )


def check_least(least: int) -> int:
    """Refuse a minimum so low that a party's own numbers would be exposed."""
    if least < LEAST_PARTICIPANTS:
        raise ConfigurationError(
            f"least_participants={least}: a protected sum needs {LEAST_PARTICIPANTS} or more"
        )
    return least


def choose_least(demanded: int | None, *, is_protected: bool) -> int:
    """Return the least number of parties in every sum: as demanded, and as protection needs."""
    needed = LEAST_PARTICIPANTS if is_protected else 1
    return needed if demanded is None else max(needed, demanded)


def check_min_participants(demanded: int | None, n_parties: int, *, is_protected: bool) -> None:
    """Refuse, before any request is sent, an impossible minimum of participants."""
    needed = choose_least(None, is_protected=is_protected)
    if demanded is not None and not needed <= demanded <= n_parties:
        raise ConfigurationError(
            f"min_participants is {demanded}; it must be at least {needed} here, and at most "
            f"{n_parties}, the number of parties"
        )


def places_by_party(segments: Sequence[Segment]) -> dict[str, tuple[int, ...]]:
    """Return, for each party, the indices of the segments it takes part in."""
    places: dict[str, list[int]] = {}
    for place, segment in enumerate(segments):
        for party in segment.participants:
            places.setdefault(party, []).append(place)
    return {party: tuple(own) for party, own in places.items()}


class PartsByParty:
    """The requested parts of each party, one per segment that it takes part in.

    Parties that take part in the same segments get the same tuple object, so that their
    requests are encoded once.
    """

    def __init__(self, segments: Sequence[Segment], *, name_participants: bool) -> None:
        self._parts = [
            Part(segment.participants if name_participants else (), memoryview(segment.question))
            for segment in segments
        ]
        self._segments = segments
        self.places = places_by_party(segments)

    def requests(self, build: Callable[[tuple[Part, ...]], OneRequest]) -> dict[str, OneRequest]:
        """Build one request for each party from its parts."""
        built: dict[tuple[int, ...], OneRequest] = {}
        requests = {}
        for party, places in self.places.items():
            if places not in built:
                built[places] = build(tuple([self._parts[place] for place in places]))
            requests[party] = built[places]
        return requests

    def read(self, step: int, party: str, reply: Any) -> NDArray[Any]:
        """Read one party's vectors, concatenated, from `reply.sums`."""
        with blame(party):
            reply.step.check_is(step)
            length = sum([self._segments[place].length for place in self.places[party]])
            vector: NDArray[Any] = reply.sums.read(length)
        return vector

    def add_up(self, vectors: Mapping[str, NDArray[Any]]) -> list[NDArray[np.int64]]:
        """Return the sum of each segment modulo 2^64, from the vectors that `read` returned."""
        ends = list(accumulate([segment.length for segment in self._segments], initial=0))
        bounds, n_numbers = np.array(ends), ends[-1]
        total: NDArray[np.uint64] | None = None
        for party, vector in vectors.items():
            words = vector.view(np.uint64)
            if total is None and len(words) == n_numbers:
                total = words  # the first party takes part in every segment: add to its copy
                continue
            total = np.zeros(n_numbers, np.uint64) if total is None else total
            add_runs(total, words, find_runs(bounds, self.places[party]))
        total = np.zeros(n_numbers, np.uint64) if total is None else total
        sums = total.view(np.int64)
        return [sums[first:last] for first, last in pairwise(ends)]


def who_is_lost(asked: Mapping[str, Any], replies: Mapping[str, Any]) -> frozenset[str]:
    """Return the parties that were asked and did not answer."""
    return frozenset(asked.keys() - replies.keys())


class Answers(NamedTuple):
    """A party's own vectors, one for each question of a request, concatenated."""

    together: NDArray[np.int64]
    lengths: list[int]

    @classmethod
    def of(cls, vectors: Sequence[NDArray[np.int64]]) -> "Answers":
        """Concatenate separate vectors."""
        if any(plain.ndim != 1 or plain.dtype != np.int64 for plain in vectors):
            raise LocalProtocolError("an answer is not one vector of 64-bit integers")
        is_one = len(vectors) == 1
        together = np.ascontiguousarray(vectors[0]) if is_one else np.concatenate(vectors)
        return cls(together, [len(plain) for plain in vectors])

    def require_summable(self, parts: Sequence[Part]) -> None:
        """Raise a local error for a wrong number of answers or numbers that no plug can carry."""
        if len(self.lengths) != len(parts):
            raise LocalProtocolError("not every question has its answer")
        if not is_in_range(self.together):
            raise LocalProtocolError("an answer is too large to be summed: its unit is too small")

    def each(self) -> list[NDArray[np.int64]]:
        """Return the separate vectors."""
        ends = accumulate(self.lengths, initial=0)
        return [self.together[first:last] for first, last in pairwise(ends)]


def require_no_wrap(vectors: Sequence[NDArray[np.int64]]) -> None:
    """Refuse numbers whose sum over parties might overflow 64 bits and so look small."""
    # every number is below LARGEST_SUM: `read` checked it
    may_wrap = len(vectors) * LARGEST_SUM >= 2**63 and sum(map(_largest, vectors)) >= 2**63
    if may_wrap:
        raise ProtocolError.stating(_TOO_MUCH)


def require_possible(total: NDArray[np.int64], segment: Segment) -> NDArray[np.int64]:
    """Return a plain sum; refuse one above `segment.largest`."""
    if not is_in_range(total, segment.largest):
        raise ProtocolError.stating(_TOO_MUCH)
    return total


def require_in_range(total: NDArray[np.int64], segment: Segment) -> NDArray[np.int64]:
    """Return a sum; refuse one above `segment.largest`: its masks did not cancel."""
    if not is_in_range(total, segment.largest):
        raise MaskingError.stating(
            "masks did not cancel, or a sum is larger than it can be: parties do not agree on "
            "keys, peers or questions, or one of them sent something else; introduce them anew"
        )
    return total


def _largest(vector: NDArray[np.int64]) -> int:
    return max(int(vector.max()), -int(vector.min())) if len(vector) else 0

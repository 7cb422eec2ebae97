"""Sums as they are: every party sends its vector to the coordinator, which adds them up.

Who learns what. The coordinator sees every party's own vector: plain, or noisy where a party adds
noise before it answers; then noise is the only protection. A party learns nothing about others, not
even who takes part. No keys are needed.
"""

from collections.abc import Sequence
from functools import partial

from fedforest.protocol.aggregation.base import (
    AnswerQuestions,
    Gathered,
    Handlers,
    Note,
    PartsByParty,
    Segment,
    compute_answers,
    require_no_wrap,
    require_possible,
    who_is_lost,
)
from fedforest.protocol.aggregation.messages import Count, Counted, NoisilyCounted
from fedforest.protocol.aggregation.payloads import NoisySums, PlainSums, StepEcho
from fedforest.protocol.aggregation.steps import StepMemory
from fedforest.protocol.asking import Ask, AsTheyCome, Conversation, Message, check


class PlainAggregation:
    """The coordinator's side; `is_noisy` says in which form parties answer."""

    def __init__(self, *, is_noisy: bool = False) -> None:
        self._reply: type[Message] = NoisilyCounted if is_noisy else Counted

    def introduce(self, parties: Sequence[str]) -> Conversation[None]:  # noqa: ARG002
        """Nothing: plain sums need no keys."""
        yield from ()

    def gather(
        self, step: int, segments: Sequence[Segment], note: Note = None
    ) -> Conversation[Gathered]:
        """One exchange."""
        parts = PartsByParty(segments, name_participants=False)
        requests = parts.requests(partial(Count, step))
        read = AsTheyCome(partial(parts.read, step))
        replies = yield Ask(requests, self._reply, note, may_lose=True, read=read)
        lost = who_is_lost(requests, replies)
        if lost:
            return Gathered([], lost)
        vectors = read.of(replies)
        require_no_wrap(list(vectors.values()))
        return Gathered(list(map(require_possible, parts.add_up(vectors), segments)), frozenset())


class PlainAggregator:
    """A party's side; `is_noisy` if its answers have noise in them already."""

    def __init__(self, answer_questions: AnswerQuestions, *, is_noisy: bool = False) -> None:
        self._answer_questions = answer_questions
        self._is_noisy = is_noisy
        self._steps = StepMemory()

    def handlers(self) -> Handlers:
        return {Count: self._count}

    def _count(self, request: Count) -> Counted | NoisilyCounted:
        check(len(request.parts) > 0, "nothing is asked")
        return self._steps.answer(request.step, 0, request, partial(self._answer, request))

    def _answer(self, request: Count) -> Counted | NoisilyCounted:
        plain = compute_answers(self._answer_questions, request.parts).together
        step = StepEcho(request.step)
        if self._is_noisy:
            return NoisilyCounted(step, NoisySums.of(plain))
        return Counted(step, PlainSums.of(plain))

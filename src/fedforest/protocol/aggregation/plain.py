"""Plain sums: every party sends its vector to the coordinator, which adds them up.

Who learns what. The coordinator sees every party's own vector: plain, or noisy where a party adds
noise before it answers; then noise is the only protection. A party learns nothing about others, not
even who takes part. No keys are needed.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any

from fedforest.protocol.aggregation.base import (
    Admitted,
    Answers,
    Gathered,
    Handlers,
    Note,
    PartsByParty,
    Segment,
    require_no_wrap,
    require_possible,
    who_is_lost,
)
from fedforest.protocol.aggregation.messages import (
    Count,
    Counted,
    CountNoisily,
    CountParts,
    NoisilyCounted,
)
from fedforest.protocol.aggregation.payloads import NoisySums, PlainSums, StepEcho
from fedforest.protocol.aggregation.steps import StepMemory
from fedforest.protocol.asking import AsTheyCome, Conversation, ask, check


class PlainAggregation:
    """The coordinator's side; `is_noisy` says whether parties answer with noisy sums."""

    is_protected = False

    def __init__(self, *, is_noisy: bool = False) -> None:
        self._count = CountNoisily if is_noisy else Count

    def introduce(self, parties: Sequence[str]) -> Conversation[None]:  # noqa: ARG002
        """Ask nothing: plain sums need no keys."""
        yield from ()

    def gather(
        self, step: int, segments: Sequence[Segment], note: Note = None
    ) -> Conversation[Gathered]:
        """Gather the sums in one exchange."""
        parts = PartsByParty(segments, name_participants=False)
        requests = parts.requests(partial(self._count, step))
        read = AsTheyCome(partial(parts.read, step))
        replies = yield from ask(requests, note, may_lose=True, read=read)
        lost = who_is_lost(requests, replies)
        if lost:
            return Gathered([], lost)
        vectors = read.of(replies)
        require_no_wrap(list(vectors.values()))
        return Gathered(list(map(require_possible, parts.add_up(vectors), segments)), frozenset())


class PlainAggregator:
    """A party's side; `is_noisy` says whether its answers already contain noise."""

    party = None

    def __init__(self, *, is_noisy: bool = False) -> None:
        self.counts: type[CountParts[Any]] = CountNoisily if is_noisy else Count
        self._steps = StepMemory()

    def handlers(self) -> Handlers:
        return {}

    def bind(self, agreed: bytes) -> None:
        """Do nothing: plain sums have no keys."""

    def admit(self, request: CountParts[Any], told: Sequence[bytes] = ()) -> Admitted:  # noqa: ARG002
        check(len(request.parts) > 0, "nothing is asked")
        return Admitted(self._steps.recall(request.step, 0, request))

    def protect(
        self,
        request: CountParts[Any],
        admitted: Admitted,
        own: Answers,
    ) -> Counted | NoisilyCounted:
        own.require_summable(request.parts)
        step = StepEcho(request.step)
        reply: Counted | NoisilyCounted
        if isinstance(request, CountNoisily):
            reply = NoisilyCounted(step, NoisySums.of(own.together))
        else:
            reply = Counted(step, PlainSums.of(own.together))
        self._steps.remember(request.step, admitted.hop, request, reply)
        return reply

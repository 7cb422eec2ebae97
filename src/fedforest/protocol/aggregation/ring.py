"""The ring that distributed ERT used before k-PPD-ERT: a running total goes from party to party.

Who learns what. The coordinator starts with random numbers and gets them back with the sum on top:
it learns the sum. Totals in between are sealed for the next party, so it relays what it cannot
read. A party sees the total of those before it under the coordinator's random numbers: nothing, on
its own. A party is exposed as soon as the coordinator and its successor put together what they know
(the first and the last: the coordinator and one neighbour), or both its neighbours do: the paper's
"one colluding party".

Every hop is an exchange, so a sum over n participants costs n of them; segments go round together.
"""

from collections.abc import Sequence
from functools import partial

import numpy as np
from numpy.typing import NDArray

from fedforest.masking.key_agreement import KEY_BYTES, Entropy, draw_bytes, encode_number
from fedforest.masking.keystream import expand
from fedforest.protocol.aggregation.base import (
    LEAST_PARTICIPANTS,
    AnswerQuestions,
    Gathered,
    Handlers,
    Note,
    Segment,
    check_least,
    compute_answers,
    require_in_range,
    require_participants,
    who_is_lost,
)
from fedforest.protocol.aggregation.introduction import MeetingParty, Member, introduce_parties
from fedforest.protocol.aggregation.messages import Part, Passed, PassOn
from fedforest.protocol.aggregation.payloads import MaskedSums, SealedTotal, StepEcho
from fedforest.protocol.aggregation.session import Session
from fedforest.protocol.asking import Ask, Conversation, Message, blame, check
from fedforest.protocol.payloads import from_bytes, to_bytes

_PURPOSE = b"ring total"


class RingAggregation:
    """The coordinator's side: the paper's mediator, which starts and ends the ring."""

    def __init__(
        self, run: bytes, entropy: Entropy, *, least_participants: int = LEAST_PARTICIPANTS
    ) -> None:
        self._run = run
        self._entropy = entropy
        self._least = check_least(least_participants)

    def introduce(self, parties: Sequence[str]) -> Conversation[None]:
        """Two exchanges: keys out, keys in."""
        yield from introduce_parties(self._run, parties, with_seeds=False)

    def gather(
        self, step: int, segments: Sequence[Segment], note: Note = None
    ) -> Conversation[Gathered]:
        """As many exchanges as the longest ring has participants."""
        require_participants(segments, self._least)
        rings = [_Ring(segment, self._entropy) for segment in segments]
        for hop in range(max((len(segment.participants) for segment in segments), default=0)):
            turns: dict[str, list[_Ring]] = {}
            for ring in rings:
                if hop < len(ring.participants):
                    turns.setdefault(ring.participants[hop], []).append(ring)
            requests = {party: _pass_on(step, at_turn) for party, at_turn in turns.items()}
            replies = yield Ask(requests, Passed, note, may_lose=True)
            lost = who_is_lost(requests, replies)
            if lost:
                return Gathered([], lost)
            for party, at_turn in turns.items():
                with blame(party):
                    _take_totals(step, hop, at_turn, replies[party])
        return Gathered([ring.unmask() for ring in rings], frozenset())


class _Ring:
    """One segment's total on its way; between parties it is sealed."""

    def __init__(self, segment: Segment, entropy: Entropy) -> None:
        self._segment = segment
        self.participants = segment.participants
        self.part = Part(segment.participants, memoryview(segment.question))
        self._start = expand(draw_bytes(entropy, KEY_BYTES), segment.length)
        self.total = to_bytes(self._start, "<u8")
        self._end = self._start

    def finish(self, sums: MaskedSums) -> None:
        self._end = sums.read(len(self._start))

    def unmask(self) -> NDArray[np.int64]:
        return require_in_range((self._end - self._start).view(np.int64), self._segment)


def _pass_on(step: int, rings: Sequence[_Ring]) -> Message:
    parts, totals = tuple(ring.part for ring in rings), tuple(ring.total for ring in rings)
    return PassOn(step, parts, totals)


def _take_totals(step: int, hop: int, rings: Sequence[_Ring], reply: Passed) -> None:
    """Totals of rings that go on, sums of those that end here."""
    reply.step.check_is(step)
    is_last = [hop + 1 == len(ring.participants) for ring in rings]
    n_last = sum(is_last)
    counts = (len(reply.sums), len(reply.totals))
    check(counts == (n_last, len(rings) - n_last), "not one total for every question")
    sums, totals = iter(reply.sums), iter(reply.totals)
    for ring, ends in zip(rings, is_last, strict=True):
        if ends:
            ring.finish(next(sums))
        else:
            ring.total = next(totals).data


class RingAggregator:
    """A party's side."""

    def __init__(
        self,
        member: Member,
        answer_questions: AnswerQuestions,
        *,
        least_participants: int = LEAST_PARTICIPANTS,
    ) -> None:
        self._meeting = MeetingParty(member, with_seeds=False)
        self._answer_questions = answer_questions
        self._least = check_least(least_participants)

    def handlers(self) -> Handlers:
        return {**self._meeting.handlers(), PassOn: self._pass_on}

    def _pass_on(self, request: PassOn) -> Passed:
        session = self._meeting.session()
        digests = session.check_parts(request.parts, self._least)
        check(len(request.totals) == len(request.parts), "not one total for every question")
        hops = {part.participants.index(session.party) for part in request.parts}
        check(len(hops) == 1, "this party stands at different places of rings in one request")
        answer = partial(self._add, session, request, digests)
        return session.steps.answer(request.step, hops.pop(), request, answer)

    def _add(self, session: Session, request: PassOn, digests: Sequence[bytes]) -> Passed:
        step = encode_number(request.step)
        links = [
            _Link(session, part.participants, step, digest)
            for part, digest in zip(request.parts, digests, strict=True)
        ]
        incoming = [link.receive(total) for link, total in zip(links, request.totals, strict=True)]
        answers = compute_answers(self._answer_questions, request.parts).each()
        totals, sums = [], []
        for link, total, plain in zip(links, incoming, answers, strict=True):
            with blame(link.predecessor or "coordinator"):
                masked = from_bytes(total, "<u8", len(plain), "a total of the ring")
            masked += plain.view(np.uint64)
            if link.successor is None:
                sums.append(MaskedSums.of(masked))
            else:
                totals.append(SealedTotal(link.send(link.successor, masked)))
        return Passed(StepEcho(request.step), tuple(totals), tuple(sums))


class _Link:
    """A party's place in one ring."""

    def __init__(
        self, session: Session, participants: tuple[str, ...], step: bytes, digest: bytes
    ) -> None:
        self._session = session
        self._context = (_PURPOSE, step, digest)
        hop = participants.index(session.party)
        self.predecessor = participants[hop - 1] if hop > 0 else None
        self.successor = participants[hop + 1] if hop + 1 < len(participants) else None

    def receive(self, total: memoryview) -> memoryview:
        """The total so far; the first participant has it from the coordinator, as it is."""
        if self.predecessor is None:
            return total
        return memoryview(self._session.open(self.predecessor, total, *self._context))

    def send(self, successor: str, masked: NDArray[np.uint64]) -> memoryview:
        """The total with this party's part, sealed for the next."""
        text = bytes(to_bytes(masked, "<u8"))
        return self._session.seal(successor, text, *self._context)

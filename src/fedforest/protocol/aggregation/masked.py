"""Masked sums (k-PPD-ERT, section 3.1): vectors leave under masks that cancel when all are added.

Who learns what. The coordinator sees vectors that are uniform modulo 2^64 and their exact sum over
the participants. Together with any k - 1 of these it learns the sum over the others, nothing else.
With all peers of a party, those it chose and those that chose it, k at least, it learns that
party's vector: with two participants, the coordinator and either one know the other's. A party sees
who takes part in a sum, never a vector of another party, masked or not, nor the sum. Peers are
chosen anew at every step by seeds that the coordinator does not know.

A coordinator that calls a party lost, asks the others again without it and then uses the late reply
learns its vector as the difference of two sums; ours discards late replies.
"""

from collections.abc import Sequence
from functools import partial

from fedforest.masking.masks import Summand
from fedforest.masking.peers import choose_partners
from fedforest.protocol.aggregation.base import (
    LEAST_PARTICIPANTS,
    AnswerQuestions,
    Gathered,
    Handlers,
    Note,
    PartsByParty,
    Segment,
    check_least,
    compute_answers,
    require_in_range,
    require_participants,
    who_is_lost,
)
from fedforest.protocol.aggregation.introduction import MeetingParty, Member, introduce_parties
from fedforest.protocol.aggregation.messages import Count, MaskedCounted
from fedforest.protocol.aggregation.payloads import MaskedSums, StepEcho
from fedforest.protocol.aggregation.session import Session
from fedforest.protocol.asking import Ask, AsTheyCome, Conversation


class MaskedAggregation:
    """The coordinator's side. It need not know how many peers a party chooses."""

    def __init__(self, run: bytes, *, least_participants: int = LEAST_PARTICIPANTS) -> None:
        self._run = run
        self._least = check_least(least_participants)

    def introduce(self, parties: Sequence[str]) -> Conversation[None]:
        """Three exchanges: keys, sealed seeds out, sealed seeds in."""
        yield from introduce_parties(self._run, parties, with_seeds=True)

    def gather(
        self, step: int, segments: Sequence[Segment], note: Note = None
    ) -> Conversation[Gathered]:
        """One exchange."""
        require_participants(segments, self._least)
        parts = PartsByParty(segments, name_participants=True)
        requests = parts.requests(partial(Count, step))
        read = AsTheyCome(partial(parts.read, step))
        replies = yield Ask(requests, MaskedCounted, note, may_lose=True, read=read)
        lost = who_is_lost(requests, replies)
        if lost:
            return Gathered([], lost)
        totals = parts.add_up(read.of(replies))  # where every mask meets its opposite
        return Gathered(list(map(require_in_range, totals, segments)), frozenset())


class MaskedAggregator:
    """A party's side: `k` peers are chosen in every sum, by default all other participants."""

    def __init__(
        self,
        member: Member,
        answer_questions: AnswerQuestions,
        *,
        k: int | None = None,
        least_participants: int = LEAST_PARTICIPANTS,
    ) -> None:
        self._meeting = MeetingParty(member, with_seeds=True)
        self._answer_questions = answer_questions
        self._k = k
        self._named: list[tuple[str, ...]] = []  # in the last request
        self._partners: list[tuple[str, ...]] = []  # of its parts
        self._least = check_least(least_participants)

    def handlers(self) -> Handlers:
        return {**self._meeting.handlers(), Count: self._count}

    def _count(self, request: Count) -> MaskedCounted:
        session = self._meeting.session()
        answer = partial(self._mask_parts, session, request)
        return session.steps.answer(request.step, 0, request, answer)

    def _mask_parts(self, session: Session, request: Count) -> MaskedCounted:
        digests = session.check_parts(request.parts, self._least)
        answers = compute_answers(self._answer_questions, request.parts)
        partners = self._choose_partners(session, request)
        summands = list(map(Summand, answers.lengths, partners, digests))
        masked = session.masker.mask(answers.together, summands, request.step)
        return MaskedCounted(StepEcho(request.step), MaskedSums.of(masked))

    def _choose_partners(self, session: Session, request: Count) -> list[tuple[str, ...]]:
        """Of each part; where all others are peers, the same in most steps, and for every seed."""
        named = [part.participants for part in request.parts]
        if self._k is not None or named != self._named:
            choose = partial(choose_partners, session.party, session.seeds)
            self._partners = [choose(names, self._k, request.step) for names in named]
            self._named = named
        return self._partners

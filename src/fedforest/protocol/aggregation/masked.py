"""Masked sums (k-PPD-ERT, section 3.1): vectors leave under masks that cancel when all are added.

Who learns what. The coordinator sees vectors that are uniform modulo 2^64 and their exact sum over
the participants. Together with any k - 1 of these, it learns the sum over the others, nothing else.
Together with all peers of a party (those it chose and those that chose it, at least k), it learns
that party's vector: with two participants, the coordinator and either one know the other's. A party
sees who takes part in a sum, never a vector of another party, masked or not, nor the sum. Peers are
chosen anew at every step by seeds that the coordinator does not know.

A coordinator that calls a party lost, asks the others again without it and then uses the late reply
learns its vector as the difference of two sums; our coordinator discards late replies, and parties
of horizontal training join no sum without their block.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from fedforest.masking.masks import Summand
from fedforest.masking.peers import choose_partners
from fedforest.protocol.aggregation.base import (
    LEAST_PARTICIPANTS,
    Answers,
    Gathered,
    Note,
    PartsByParty,
    Segment,
    check_least,
    require_in_range,
    require_participants,
    who_is_lost,
)
from fedforest.protocol.aggregation.introduction import PartyIdentity, introduce_parties
from fedforest.protocol.aggregation.meeting import ProtectedAggregator
from fedforest.protocol.aggregation.messages import CountMasked, MaskedCounted
from fedforest.protocol.aggregation.packing import (
    bind_packing,
    choose_per_word,
    count_words,
    fits_always,
    pack,
    unpack,
)
from fedforest.protocol.aggregation.payloads import MaskedSums, StepEcho
from fedforest.protocol.aggregation.session import PeerSession
from fedforest.protocol.asking import AsTheyCome, Conversation, ask


class MaskedAggregation:
    """The coordinator's side; it does not know how many peers a party chooses."""

    is_protected = True

    def __init__(self, run: bytes, *, least_participants: int = LEAST_PARTICIPANTS) -> None:
        self._run = run
        self._least = check_least(least_participants)

    def introduce(self, parties: Sequence[str]) -> Conversation[None]:
        """Introduce the parties in three exchanges: keys, sealed seeds out, sealed seeds in."""
        yield from introduce_parties(self._run, parties, with_seeds=True)

    def gather(
        self, step: int, segments: Sequence[Segment], note: Note = None
    ) -> Conversation[Gathered]:
        """Gather the sums in one exchange."""
        require_participants(segments, self._least)
        per_word = choose_per_word(segments)
        sent = [replace(one, length=count_words(one.length, per_word)) for one in segments]
        parts = PartsByParty(sent, name_participants=True)
        requests = parts.requests(lambda own: CountMasked(step, own, per_word))
        read = AsTheyCome(partial(parts.read, step))
        replies = yield from ask(requests, note, may_lose=True, read=read)
        lost = who_is_lost(requests, replies)
        if lost:
            return Gathered([], lost)
        words = parts.add_up(read.of(replies))  # all masks cancel here
        totals = [unpack(own, one, per_word) for own, one in zip(words, segments, strict=True)]
        for total, segment in zip(totals, segments, strict=True):
            if not fits_always(segment, per_word):
                require_in_range(total, segment)
        return Gathered(totals, frozenset())


class MaskedAggregator(ProtectedAggregator):
    """A party's side; chooses `k` peers in every sum, by default all other participants."""

    counts = CountMasked
    with_seeds = True

    def __init__(self, member: PartyIdentity, *, k: int | None = None, **floor: int) -> None:
        super().__init__(member, **floor)
        self._k = k
        self._named: list[tuple[str, ...]] = []  # in the last request
        self._partners: list[tuple[str, ...]] = []  # of its parts

    def hide(
        self, session: PeerSession, request: CountMasked, digests: Sequence[bytes], own: Answers
    ) -> MaskedCounted:
        partners = self._choose_partners(session, request)
        packed = pack(own, request.per_word)
        bound = [bind_packing(digest, request.per_word) for digest in digests]
        summands = list(map(Summand, packed.lengths, partners, bound))
        masked = session.masker.mask(packed.together, summands, request.step)
        return MaskedCounted(StepEcho(request.step), MaskedSums.of(masked))

    def _choose_partners(self, session: PeerSession, request: CountMasked) -> list[tuple[str, ...]]:
        """Return the mask partners of each part; cached if all others are peers, seeds aside."""
        named = [part.participants for part in request.parts]
        if self._k is not None or named != self._named:
            choose = partial(choose_partners, session.party, session.seeds)
            self._partners = [choose(names, self._k, request.step) for names in named]
            self._named = named
        return self._partners

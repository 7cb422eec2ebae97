"""The ring that distributed ERT used before k-PPD-ERT: a running total goes from party to party.

Who learns what. The coordinator starts with random numbers and gets them back plus the sum: it
learns the sum. Totals in between are sealed for the next party, so the coordinator relays them
without reading them. A party sees the total of the parties before it plus the coordinator's random
numbers, which alone tells nothing. A party is exposed if the coordinator and the party's successor
combine their knowledge (for the first and the last party: the coordinator and one neighbour), or if
both its neighbours do: the paper's "one colluding party".

Every hop is an exchange, so a sum over n participants costs n exchanges; segments share them.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from fedforest.masking.key_agreement import KEY_BYTES, Randomness, draw_bytes, encode_number
from fedforest.masking.keystream import expand
from fedforest.protocol.aggregation.base import (
    LEAST_PARTICIPANTS,
    Answers,
    Gathered,
    Note,
    Segment,
    check_least,
    require_in_range,
    require_participants,
    who_is_lost,
)
from fedforest.protocol.aggregation.introduction import introduce_parties
from fedforest.protocol.aggregation.meeting import ProtectedAggregator
from fedforest.protocol.aggregation.messages import Part, Passed, PassOn
from fedforest.protocol.aggregation.payloads import MaskedSums, SealedTotal, StepEcho
from fedforest.protocol.aggregation.session import PeerSession
from fedforest.protocol.asking import Conversation, ask, blame, check
from fedforest.protocol.payloads import from_bytes, to_bytes

_PURPOSE = b"ring total"


class RingAggregation:
    """The coordinator's side: the paper's mediator, which starts and ends the ring."""

    is_protected = True

    def __init__(
        self, run: bytes, randomness: Randomness, *, least_participants: int = LEAST_PARTICIPANTS
    ) -> None:
        self._run = run
        self._randomness = randomness
        self._least = check_least(least_participants)

    def introduce(self, parties: Sequence[str]) -> Conversation[None]:
        """Introduce the parties in two exchanges: keys out, keys in."""
        yield from introduce_parties(self._run, parties, with_seeds=False)

    def gather(
        self, step: int, segments: Sequence[Segment], note: Note = None
    ) -> Conversation[Gathered]:
        """Gather the sums in as many exchanges as the longest ring has participants."""
        require_participants(segments, self._least)
        rings = [_Ring(segment, self._randomness) for segment in segments]
        for hop in range(max((len(segment.participants) for segment in segments), default=0)):
            turns: dict[str, list[_Ring]] = {}
            for ring in rings:
                if hop < len(ring.participants):
                    turns.setdefault(ring.participants[hop], []).append(ring)
            requests = {party: _pass_on(step, at_turn) for party, at_turn in turns.items()}
            replies = yield from ask(requests, note, may_lose=True)
            lost = who_is_lost(requests, replies)
            if lost:
                return Gathered([], lost)
            for party, at_turn in turns.items():
                with blame(party):
                    _take_totals(step, hop, at_turn, replies[party])
        return Gathered([ring.unmask() for ring in rings], frozenset())


class _Ring:
    """One segment's total during its round; it is sealed between parties."""

    def __init__(self, segment: Segment, randomness: Randomness) -> None:
        self._segment = segment
        self.participants = segment.participants
        self.part = Part(segment.participants, memoryview(segment.question))
        self._start = expand(draw_bytes(randomness, KEY_BYTES), segment.length)
        self.total = to_bytes(self._start, "<u8")
        self._end = self._start

    def finish(self, sums: MaskedSums) -> None:
        self._end = sums.read(len(self._start))

    def unmask(self) -> NDArray[np.int64]:
        return require_in_range((self._end - self._start).view(np.int64), self._segment)


def _pass_on(step: int, rings: Sequence[_Ring]) -> PassOn:
    parts, totals = tuple(ring.part for ring in rings), tuple(ring.total for ring in rings)
    return PassOn(step, parts, totals)


def _take_totals(step: int, hop: int, rings: Sequence[_Ring], reply: Passed) -> None:
    """Store the totals of rings that continue and the sums of rings that end at this hop."""
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


class RingAggregator(ProtectedAggregator):
    """A party's side."""

    counts = PassOn

    def find_hop(self, request: PassOn) -> int:
        """Return this party's place in the rings of the request."""
        check(len(request.totals) == len(request.parts), "not one total for every question")
        named = [part.participants for part in request.parts]
        me = self._meeting.name
        is_named = all(me in names for names in named)
        check(is_named, "a total is passed on to a party that takes no part in its sum")
        hops = {names.index(me) for names in named}
        check(len(hops) < 2, "this party stands at different places of rings in one request")
        return hops.pop() if hops else 0

    def hide(
        self, session: PeerSession, request: PassOn, digests: Sequence[bytes], own: Answers
    ) -> Passed:
        step, totals, sums = encode_number(request.step), [], []
        asked = zip(request.parts, request.totals, digests, own.each(), strict=True)
        for part, total, digest, plain in asked:
            link = _Link(session, part.participants, step, digest)
            with blame(link.predecessor or "coordinator"):
                masked = from_bytes(link.receive(total), "<u8", len(plain), "a total of the ring")
            masked += plain.view(np.uint64)
            if link.successor is None:
                sums.append(MaskedSums.of(masked))
            else:
                totals.append(SealedTotal(link.send(link.successor, masked)))
        return Passed(StepEcho(request.step), tuple(totals), tuple(sums))


class _Link:
    """A party's position in one ring."""

    def __init__(
        self, session: PeerSession, participants: tuple[str, ...], step: bytes, digest: bytes
    ) -> None:
        self._session = session
        self._context = (_PURPOSE, step, digest)
        hop = participants.index(session.party)
        self.predecessor = participants[hop - 1] if hop > 0 else None
        self.successor = participants[hop + 1] if hop + 1 < len(participants) else None

    def receive(self, total: memoryview) -> memoryview:
        """Decrypt the total so far; the first participant gets it unsealed from the coordinator."""
        if self.predecessor is None:
            return total
        return memoryview(self._session.open(self.predecessor, total, *self._context))

    def send(self, successor: str, masked: NDArray[np.uint64]) -> memoryview:
        """Seal the total, which now includes this party's vector, for the next party."""
        text = bytes(to_bytes(masked, "<u8"))
        return self._session.seal(successor, text, *self._context)

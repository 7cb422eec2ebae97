"""Sums by secret sharing (Shamir): every party divides its vector among all holders of shares.

Who learns what. Holders are the participants and the coordinator. Each holder adds up its shares of
all vectors, and `threshold` of these sums, the coordinator's among them, give the sum over parties.
The coordinator learns the sum, and relays shares between parties that it cannot read. A party
learns nothing. Any `threshold` holders together learn every vector of the sum; fewer learn nothing.
If a sum has fewer holders than `threshold`, all of them are needed.

The coordinator divides zeros into shares, because in the paper's Table 1 every holder divides a
vector; the sum stays the same. Two exchanges: shares out and back, then sums of shares.
"""

from collections.abc import Sequence
from functools import partial

import numpy as np
from numpy.typing import NDArray

from fedforest.masking.key_agreement import Randomness
from fedforest.masking.secret_shares import combine, split, sum_shares
from fedforest.protocol.aggregation.base import (
    LEAST_PARTICIPANTS,
    Gathered,
    Note,
    PartsByParty,
    Segment,
    check_least,
    require_participants,
    who_is_lost,
)
from fedforest.protocol.aggregation.holders import Holders, draw_words
from fedforest.protocol.aggregation.introduction import introduce_parties
from fedforest.protocol.aggregation.messages import (
    AddShares,
    Delivery,
    SharedOut,
    ShareOut,
    SharesAdded,
)
from fedforest.protocol.aggregation.payloads import OpenShares, SealedShares, ShareSum
from fedforest.protocol.asking import Conversation, ask, blame, check
from fedforest.protocol.payloads import to_bytes


class ShamirAggregation:
    """The coordinator's side."""

    is_protected = True

    def __init__(
        self,
        run: bytes,
        threshold: int,
        randomness: Randomness,
        *,
        least_participants: int = LEAST_PARTICIPANTS,
    ) -> None:
        self._run = run
        self._threshold = threshold
        self._randomness = randomness
        self._least = check_least(least_participants)

    def introduce(self, parties: Sequence[str]) -> Conversation[None]:
        """Introduce the parties in two exchanges: keys out, keys in."""
        yield from introduce_parties(self._run, parties, with_seeds=False)

    def gather(
        self, step: int, segments: Sequence[Segment], note: Note = None
    ) -> Conversation[Gathered]:
        """Gather the sums in two exchanges: shares from all to all, then sums of shares."""
        require_participants(segments, self._least)
        parts = PartsByParty(segments, name_participants=True)
        requests = parts.requests(partial(ShareOut, step))
        shared = yield from ask(requests, note, may_lose=True)
        lost = who_is_lost(requests, shared)
        if lost:
            return Gathered([], lost)
        desks = [_Desk(segment, self._threshold, self._randomness) for segment in segments]
        at_desks = {party: [desks[i] for i in places] for party, places in parts.places.items()}
        for party, own in at_desks.items():
            with blame(party):
                _take_shares(step, party, own, shared[party])
        deliveries = {
            party: AddShares(step, tuple(desk.delivery(party) for desk in own))
            for party, own in at_desks.items()
        }
        added = yield from ask(deliveries, note, may_lose=True)
        lost = who_is_lost(deliveries, added)
        if lost:
            return Gathered([], lost)
        for party, own in at_desks.items():
            with blame(party):
                _take_sums(step, party, own, added[party])
        return Gathered([desk.combine() for desk in desks], frozenset())


class _Desk:
    """One segment at the coordinator: sealed shares between parties, and its own shares."""

    def __init__(self, segment: Segment, threshold: int, randomness: Randomness) -> None:
        self.holders = Holders.of(segment.participants, threshold)
        self._segment = segment
        zeros = np.zeros(segment.length, np.int64)
        self._zeros = split(
            zeros, self.holders.threshold, self.holders.points, draw_words(randomness)
        )
        self._held = [self._zeros[self.holders.coordinator]]
        self._letters: dict[tuple[str, str], SealedShares] = {}  # by sender and receiver
        self._sums: dict[int, NDArray[np.uint64]] = {}

    def take(self, sender: str, opened: OpenShares, sealed: Sequence[SealedShares]) -> None:
        """Take the shares that one participant made of its vector."""
        self._held.append(opened.read(self._segment.length))
        for receiver, letter in zip(self.holders.without(sender), sealed, strict=True):
            self._letters[sender, receiver] = letter

    def delivery(self, party: str) -> Delivery:
        zeros = to_bytes(self._zeros[self.holders.point(party)], "<u8")
        letters = tuple(self._letters[sender, party] for sender in self.holders.without(party))
        return Delivery(zeros, letters, is_returned=party in self.holders.returning)

    def take_sum(self, party: str, total: ShareSum) -> None:
        self._sums[self.holders.point(party)] = total.read(self._segment.length)

    def combine(self) -> NDArray[np.int64]:
        own = {self.holders.coordinator: sum_shares(self._held)}
        return combine({**self._sums, **own}, self._segment.largest)


def _take_shares(step: int, party: str, desks: Sequence[_Desk], reply: SharedOut) -> None:
    reply.step.check_is(step)
    n_letters = sum(len(desk.holders.participants) - 1 for desk in desks)
    counts = (len(reply.opened), len(reply.sealed))
    check(counts == (len(desks), n_letters), "not one share for every holder")
    start = 0
    for desk, opened in zip(desks, reply.opened, strict=True):
        end = start + len(desk.holders.participants) - 1
        desk.take(party, opened, reply.sealed[start:end])
        start = end


def _take_sums(step: int, party: str, desks: Sequence[_Desk], reply: SharesAdded) -> None:
    reply.step.check_is(step)
    asked = [desk for desk in desks if party in desk.holders.returning]
    check(len(reply.sums) == len(asked), "not one sum of shares for each that was asked for")
    for desk, total in zip(asked, reply.sums, strict=True):
        desk.take_sum(party, total)

"""A party of a sum by secret sharing.

Who learns what. A party divides its vector into shares: one for the coordinator, one sealed for
each other participant, one for itself. It holds one share of each other vector, which tells
nothing, and sends only the sum of all these shares. Any `threshold` holders together, with or
without the coordinator, learn its vector.
"""

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedforest.masking.key_agreement import encode_number
from fedforest.masking.secret_shares import split, sum_shares
from fedforest.protocol.aggregation.base import (
    Answers,
    Handlers,
)
from fedforest.protocol.aggregation.holders import Holders, draw_words
from fedforest.protocol.aggregation.introduction import PartyIdentity
from fedforest.protocol.aggregation.meeting import ProtectedAggregator
from fedforest.protocol.aggregation.messages import (
    AddShares,
    Delivery,
    SharedOut,
    ShareOut,
    SharesAdded,
)
from fedforest.protocol.aggregation.payloads import (
    OpenShares,
    SealedShares,
    ShareSum,
    StepEcho,
    read_shares,
)
from fedforest.protocol.aggregation.session import PeerSession
from fedforest.protocol.asking import blame, check
from fedforest.protocol.payloads import to_bytes

_PURPOSE = b"secret shares"


class _KeptPart(NamedTuple):
    """A party's state of one part between the two exchanges: its share of its own vector."""

    holders: Holders
    digest: bytes
    share: NDArray[np.uint64]


class ShamirAggregator(ProtectedAggregator):
    """Divides its vectors into shares and adds up those it holds; all use one `threshold`."""

    counts = ShareOut

    def __init__(self, member: PartyIdentity, threshold: int, **floor: int) -> None:
        super().__init__(member, **floor)
        self._randomness = member.randomness
        self._threshold = threshold
        self._kept: tuple[tuple[bytes, int], list[_KeptPart]] | None = None  # by session and step

    def handlers(self) -> Handlers:
        return {**super().handlers(), AddShares: self._add_shares}

    def hide(
        self, session: PeerSession, request: ShareOut, digests: Sequence[bytes], own: Answers
    ) -> SharedOut:
        kept, opened, sealed = [], [], []
        for part, digest, vector in zip(request.parts, digests, own.each(), strict=True):
            holders = Holders.of(part.participants, self._threshold)
            words = draw_words(self._randomness, digest)
            shares = split(vector, holders.threshold, holders.points, words)
            kept.append(_KeptPart(holders, digest, shares[holders.point(session.party)]))
            opened.append(OpenShares.of(shares[holders.coordinator]))
            for other in holders.without(session.party):
                text = bytes(to_bytes(shares[holders.point(other)], "<u8"))
                context = (_PURPOSE, encode_number(request.step), digest)
                sealed.append(SealedShares(session.seal(other, text, *context)))
        self._kept = ((session.id, request.step), kept)
        return SharedOut(StepEcho(request.step), tuple(opened), tuple(sealed))

    def _add_shares(self, request: AddShares) -> SharesAdded:
        session = self._meeting.session()
        answer = partial(self._add_parts, session, request)
        return session.steps.answer(request.step, 1, request, answer)

    def _add_parts(self, session: PeerSession, request: AddShares) -> SharesAdded:
        step, kept = self._kept if self._kept is not None else ((b"", -1), [])
        is_current = step == (session.id, request.step) and len(kept) == len(request.deliveries)
        check(is_current, "shares are to be added up that were not given out")
        sums = [
            ShareSum.of(_add_up(session, request.step, own, delivery))
            for own, delivery in zip(kept, request.deliveries, strict=True)
            if delivery.is_returned
        ]
        return SharesAdded(StepEcho(request.step), tuple(sums))


def _add_up(
    session: PeerSession, step: int, own: _KeptPart, delivery: Delivery
) -> NDArray[np.uint64]:
    """Add up the shares at this party's point."""
    others, length = own.holders.without(session.party), len(own.share)
    check(len(delivery.sealed) == len(others), "not one share of every other participant")
    shares = [own.share, read_shares(delivery.zeros, length)]
    for sender, letter in zip(others, delivery.sealed, strict=True):
        text = session.open(sender, letter.data, _PURPOSE, encode_number(step), own.digest)
        with blame(sender):
            shares.append(read_shares(text, length))
    return sum_shares(shares)

"""Every message by which a sum over parties is formed: requests and replies.

Fields of replies are payloads from the allow-list (`aggregation/payloads.py`). A request carries a
party only the parts it takes part in. Which vector a question asks for is not known here.
"""

from typing import Annotated, ClassVar

import msgspec

from fedforest.protocol.aggregation.payloads import (
    Key,
    MaskedSums,
    NoisySums,
    Nonce,
    OpenShares,
    PlainSums,
    PublicKey,
    SealedSeed,
    SealedShares,
    SealedTotal,
    ShareSum,
    StepEcho,
    StepNumber,
)
from fedforest.protocol.asking import Message, Payload

PartyName = Annotated[str, msgspec.Meta(min_length=1, max_length=200)]
RunId = Annotated[memoryview, msgspec.Meta(min_length=8, max_length=64)]


class Introduce(Message, frozen=True):
    """A run with this id begins: say who you are."""

    reveals: ClassVar[str] = "nothing of others"

    run: RunId


class Introduced(Message, frozen=True):
    """The party's public key, and a nonce for this run."""

    reveals: ClassVar[str] = "the party's public key for this federation, and a random number"

    key: PublicKey


class Peer(Payload, frozen=True):
    """What one party said of itself."""

    name: PartyName
    key: Key
    nonce: Nonce


class MeetPeers(Message, frozen=True):
    """These take part in the run, you among them."""

    reveals: ClassVar[str] = "who the other parties are, and their public keys"

    peers: tuple[Peer, ...]


class Met(Message, frozen=True):
    """For every other party, in the order of introduction, the selection seed; none if unused."""

    reveals: ClassVar[str] = (
        "nothing to the coordinator: seeds that only the other parties can open"
    )

    seeds: tuple[SealedSeed, ...]


class TakeSeeds(Message, frozen=True):
    """What every other party, in the order of introduction, has sealed for you."""

    reveals: ClassVar[str] = "by which seeds the others choose their peers"

    seeds: tuple[SealedSeed, ...]


class Part(Payload, frozen=True):
    """A question whose answers are summed over these parties; for plain sums they are not told."""

    participants: tuple[PartyName, ...]
    question: memoryview


class Count(Message, frozen=True):
    """Answer the question of every part, as the chosen plug protects answers."""

    reveals: ClassVar[str] = (
        "the thresholds that are tried and, where sums are protected, who takes part"
    )

    step: StepNumber
    parts: tuple[Part, ...]


class Counted(Message, frozen=True):
    """One vector for every part, end to end, in the clear."""

    reveals: ClassVar[str] = (
        "exact sums of the party's labels and numbers of its rows on each side of every "
        "candidate split"
    )

    step: StepEcho
    sums: PlainSums


class NoisilyCounted(Message, frozen=True):
    """One noisy vector for every part, end to end, in the clear."""

    reveals: ClassVar[str] = (
        "noisy sums of the party's labels on each side of every candidate split, and exact "
        "numbers of rows"
    )

    step: StepEcho
    sums: NoisySums


class MaskedCounted(Message, frozen=True):
    """One masked vector for every part, end to end."""

    reveals: ClassVar[str] = (
        "only the sum over all participants: the party's own numbers are under masks"
    )

    step: StepEcho
    sums: MaskedSums


class PassOn(Message, frozen=True):
    """Ring: add your answers to these totals, one for each part, and pass them on.

    The first participant is given the coordinator's random numbers, the others what their
    predecessor sealed. A party stands at the same place in all parts of one request.
    """

    reveals: ClassVar[str] = (
        "the thresholds that are tried, who takes part, and a total that random numbers hide"
    )

    step: StepNumber
    parts: tuple[Part, ...]
    totals: tuple[memoryview, ...]


class Passed(Message, frozen=True):
    """For each part the total: sealed for the next, or from the last participant as it is."""

    reveals: ClassVar[str] = (
        "only the sum over all participants: totals on their way are sealed for the next party"
    )

    step: StepEcho
    totals: tuple[SealedTotal, ...] = ()
    sums: tuple[MaskedSums, ...] = ()


class ShareOut(Message, frozen=True):
    """Shamir: divide your answer to each part's question among all participants and me."""

    reveals: ClassVar[str] = "the thresholds that are tried, and who takes part"

    step: StepNumber
    parts: tuple[Part, ...]


class SharedOut(Message, frozen=True):
    """Shares of each part: the coordinator's, and the others' part by part in their order."""

    reveals: ClassVar[str] = (
        "only the sum over all participants: shares, of which too few together tell nothing"
    )

    step: StepEcho
    opened: tuple[OpenShares, ...]
    sealed: tuple[SealedShares, ...]


class Delivery(Payload, frozen=True):
    """Shares for one party of one part: the coordinator's of zero, and the others' in order."""

    zeros: memoryview
    sealed: tuple[SealedShares, ...]
    is_returned: bool  # the sum of shares is asked for


class AddShares(Message, frozen=True):
    """Shamir: add up the shares you hold of each part of the step, your own among them."""

    reveals: ClassVar[str] = "shares of others' sums, of which too few together tell nothing"

    step: StepNumber
    deliveries: tuple[Delivery, ...]


class SharesAdded(Message, frozen=True):
    """The sums of shares that were asked for."""

    reveals: ClassVar[str] = "only the sum over all participants: a sum of shares"

    step: StepEcho
    sums: tuple[ShareSum, ...]


REQUESTS = (Introduce, MeetPeers, TakeSeeds, Count, PassOn, ShareOut, AddShares)
REPLIES = (Introduced, Met, Counted, NoisilyCounted, MaskedCounted, Passed, SharedOut, SharesAdded)

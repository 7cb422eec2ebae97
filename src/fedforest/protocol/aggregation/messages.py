"""Every message of a sum over parties: requests and replies.

Fields of replies are payloads from the allow-list (`payloads.py`). A request to a
party holds only the parts it takes part in. This module does not interpret questions.
"""

from typing import Annotated, ClassVar, Generic, Literal

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
from fedforest.protocol.asking import Accepted, Message, Payload, Reply_co, Request

PartyName = Annotated[str, msgspec.Meta(min_length=1, max_length=200)]
RunId = Annotated[memoryview, msgspec.Meta(min_length=8, max_length=64)]


class Introduced(Message, frozen=True):
    """The party's public key, and a nonce for this run."""

    reveals: ClassVar[str] = "the party's public key for this federation, and a random number"

    key: PublicKey


class Introduce(Request[Introduced], frozen=True):
    """Begin a run with this id: send your public key and a nonce."""

    reveals: ClassVar[str] = "nothing of others"

    run: RunId


class Peer(Payload, frozen=True):
    """The name, key and nonce of one party."""

    name: PartyName
    key: Key
    nonce: Nonce


class Met(Message, frozen=True):
    """The party's seed sealed for each other party, in order of introduction; none if unused."""

    reveals: ClassVar[str] = (
        "nothing to the coordinator: seeds that only the other parties can open"
    )

    seeds: tuple[SealedSeed, ...]


class MeetPeers(Request[Met], frozen=True):
    """The parties of the run, the receiver among them."""

    reveals: ClassVar[str] = "who the other parties are, and their public keys"

    peers: tuple[Peer, ...]


class TakeSeeds(Request[Accepted], frozen=True):
    """Take the seeds that the other parties sealed for you, in the order of introduction."""

    reveals: ClassVar[str] = "by which seeds the others choose their peers"

    seeds: tuple[SealedSeed, ...]


class Part(Payload, frozen=True):
    """A question whose answers are summed over these parties; plain sums do not name them."""

    participants: tuple[PartyName, ...]
    question: memoryview


class CountParts(Request[Reply_co], Generic[Reply_co], frozen=True):
    """Base of all requests to count; each subclass stands for one protection of the answers."""

    step: StepNumber
    parts: tuple[Part, ...]


class Counted(Message, frozen=True):
    """One vector for every part, concatenated, in the clear."""

    reveals: ClassVar[str] = (
        "exact sums of the party's labels and numbers of its rows on each side of every "
        "candidate split"
    )

    step: StepEcho
    sums: PlainSums


class Count(CountParts[Counted], frozen=True):
    """Answer the question of every part in the clear."""

    reveals: ClassVar[str] = "the thresholds that are tried"


class NoisilyCounted(Message, frozen=True):
    """One noisy vector for every part, concatenated, in the clear."""

    reveals: ClassVar[str] = (
        "noisy sums of the party's labels on each side of every candidate split, and exact "
        "numbers of rows"
    )

    step: StepEcho
    sums: NoisySums


class CountNoisily(CountParts[NoisilyCounted], frozen=True):
    """Answer the question of every part, with the noise that was agreed on."""

    reveals: ClassVar[str] = "the thresholds that are tried"


class MaskedCounted(Message, frozen=True):
    """One masked vector for every part, concatenated."""

    reveals: ClassVar[str] = (
        "only the sum over all participants: the party's own numbers are under masks"
    )

    step: StepEcho
    sums: MaskedSums


class CountMasked(CountParts[MaskedCounted], frozen=True):
    """Answer the question of every part, under masks that cancel over its participants.

    So many numbers are packed into one word (`packing.py`), which is masked as a whole.
    """

    reveals: ClassVar[str] = "the thresholds that are tried, and who takes part"

    per_word: Literal[1, 2, 4, 8] = 1


class Passed(Message, frozen=True):
    """The total of each part: sealed for the next participant; unsealed from the last one."""

    reveals: ClassVar[str] = (
        "only the sum over all participants: totals on their way are sealed for the next party"
    )

    step: StepEcho
    totals: tuple[SealedTotal, ...] = ()
    sums: tuple[MaskedSums, ...] = ()


class PassOn(CountParts[Passed], frozen=True):
    """Ring: add your answers to these totals, one for each part, and pass them on.

    The first participant gets the coordinator's random numbers, the others the totals that their
    predecessor sealed. A party has the same position in all parts of one request.
    """

    reveals: ClassVar[str] = (
        "the thresholds that are tried, who takes part, and a total that random numbers hide"
    )

    totals: tuple[memoryview, ...]


class SharedOut(Message, frozen=True):
    """Shares of each part: those for the coordinator, and those for the others in their order."""

    reveals: ClassVar[str] = (
        "only the sum over all participants: shares, of which too few together tell nothing"
    )

    step: StepEcho
    opened: tuple[OpenShares, ...]
    sealed: tuple[SealedShares, ...]


class ShareOut(CountParts[SharedOut], frozen=True):
    """Shamir: divide your answer to each part's question among all participants and me."""

    reveals: ClassVar[str] = "the thresholds that are tried, and who takes part"


class Delivery(Payload, frozen=True):
    """Shares of one part for one party: the coordinator's of zero, and the others' in order."""

    zeros: memoryview
    sealed: tuple[SealedShares, ...]
    is_returned: bool  # whether the party replies with its sum of shares


class SharesAdded(Message, frozen=True):
    """The sums of shares that were asked for."""

    reveals: ClassVar[str] = "only the sum over all participants: a sum of shares"

    step: StepEcho
    sums: tuple[ShareSum, ...]


class AddShares(Request[SharesAdded], frozen=True):
    """Shamir: add up the shares you hold of each part of the step, your own among them."""

    reveals: ClassVar[str] = "shares of others' sums, of which too few together tell nothing"

    step: StepNumber
    deliveries: tuple[Delivery, ...]


REQUESTS = (
    Introduce,
    MeetPeers,
    TakeSeeds,
    Count,
    CountNoisily,
    CountMasked,
    PassOn,
    ShareOut,
    AddShares,
)

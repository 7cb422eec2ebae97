"""Parties that answer nonsense: the coordinator names them, or says that masks do not fit."""

from functools import cache
from typing import Any

import msgspec
import numpy as np
import pytest

from fedforest.errors import FederationError, MaskingError, RemoteProtocolError
from fedforest.kernels.sums.prime_field import PRIME
from fedforest.protocol.aggregation.messages import (
    REQUESTS,
    Counted,
    MaskedCounted,
    Passed,
    SharedOut,
    SharesAdded,
)
from fedforest.protocol.aggregation.options import Masked, Ring, Shamir
from fedforest.protocol.aggregation.payloads import (
    LARGEST_SUM,
    MaskedSums,
    OpenShares,
    PlainSums,
    SealedShares,
    SealedTotal,
    ShareSum,
)
from fedforest.protocol.aggregation.plugs import Plug
from fedforest.protocol.asking import Conversation, Message
from fedforest.transport.codec import encode
from tests.protocol.aggregation.federations import Federation, federation, some_vectors
from tests.protocol.named_replies import replies_to
from tests.protocol.transcripts import RecordedReplies, Replaced
from tests.protocol.vertical.mutations import little_memory, mutate

FEW, MANY = 300, 5_000
GROUPS = [("p0", "p1", "p2", "p3"), ("p1", "p3"), ("p2", "p0", "p1")]
SAID: list[tuple[Plug, str]] = [
    ("plain", "Counted"),
    (Masked(), "Introduced"),
    (Masked(), "Met"),
    (Masked(), "Accepted"),
    (Masked(k=1), "MaskedCounted"),
    (Ring(), "Met"),
    (Ring(), "Passed"),
    (Shamir(3), "SharedOut"),
    (Shamir(3), "SharesAdded"),
]


def make_federation(plug: Plug) -> Federation:
    return federation(plug, some_vectors(4, lengths=(5, 3, 2)))


def introduce_and_gather(together: Federation) -> Conversation[Any]:
    yield from together.aggregation.introduce(together.names)
    segments = [together.segment(b"q%d" % place, group) for place, group in enumerate(GROUPS)]
    return (yield from together.aggregation.gather(1, segments))


@cache
def recording(plug: Plug) -> RecordedReplies:
    together = make_federation(plug)
    together.network.run(introduce_and_gather(together))
    return RecordedReplies(
        lambda: introduce_and_gather(make_federation(plug)), together.network.replies
    )


def assert_survives_mutants(plug: Plug, kind: str, n_mutants: int) -> None:
    """A mutated reply is taken, or refused by a named error that names its sender if it can."""
    recorded = recording(plug)
    places = recorded.places_of(kind)
    rng = np.random.default_rng(13)
    n_refused = 0
    for _ in range(n_mutants):
        at, party = places[int(rng.integers(len(places)))]
        bad = mutate(recorded.replies[at][party], rng)
        try:
            recorded.replace(at, party, bad)
        except Replaced:
            continue
        except FederationError as refusal:
            assert_names(refusal, kind, party)
        else:
            continue
        n_refused += 1
    assert n_refused > n_mutants // 10


def assert_names(refusal: FederationError, kind: str, party: str) -> None:
    """The sender is to blame; where the sum over all is impossible, nobody knows whose fault."""
    if isinstance(refusal, MaskingError):
        assert kind in ("MaskedCounted", "Passed", "SharesAdded")
        assert "sum" in str(refusal)
    else:
        assert isinstance(refusal, RemoteProtocolError)
        assert refusal.party == party


@pytest.mark.parametrize(("plug", "kind"), SAID, ids=str)
def test_a_mutated_reply_is_blamed_on_its_sender(plug: Plug, kind: str) -> None:
    with little_memory():
        assert_survives_mutants(plug, kind, FEW)


@pytest.mark.exhaustive
@pytest.mark.parametrize(("plug", "kind"), SAID, ids=str)
def test_many_mutated_replies_are_blamed_on_their_sender(plug: Plug, kind: str) -> None:
    with little_memory():
        assert_survives_mutants(plug, kind, MANY)


def refuse(plug: Plug, kind: type[Message], reason: str, **changes: Any) -> None:
    """Change fields of a party's first reply of a kind: the party is named."""
    recorded = recording(plug)
    at, party, reply = recorded.reply(kind)
    bad = encode(msgspec.structs.replace(reply, **changes))
    with pytest.raises(RemoteProtocolError, match=reason) as caught:
        recorded.replace(at, party, bad)
    assert caught.value.party == party


WORDS = np.zeros(5, np.uint64)


def test_too_few_or_too_many_vectors_are_refused() -> None:
    masked, total = MaskedSums.of(WORDS), SealedTotal(memoryview(bytes(56)))
    opened, sealed = OpenShares.of(WORDS), SealedShares(memoryview(bytes(56)))
    for count in (0, 1, 6):
        refuse(Shamir(3), SharedOut, "not one share", sealed=(sealed,) * count)
        refuse(Shamir(3), SharesAdded, "not one sum", sums=(ShareSum.of(WORDS),) * count)
    refuse(Shamir(3), SharedOut, "not one share", opened=(opened,))
    refuse(Ring(), Passed, "not one total", totals=())
    refuse(Ring(), Passed, "not one total", totals=(total, total))
    refuse(Ring(), Passed, "not one total", totals=(), sums=(masked,))
    refuse(Ring(), Passed, "not one total", sums=(masked,))


def test_vectors_of_another_length_or_range_are_refused() -> None:
    def plain(*numbers: int) -> PlainSums:
        return PlainSums.of(np.array(numbers, np.int64))

    for numbers in ([], [1, 2, 3, 4, 5], [1, 2, 3, 4, 5, 6], [1, 2, 3, 4, 5, 6, 7, 8]):
        refuse("plain", Counted, "7 numbers", sums=plain(*numbers))
    refuse("plain", Counted, "too large", sums=plain(1, 2, 3, 4, 5, 6, LARGEST_SUM))
    for length in (0, 5, 6, 8):
        masked = MaskedSums.of(np.zeros(length, np.uint64))
        reason = f"masked sums: {8 * length} bytes for 7"
        refuse(Masked(k=1), MaskedCounted, reason, sums=masked)
    _, _, shared = recording(Shamir(3)).reply(SharedOut)
    outside = OpenShares.of(np.full(5, PRIME, np.uint64))
    refuse(Shamir(3), SharedOut, "not in the field", opened=(outside, shared.opened[1]))
    _, _, added = recording(Shamir(3)).reply(SharesAdded)
    refuse(Shamir(3), SharesAdded, "shares: 16 bytes", sums=(added.sums[1],) * len(added.sums))


def test_vectors_under_other_masks_do_not_go_unnoticed() -> None:
    """Of 200 random numbers, not one is too large with probability 2^-600."""
    together = federation(Masked(), some_vectors(3, lengths=(200,))).introduce()
    stranger = federation(Masked(), some_vectors(3, lengths=(200,)), seed=5).introduce()
    together.network.endpoints = {
        **together.network.endpoints,
        "p2": stranger.network.endpoints["p2"],
    }
    with pytest.raises(MaskingError, match="masks did not cancel"):
        together.gather(1, [together.segment(b"q0")])


def test_every_reply_of_the_protocol_is_attacked() -> None:
    attacked = {kind for _, kind in SAID} | {"NoisilyCounted"}  # the same as Counted
    assert attacked >= {reply.__name__ for reply in replies_to(REQUESTS)}

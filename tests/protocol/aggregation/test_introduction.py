"""Parties agree on secrets through a coordinator that cannot be trusted with them."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import msgspec
import numpy as np
import pytest

from fedforest.errors import MaskingError, RemoteProtocolError
from fedforest.masking.key_agreement import IdentityKey, fingerprint
from fedforest.protocol.aggregation.base import SummingParty
from fedforest.protocol.aggregation.introduction import (
    PartyIdentity,
    introduce_parties,
    make_members,
)
from fedforest.protocol.aggregation.messages import (
    REQUESTS,
    CountMasked,
    Introduce,
    Introduced,
    MaskedCounted,
    MeetPeers,
    Met,
    Part,
    Peer,
    TakeSeeds,
)
from fedforest.protocol.aggregation.options import Masked, Ring, Shamir
from fedforest.protocol.aggregation.payloads import SealedSeed
from fedforest.protocol.aggregation.plugs import Plug, make_aggregator
from fedforest.protocol.asking import Message
from fedforest.runtime.endpoint import make_endpoint
from fedforest.transport.codec import decode
from tests.protocol.aggregation.federations import (
    RUN,
    Answers,
    Federation,
    federation,
    seeded_randomness,
    some_vectors,
)

NAMES = ("p0", "p1", "p2")
QUESTION = Part(NAMES, memoryview(b"q0"))


def masked_federation(seed: int = 0) -> Federation:
    return federation(Masked(), some_vectors(3), seed=seed)


MASKED = Masked()


def make_party(member: PartyIdentity, plug: Plug = MASKED) -> SummingParty:
    answers = Answers(some_vectors(1)["p0"])
    return SummingParty(make_aggregator(plug, member=member), answers)


def members() -> dict[str, PartyIdentity]:
    return make_members({name: seeded_randomness(number) for number, name in enumerate(NAMES)})


def introduced(parties: Mapping[str, SummingParty], run: bytes = RUN) -> tuple[Peer, ...]:
    """What all parties say of themselves."""
    peers = []
    for name, party in parties.items():
        reply = party.handle(Introduce(memoryview(run)))
        assert isinstance(reply, Introduced)
        peers.append(Peer(name, reply.key.key, reply.key.nonce))
    return tuple(peers)


def test_an_introduction_takes_three_exchanges_with_seeds_and_two_without() -> None:
    plugs: tuple[Plug, ...] = (Masked(), Ring(), Shamir(2))
    for plug, n_exchanges in zip(plugs, (3, 2, 2), strict=True):
        parties = federation(plug, some_vectors(4)).introduce()
        assert len(parties.network.requests) == n_exchanges


def test_no_secret_is_seen_by_the_coordinator() -> None:
    drawn: list[bytes] = []

    def listening(randomness: Callable[[int], bytes]) -> Callable[[int], bytes]:
        def draw(n_bytes: int) -> bytes:
            drawn.append(randomness(n_bytes))
            return drawn[-1]

        return draw

    randomness_by_party = {name: listening(seeded_randomness(n)) for n, name in enumerate(NAMES)}
    parties = {
        name: make_party(member) for name, member in make_members(randomness_by_party).items()
    }
    together = masked_federation()
    together.network.endpoints = {name: _endpoint(party) for name, party in parties.items()}
    together.introduce()
    transcript = together.network.everything()
    keys, nonces, seeds = drawn[:3], drawn[3:6], drawn[6:]
    assert len(seeds) == 3
    assert all(nonce in transcript for nonce in nonces)
    assert not any(secret in transcript for secret in (*keys, *seeds))


def _endpoint(party: SummingParty) -> Callable[[bytes], bytes]:
    return make_endpoint(party, REQUESTS)


@pytest.mark.parametrize("plug", [Masked(), Ring(), Shamir(2)], ids=str)
def test_a_party_without_a_pinned_fingerprint_is_named_and_told_nothing(plug: Plug) -> None:
    known = members()
    pins = {name: pin for name, pin in known["p0"].pins.items() if name != "p2"}
    parties = {name: make_party(member, plug) for name, member in known.items()}
    careful = make_party(dataclasses.replace(known["p0"], pins=pins), plug)
    peers = introduced({**parties, "p0": careful})
    with pytest.raises(MaskingError, match="no fingerprint of 'p2' is pinned here"):
        careful.handle(MeetPeers(peers))


@pytest.mark.parametrize("plug", [Masked(), Ring(), Shamir(2)], ids=str)
def test_a_coordinator_in_the_middle_is_found_out(plug: Plug) -> None:
    parties = {name: make_party(member, plug) for name, member in members().items()}
    peers = introduced(parties)
    own = IdentityKey.from_randomness(seeded_randomness(99))
    swapped = msgspec.structs.replace(peers[1], key=memoryview(own.public))
    with pytest.raises(MaskingError, match="party 'p1' shows a key that is not the pinned one"):
        parties["p0"].handle(MeetPeers((peers[0], swapped, peers[2])))


@pytest.mark.parametrize("key", [bytes(32), b"\xff" * 32, bytes([1]) + bytes(31)])
def test_a_key_that_is_none_is_not_the_pinned_one(key: bytes) -> None:
    parties = {name: make_party(member) for name, member in members().items()}
    peers = introduced(parties)
    weak = msgspec.structs.replace(peers[2], key=memoryview(key))
    with pytest.raises(MaskingError, match="'p2'"):
        parties["p0"].handle(MeetPeers((*peers[:2], weak)))


def test_a_key_that_gives_no_secret_is_refused_even_if_it_is_pinned() -> None:
    known = members()
    low_order = bytes(32)
    pins = {**known["p0"].pins, "p2": fingerprint(low_order)}
    parties = {name: make_party(member) for name, member in known.items()}
    trusting = make_party(dataclasses.replace(known["p0"], pins=pins))
    peers = introduced({**parties, "p0": trusting})
    weak = msgspec.structs.replace(peers[2], key=memoryview(low_order))
    with pytest.raises(MaskingError, match="low order"):
        trusting.handle(MeetPeers((*peers[:2], weak)))


def changed_rosters() -> list[tuple[str, Callable[[tuple[Peer, ...]], tuple[Peer, ...]]]]:
    def change(place: int, **fields: Any) -> Callable[[tuple[Peer, ...]], tuple[Peer, ...]]:
        def apply(peers: tuple[Peer, ...]) -> tuple[Peer, ...]:
            changed = list(peers)
            changed[place] = msgspec.structs.replace(peers[place], **fields)
            return tuple(changed)

        return apply

    return [
        ("introduced twice", lambda peers: (*peers, peers[1])),
        ("introduced twice", change(2, name="p1")),
        ("nobody else", lambda peers: peers[:1]),
        ("nobody else", lambda _: ()),
        ("not among the parties", lambda peers: peers[1:]),
        ("key was changed", change(0, nonce=memoryview(bytes(32)))),
        ("one key", lambda peers: (peers[0], peers[1], Peer("p2", peers[1].key, peers[2].nonce))),
        ("one key", lambda peers: (peers[0], Peer("p1", peers[0].key, peers[1].nonce), peers[2])),
    ]


@pytest.mark.parametrize(("reason", "change"), changed_rosters())
def test_a_list_of_parties_that_cannot_be_is_refused_and_changes_nothing(
    reason: str, change: Callable[[tuple[Peer, ...]], tuple[Peer, ...]]
) -> None:
    parties = {name: make_party(member) for name, member in members().items()}
    peers = introduced(parties)
    with pytest.raises(RemoteProtocolError, match=reason) as caught:
        parties["p0"].handle(MeetPeers(change(peers)))
    assert caught.value.party == "coordinator"
    assert isinstance(parties["p0"].handle(MeetPeers(peers)), Met)


def test_one_cannot_be_introduced_before_a_run_has_begun() -> None:
    parties = {name: make_party(member) for name, member in members().items()}
    peers = introduced(parties)
    late = make_party(members()["p0"])
    with pytest.raises(RemoteProtocolError, match="before a run has begun"):
        late.handle(MeetPeers(peers))
    with pytest.raises(RemoteProtocolError, match="not introduced"):
        late.handle(TakeSeeds(()))
    parties["p0"].handle(MeetPeers(peers))
    with pytest.raises(RemoteProtocolError, match="before seeds were exchanged"):
        parties["p0"].handle(CountMasked(1, (QUESTION,)))


def test_repeated_introductions_get_the_same_replies_and_others_are_refused() -> None:
    together = masked_federation().introduce()
    party = together.network.endpoints["p1"]
    heard = zip(together.network.requests, together.network.replies, strict=True)
    for requests, replies in heard:
        assert party(requests["p1"]) == replies["p1"]
    (peers,) = (
        decoded.peers
        for decoded in map(_decode, (sent["p1"] for sent in together.network.requests))
        if isinstance(decoded, MeetPeers)
    )
    with pytest.raises(RemoteProtocolError, match="another request"):
        together.parties["p1"].handle(MeetPeers(peers[1:]))
    with pytest.raises(RemoteProtocolError, match="another request"):
        together.parties["p1"].handle(TakeSeeds(()))
    segment = together.segment(b"q0")
    assert together.gather(1, [segment]).sums[0].tolist() == together.expected(segment).tolist()


def _decode(data: bytes) -> Message:
    return decode(data, (Introduce, MeetPeers, TakeSeeds))


def masked_vector(together: Federation, step: int) -> bytes:
    reply = together.parties["p0"].handle(CountMasked(step, (QUESTION,)))
    assert isinstance(reply, MaskedCounted)
    return bytes(reply.sums.data)


def test_a_run_id_that_is_used_again_does_not_bring_back_masks() -> None:
    together = masked_federation()

    def introduce(run: bytes) -> None:
        together.network.run(introduce_parties(run, together.names, with_seeds=True))

    seen = set()
    for run in (RUN, b"another run", RUN, b"another run"):
        introduce(run)
        seen.add(masked_vector(together, 1))
    assert len(seen) == 4
    introduce(b"another run")  # the run that is on: nothing changes, step 1 is answered already
    assert masked_vector(together, 1) in seen


def test_masks_are_bound_to_the_run_even_if_nothing_else_differs() -> None:
    """Randomness that repeats itself is a disaster, but not across runs with ids of their own."""
    runs = [
        federation(Masked(), some_vectors(3), run=run).introduce() for run in (RUN, b"run two.")
    ]
    first, second = (masked_vector(together, 1) for together in runs)
    assert first != second


def test_restarted_parties_have_new_masks_for_the_same_run_and_step() -> None:
    """The same keys and the same run id: only the nonces, drawn anew, are different."""
    vectors = []
    for seed in (0, 1):
        randomness_by_party = {name: seeded_randomness(seed, n) for n, name in enumerate(NAMES)}
        again = {
            name: dataclasses.replace(member, randomness=randomness_by_party[name])
            for name, member in members().items()
        }
        parties = {name: make_party(member) for name, member in again.items()}
        together = masked_federation()
        together.parties = parties
        together.network.endpoints = {name: _endpoint(party) for name, party in parties.items()}
        together.introduce()
        vectors.append(masked_vector(together, 1))
    assert vectors[0] != vectors[1]


def test_parties_that_were_told_different_lists_share_no_secret() -> None:
    """A fourth party is shown to p0 alone: its masks fit nobody's, and seeds cannot be opened."""
    together = federation(Masked(), some_vectors(4))
    peers = introduced(together.parties)
    met = {
        name: party.handle(MeetPeers(peers if name == "p0" else peers[:3]))
        for name, party in together.parties.items()
        if name != "p3"
    }
    assert isinstance(met["p1"], Met)
    assert isinstance(met["p2"], Met)
    letters = (met["p1"].seeds[0], met["p2"].seeds[0], met["p2"].seeds[0])
    with pytest.raises(MaskingError, match="what party 'p1' sealed for 'p0' cannot be opened"):
        together.parties["p0"].handle(TakeSeeds(letters))


@pytest.mark.parametrize(
    "damage",
    [
        lambda seed: seed[:-1],
        lambda seed: seed[:0],
        lambda seed: bytes([seed[0] ^ 1]) + seed[1:],
        lambda seed: seed + b"\0",
    ],
)
def test_a_seed_that_was_changed_on_its_way_is_refused_and_its_sender_named(
    damage: Callable[[bytes], bytes],
) -> None:
    together = masked_federation().introduce()
    fresh = masked_federation()
    for requests in together.network.requests[:2]:
        fresh.network.endpoints["p0"](requests["p0"])
    take = _decode(together.network.requests[2]["p0"])
    assert isinstance(take, TakeSeeds)
    bad = SealedSeed(memoryview(damage(bytes(take.seeds[1].data))))
    with pytest.raises(MaskingError, match="what party 'p2' sealed for 'p0'"):
        fresh.parties["p0"].handle(TakeSeeds((take.seeds[0], bad)))
    with pytest.raises(MaskingError, match="'p1'"):
        fresh.parties["p0"].handle(TakeSeeds(take.seeds[::-1]))
    with pytest.raises(RemoteProtocolError, match="not one seed"):
        fresh.parties["p0"].handle(TakeSeeds(take.seeds[:1]))
    fresh.parties["p0"].handle(take)


@pytest.mark.parametrize("n_seeds", [0, 1, 3])
def test_a_party_that_sends_too_few_or_too_many_seeds_is_named(n_seeds: int) -> None:
    together = masked_federation()
    conversation = introduce_parties(RUN, together.names, with_seeds=True)
    ask = next(conversation)
    ask = conversation.send({p: together.parties[p].handle(ask.requests[p]) for p in NAMES})
    replies = {p: together.parties[p].handle(ask.requests[p]) for p in NAMES}
    seed = SealedSeed(memoryview(bytes(48)))
    with pytest.raises(RemoteProtocolError, match="not one seed") as caught:
        conversation.send({**replies, "p1": Met((seed,) * n_seeds)})
    assert caught.value.party == "p1"


def test_members_show_no_key() -> None:
    member = members()["p0"]
    text = repr(member)
    assert member.pins["p1"] in text
    assert member.identity.public.hex() not in text
    assert "private" not in text.lower()


def test_every_party_chooses_by_everybodys_seeds_alike() -> None:
    """With one peer each, masks cancel only if all parties know all choices."""
    vectors = {name: {b"q0": np.arange(50)} for name in map(str, range(9))}
    together = federation(Masked(k=1), vectors).introduce()
    for step in range(20):
        assert together.gather(step, [together.segment(b"q0")]).sums[0].tolist() == [
            9 * number for number in range(50)
        ]

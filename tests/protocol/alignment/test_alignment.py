"""Parties find the rows that all of them have, in one order; whoever cheats is found out."""

import dataclasses
from collections import Counter
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedforest.errors import (
    DataError,
    FederationError,
    MaskingError,
    ProtocolError,
    RemoteProtocolError,
    TooFewParties,
)
from fedforest.masking.key_agreement import IdentityKey
from fedforest.masking.pseudonyms import hash_ids
from fedforest.protocol.alignment.messages import (
    REQUESTS,
    HashIds,
    IdsHashed,
    ShareKey,
    TakeRows,
)
from fedforest.protocol.alignment.payloads import IdCounts, Pseudonyms
from fedforest.transport.codec import decode, encode
from tests.protocol.aggregation.federations import seeded_randomness
from tests.protocol.alignment.federations import Aligning

NAMES = ("bank", "shop", "clinic", "school")
IDS = st.lists(st.integers(0, 25), min_size=1, max_size=30)


def write(numbers: Sequence[int]) -> list[bytes]:
    return [f"person-{number}".encode() for number in numbers]


def some(n_parties: int = 3, n_ids: int = 60, seed: int = 0) -> Aligning:
    """Parties with different parts of the same people, in orders of their own."""
    rng = np.random.default_rng(seed)
    ids = {name: write(rng.permutation(80)[:n_ids].tolist()) for name in NAMES[:n_parties]}
    return Aligning(ids)


@given(st.lists(IDS, min_size=2, max_size=4))
def test_every_party_takes_the_ids_that_stand_once_at_every_party_in_one_order(
    numbers: list[list[int]],
) -> None:
    ids = {NAMES[i]: write(each) for i, each in enumerate(numbers)}
    parties = Aligning(ids)
    once = [
        {each for each, count in Counter(known).items() if count == 1} for known in ids.values()
    ]
    expected = set.intersection(*once)
    if not expected:
        with pytest.raises(DataError, match="no id in common"):
            parties.align()
        return
    common = parties.align()
    taken = parties.common_ids()
    assert set(taken[NAMES[0]]) == expected
    assert len({tuple(each) for each in taken.values()}) == 1
    assert common.n_common == len(expected)
    assert common.n_rows == {name: len(known) for name, known in ids.items()}
    assert common.n_left_out == {
        name: len(known) - len(kept) for (name, known), kept in zip(ids.items(), once, strict=True)
    }


def test_the_common_order_is_no_partys_and_another_one_in_every_run() -> None:
    parties = some()
    parties.align()
    taken = parties.common_ids()
    for name, known in parties.ids.items():
        assert taken[name] != [each for each in known if each in taken[name]]
    other = dataclasses.replace(parties, seed=1)
    other.align()
    assert other.common_ids()[NAMES[0]] != taken[NAMES[0]]
    assert sorted(other.common_ids()[NAMES[0]]) == sorted(taken[NAMES[0]])


def test_an_alignment_takes_six_exchanges_whatever_the_number_of_rows() -> None:
    parties = some()
    parties.align()
    assert len(parties.listener.requests) == 6


def test_nothing_of_an_id_and_no_key_is_seen_by_the_coordinator() -> None:
    parties = some()
    drawn: list[bytes] = []
    for name, member in parties.members.items():

        def draw(n_bytes: int, randomness: object = member.randomness) -> bytes:
            drawn.append(randomness(n_bytes))  # type: ignore[operator] # as the member has it
            return drawn[-1]

        parties.members[name] = dataclasses.replace(member, randomness=draw)
    parties.put_together()
    parties.align()
    transcript = parties.listener.everything()
    nonces, key = drawn[:-1], drawn[-1]
    assert all(nonce in transcript for nonce in nonces)
    assert key not in transcript
    for each in {each for known in parties.ids.values() for each in known}:
        assert each not in transcript
        for guess in (bytes(32), *nonces):  # whatever the coordinator could hash under
            assert hash_ids(guess, [each]).tobytes() not in transcript


def test_pseudonyms_come_in_an_order_that_tells_nothing_of_rows() -> None:
    parties = some()
    parties.align()
    for name in parties.ids:
        reply = decode(parties.listener.replies[3][name], (IdsHashed,))
        assert isinstance(reply, IdsHashed)
        data = bytes(reply.pseudonyms.data)
        cut = [data[i : i + 16] for i in range(0, len(data), 16)]
        assert cut == sorted(cut)


def test_one_party_has_nobody_to_align_with() -> None:
    with pytest.raises(TooFewParties):
        Aligning({"bank": write([1])}).align()


def test_without_a_pin_nothing_is_hashed_and_the_command_is_told() -> None:
    parties = some()
    careful = parties.members["shop"]
    pins = {name: pin for name, pin in careful.pins.items() if name != "clinic"}
    parties.members["shop"] = dataclasses.replace(careful, pins=pins)
    parties.put_together()
    with pytest.raises(MaskingError, match="fedforest party trust clinic FINGERPRINT"):
        parties.align()
    assert len(parties.listener.requests) == 2


def test_a_party_with_another_key_than_the_pinned_one_is_found_out() -> None:
    parties = some()
    other = IdentityKey.from_randomness(seeded_randomness(99))
    parties.members["bank"] = dataclasses.replace(parties.members["bank"], identity=other)
    parties.put_together()
    with pytest.raises(MaskingError, match="party 'bank' shows a key that is not the pinned one"):
        parties.align()


def test_a_coordinator_that_names_other_rows_to_one_party_is_found_out() -> None:
    parties = some()

    def change(party: str, data: bytes) -> bytes:
        request = decode(data, REQUESTS)
        if not isinstance(request, TakeRows) or party != "shop":
            return data
        bits = np.unpackbits(np.frombuffer(request.common, np.uint8), bitorder="little")
        bits[np.flatnonzero(bits)[0]] = 0
        return encode(TakeRows(memoryview(np.packbits(bits, bitorder="little").tobytes())))

    parties.listener.change = change
    with pytest.raises(MaskingError, match="took other rows than this one"):
        parties.align()
    with pytest.raises(ProtocolError, match="not aligned yet"):
        _ = parties.parties["bank"].rows


def test_a_sealed_key_that_was_changed_on_its_way_is_refused() -> None:
    parties = some()

    def change(party: str, data: bytes) -> bytes:
        request = decode(data, REQUESTS)
        if not isinstance(request, HashIds) or party != "shop":
            return data
        changed = bytearray(data)
        changed[-1] ^= 1
        return bytes(changed)

    parties.listener.change = change
    with pytest.raises(MaskingError, match="cannot be opened"):
        parties.align()


@pytest.mark.parametrize(
    ("sent", "counts", "rule"),
    [
        (hash_ids(bytes(32), [b"a"]), IdCounts(3, 1), "16 bytes for 2 entries"),
        (hash_ids(bytes(32), [b"a"]), IdCounts(1, 2), "more rows are left out"),
        (hash_ids(bytes(32), [b"a", b"a"]), IdCounts(2, 0), "repeated"),
        (np.sort(hash_ids(bytes(32), [b"a", b"b"]))[::-1], IdCounts(2, 0), "out of order"),
    ],
)
def test_pseudonyms_that_cannot_be_are_their_senders_fault(
    sent: np.ndarray, counts: IdCounts, rule: str
) -> None:
    parties = some()
    honest = parties.listener.endpoints["shop"]

    def cheat(data: bytes) -> bytes:
        reply = honest(data)
        is_hashing = isinstance(decode(data, REQUESTS), HashIds)
        return encode(IdsHashed(counts, Pseudonyms.of(sent))) if is_hashing else reply

    parties.listener.endpoints = {**parties.listener.endpoints, "shop": cheat}
    with pytest.raises(RemoteProtocolError, match=rule) as caught:
        parties.align()
    assert caught.value.party == "shop"


def test_requests_out_of_place_are_refused_and_change_nothing() -> None:
    honest, disturbed = some(), some()
    known = [ShareKey(), HashIds(), TakeRows(memoryview(b"\xff" * 8))]

    def change(party: str, data: bytes) -> bytes:
        asked = decode(data, REQUESTS)
        for request in known:
            if type(request) is not type(asked):
                with pytest.raises(FederationError):
                    disturbed.parties[party].handle(request)
        return data

    disturbed.listener.change = change
    honest.align()
    with pytest.raises(FederationError):  # before anybody was introduced
        disturbed.parties["bank"].handle(ShareKey())
    disturbed.align()
    assert disturbed.common_ids() == honest.common_ids()
    assert disturbed.listener.replies == honest.listener.replies

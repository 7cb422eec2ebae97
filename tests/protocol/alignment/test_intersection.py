"""Private set intersection: the plain intersection, and a transcript that tells sizes only."""

import dataclasses
import sys
from collections import Counter
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256, sha512

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedforest.errors import (
    ConfigurationError,
    DataError,
    FederationError,
    MaskingError,
    RemoteProtocolError,
)
from fedforest.masking.blinding import hash_to_points
from fedforest.protocol.alignment.messages import (
    REQUESTS,
    BlindIds,
    BlindLists,
    GiveList,
    IdsBlinded,
    ListGiven,
    ListsBlinded,
    TakeMatches,
)
from fedforest.protocol.alignment.payloads import BlindedIds, IdCounts, IdForm, TwiceBlinded
from fedforest.runtime.messages.orders import AlignmentMethod
from fedforest.transport.codec import decode, encode
from fedforest.tree.workers import Workers
from tests.protocol.alignment.federations import Aligning

NAMES = ("bank", "shop", "clinic", "school", "tax office")
NUMBERS = st.lists(st.integers(0, 12), max_size=14)


def write(numbers: list[int]) -> list[bytes]:
    return [f"person-{number}".encode() if number else b"" for number in numbers]


def meet(ids: Mapping[str, list[bytes]], seed: int = 0) -> Aligning:
    return Aligning(ids, seed=seed, method="psi")


def some(n_parties: int = 3, n_ids: int = 30, seed: int = 0) -> Aligning:
    rng = np.random.default_rng(7)
    ids = {name: write((1 + rng.permutation(40)[:n_ids]).tolist()) for name in NAMES[:n_parties]}
    return meet(ids, seed)


def check_against_sets(ids: Mapping[str, list[bytes]]) -> None:
    once = [
        {each for each, count in Counter(known).items() if count == 1 and each}
        for known in ids.values()
    ]
    expected, parties = set.intersection(*once), meet(ids)
    if not expected:
        with pytest.raises(DataError, match="no id in common"):
            parties.align()
        return
    common = parties.align()
    taken = parties.common_ids()
    assert set(taken[NAMES[0]]) == expected
    assert len({tuple(each) for each in taken.values()}) == 1
    assert common.n_common == len(expected) == len(taken[NAMES[0]])
    assert common.n_rows == {name: len(known) for name, known in ids.items()}
    assert common.n_left_out == {
        name: len(known) - len(kept) for (name, known), kept in zip(ids.items(), once, strict=True)
    }


@settings(max_examples=60, deadline=None)
@given(st.lists(NUMBERS, min_size=2, max_size=5))
def test_every_party_takes_the_plain_intersection_in_one_order(numbers: list[list[int]]) -> None:
    check_against_sets({NAMES[i]: write(each) for i, each in enumerate(numbers)})


@pytest.mark.parametrize("n_parties", [2, 3, 5])
@pytest.mark.parametrize(
    "numbers",
    [
        lambda _: [],
        lambda _: list(range(1, 9)),
        lambda i: list(range(10 * i + 1, 10 * i + 6)),
        lambda i: list(range(1, 4 + 2 * i)),
        lambda i: list(range(1, 14 - 2 * i)),
        lambda i: [1, 1, 2, 0, 0, 3 + i],
    ],
    ids=["empty", "equal", "disjoint", "growing", "shrinking", "repeated"],
)
def test_sets_of_every_shape_are_intersected(numbers, n_parties: int) -> None:  # type: ignore[no-untyped-def] # lambdas
    check_against_sets({name: write(numbers(i)) for i, name in enumerate(NAMES[:n_parties])})


@pytest.mark.parametrize("n_parties", [2, 5])
def test_short_lists_take_seven_exchanges_whatever_the_number_of_parties(
    n_parties: int,
) -> None:
    parties = some(n_parties)
    parties.align()
    assert len(parties.listener.requests) == 7


def test_the_transcript_shows_no_id_no_hash_and_no_unblinded_point() -> None:
    parties = some()
    parties.align()
    transcript = parties.listener.everything()
    runs = [party._meeting.session().id for party in parties.parties.values()]  # type: ignore[attr-defined] # of this aligner
    assert len(set(runs)) == 1
    for each in {each for known in parties.ids.values() for each in known}:
        assert each not in transcript
        assert sha256(each).digest()[:16] not in transcript
        assert sha512(each).digest()[:16] not in transcript
        assert hash_to_points(runs[0], [each])[0] not in transcript


def test_points_come_in_an_order_that_tells_nothing_of_rows() -> None:
    parties = some()
    parties.align()
    for name in parties.ids:
        reply = decode(parties.listener.replies[3][name], (ListGiven,))
        assert isinstance(reply, ListGiven)
        data = bytes(reply.points.data)
        cut = [data[i : i + 32] for i in range(0, len(data), 32)]
        assert cut == sorted(cut)


def test_the_same_randomness_makes_the_same_transcript_and_other_randomness_another() -> None:
    first, again, other = some(), some(), some(seed=1)
    for parties in (first, again, other):
        parties.align()
    assert first.listener.everything() == again.listener.everything()
    lists = [
        {point for reply in parties.listener.replies[3].values() for point in _points(reply)}
        for parties in (first, other)
    ]
    assert not lists[0] & lists[1]
    assert first.common_ids()[NAMES[0]] != other.common_ids()[NAMES[0]]


def _points(reply: bytes) -> list[bytes]:
    given = decode(reply, (ListGiven,))
    assert isinstance(given, ListGiven)
    data = bytes(given.points.data)
    return [data[i : i + 32] for i in range(0, len(data), 32)]


def test_threads_change_nothing_but_the_time() -> None:
    ids = {name: write(list(range(1 + i, 1300 + i))) for i, name in enumerate(NAMES[:2])}
    alone = meet(ids)
    alone.align()
    with ThreadPoolExecutor(2) as executor:
        spread = Aligning(ids, method="psi", workers=Workers(executor, 3))
        spread.align()
    assert spread.listener.everything() == alone.listener.everything()
    assert spread.common_ids() == alone.common_ids()


def test_parties_that_are_not_first_do_not_meet_each_other() -> None:
    """So the coordinator cannot compare their lists: no key is on both."""
    parties = some()
    parties.align()
    for name in NAMES[1:3]:
        lists = decode(parties.listener.requests[4][name], REQUESTS)
        assert isinstance(lists, BlindLists)
        assert [bytes(each.data) for each in lists.lists] == [
            b"".join(_points(parties.listener.replies[3][NAMES[0]]))
        ]


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        (lambda lists: lists[:0], "not the one list"),
        (lambda lists: (TwiceBlinded(lists[0].data[:-32]),), "bytes for 30 entries"),
        (lambda lists: (TwiceBlinded(bytes(lists[0].data[:32]) * 30),), "points are repeated"),  # type: ignore[arg-type] # as on the wire
    ],
)
def test_lists_that_were_not_blinded_one_by_one_are_their_senders_fault(change, rule: str) -> None:  # type: ignore[no-untyped-def] # lambdas
    parties = some()
    honest = parties.listener.endpoints["shop"]

    def cheat(data: bytes) -> bytes:
        reply = decode(honest(data), tuple(request.reply for request in REQUESTS))
        if isinstance(reply, ListsBlinded):
            reply = ListsBlinded(change(reply.lists))
        return encode(reply)

    parties.listener.endpoints = {**parties.listener.endpoints, "shop": cheat}
    with pytest.raises(RemoteProtocolError, match=rule) as caught:
        parties.align()
    assert caught.value.party == "shop"


def test_a_list_of_another_size_than_declared_is_its_senders_fault() -> None:
    parties = some()
    honest = parties.listener.endpoints["shop"]

    def cheat(data: bytes) -> bytes:
        reply = decode(honest(data), tuple(request.reply for request in REQUESTS))
        if isinstance(reply, IdsBlinded):
            reply = IdsBlinded(IdCounts(29, 0))
        return encode(reply)

    parties.listener.endpoints = {**parties.listener.endpoints, "shop": cheat}
    with pytest.raises(RemoteProtocolError, match="a piece of another list") as caught:
        parties.align()
    assert caught.value.party == "shop"


def test_without_a_pin_nothing_is_blinded_and_the_command_is_told() -> None:
    parties = some()
    careful = parties.members["shop"]
    pins = {name: pin for name, pin in careful.pins.items() if name != "clinic"}
    parties.members["shop"] = dataclasses.replace(careful, pins=pins)
    parties.put_together()
    with pytest.raises(MaskingError, match="fedforest party trust clinic FINGERPRINT"):
        parties.align()
    assert len(parties.listener.requests) == 2


def test_requests_out_of_place_are_refused_and_change_nothing() -> None:
    honest, disturbed = some(), some()
    lists = BlindLists((BlindedIds(0, 0, memoryview(bytes(32)), memoryview(b"")),), ())
    known = [BlindIds(), GiveList(), lists, TakeMatches(memoryview(b"\xff" * 4), ())]

    def change(party: str, data: bytes) -> bytes:
        asked = decode(data, REQUESTS)
        for request in known:
            if type(request) is not type(asked):
                with pytest.raises(FederationError):
                    disturbed.parties[party].handle(request)
        return data

    disturbed.listener.change = change
    honest.align()
    with pytest.raises(FederationError):
        disturbed.parties["bank"].handle(BlindIds())
    disturbed.align()
    assert disturbed.common_ids() == honest.common_ids()
    assert disturbed.listener.replies == honest.listener.replies


def test_a_party_without_the_library_says_so_before_a_run_begins(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "rbcl", None)
    with pytest.raises(ConfigurationError, match=r'needs rbcl.*pip install "fedforest\[encrypted'):
        some()


@pytest.mark.parametrize("method", ["keyed-hash", "psi"])
@pytest.mark.parametrize(
    ("form", "rule"),
    [
        (IdForm(case="fold"), "case: keep and fold"),
        (IdForm(2, trim=False), "n_columns: 1 and 2; trim: True and False"),
    ],
)
def test_ids_of_different_rules_are_an_error_and_not_an_empty_intersection(
    method: AlignmentMethod, form: IdForm, rule: str
) -> None:
    ids = {name: write([1, 2]) for name in NAMES[:3]}
    parties = Aligning(ids, method=method, forms={"clinic": form})
    with pytest.raises(DataError, match=rf"'bank' and 'clinic' write ids .*\({rule}\)"):
        parties.align()

"""Standing alignments: extended without repeating what is known, recalled without comparing."""

from hashlib import sha256, sha512

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedforest.errors import DataError, MaskingError, ProtocolError
from fedforest.masking.blinding import hash_to_points
from fedforest.protocol.alignment.messages import (
    REQUESTS,
    BlindLists,
    IdsBlinded,
    ListGiven,
    TakeFound,
)
from fedforest.transport.codec import decode, encode
from tests.protocol.alignment.standing import StandingRuns, pieces_of

NAMES = ("bank", "shop", "clinic", "school", "tax office")
PEOPLE = st.sets(st.integers(1, 14), max_size=12)


def write(numbers: set[int]) -> list[bytes]:
    return [b"person-%d" % number for number in sorted(numbers, key=lambda n: -n)]


def people(ids: list[bytes], rows: list[int]) -> set[int]:
    return {int(ids[row].removeprefix(b"person-")) for row in rows}


@settings(max_examples=20, deadline=None)
@given(
    st.integers(2, 5).flatmap(
        lambda n: st.lists(st.lists(PEOPLE, min_size=n, max_size=n), min_size=1, max_size=3)
    ),
    st.integers(1, 5),
)
def test_after_extensions_the_common_ids_are_those_of_all_lists_together(
    rounds: list[list[set[int]]], piece: int
) -> None:
    runs, ever = StandingRuns(), [set() for _ in rounds[0]]  # type: ignore[var-annotated] # filled
    with pieces_of(piece):
        for sets in rounds:
            ids = {name: write(each) for name, each in zip(NAMES, sets, strict=False)}
            grown = [known | each for known, each in zip(ever, sets, strict=True)]
            if runs.points is None and not set.intersection(*grown):
                with pytest.raises(DataError, match="no id in common"):
                    runs.compare(ids)
                return
            runs.compare(ids)
            ever = grown
            common = set.intersection(*ever)
            for known in runs.kept.values():
                assert len(known.read_common()) == len(common)
            present = set.intersection(common, *sets)
            if not present:
                with pytest.raises(DataError, match="no id in common"):
                    runs.recall(ids)
                continue
            recalled = runs.recall(ids).common_ids()
            assert len({tuple(each) for each in recalled.values()}) == 1
            assert set(recalled[NAMES[0]]) == set(write(present))


def some() -> StandingRuns:
    runs = StandingRuns()
    runs.compare({"bank": write(set(range(1, 9))), "shop": write(set(range(5, 13)))})
    return runs


def test_an_extension_blinds_the_new_ids_only() -> None:
    runs = some()
    parties = runs.compare({"bank": write(set(range(1, 12))), "shop": write(set(range(3, 13)))})
    sizes = {}
    for name, data in parties.listener.replies[2].items():
        counts = decode(data, (IdsBlinded,)).counts
        sizes[name] = (counts.n_ids, counts.n_known)
    assert sizes == {"bank": (3, 8), "shop": (2, 8)}
    for step in parties.listener.replies:
        for data in step.values():
            given = decode(data, tuple(request.reply for request in REQUESTS))
            assert not isinstance(given, ListGiven) or len(given.points.data) <= 3 * 32
    assert len(runs.common()) == 9


def test_an_extension_without_new_ids_changes_nothing() -> None:
    runs = some()
    before = runs.common()
    runs.compare({"bank": write(set(range(1, 9))), "shop": write(set(range(5, 13)))})
    assert runs.common() == before


def test_ids_that_left_and_came_back_are_not_compared_again() -> None:
    runs = some()
    runs.compare({"bank": write({1, 2}), "shop": write({5, 20})})
    parties = runs.compare({"bank": write(set(range(1, 9))), "shop": write({5, 6, 20})})
    counts = decode(parties.listener.replies[2]["bank"], (IdsBlinded,)).counts
    assert counts.n_ids == 0


def test_rows_of_a_recall_follow_ids_and_not_places() -> None:
    runs = some()
    bank, shop = [b"person-8", b"person-99", b"person-5"], write({5, 6, 8})
    taken = runs.recall({"bank": bank, "shop": shop}).common_ids()
    assert taken["bank"] == taken["shop"]
    assert set(taken["bank"]) == {b"person-5", b"person-8"}


def test_no_transcript_shows_an_id_a_hash_or_an_unblinded_point() -> None:
    runs = some()
    transcripts = [runs.last.listener.everything()]
    ids = {"bank": write(set(range(1, 12))), "shop": write(set(range(3, 13)))}
    transcripts.append(runs.compare(ids).listener.everything())
    transcripts.append(runs.recall(ids).listener.everything())
    root = runs.kept["bank"].root
    for each in {each for known in ids.values() for each in known}:
        for transcript in transcripts:
            assert each not in transcript
            assert sha256(each).digest()[:16] not in transcript
            assert sha512(each).digest()[:16] not in transcript
            assert hash_to_points(root, [each])[0] not in transcript
    for transcript in transcripts:
        for known in runs.kept.values():
            assert known.secret not in transcript
            assert known.tags[:16] not in transcript


def test_a_recall_compares_no_list() -> None:
    runs = some()
    parties = runs.recall({"bank": write({5, 6}), "shop": write({5, 6})})
    asked = {
        type(decode(data, REQUESTS)).__name__
        for step in parties.listener.requests
        for data in step.values()
    }
    assert asked == {"Introduce", "MeetPeers", "FindRows", "TakeFound", "CompareRows"}


def test_a_coordinator_cannot_recall_other_rows_at_another_party() -> None:
    runs = some()
    parties = runs.meet({"bank": write({5, 6, 7}), "shop": write({5, 6, 7})}, recalls=True)

    def change(party: str, data: bytes) -> bytes:
        request = decode(data, REQUESTS)
        if not isinstance(request, TakeFound) or party == "bank":
            return data
        lowest = bytes(request.common)[0]
        return encode(TakeFound(memoryview(bytes([lowest & (lowest - 1)]))))

    parties.listener.change = change
    with pytest.raises(MaskingError, match="took other rows"):
        parties.recall(len(runs.common()))
    with pytest.raises(ProtocolError, match="not aligned yet"):
        _ = parties.parties["bank"].rows


def test_parties_that_keep_different_versions_do_not_go_on() -> None:
    """A party whose copy was restored from a backup extends an older alignment than the others."""
    runs = some()
    older = runs.kept
    runs.compare({"bank": write(set(range(1, 10))), "shop": write(set(range(5, 14)))})
    runs.kept = {"bank": runs.kept["bank"], "shop": older["shop"]}
    with pytest.raises(MaskingError, match="not the one it declared"):
        runs.compare({"bank": write(set(range(1, 11))), "shop": write(set(range(5, 15)))})


def test_long_lists_travel_in_pieces_that_their_first_one_fixes() -> None:
    runs = StandingRuns()
    ids = {"bank": write(set(range(1, 9))), "shop": write(set(range(2, 7)))}
    given: list[BlindLists] = []

    def change(_party: str, data: bytes) -> bytes:
        request = decode(data, REQUESTS)
        if isinstance(request, BlindLists):
            given.append(request)
        return data

    with pieces_of(3):
        runs.compare(ids, lambda parties: setattr(parties.listener, "change", change))
    assert [len(each.lists[0].data) // 32 for each in given] == [3, 3, 2, 3, 2]
    assert len(runs.common()) == 5

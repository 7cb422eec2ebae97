"""Blinded points: keys commute, equal ids stay equal, and what is no point is refused."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedforest.errors import MaskingError
from fedforest.masking.blinding import POINT_BYTES, BlindingKey, cut_points, hash_to_points
from tests.protocol.aggregation.federations import seeded_randomness

IDS = st.lists(st.binary(max_size=40), max_size=12)
PRIME = 2**255 - 19
SPOILED = {
    "the neutral point": bytes(POINT_BYTES),
    "a coordinate above the prime": (PRIME + 2).to_bytes(POINT_BYTES, "little"),
    "a negative coordinate": (1).to_bytes(POINT_BYTES, "little"),
    "the point of order four of the curve below": (PRIME - 1).to_bytes(POINT_BYTES, "little"),
    "another length": b"short",
}


def key(seed: int) -> BlindingKey:
    return BlindingKey(BlindingKey.draw(seeded_randomness(seed)))


@settings(max_examples=30)
@given(IDS)
def test_two_keys_make_the_same_points_in_either_order(ids: list[bytes]) -> None:
    points = hash_to_points(b"run", ids)
    one_way = key(2).blind(cut_points(key(1).blind(points)))
    assert one_way == key(1).blind(cut_points(key(2).blind(points)))


@settings(max_examples=30)
@given(IDS)
def test_blinded_points_are_equal_where_ids_are(ids: list[bytes]) -> None:
    blinded = cut_points(key(1).blind(hash_to_points(b"run", ids)))
    for i, one in enumerate(ids):
        for j, other in enumerate(ids):
            assert (blinded[i] == blinded[j]) == (one == other)


def test_points_and_keys_differ_from_run_to_run() -> None:
    assert hash_to_points(b"one", [b"id"]) != hash_to_points(b"two", [b"id"])
    points = hash_to_points(b"run", [b"id"])
    assert key(1).blind(points) != key(2).blind(points)
    assert key(1).blind(points) == key(1).blind(points)


@pytest.mark.parametrize("spoiled", SPOILED.values(), ids=SPOILED.keys())
def test_what_is_no_point_is_refused_with_the_name_of_its_owner(spoiled: bytes) -> None:
    with pytest.raises(MaskingError, match="list of party 'shop' is no point"):
        key(1).blind([spoiled], "shop")


def test_a_point_has_one_form_only() -> None:
    [point] = hash_to_points(b"run", [b"id"])
    other_form = point[:-1] + bytes([point[-1] | 0x80])
    with pytest.raises(MaskingError, match="no point"):
        key(1).blind([other_form], "shop")


def test_a_key_does_not_show_itself() -> None:
    assert repr(key(1)) == "<BlindingKey>"

"""Pseudonyms: HMAC-SHA256 as the library has it, sorted, and intersected as sets are."""

import hmac
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedforest.errors import MaskingError
from fedforest.masking.pseudonyms import find_common, hash_ids, sort_ids

KEY = bytes(range(32))
IDS = st.lists(st.integers(0, 30).map(lambda number: str(number).encode()), max_size=40)


@given(st.binary(min_size=32, max_size=32), st.lists(st.binary(max_size=200), max_size=10))
def test_a_pseudonym_is_the_first_half_of_the_librarys_hmac(key: bytes, ids: list[bytes]) -> None:
    expected = [hmac.digest(key, each, "sha256")[:16] for each in ids]
    assert hash_ids(key, ids).tobytes() == b"".join(expected)


@given(IDS)
def test_ids_that_stand_once_are_kept_with_their_rows_in_the_order_of_bytes(
    ids: list[bytes],
) -> None:
    known = sort_ids(KEY, [*ids, b"", b""])
    pseudonyms = [each.tobytes() for each in known.pseudonyms]
    assert pseudonyms == sorted(pseudonyms)
    assert [each.tobytes() for each in hash_ids(KEY, [ids[row] for row in known.rows])] == (
        pseudonyms
    )
    once = {each for each, count in Counter(ids).items() if count == 1}
    assert {ids[row] for row in known.rows} == once


def test_a_single_row_without_an_id_is_left_out() -> None:
    assert sort_ids(KEY, [b"", b"a"]).rows.tolist() == [1]


@given(st.lists(st.sets(st.integers(0, 30)), min_size=1, max_size=4))
def test_what_is_common_is_the_intersection_of_sets(sets: list[set[int]]) -> None:
    ids = [[str(number).encode() for number in sorted(numbers)] for numbers in sets]
    lists = [sort_ids(KEY, each) for each in ids]
    expected = set.intersection(*sets)
    for each, known, is_common in zip(
        ids, lists, find_common([known.pseudonyms for known in lists]), strict=True
    ):
        assert {int(each[row]) for row in known.rows[is_common]} == expected


def test_the_order_of_rows_follows_from_the_key_alone() -> None:
    ids = [str(number).encode() for number in range(1000)]
    order = sort_ids(KEY, ids).rows
    shuffled = np.random.default_rng(0).permutation(1000)
    again = sort_ids(KEY, [ids[row] for row in shuffled]).rows
    assert shuffled[again].tolist() == order.tolist()
    other = sort_ids(KEY[::-1], ids).rows
    assert (other == order).mean() < 0.01


def test_a_short_key_is_refused() -> None:
    with pytest.raises(MaskingError, match="32 bytes, not 31"):
        hash_ids(KEY[1:], [b"a"])

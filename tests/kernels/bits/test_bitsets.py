"""Bitmaps of candidate columns and sets of bins hold what was put into them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from fedforest.kernels.bits.bitsets import (
    count_ones,
    fill_set,
    in_set,
    list_candidates,
    lowest_bit,
    put_in_set,
    take_bytes,
)
from fedforest.kernels.jit import kernel

BIN_SETS = st.sets(st.integers(0, 255))


@kernel
def find_lowest_bit(word):  # type: ignore[no-untyped-def]
    """Call the intrinsic, which only compiled code can."""
    return lowest_bit(word)  # type: ignore[no-untyped-call]


def words_of(codes: set[int]) -> NDArray[np.uint64]:
    words = np.zeros(4, np.uint64)
    for code in codes:
        words[code >> 6] |= np.uint64(1 << (code & 63))
    return words


@given(st.integers(1, 2**64 - 1))
def test_the_lowest_bit_of_a_word_is_found(word: int) -> None:
    position = int(find_lowest_bit(np.uint64(word)))
    assert word % 2**position == 0
    assert word >> position & 1


@given(st.integers(1, 100), st.data())
def test_the_candidates_of_a_node_are_listed_in_ascending_order(
    n_columns: int, data: st.DataObject
) -> None:
    chosen = data.draw(st.lists(st.sets(st.integers(0, n_columns - 1)), min_size=1, max_size=3))
    bits = np.zeros((len(chosen), -(-n_columns // 8) * 8), np.uint8)
    for node, columns in enumerate(chosen):
        bits[node, list(columns)] = 1
    bitmap = np.packbits(bits, axis=1, bitorder="little")
    features = np.zeros(bits.shape[1], np.uint64)
    for node, columns in enumerate(chosen):
        count = list_candidates(bitmap, node, features)
        assert features[:count].tolist() == sorted(columns)


@given(BIN_SETS, BIN_SETS, st.booleans())
def test_a_set_holds_its_filling_except_for_what_was_put_in_or_taken_out(
    put_in: set[int], taken_out: set[int], filled: bool
) -> None:
    sets = np.full((3, 4), 0x5555_5555_5555_5555, np.uint64)
    fill_set(sets, 1, filled)
    for code in put_in:
        put_in_set(sets, 1, np.uint64(code), True)  # noqa: FBT003 - kernels take no keywords
    for code in taken_out:
        put_in_set(sets, 1, np.uint64(code), False)  # noqa: FBT003
    members = {code for code in range(256) if in_set(sets, 1, np.uint64(code))}
    assert members == ((set(range(256)) if filled else set()) | put_in) - taken_out
    assert (sets[[0, 2]] == 0x5555_5555_5555_5555).all(), "its neighbours are untouched"


@pytest.mark.parametrize("code", [0, 63, 64, 255])
def test_membership_is_zero_or_one(code: int) -> None:
    sets = words_of({code})[None]
    assert [int(in_set(sets, 0, np.uint64(other))) for other in (code, code ^ 1)] == [1, 0]


@kernel
def count_set_bits(number):  # type: ignore[no-untyped-def]
    """Call the intrinsic, which only compiled code can."""
    return count_ones(number)  # type: ignore[no-untyped-call]


@given(st.integers(0, 2**64 - 1))
def test_the_set_bits_of_words_and_bytes_are_counted(word: int) -> None:
    assert count_set_bits(np.uint64(word)) == word.bit_count()
    assert count_set_bits(np.uint8(word % 256)) == (word % 256).bit_count()


def test_some_bytes_of_every_row_lie_one_after_the_other() -> None:
    bitmap = np.arange(12, dtype=np.uint8).reshape(3, 4)
    assert take_bytes(bitmap, 1, 3).tolist() == [1, 2, 5, 6, 9, 10]
    assert take_bytes(bitmap, 2, 2).tolist() == []

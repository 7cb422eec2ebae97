"""A sum is decrypted right or not at all: out of range and spoiled ones are errors."""

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from fedforest.errors import MaskingError
from fedforest.masking.homomorphic.decryption import MOST_STEPS, Decryptor
from fedforest.masking.homomorphic.keys import DecryptionKey
from fedforest.masking.homomorphic.scheme import Encoded, Scheme, decode_trusted
from fedforest.masking.homomorphic.summands import Summands
from tests.reference.ristretto import ORDER, element

SECRET, KEY = bytes(range(32)), b"k" * 32
MARKS = Summands(n_numbers=1, lowest=0, highest=1, most_rows=1000)
LEAPING = Summands(n_numbers=1, lowest=-40, highest=50, most_rows=2**20)  # further than the table


def encrypt_sum(summands: Summands, *digits: int) -> Encoded:
    """A ciphertext as a party makes it of a sum: halves of G, which encoding doubles."""
    points = decode_trusted(b"".join(element(m * pow(2, -1, ORDER)) for m in (0, *digits)))
    return Scheme(summands, DecryptionKey(SECRET, summands.n_keys).public).rerandomise(
        points[None], summands.most_rows, KEY
    )


def decrypt(summands: Summands, encoded: Encoded, n_rows: int) -> int:
    decryptor = Decryptor(summands, DecryptionKey(SECRET, summands.n_keys))
    return int(decryptor.decrypt(encoded, np.array([n_rows]), summands.most_rows)[0, 0])


@settings(max_examples=30)
@given(st.integers(-3, 1010), st.integers(0, 1000))
@example(1000, 1000)
@example(1001, 1000)
@example(-1, 1000)
@example(0, 0)
@example(1, 0)
def test_a_count_is_decrypted_if_its_rows_can_have_it_and_refused_if_not(
    count: int, n_rows: int
) -> None:
    encoded = encrypt_sum(MARKS, count)
    if 0 <= count <= n_rows:
        assert decrypt(MARKS, encoded, n_rows) == count
    else:
        with pytest.raises(MaskingError, match="none that its rows can have"):
            decrypt(MARKS, encoded, n_rows)


@settings(max_examples=30)
@given(st.integers(-(2**26), 2**26), st.integers(1, 2**20))
@example(50 * 2**20, 2**20)
@example(50 * 2**20 + 1, 2**20)
@example(-40 * 2**20, 2**20)
@example(-40 * 2**20 - 1, 2**20)
@example(MOST_STEPS, 2**20)
@example(MOST_STEPS + 1, 2**20)
@example(-MOST_STEPS - 1, 2**20)
def test_sums_beyond_the_table_are_found_by_leaps(total: int, n_rows: int) -> None:
    encoded = encrypt_sum(LEAPING, total)
    if -40 * n_rows <= total <= 50 * n_rows:
        assert decrypt(LEAPING, encoded, n_rows) == total
    else:
        with pytest.raises(MaskingError, match="none that its rows can have"):
            decrypt(LEAPING, encoded, n_rows)


@settings(max_examples=40)
@given(st.lists(st.integers(0, 100), min_size=8, max_size=8), st.integers(-1, 7), st.booleans())
@example([100] * 8, -1, False)  # noqa: FBT003 - drawn values have no names
def test_packed_counts_are_all_right_or_none_is_given(
    counts: list[int], wrong: int, below: bool
) -> None:
    """Of 100 rows, counts have seven bits, three a plaintext; `wrong` is one that cannot be."""
    summands = Summands(n_numbers=8, lowest=0, highest=1, most_rows=100)
    decryptor = Decryptor(summands, DecryptionKey(SECRET, summands.n_keys))
    if wrong >= 0:
        counts[wrong] = -1 if below else 101
    encoded = encrypt_sum(summands, *counts)
    assert encoded.shape == (1, 1 + 3, 32)
    if wrong >= 0:
        with pytest.raises(MaskingError, match="none that its rows can have"):
            decryptor.decrypt(encoded, np.array([100]), 100)
    else:
        assert decryptor.decrypt(encoded, np.array([100]), 100).tolist() == [counts]


def test_digits_in_range_whose_number_is_not_are_refused() -> None:
    summands = Summands(n_numbers=1, lowest=0, highest=2**24, most_rows=2**20)
    assert summands.n_digits == 4
    assert decrypt(summands, encrypt_sum(summands, 1, 0, 0, 0), 1) == 1
    with pytest.raises(MaskingError, match="none that its rows can have"):
        decrypt(summands, encrypt_sum(summands, -1, 0, 0, 0), 1)


def test_a_ciphertext_under_another_key_is_refused() -> None:
    encoded = encrypt_sum(MARKS, 5)
    with pytest.raises(MaskingError, match="none that its rows can have"):
        Decryptor(MARKS, DecryptionKey(bytes(32), 1)).decrypt(encoded, np.array([1000]), 1000)


@settings(max_examples=40)
@given(st.integers(0, 2), st.integers(0, 255))
@example(0, 255)
@example(1, 255)
def test_a_ciphertext_with_one_bit_changed_is_refused(component: int, bit: int) -> None:
    summands = Summands(n_numbers=1, lowest=0, highest=2**30, most_rows=1000)
    assert summands.n_digits == 2
    encoded = encrypt_sum(summands, 5, 6)
    encoded[0, component, bit // 8] ^= 1 << (bit % 8)
    with pytest.raises(MaskingError, match=r"was spoiled|none that its rows can have"):
        decrypt(summands, encoded, 1000)


def test_two_ciphertexts_whose_components_were_exchanged_are_refused() -> None:
    encoded = np.concatenate([encrypt_sum(MARKS, 5), encrypt_sum(MARKS, 6)])
    both = Scheme(MARKS, DecryptionKey(SECRET, 1).public)
    other = both.encrypt(np.ones((2, 1), np.int64), b"x" * 32)
    encoded[:, 0] = other[:, 0]
    with pytest.raises(MaskingError, match="none that its rows can have"):
        Decryptor(MARKS, DecryptionKey(SECRET, 1)).decrypt(encoded, np.full(2, 1000), 1000)


def test_numbers_of_rows_that_do_not_fit_are_refused() -> None:
    encoded = encrypt_sum(MARKS, 5)
    decryptor = Decryptor(MARKS, DecryptionKey(SECRET, 1))
    for n_rows in (np.array([1001]), np.array([-1]), np.array([5, 5])):
        with pytest.raises(MaskingError, match="number of rows, from 0 to 1000"):
            decryptor.decrypt(encoded, n_rows, 1000)

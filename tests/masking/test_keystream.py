"""Streams of words, against the cipher block by block."""

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES256
from cryptography.hazmat.primitives.ciphers.modes import ECB

from fedforest.errors import MaskingError
from fedforest.masking.keystream import PIECE_WORDS, Keystream, Scrambler, expand

KEY = bytes(range(32))


def encrypt_counters(key: bytes, n_blocks: int) -> bytes:
    """Counter mode by the book: every block is its own number, encrypted."""
    cipher = Cipher(AES256(key), ECB()).encryptor()  # one block each, as counter mode is defined
    return b"".join(cipher.update(i.to_bytes(16, "big")) for i in range(n_blocks))


def test_the_first_block_of_the_zero_key_is_the_published_one() -> None:
    assert expand(bytes(32), 2).astype("<u8").tobytes().hex() == "dc95c078a2408989ad48a21492842087"


@pytest.mark.parametrize(
    "n_words",
    [0, 1, 2, 3, 1000, PIECE_WORDS - 1, PIECE_WORDS, PIECE_WORDS + 1, 3 * PIECE_WORDS + 7],
)
def test_a_stream_is_the_encrypted_counters_as_little_endian_words(n_words: int) -> None:
    expected = encrypt_counters(KEY, (n_words + 1) // 2)[: 8 * n_words]
    words = expand(KEY, n_words)
    assert words.dtype == np.uint64
    assert words.tolist() == np.frombuffer(expected, "<u8").tolist()


def test_a_stream_read_in_pieces_is_the_same_stream() -> None:
    stream, pieces = Keystream(KEY), [np.empty(n, "<u8") for n in (1, 2, 3, 0, 70_000, 5)]
    for piece in pieces:
        stream.fill(piece)
    assert np.array_equal(np.concatenate(pieces), expand(KEY, 70_011))


def test_a_stream_is_read_from_any_block_wherever_it_was_read_before() -> None:
    stream, words = Keystream(KEY), np.empty(11, "<u8")
    for first in (3, 0, 3, 2**16):
        stream.go_to(first.to_bytes(16, "big"))
        stream.fill(words)  # ends within a block
        assert np.array_equal(words, expand(KEY, 2 * first + 11)[2 * first :])


@pytest.mark.parametrize("n_bytes", [0, 16, 24, 31, 33])
def test_a_key_of_another_length_is_refused(n_bytes: int) -> None:
    with pytest.raises(MaskingError, match=f"32 bytes, not {n_bytes}"):
        expand(bytes(n_bytes), 4)


@pytest.mark.parametrize("n_rows", [0, 1, 5])
def test_scrambled_rows_are_blocks_of_the_cipher(n_rows: int) -> None:
    rows = np.arange(2 * n_rows, dtype=np.uint64).reshape(-1, 2)
    cipher = Cipher(AES256(KEY), ECB()).encryptor()  # rows are meant to be distinct
    expected = cipher.update(rows.astype("<u8").tobytes())
    scrambler = Scrambler(KEY)
    for _ in range(2):  # the same words again: nothing is kept between calls
        scrambled = scrambler.scramble(rows)
        assert scrambled.shape == rows.shape
        assert scrambled.astype("<u8").tobytes() == expected


def test_scrambling_needs_a_whole_key() -> None:
    with pytest.raises(MaskingError, match="32 bytes"):
        Scrambler(KEY[:-1])

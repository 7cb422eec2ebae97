"""A short key stretched to as many random words as a vector has: AES-256 in counter mode.

A key gives one stream: nothing here guards against reading words of it twice, so keys come from
`derive_key` with a context that never repeats. Words are little endian everywhere.
"""

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES256
from cryptography.hazmat.primitives.ciphers.modes import CTR, ECB
from numpy.typing import NDArray

from fedforest.errors import MaskingError
from fedforest.masking.key_agreement import KEY_BYTES

WORD = np.dtype("<u8")
PIECE_WORDS = 2**14  # one piece, the zeros and a vector's part stay in a core's own cache together
_ZEROS = memoryview(bytes(PIECE_WORDS * WORD.itemsize))
_FROM_THE_FIRST_BLOCK = CTR(bytes(16))


class Keystream:
    """The stream of one key, read piece by piece."""

    __slots__ = ("_encryptor",)

    def __init__(self, key: bytes) -> None:
        if len(key) != KEY_BYTES:
            raise MaskingError(f"a stream needs a key of {KEY_BYTES} bytes, not {len(key)}")
        self._encryptor = Cipher(AES256(key), _FROM_THE_FIRST_BLOCK).encryptor()

    def go_to(self, place: bytes) -> None:
        """Read on at one of the 2^128 blocks, by its number (16 bytes, the first is zero).

        Opening a stream takes ten times as long.
        """
        self._encryptor.reset_nonce(place)

    def fill(self, words: NDArray[np.uint64]) -> None:
        """Write the stream's next words into a contiguous array of dtype `WORD`."""
        out = words.view(np.uint8).data
        for start in range(0, len(out), len(_ZEROS)):
            self.write(out[start : start + len(_ZEROS)])

    def write(self, out: memoryview) -> None:
        """Write the stream's next bytes: at most those of `PIECE_WORDS` words."""
        self._encryptor.update_into(_ZEROS[: len(out)], out)


def expand(key: bytes, n_words: int) -> NDArray[np.uint64]:
    """Return the first words of a key's stream; a key must not be expanded for two purposes."""
    words = np.empty(n_words, WORD)
    Keystream(key).fill(words)
    return words.astype(np.uint64, copy=False)


def scramble(key: bytes, inputs: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Encrypt rows of two words; without the key, words tell nothing about each other.

    Rows that differ must get words of their own, equal rows get equal words: the cipher's
    permutation is applied to every row on its own.
    """
    if len(key) != KEY_BYTES:
        raise MaskingError(f"scrambling needs a key of {KEY_BYTES} bytes, not {len(key)}")
    encryptor = Cipher(AES256(key), ECB()).encryptor()  # rows are meant to be distinct
    plain = np.ascontiguousarray(inputs, WORD)
    scrambled = np.empty(plain.size + 2, WORD)  # the library wants room for one block more
    encryptor.update_into(plain.reshape(-1).view(np.uint8).data, scrambled.view(np.uint8).data)
    return scrambled[: plain.size].reshape(-1, 2).astype(np.uint64, copy=False)

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


class Scrambler:
    """Random words for rows of two words that differ; without the key they tell nothing.

    Equal rows get equal words: the cipher's permutation is applied to every row on its own.
    """

    __slots__ = ("_cipher",)

    def __init__(self, key: bytes) -> None:
        if len(key) != KEY_BYTES:
            raise MaskingError(f"scrambling needs a key of {KEY_BYTES} bytes, not {len(key)}")
        self._cipher = Cipher(AES256(key), ECB())  # rows are meant to be distinct

    def scramble(self, inputs: NDArray[np.uint64]) -> NDArray[np.uint64]:
        """Encrypt rows of two words; safe to call from several threads."""
        plain = np.ascontiguousarray(inputs, WORD)
        scrambled = np.empty((len(plain) + 1, 2), WORD)  # the library wants room for one block more
        encryptor = self._cipher.encryptor()
        encryptor.update_into(plain.view(np.uint8).data, scrambled.view(np.uint8).data)
        return scrambled[:-1].astype(np.uint64, copy=False)

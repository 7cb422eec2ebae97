"""Decryption of sums: one multiplication by the secret in libsodium, then a search for the number.

Every number found is checked against what its rows could sum up to; a ciphertext that was spoiled
gives an error, never a number out of range. Whether a number within it is the right one cannot be
seen from a ciphertext: who sums can always sum something else.
"""

from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedforest.errors import MaskingError
from fedforest.kernels.points.curve import ADDEND_LIMBS, POINT_LIMBS
from fedforest.kernels.points.encoding import decode_points
from fedforest.kernels.points.logarithms import NOT_FOUND, fill_steps, find_logarithms
from fedforest.kernels.points.sums import subtract_points
from fedforest.masking.homomorphic.group import encode_scalar, multiply, multiply_base, pack_scalars
from fedforest.masking.homomorphic.keys import DecryptionKey
from fedforest.masking.homomorphic.scheme import (
    Encoded,
    check_decoded,
    decode_trusted,
    read_words,
)
from fedforest.masking.homomorphic.summands import Summands

MOST_STEPS = 2**17  # of the table: 4 MB, made in 30 ms


class LogarithmTable(NamedTuple):
    """Small multiples of the base point, for `find_logarithms`."""

    slots: NDArray[np.uint64]
    checks: NDArray[np.uint64]
    leaps: NDArray[np.uint64]


class Decryptor:
    """The owner of a secret key, who decrypts what `Scheme.rerandomise` made."""

    def __init__(self, summands: Summands, secret: DecryptionKey) -> None:
        if len(secret.scalars) != summands.n_keys:
            raise MaskingError(
                f"{summands.n_keys} plaintexts need as many keys, not {len(secret.scalars)}"
            )
        self._summands, self._secret = summands, secret
        self._table = make_table(min(MOST_STEPS, summands.largest_plaintext))

    def decrypt(
        self, encoded: Encoded, n_rows: NDArray[np.int64], most_rows: int
    ) -> NDArray[np.int64]:
        """Sums (n, n_numbers) of at most so many rows each, none of more than `most_rows`.

        Raises
        ------
        MaskingError
            If a ciphertext encodes no points, or none of the sums that its rows can have.
        """
        packing = self._summands.packing(most_rows)
        groups = packing.group(self._summands.n_keys)
        words = read_words(encoded, 1 + len(groups))
        if len(n_rows) != len(words) or np.any((n_rows < 0) | (n_rows > most_rows)):
            raise MaskingError(f"each sum needs its number of rows, from 0 to {most_rows}")
        digits = np.empty((len(words), self._summands.n_keys), np.int64)
        for component, group in enumerate(groups, start=1):
            scalars = [self._secret.scalars[number] for number in group]
            points = open_component(words[:, [0, component]], pack_scalars(scalars, packing.bits))
            ones = sum(1 << packing.bits * place for place in range(len(group)))
            low, high = self._summands.digit_range(group[0] % self._summands.n_digits)
            found = self._search(points, n_rows * (low * ones), n_rows * (high * ones))
            digits[:, group.start : group.stop] = packing.unpack(found, len(group))
        return self._join(digits, n_rows)

    def _search(
        self, points: NDArray[np.uint64], low: NDArray[np.int64], high: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """The numbers whose points these are, each from its lowest to its highest."""
        n_small = len(self._table.checks) - 1
        stride = 2 * n_small + 1
        up, down = (np.maximum(0, -((n_small - end) // stride)) for end in (high, -low))
        found = np.empty(len(points), np.int64)
        slots, checks, leaps = self._table
        find_logarithms(points, up, down, (slots, checks), leaps, found)
        if np.any((found == NOT_FOUND) | (found < low) | (found > high)):
            raise _out_of_range()
        return found

    def _join(self, digits: NDArray[np.int64], n_rows: NDArray[np.int64]) -> NDArray[np.int64]:
        sums = self._summands.join(digits)
        lowest, highest = self._summands.lowest, self._summands.highest
        if np.any((sums < n_rows[:, None] * lowest) | (sums > n_rows[:, None] * highest)):
            raise _out_of_range()
        return sums


def open_component(words: NDArray[np.uint64], scalar: bytes) -> NDArray[np.uint64]:
    """Points of the plaintexts: the second component minus the secret times the first one."""
    firsts, seconds = (np.ascontiguousarray(words[:, k]) for k in (0, 1))
    encoded = firsts.astype("<u8", copy=False).tobytes()
    masks = [multiply(scalar, encoded[at : at + 32]) for at in range(0, len(encoded), 32)]
    points = np.empty((len(words), POINT_LIMBS), np.uint64)
    check_decoded(decode_points(seconds, points), 1)
    subtract_points(points, decode_trusted(b"".join(masks)))
    return points


@lru_cache(maxsize=2)
def make_table(n_small: int) -> LogarithmTable:
    """The table that finds numbers up to `n_small` in magnitude with no leap; it is public."""
    n_slots = 1 << (2 * n_small + 2).bit_length()
    table = LogarithmTable(
        np.zeros((n_slots, 2), np.uint64),
        np.zeros(n_small + 1, np.uint64),
        np.zeros((2, ADDEND_LIMBS), np.uint64),
    )
    fill_steps(decode_trusted(multiply_base(encode_scalar(1))), *table)
    return table


def _out_of_range() -> MaskingError:
    return MaskingError.stating(
        "an encrypted sum is none that its rows can have: it was spoiled, or other rows were summed"
    )

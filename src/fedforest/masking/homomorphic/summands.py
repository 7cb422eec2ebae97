"""What is encrypted for a row, and how it is cut into digits whose sums can be decrypted.

A decryption searches its number, so a sum must stay below `LARGEST_SUM` in magnitude. Marks of
classes do: a row has 0 or 1 for each. Larger numbers are cut into as few digits as possible; each
is encrypted and summed like a class of its own, and the sums are put together again. All digits but
the highest are from -2^(b-1) to 2^(b-1) - 1, so that negative numbers need nothing special.

The other way round, sums of few rows leave room: counts of several classes are packed into one
plaintext before they are decrypted. Who re-randomises and who decrypts must agree on the most rows.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedforest.errors import ConfigurationError, MaskingError

LARGEST_SUM = 2**26  # up to 512 leaps, 0.15 ms, in the search for the sum of a root node
LARGEST_DIGIT = 2**17 - 1  # in magnitude: three windows of the plaintext's multiples
_LARGEST_TOTAL = 2**62
_PACKED_BITS = 24  # of counts in one plaintext: up to 64 leaps, and a decryption less for each


class Packing(NamedTuple):
    """How many plaintexts are decrypted as one, and the bits that each of them has in it."""

    size: int
    bits: int

    def unpack(self, found: NDArray[np.int64], size: int) -> NDArray[np.int64]:
        """The plaintexts (found, size) that were packed into one."""
        if size == 1:  # which may be negative
            return found[:, None]
        return (found[:, None] >> self.bits * np.arange(size)) & ((1 << self.bits) - 1)

    def group(self, n_keys: int) -> list[range]:
        """The plaintexts that are decrypted together."""
        starts = range(0, n_keys, self.size)
        return [range(start, min(n_keys, start + self.size)) for start in starts]


@dataclass(frozen=True)
class Summands:
    """`n_numbers` integers per row, each from `lowest` to `highest`; sums are of `most_rows`."""

    n_numbers: int
    lowest: int
    highest: int
    most_rows: int

    def __post_init__(self) -> None:
        if self.n_numbers < 1 or self.most_rows < 1 or not self.lowest <= 0 < self.highest:
            raise ConfigurationError(
                "encrypted sums are of at least one number in one row, from 0 or less to 1 or more"
            )
        if self.most_rows * max(-self.lowest, self.highest) >= _LARGEST_TOTAL:
            raise ConfigurationError("encrypted sums must stay below 2^62: lower the resolution")
        _ = self.digit_bits

    @cached_property
    def digit_bits(self) -> int:
        """Bits of all digits but the highest; as many digits as this takes."""
        n_bits = (self.highest - self.lowest).bit_length()
        for n_digits in range(1, n_bits + 1):
            bits = -(-n_bits // n_digits)
            low, high = self._highest_digit(bits, n_digits)
            largest = max(-low, high, 2 ** (bits - 1) if n_digits > 1 else 0)
            if largest <= LARGEST_DIGIT and largest * self.most_rows <= LARGEST_SUM:
                return bits
        raise ConfigurationError(f"sums of {self.most_rows} rows are too many to be encrypted")

    @cached_property
    def n_digits(self) -> int:
        return -(-(self.highest - self.lowest).bit_length() // self.digit_bits)

    @property
    def n_keys(self) -> int:
        """How many plaintexts a ciphertext has, each under its own key."""
        return self.n_numbers * self.n_digits

    def digit_range(self, digit: int) -> tuple[int, int]:
        """The lowest and the highest value of a digit, counted from the lowest digit."""
        if digit == self.n_digits - 1:
            return self._highest_digit(self.digit_bits, self.n_digits)
        half = 1 << (self.digit_bits - 1)
        return -half, half - 1

    def packing(self, most_rows: int) -> Packing:
        """How sums of so many rows are packed: counts of classes together, digits alone."""
        if not 1 <= most_rows <= self.most_rows:
            raise MaskingError(f"encrypted sums are of 1 to {self.most_rows} rows")
        bits = (most_rows * self.highest).bit_length()
        if self.n_digits > 1 or self.lowest < 0:
            return Packing(1, bits)
        return Packing(max(1, min(self.n_numbers, _PACKED_BITS // bits)), bits)

    @property
    def largest_plaintext(self) -> int:
        """What a decryption has to find at most, in magnitude."""
        ranges = [self.digit_range(digit) for digit in range(self.n_digits)]
        largest = self.most_rows * max(max(-low, high) for low, high in ranges)
        return max(largest, 1 << _PACKED_BITS) if self.packing(1).size > 1 else largest

    def split(self, numbers: NDArray[np.int64]) -> NDArray[np.int64]:
        """Digits (rows, keys) of numbers (rows, n_numbers); a number's lowest digit comes first."""
        if numbers.ndim != 2 or numbers.shape[1] != self.n_numbers or numbers.dtype != np.int64:
            raise MaskingError(f"a row has {self.n_numbers} integers to encrypt, not others")
        if numbers.size and (numbers.min() < self.lowest or numbers.max() > self.highest):
            raise MaskingError(f"numbers to encrypt are from {self.lowest} to {self.highest}")
        bits, half = self.digit_bits, 1 << (self.digit_bits - 1)
        rest = numbers + _offset(bits, self.n_digits)
        digits = np.empty((*numbers.shape, self.n_digits), np.int64)
        for digit in range(self.n_digits - 1):
            digits[:, :, digit] = (rest & (2 * half - 1)) - half
            rest >>= bits
        digits[:, :, -1] = rest
        return digits.reshape(len(numbers), self.n_keys)

    def join(self, sums: NDArray[np.int64]) -> NDArray[np.int64]:
        """Sums of numbers (sums, n_numbers) from sums of their digits (sums, keys)."""
        weights = np.int64(1) << (self.digit_bits * np.arange(self.n_digits))
        joined: NDArray[np.int64] = sums.reshape(len(sums), self.n_numbers, -1) @ weights
        return joined

    def _highest_digit(self, bits: int, n_digits: int) -> tuple[int, int]:
        offset, shift = _offset(bits, n_digits), bits * (n_digits - 1)
        return (self.lowest + offset) >> shift, (self.highest + offset) >> shift


def _offset(bits: int, n_digits: int) -> int:
    """What makes all digits but the highest positive: half of each one's range."""
    return sum(1 << (bits * digit + bits - 1) for digit in range(n_digits - 1))

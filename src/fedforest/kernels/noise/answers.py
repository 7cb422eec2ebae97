"""The answers of rows to a query at random: one draw for a few rows gives how many say one.

Rows whose bit is set say one with one probability, the others with another. For every few rows the
law of the number is tabulated, exactly (`privacy.answer_laws`):

    chances of 0, of at most 1, of at most 2, ...   as binary fractions, to their last bit
    what the first byte of a fraction says          the number, or UNDECIDED near such a chance

A random fraction lies below the first of them with its probability. Its first byte mostly decides;
where it does not, as many further words are compared as it takes. More rows answer some at a time,
and very many as binomial draws.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedforest.kernels.jit import borrowing, embedded, kernel
from fedforest.kernels.noise.binomial import draw_binomial
from fedforest.kernels.noise.chacha import next_half

UNDECIDED = np.uint8(255)
DRAWS_WORTH_IT = 32  # beyond so many, two binomial draws are cheaper
_TO_FIRST_BYTE = np.uint32(24)


class AnswerLaws(NamedTuple):
    """Laws for up to `most` rows; that of n rows, `ones` of them set, is n (n + 1) / 2 + ones."""

    most: int
    if_set: float
    if_clear: float
    by_byte: NDArray[np.uint8]  # (laws, 256)
    start: NDArray[np.int64]  # of each law's chances; those that are 1 are left out
    chances: NDArray[np.uint32]  # (words, chances), the first word highest


@borrowing
def place_fraction(stream, half, chances, first, last):
    """Return the first of the chances first..last above a random fraction that begins with `half`.

    Those it agrees with so far are told apart by the next words. Chances end, fractions do not: one
    that agrees to the end is above.
    """
    for word in range(chances.shape[0]):
        while first < last and chances[word, first] < half:
            first += 1
        end = first
        while end < last and chances[word, end] == half:
            end += 1
        if end == first:
            return first
        last = end
        half = next_half(stream)
    return last


@embedded
def draw_few(stream, laws, n, ones):
    """Draw how many of at most `laws.most` rows say one."""
    law = (n * (n + 1) >> 1) + ones
    half = next_half(stream)
    number = laws.by_byte[law, half >> _TO_FIRST_BYTE]
    if number != UNDECIDED:
        return np.int64(number)
    first = laws.start[law]
    return place_fraction(stream, half, laws.chances, first, laws.start[law + 1]) - first


@embedded
def draw_answer(stream, laws, n, ones):
    """Draw how many of n rows say one, if `ones` of them have the bit set."""
    if n > DRAWS_WORTH_IT * laws.most:
        set_ones = draw_binomial(stream, ones, laws.if_set)
        return set_ones + draw_binomial(stream, n - ones, laws.if_clear)
    total = np.int64(0)
    while n > laws.most:
        taken = min(ones, laws.most)
        total += draw_few(stream, laws, laws.most, taken)
        n, ones = n - laws.most, ones - taken
    return total + draw_few(stream, laws, n, ones)


@kernel
def answer_at_random(sums, laws, stream):
    """Every row of a query answers every bit anew: exact sums become those of the answers.

    `sums` (queries, bits + 1) counts rows whose bit is set, and rows, which stay. Returns whether
    no bit was set in more rows than there are, or in fewer than none; up to there sums are noisy.
    """
    n_bits = sums.shape[1] - 1
    for query in range(sums.shape[0]):
        n = sums[query, n_bits]
        for bit in range(n_bits):
            ones = sums[query, bit]
            if ones < 0 or ones > n:
                return False
            sums[query, bit] = draw_answer(stream, laws, n, ones)
    return True

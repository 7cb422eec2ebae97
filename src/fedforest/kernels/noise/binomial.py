"""Binomial draws from ChaCha words: many coins tossed at once.

Up to 64 coins are tossed bit by bit, exactly. For more coins, small expectations by inversion and
larger ones by Hörmann's transformed rejection (BTRS, 1993), whose probabilities are right up to
rounding: relative errors of some 10^-10 for a million coins.
"""

import math

import numpy as np

from fedforest.kernels.jit import borrowing, embedded
from fedforest.kernels.noise.chacha import next_unit, next_word

_ALL = np.uint64(0xFFFFFFFFFFFFFFFF)
_ZERO = np.uint64(0)
_EVERY_SECOND = np.uint64(0x5555555555555555)
_PAIRS = np.uint64(0x3333333333333333)
_NIBBLES = np.uint64(0x0F0F0F0F0F0F0F0F)
_EVERY_BYTE = np.uint64(0x0101010101010101)
_FEW = 10.0  # expected successes from which rejection is valid
# log k! beyond Stirling's formula, for the k below its series' reach
_CORRECTIONS = np.array(
    [
        math.lgamma(k + 1) - 0.5 * math.log(2 * math.pi) - (k + 0.5) * math.log(k + 1) + k + 1
        for k in range(10)
    ]
)


@embedded
def count_ones(word):
    """Set bits of a word, by adding neighbours; the compiler knows the pattern."""
    word -= (word >> np.uint64(1)) & _EVERY_SECOND
    word = (word & _PAIRS) + ((word >> np.uint64(2)) & _PAIRS)
    word = (word + (word >> np.uint64(4))) & _NIBBLES
    return np.int64((word * _EVERY_BYTE) >> np.uint64(56))


@borrowing
def draw_binomial(stream, n, p):
    """Draw how many of n tosses succeed, each with probability p."""
    if n <= 0 or p <= 0.0:
        return 0
    if p >= 1.0:
        return n
    if n <= 64:
        return toss_few(stream, n, p)
    if p > 0.5:
        return n - draw_many(stream, n, 1.0 - p)
    return draw_many(stream, n, p)


@borrowing
def draw_many(stream, n, p):
    """Draw successes for p of at most a half."""
    if n * p < _FEW:
        return invert(stream, n, p)
    return reject(stream, n, p)


@borrowing
def toss_few(stream, n, p):
    """At most 64 coins at once: a coin succeeds if its random binary fraction is below p.

    Fractions are compared with p from the first bit on; a coin is decided where they differ. All
    bits of p are used, so the probability is p exactly.
    """
    undecided = _ALL >> np.uint64(64 - n)
    successes = _ZERO
    while undecided != _ZERO and p > 0.0:
        word = next_word(stream)
        p *= 2.0
        if p >= 1.0:
            p -= 1.0
            successes |= undecided & ~word
            undecided &= word
        else:
            undecided &= ~word
    return count_ones(successes)


@borrowing
def invert(stream, n, p):
    """Walk up from zero until the distribution function passes a uniform number."""
    odds = p / (1.0 - p)
    while True:
        rest = next_unit(stream)
        probability = math.exp(n * math.log1p(-p))
        for k in range(n + 1):
            if rest <= probability:
                return k
            rest -= probability
            probability *= odds * (n - k) / (k + 1)


@borrowing
def log_factorial_correction(k):
    """Return what Stirling's formula around k + 1 lacks to log k!."""
    if k < 10:
        return _CORRECTIONS[k]
    x = 1.0 / (k + 1)
    return (1.0 / 12 - (1.0 / 360 - x * x / 1260) * x * x) * x


@borrowing
def log_ratio(n, p, k, mode):
    """Return the logarithm of the probability of k, beside that of the likeliest k."""
    odds = p / (1.0 - p)
    rest, mode_rest = n - k, n - mode
    return (
        (mode + 0.5) * math.log((mode + 1) / (odds * (mode_rest + 1)))
        + (n + 1.0) * math.log((mode_rest + 1) / (rest + 1))
        + (k + 0.5) * math.log(odds * (rest + 1) / (k + 1))
        + log_factorial_correction(mode)
        + log_factorial_correction(mode_rest)
        - log_factorial_correction(k)
        - log_factorial_correction(rest)
    )


@borrowing
def reject(stream, n, p):
    """Transformed rejection with squeeze, for n p of at least 10 and p of at most a half."""
    deviation = math.sqrt(n * p * (1.0 - p))
    b = 1.15 + 2.53 * deviation
    a = -0.0873 + 0.0248 * b + 0.01 * p
    centre = n * p + 0.5
    surely = 0.92 - 4.2 / b
    alpha = (2.83 + 5.1 / b) * deviation
    mode = np.int64(math.floor((n + 1) * p))
    while True:
        u = next_unit(stream) - 0.5
        v = next_unit(stream)
        edge = 0.5 - abs(u)
        draw = math.floor((2.0 * a / edge + b) * u + centre)
        if edge >= 0.07 and v <= surely:
            return np.int64(draw)
        if draw < 0.0 or draw > n:
            continue
        k = np.int64(draw)
        if math.log(v * alpha / (a / (edge * edge) + b)) <= log_ratio(n, p, k, mode):
            return k

"""Discrete Laplace noise from integers alone (Canonne, Kamath and Steinke 2020, algorithms 1, 2).

P(x) is proportional to exp(-|x| / scale) for every integer x, exactly: no floating-point number
takes part, so there are no gaps or rounding between possible outcomes that could give the true
value away (Mironov 2012). A scale is numerator * 2^exponent, at most 2^51, with a numerator of at
most 2^32: nothing overflows unless a coin of probability 1/e shows the same side 4000 times.
"""

import numpy as np

from fedforest.kernels.jit import borrowing, embedded, kernel
from fedforest.kernels.noise.chacha import next_below, next_half, next_word

_ONE = np.uint64(1)
_ZERO = np.uint64(0)


@embedded
def next_fraction(stream, numerator, low_bits):
    """Return a uniform integer below numerator * 2^low_bits."""
    high = next_below(stream, numerator)
    if low_bits == _ZERO:
        return high
    return (high << low_bits) | (next_word(stream) & ((_ONE << low_bits) - _ONE))


@embedded
def is_odd(trial):
    """Return whether the first failure, at this trial, is an odd one."""
    return (trial & _ONE) == _ONE


@borrowing
def survives_fraction(stream, part, numerator, low_bits):
    """True with probability exp(-f) for f = part / (numerator * 2^low_bits), at most 1.

    Algorithm 1: of trials with probabilities f, f/2, f/3, ... the first failure is an odd one with
    probability 1 - f + f^2/2! - f^3/3! + ... = exp(-f).
    """
    trial = _ONE
    while next_fraction(stream, numerator, low_bits) < part and (
        trial == _ONE or next_below(stream, trial) == _ZERO
    ):
        trial += _ONE
    return is_odd(trial)


@borrowing
def survives_unit(stream):
    """True with probability exp(-1), the same way; the first trial never fails."""
    trial = np.uint64(2)
    while next_below(stream, trial) == _ZERO:
        trial += _ONE
    return is_odd(trial)


@borrowing
def draw_discrete_laplace(stream, numerator, exponent):
    """Return one draw of noise of scale numerator * 2^exponent (algorithm 2)."""
    low_bits, shift = np.uint64(max(exponent, 0)), np.uint64(max(-exponent, 0))
    while True:
        magnitude = next_fraction(stream, numerator, low_bits)
        if not survives_fraction(stream, magnitude, numerator, low_bits):
            continue
        while survives_unit(stream):
            magnitude += numerator << low_bits
        magnitude >>= shift
        is_negative = (next_half(stream) & np.uint32(1)) == np.uint32(1)
        if is_negative and magnitude == _ZERO:
            continue  # zero has one sign, or it would come twice as often
        return -np.int64(magnitude) if is_negative else np.int64(magnitude)


@kernel
def add_discrete_laplace(plain, numerator, exponent, stream, noisy):
    """Each integer plus noise of its own."""
    for i in range(plain.shape[0]):
        noisy[i] = plain[i] + draw_discrete_laplace(stream, numerator, exponent)

"""Discrete Laplace noise from integers alone (Canonne, Kamath and Steinke 2020, algorithms 1, 2).

P(x) is proportional to exp(-|x| 2^shift / scale) for every integer x, exactly: no floating-point
number takes part, so there are no gaps or rounding between possible outcomes that could give the
true value away (Mironov 2012). The bound of a draw is below 2^51, so that nothing overflows unless
a coin of probability 1/e shows the same side 4000 times.
"""

import numpy as np

from fedforest.kernels.chacha import next_below, next_half
from fedforest.kernels.jit import borrowing, kernel

_ONE = np.uint64(1)
_ZERO = np.uint64(0)


@borrowing
def survives(stream, numerator, denominator):
    """True with probability exp(-numerator / denominator), for a fraction of at most 1.

    Algorithm 1: of trials with probabilities f, f/2, f/3, ... the first failure is an odd one with
    probability 1 - f + f^2/2! - f^3/3! + ... = exp(-f).
    """
    trial = _ONE
    while next_below(stream, denominator) < numerator and next_below(stream, trial) == _ZERO:
        trial += _ONE
    return (trial & _ONE) == _ONE


@borrowing
def draw_discrete_laplace(stream, scale, shift):
    """One draw of noise of scale `scale` / 2^shift (algorithm 2)."""
    while True:
        magnitude = next_below(stream, scale)
        if not survives(stream, magnitude, scale):
            continue
        while survives(stream, _ONE, _ONE):
            magnitude += scale
        magnitude >>= shift
        is_negative = (next_half(stream) & np.uint32(1)) == np.uint32(1)
        if is_negative and magnitude == _ZERO:
            continue  # zero has one sign, or it would come twice as often
        return -np.int64(magnitude) if is_negative else np.int64(magnitude)


@kernel
def add_discrete_laplace(plain, scale, shift, stream, noisy):
    """Each integer plus noise of its own."""
    for i in range(plain.shape[0]):
        noisy[i] = plain[i] + draw_discrete_laplace(stream, scale, shift)

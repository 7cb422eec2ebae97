"""x log2 x from additions, multiplications and one division only, and as an exact integer.

The C library's logarithm may differ in the last bit between machines and versions; a forest that is
the same everywhere must not depend on it. The series below is accurate to a few units in the last
place for every positive float64.
"""

import math

import numpy as np

from fedforest.kernels.jit import kernel

ENTROPY_UNIT = 2.0**26  # fixed point: sums over weights below 2^31 fit int64
_ROOT_HALF = 0.7071067811865476
_TWO_OVER_LN2 = 2.8853900817779268


@kernel
def log2(x):
    """Binary logarithm of a positive number: 2/ln 2 * artanh((m - 1)/(m + 1)) + exponent."""
    mantissa, exponent = math.frexp(x)
    if mantissa < _ROOT_HALF:
        mantissa *= 2.0
        exponent -= 1
    s = (mantissa - 1.0) / (mantissa + 1.0)
    square = s * s
    series = 0.0
    for k in range(23, 0, -2):
        series = series * square + 1.0 / k
    return np.float64(exponent) + _TWO_OVER_LN2 * (s * series)


@kernel
def x_log2_x(x):
    """Zero at zero, else x times its binary logarithm."""
    return x * log2(x) if x > 0.0 else 0.0


@kernel
def fixed_x_log2_x(x):
    """Compute x log2 x of a whole number below 2^31, in fixed point, rounded half up."""
    return np.int64(math.floor(x_log2_x(np.float64(x)) * ENTROPY_UNIT + 0.5))

"""Arithmetic modulo the prime 2^61 - 1, on uint64 below it.

Reduction is cheap because 2^61 is 1: the bits above bit 61 are added to those below. No
intermediate result reaches 2^64, so no sum wraps round.
"""

import numpy as np

from fedforest.kernels.jit import kernel

PRIME_BITS = 61
PRIME = (1 << PRIME_BITS) - 1

_PRIME = np.uint64(PRIME)
_PRIME_BITS = np.uint64(PRIME_BITS)
_LOW_32 = np.uint64(2**32 - 1)
_LOW_29 = np.uint64(2**29 - 1)
_3, _29, _32 = np.uint64(3), np.uint64(29), np.uint64(32)


@kernel
def add(a, b):
    """Sum of two elements."""
    total = a + b
    return total - _PRIME if total >= _PRIME else total


@kernel
def multiply(a, b):
    """Product of two elements, by halves: a = a1 2^32 + a0, b = b1 2^32 + b0, a1 and b1 below 2^29.

    The product's a1 b1 2^64 is a1 b1 2^3. Its middle terms, m < 2^62 times 2^32, are
    m1 + m0 2^32 where m = m1 2^29 + m0.
    """
    a1, a0 = a >> _32, a & _LOW_32
    b1, b0 = b >> _32, b & _LOW_32
    middle = a1 * b0 + a0 * b1
    low = a0 * b0
    total = (a1 * b1) << _3  # below 2^61
    total += (middle >> _29) + ((middle & _LOW_29) << _32)  # below 2^33 + 2^61
    total += (low >> _PRIME_BITS) + (low & _PRIME)  # below 2^3 + 2^61
    return add(total >> _PRIME_BITS, total & _PRIME)


@kernel
def evaluate(constants, coefficients, point, values):
    """Values of many polynomials at one point, by Horner's rule.

    Polynomial i has constants[i] and coefficients[j, i] for the power j + 1.
    """
    degree = coefficients.shape[0]
    for i in range(constants.shape[0]):
        value = np.uint64(0)
        for j in range(degree - 1, -1, -1):
            value = multiply(add(value, coefficients[j, i]), point)
        values[i] = add(value, constants[i])


@kernel
def add_to(totals, values):
    """Add values to totals, one by one."""
    for i in range(totals.shape[0]):
        totals[i] = add(totals[i], values[i])


@kernel
def add_multiple(totals, values, factor):
    """Add `factor` times the values to totals."""
    for i in range(totals.shape[0]):
        totals[i] = add(totals[i], multiply(values[i], factor))

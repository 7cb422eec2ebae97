"""Sorting many float32 by their bits: three passes that put them in order of eleven bits each.

Comparing takes as many steps as numbers have digits in base two; here it is three, whatever their
number. A few numbers are sorted sooner by comparing, which is left to the callers.
"""

import numpy as np

from fedforest.kernels.jit import inlined, kernel

N_DIGITS = 1 << 11
N_PASSES = 3

_SHIFT = np.uint32(11)
_DIGIT = np.uint32(N_DIGITS - 1)
_SIGN = np.uint32(0x80000000)
_ALL = np.uint32(0xFFFFFFFF)
_INFINITE = np.uint32(0x7F800000)  # without its sign; larger ones are no numbers
_NO_NUMBER = np.uint32(0x7FC00000)


@inlined
def to_key(bits):
    """An integer that has the order of the float32 with these bits; what is no number comes last.

    Both zeros are one, as in comparing.
    """
    size = bits & ~_SIGN
    bits = _NO_NUMBER if size > _INFINITE else bits
    bits = np.uint32(0) if size == 0 else bits
    return ~bits if bits & _SIGN else bits | _SIGN


@inlined
def to_bits(key):
    """The bits again."""
    return key & ~_SIGN if key & _SIGN else ~key


@kernel
def count_digits(keys, counts):
    """counts[p, d]: how many keys have the digit d in pass p."""
    for i in range(keys.shape[0]):
        key = keys[i]
        for p in range(N_PASSES):
            counts[p, key & _DIGIT] += 1
            key >>= _SHIFT


@kernel
def scatter_by_digit(source, shift, places, target):
    """Put keys where those of their digit belong, in order; `places` says where, and moves on."""
    for i in range(source.shape[0]):
        digit = (source[i] >> shift) & _DIGIT
        target[np.uint64(places[digit])] = source[i]
        places[digit] += 1


@kernel
def sort_floats(values):
    """Sort float32 in place, ascending."""
    bits = values.view(np.uint32)
    n = bits.shape[0]
    keys, spare = np.empty(n, np.uint32), np.empty(n, np.uint32)
    for i in range(n):
        keys[i] = to_key(bits[i])
    counts = np.zeros((N_PASSES, N_DIGITS), np.int64)
    count_digits(keys, counts)
    shift = np.uint32(0)
    for p in range(N_PASSES):
        at = 0
        for digit in range(N_DIGITS):
            counts[p, digit], at = at, at + counts[p, digit]
        scatter_by_digit(keys, shift, counts[p], spare)
        keys, spare = spare, keys
        shift += _SHIFT
    for i in range(n):
        bits[i] = to_bits(keys[i])

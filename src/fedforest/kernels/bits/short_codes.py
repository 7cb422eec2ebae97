"""Tables of integers in few bits: each column has a width, and larger numbers cost a little more.

Signs go into the lowest bit first, as in `varints.py`. Of the word that results, what lies
above the column's width, plus one, is written as a number whose length is told before it by zeros;
the lowest bits, as many as the width says, follow as they are:

    word = high * 2^width + low        | zeros | high + 1, from its highest bit on | low |

In a column with many zeros among large numbers, a bit before each says whether it is one, and the
word of any other is written less one. Bits fill bytes from the lowest on.
"""

import numpy as np

from fedforest.kernels.bits.bitsets import count_ones
from fedforest.kernels.jit import inlined, kernel

MAX_WIDTH = 63
ZEROS_APART = 64  # added to a column's width where a bit says which of its integers are zero

_ZERO = np.uint64(0)
_ONE = np.uint64(1)
_THREE = np.uint64(3)
_SEVEN = np.uint64(7)
_LAST_BIT = np.uint64(63)
_WORD_BITS = 64


@inlined
def fold_sign(value):
    """0, -1, 1, -2 become 0, 1, 2, 3."""
    return np.uint64(value << 1) ^ np.uint64(value >> 63)


@kernel
def count_digits(word):
    """Binary digits of a uint64; zero has none."""
    for shift in (1, 2, 4, 8, 16, 32):
        word |= word >> np.uint64(shift)
    return np.int64(count_ones(word))


@kernel
def estimate_bits(n_of_length, longest, width, zeros_apart):
    """Estimate the bits of integers of these lengths, or at most two less each."""
    n_zeros = n_of_length[0] if zeros_apart else 0
    n_bits = n_of_length.sum() if zeros_apart else 0
    n_bits += (n_of_length.sum() - n_zeros) * (1 + width)
    for length in range(width + 1, longest + 1):
        n_bits += n_of_length[length] * 2 * (length - width)
    return n_bits


@kernel
def choose_widths(values, widths):
    """For each column the width that makes its integers short, and whether zeros are apart.

    Returns how many bits they take at most.
    """
    n_of_length, in_all = np.empty(_WORD_BITS + 1, np.int64), np.int64(0)
    for column in range(values.shape[1]):
        n_of_length[:] = 0
        for i in range(values.shape[0]):
            n_of_length[count_digits(fold_sign(values[i, column]))] += 1
        longest = _WORD_BITS
        while longest > 0 and n_of_length[longest] == 0:
            longest -= 1
        least, widths[column] = np.int64(2**62), 0
        for width in range(min(longest, MAX_WIDTH) + 1):
            for zeros_apart in range(2):
                n_bits = estimate_bits(n_of_length, longest, width, zeros_apart)
                if n_bits < least:
                    least, widths[column] = n_bits, width + zeros_apart * ZEROS_APART
        in_all += least
    return in_all


@kernel
def put_bits(out, at, bits, n):
    """Write the lowest n of some bits at bit `at` of `out`, which is zero there; returns the next.

    Bits above them must be zero; all are uint64.
    """
    while n > _ZERO:
        begin = at & _SEVEN
        out[at >> _THREE] |= np.uint8(bits << begin & np.uint64(255))
        n_here = min(n, np.uint64(8) - begin)
        bits >>= n_here
        at += n_here
        n -= n_here
    return at


@kernel
def write_codes(values, widths, out):
    """Write (nodes, columns) of int64, at most 2^62 in size, row by row.

    `out` is zero and has room for the bits of `choose_widths`. Returns how many bytes are used.
    """
    at = _ZERO
    for i in range(values.shape[0]):
        for column in range(values.shape[1]):
            word, width = fold_sign(values[i, column]), np.uint64(widths[column] & MAX_WIDTH)
            if widths[column] & ZEROS_APART:
                at = put_bits(out, at, np.uint64(word > _ZERO), _ONE)
                if word == _ZERO:
                    continue
                word -= _ONE
            high = (word >> width) + _ONE
            n_digits = np.uint64(count_digits(high))
            at += n_digits - _ONE  # zeros
            for digit in range(n_digits):
                at = put_bits(out, at, high >> (n_digits - _ONE - digit) & _ONE, _ONE)
            at = put_bits(out, at, word & ((_ONE << width) - _ONE), width)
    return np.int64((at + _SEVEN) >> _THREE)


@kernel
def take_bits(data, at, n):
    """Return the n bits from bit `at` on; all are uint64, and the bits must be there."""
    bits, done = _ZERO, _ZERO
    while done < n:
        begin = at & _SEVEN
        n_here = min(n - done, np.uint64(8) - begin)
        piece = np.uint64(data[at >> _THREE]) >> begin & ((_ONE << n_here) - _ONE)
        bits |= piece << done
        at += n_here
        done += n_here
    return bits


@kernel
def read_codes(data, widths, values):
    """Read as many integers as `values`, (nodes, columns), holds.

    Returns whether `data` was exactly these, and padded with zeros. Widths are at most `MAX_WIDTH`
    and `ZEROS_APART` together.
    """
    at, end = _ZERO, np.uint64(8 * data.shape[0])
    for i in range(values.shape[0]):
        for column in range(values.shape[1]):
            width, n_zeros = np.uint64(widths[column] & MAX_WIDTH), _ZERO
            is_apart = np.uint64(widths[column] >= ZEROS_APART)
            if is_apart:
                if at >= end:
                    return False
                at += _ONE
                if take_bits(data, at - _ONE, _ONE) == _ZERO:
                    values[i, column] = 0
                    continue
            while at < end and take_bits(data, at, _ONE) == _ZERO:
                at += _ONE
                n_zeros += _ONE
            if n_zeros > _LAST_BIT or at + _ONE + n_zeros + width > end:
                return False
            high = _ONE
            for digit in range(n_zeros):
                high = high << _ONE | take_bits(data, at + _ONE + digit, _ONE)
            at += _ONE + n_zeros
            high -= _ONE
            if high << width >> width != high:
                return False  # more than a word
            word = high << width | take_bits(data, at, width)
            at += width
            if is_apart and word == ~_ZERO:
                return False
            word += is_apart
            values[i, column] = np.int64(word >> _ONE) ^ -np.int64(word & _ONE)
    padding = end - at
    return padding < np.uint64(8) and take_bits(data, at, padding) == _ZERO

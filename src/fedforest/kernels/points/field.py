"""Arithmetic modulo p = 2^255 - 19, the field of curve25519, in five limbs of 51 bits.

An element is a tuple of five uint64, the lowest first; it may stand for a number above p. Limbs are
*tight*, below 2^51 + 2^13, as products are, or *loose*, below 2^54: sums and differences of tight
elements, and of those once more. Products take loose elements, differences take away tight ones.
Five products of loose limbs, some times 19, stay below 2^115, so that what is carried fits a word.
"""

import numpy as np

from fedforest.kernels.jit import borrowing, embedded, kernel
from fedforest.kernels.points.wide_products import LIMB_BITS, LIMB_MASK, sum_products

PRIME = 2**255 - 19


def to_limbs(number: int) -> tuple[np.uint64, ...]:
    """A Python integer as an element, for constants and tests."""
    reduced = number % PRIME
    return tuple(np.uint64(reduced >> (LIMB_BITS * k) & LIMB_MASK) for k in range(5))


ZERO, ONE = to_limbs(0), to_limbs(1)
SQRT_MINUS_ONE = to_limbs(pow(2, (PRIME - 1) // 4, PRIME))

_0, _1, _2, _3, _4, _19, _51 = (np.uint64(k) for k in (0, 1, 2, 3, 4, 19, LIMB_BITS))
_MASK = np.uint64(LIMB_MASK)
_TWICE_P = (np.uint64(2**52 - 38), np.uint64(2**52 - 2))  # its lowest limb, and each other


@embedded
def add(a, b):
    """Sum."""
    return (a[0] + b[0], a[1] + b[1], a[2] + b[2], a[3] + b[3], a[4] + b[4])


@embedded
def subtract(a, b):
    """Difference; `b` must be tight."""
    low, high = _TWICE_P
    return (
        a[0] + low - b[0],
        a[1] + high - b[1],
        a[2] + high - b[2],
        a[3] + high - b[3],
        a[4] + high - b[4],
    )


@embedded
def fold(r0, r1, r2, r3, r4, top):
    """A tight element from limbs of 51 bits and what stands above them: 2^255 is 19."""
    r0 += top * _19
    return (r0 & _MASK, r1 + (r0 >> _51), r2, r3, r4)


@embedded
def multiply(a, b):
    """Product, tight."""
    b0, b1, b2, b3, b4 = b
    c1, c2, c3, c4 = b1 * _19, b2 * _19, b3 * _19, b4 * _19
    r0, k = sum_products(a, (b0, c4, c3, c2, c1), _0)
    r1, k = sum_products(a, (b1, b0, c4, c3, c2), k)
    r2, k = sum_products(a, (b2, b1, b0, c4, c3), k)
    r3, k = sum_products(a, (b3, b2, b1, b0, c4), k)
    r4, k = sum_products(a, (b4, b3, b2, b1, b0), k)
    return fold(r0, r1, r2, r3, r4, k)


@embedded
def square(a):
    """Product with itself, tight."""
    a0, a1, a2, a3, a4 = a
    d0, d1, d2 = a0 * _2, a1 * _2, a2 * _2
    c3, c4 = a3 * _19, a4 * _19
    r0, k = sum_products((a0, d1, d2), (a0, c4, c3), _0)
    r1, k = sum_products((d0, d2, a3), (a1, c4, c3), k)
    r2, k = sum_products((d0, a1, a3 * _2), (a2, a1, c4), k)
    r3, k = sum_products((d0, d1, a4), (a3, a2, c4), k)
    r4, k = sum_products((d0, d1, a2), (a4, a3, a2), k)
    return fold(r0, r1, r2, r3, r4, k)


@embedded
def negate(a):
    """The tight element's negative, loose."""
    return subtract(ZERO, a)


@embedded
def carry(a):
    """The same number, every limb but the second below 2^51."""
    a0, a1, a2, a3, a4 = a
    a1 += a0 >> _51
    a2 += a1 >> _51
    a3 += a2 >> _51
    a4 += a3 >> _51
    return fold(a0 & _MASK, a1 & _MASK, a2 & _MASK, a3 & _MASK, a4 & _MASK, a4 >> _51)


@embedded
def reduce(a):
    """The one form below p of a loose element."""
    a0, a1, a2, a3, a4 = carry(carry(a))
    # whether it is p or more shows in what adding 19 carries out of the top
    over = (a0 + _19) >> _51
    over = (a1 + over) >> _51
    over = (a2 + over) >> _51
    over = (a3 + over) >> _51
    over = (a4 + over) >> _51
    a0 += over * _19
    a1 += a0 >> _51
    a2 += a1 >> _51
    a3 += a2 >> _51
    a4 += a3 >> _51
    return (a0 & _MASK, a1 & _MASK, a2 & _MASK, a3 & _MASK, a4 & _MASK)


@embedded
def is_zero(a):
    """Whether it is zero."""
    r0, r1, r2, r3, r4 = reduce(a)
    return (r0 | r1 | r2 | r3 | r4) == _0


@embedded
def is_negative(a):
    """Whether its form below p is odd: RFC 9496 calls these negative."""
    return (reduce(a)[0] & _1) == _1


@kernel
def square_often(a, count):
    """The element to the power 2^count."""
    for _ in range(count):
        a = square(a)
    return a


@kernel
def power_ladder(a):
    """(a^11, a^(2^250 - 1)), from which the two powers below are made."""
    a2 = square(a)
    a9 = multiply(square_often(a2, 2), a)
    a11 = multiply(a9, a2)
    bits_5 = multiply(square(a11), a9)  # a^(2^5 - 1), and so on
    bits_10 = multiply(square_often(bits_5, 5), bits_5)
    bits_20 = multiply(square_often(bits_10, 10), bits_10)
    bits_40 = multiply(square_often(bits_20, 20), bits_20)
    bits_50 = multiply(square_often(bits_40, 10), bits_10)
    bits_100 = multiply(square_often(bits_50, 50), bits_50)
    bits_200 = multiply(square_often(bits_100, 100), bits_100)
    return a11, multiply(square_often(bits_200, 50), bits_50)


@kernel
def invert(a):
    """1 / a as a^(p - 2); zero gives zero."""
    a11, bits_250 = power_ladder(a)
    return multiply(square_often(bits_250, 5), a11)


@kernel
def inverse_root(a):
    """(whether `a` is a square, the even root of 1 / a), RFC 9496 section 4.2 with u = 1.

    Without such a root, and for zero, the first is false and the second means nothing.
    """
    a3 = multiply(square(a), a)
    a7 = multiply(square(a3), a)
    _, bits_250 = power_ladder(a7)
    root = multiply(multiply(square_often(bits_250, 2), a7), a3)  # a^3 (a^7)^((p - 5) / 8)
    check = multiply(a, square(root))
    is_minus_one = is_zero(add(check, ONE))
    if is_minus_one:
        root = multiply(root, SQRT_MINUS_ONE)
    if is_negative(root):
        root = carry(negate(root))
    return is_minus_one or is_zero(subtract(check, ONE)), root


@embedded
def load(limbs, i, at):
    """The element that stands in a row of an array, from a column on."""
    return (
        limbs[i, at],
        limbs[i, at + _1],
        limbs[i, at + _2],
        limbs[i, at + _3],
        limbs[i, at + _4],
    )


@embedded
def store(limbs, i, at, a):
    """Put an element into a row of an array, from a column on."""
    limbs[i, at] = a[0]
    limbs[i, at + _1] = a[1]
    limbs[i, at + _2] = a[2]
    limbs[i, at + _3] = a[3]
    limbs[i, at + _4] = a[4]


@borrowing
def invert_all(elements, products):
    """Replace every element by its inverse, and zero by zero, with one inversion for all.

    `products` is space for as many: product k is that of all elements before k.
    """
    n = np.uint64(elements.shape[0])
    product = ONE
    for k in range(n):
        store(products, k, _0, product)
        element = load(elements, k, _0)
        product = multiply(product, ONE if is_zero(element) else element)
    inverse = invert(product)
    for step in range(n):
        k = n - _1 - step
        element = load(elements, k, _0)
        if is_zero(element):
            store(elements, k, _0, ZERO)
        else:
            store(elements, k, _0, multiply(inverse, load(products, k, _0)))
            inverse = multiply(inverse, element)

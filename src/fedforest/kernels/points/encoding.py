"""Elements of ristretto255 as 32 bytes (RFC 9496), in four little-endian words, and back.

Decoding takes a square root each and accepts the one encoding of each element. Encoding a point
takes one, too, but encoding *twice* the point takes only an inversion, which a whole batch
shares (Hamburg; the formulas are curve25519-dalek's `double_and_compress_batch`). So we encode
doubles only, and callers have to expect the factor two.
"""

import numpy as np

from fedforest.kernels.jit import embedded, kernel
from fedforest.kernels.points.curve import D_NUMBER, load_point, store_addend, store_point
from fedforest.kernels.points.field import (
    ONE,
    PRIME,
    SQRT_MINUS_ONE,
    ZERO,
    add,
    carry,
    inverse_root,
    invert_all,
    is_negative,
    is_zero,
    load,
    multiply,
    negate,
    reduce,
    square,
    store,
    subtract,
    to_limbs,
)

_BLOCK = 128  # points that share an inversion: 20 KB, which stay in a core's cache


def _even_root(number: int) -> int:
    """The even square root modulo p."""
    root = pow(number, (PRIME + 3) // 8, PRIME)
    if root * root % PRIME != number % PRIME:
        root = root * pow(2, (PRIME - 1) // 4, PRIME) % PRIME
    return min(root, PRIME - root, key=lambda each: each % 2)


_D = to_limbs(D_NUMBER)
_INVERSE_ROOT_A_MINUS_D = to_limbs(_even_root(pow(-1 - D_NUMBER, -1, PRIME)))
_0, _1, _2, _3, _13, _25, _26, _38, _39, _12, _51 = (
    np.uint64(k) for k in (0, 1, 2, 3, 13, 25, 26, 38, 39, 12, 51)
)
_MASK = np.uint64(2**51 - 1)


@embedded
def unpack(words, i):
    """(the element in four words of a row, whether they are its only form and it is even)."""
    w0, w1, w2, w3 = words[i, _0], words[i, _1], words[i, _2], words[i, _3]
    s = (
        w0 & _MASK,
        ((w0 >> _51) | (w1 << _13)) & _MASK,
        ((w1 >> _38) | (w2 << _26)) & _MASK,
        ((w2 >> _25) | (w3 << _39)) & _MASK,
        w3 >> _12,
    )
    reduced = reduce(s)
    differs = (s[0] ^ reduced[0]) | (s[1] ^ reduced[1]) | (s[2] ^ reduced[2])
    differs |= (s[3] ^ reduced[3]) | (s[4] ^ reduced[4])
    return s, (differs | (w0 & _1)) == _0


@embedded
def pack(words, i, a):
    """Write an element's form below p to four words of a row."""
    r0, r1, r2, r3, r4 = reduce(a)
    words[i, _0] = r0 | (r1 << _51)
    words[i, _1] = (r1 >> _13) | (r2 << _38)
    words[i, _2] = (r2 >> _26) | (r3 << _25)
    words[i, _3] = (r3 >> _39) | (r4 << _12)


@embedded
def decode(words, i):
    """(whether a row encodes a point, x, y): RFC 9496 section 4.3.1."""
    s, is_proper = unpack(words, i)
    ss = square(s)
    u1, u2 = subtract(ONE, ss), add(ONE, ss)
    u2_squared = square(u2)
    v = subtract(negate(multiply(_D, square(u1))), u2_squared)
    has_root, root = inverse_root(multiply(v, u2_squared))
    den_x = multiply(root, u2)
    den_y = multiply(multiply(root, den_x), v)
    x = multiply(add(s, s), den_x)
    if is_negative(x):
        x = carry(negate(x))
    y = multiply(u1, den_y)
    is_point = is_proper & has_root & (not is_negative(multiply(x, y))) & (not is_zero(y))
    return is_point, x, y


@kernel
def decode_addends(words, addends):
    """Decode rows of words as addends; returns the first row that encodes no point, or -1."""
    for i in range(np.uint64(words.shape[0])):
        is_point, x, y = decode(words, i)
        if not is_point:
            return np.int64(i)
        store_addend(addends, i, x, y)
    return np.int64(-1)


@kernel
def decode_points(words, points):
    """Decode rows of words as points; returns the first row that encodes no point, or -1."""
    for i in range(np.uint64(words.shape[0])):
        is_point, x, y = decode(words, i)
        if not is_point:
            return np.int64(i)
        store_point(points, i, (x, y, ONE, multiply(x, y)))
    return np.int64(-1)


@embedded
def prepare_double(point):
    """Twice the point as E, F, G, H: x = E / F and y = G / H."""
    x, y, z, t = point
    zz, dtt = square(z), multiply(_D, square(t))
    return (
        multiply(x, add(y, y)),
        add(zz, dtt),
        add(square(y), square(x)),
        subtract(zz, dtt),
    )


@embedded
def encode_prepared(efgh, inverse):
    """What encodes a doubled point, given 1 / (E F G H)."""
    e, f, g, h = efgh
    z_inverse, t_inverse = multiply(multiply(e, g), inverse), multiply(multiply(f, h), inverse)
    magic = _INVERSE_ROOT_A_MINUS_D
    if is_negative(multiply(multiply(e, g), z_inverse)):
        e, g, h = g, carry(negate(e)), multiply(f, SQRT_MINUS_ONE)
        magic = SQRT_MINUS_ONE
    if is_negative(multiply(multiply(h, e), z_inverse)):
        g = carry(negate(carry(g)))
    s = multiply(multiply(subtract(h, carry(g)), magic), multiply(g, t_inverse))
    return carry(negate(s)) if is_negative(s) else s


@kernel
def encode_doubles(points, words):
    """Encode twice each point as a row of words."""
    n = points.shape[0]
    prepared = np.empty((_BLOCK, 20), np.uint64)
    inverses = np.empty((_BLOCK, 5), np.uint64)
    products = np.empty((_BLOCK, 5), np.uint64)
    for start in range(0, n, _BLOCK):
        count = min(_BLOCK, n - start)
        for k in range(np.uint64(count)):
            e, f, g, h = prepare_double(load_point(points, np.uint64(start) + k))
            store_point(prepared, k, (e, f, g, h))
            store(inverses, k, _0, multiply(multiply(e, g), multiply(f, h)))
        invert_all(inverses[:count], products)
        for k in range(np.uint64(count)):
            inverse = load(inverses, k, _0)
            # points of order four have no inverse here, and their doubles are the neutral element
            s = ZERO if is_zero(inverse) else encode_prepared(load_point(prepared, k), inverse)
            pack(words, np.uint64(start) + k, s)

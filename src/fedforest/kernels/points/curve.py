"""Addition of points on edwards25519, the curve below ristretto255: -x^2 + y^2 = 1 + d x^2 y^2.

Points are rows of uint64 limbs, in one of two forms:

    POINT   20 limbs   X, Y, Z, T        x = X / Z, y = Y / Z, x y = T / Z: what is added to
    ADDEND  15 limbs   y + x, y - x, 2 d x y                   what is added often; one product less

The formulas (Hisil, Wong, Carter, Dawson 2008) hold for any two points: equal, opposite, neutral.
An element of ristretto255 is four points that differ by one of order four; any of them will do.
"""

import numpy as np

from fedforest.kernels.jit import embedded
from fedforest.kernels.points.field import (
    ONE,
    PRIME,
    ZERO,
    add,
    load,
    multiply,
    square,
    store,
    subtract,
    to_limbs,
)

POINT_LIMBS = 20
ADDEND_LIMBS = 15
D_NUMBER = -121665 * pow(121666, -1, PRIME) % PRIME

_TWICE_D = to_limbs(2 * D_NUMBER)
_0, _5, _10, _15 = (np.uint64(k) for k in (0, 5, 10, 15))
NEUTRAL = (ZERO, ONE, ONE, ZERO)


@embedded
def load_point(points, i):
    """The point in a row."""
    return load(points, i, _0), load(points, i, _5), load(points, i, _10), load(points, i, _15)


@embedded
def store_point(points, i, point):
    """Put a point into a row."""
    store(points, i, _0, point[0])
    store(points, i, _5, point[1])
    store(points, i, _10, point[2])
    store(points, i, _15, point[3])


@embedded
def load_addend(addends, i):
    """The addend in a row."""
    return load(addends, i, _0), load(addends, i, _5), load(addends, i, _10)


@embedded
def store_addend(addends, i, x, y):
    """Put the addend with these tight coordinates into a row."""
    store(addends, i, _0, add(y, x))
    store(addends, i, _5, subtract(y, x))
    store(addends, i, _10, multiply(multiply(x, y), _TWICE_D))


@embedded
def join(a, b, c, d):
    """The last four products, which all additions share."""
    e, f, g, h = subtract(b, a), subtract(d, c), add(d, c), add(b, a)
    return multiply(e, f), multiply(g, h), multiply(f, g), multiply(e, h)


@embedded
def add_addend(point, addend):
    """Sum of a point and an addend: seven products."""
    x, y, z, t = point
    a = multiply(subtract(y, x), addend[1])
    b = multiply(add(y, x), addend[0])
    return join(a, b, multiply(t, addend[2]), add(z, z))


@embedded
def add_point(point, other):
    """Sum of two points: nine products."""
    x1, y1, z1, t1 = point
    x2, y2, z2, t2 = other
    a = multiply(subtract(y1, x1), subtract(y2, x2))
    b = multiply(add(y1, x1), add(y2, x2))
    c = multiply(multiply(t1, _TWICE_D), t2)
    d = multiply(z1, z2)
    return join(a, b, c, add(d, d))


@embedded
def negate_point(point):
    """The opposite point."""
    return subtract(ZERO, point[0]), point[1], point[2], subtract(ZERO, point[3])


@embedded
def double(point):
    """The point twice: four products and four squares."""
    x, y, z, _ = point
    xx, yy, zz = square(x), square(y), square(z)
    h = add(xx, yy)
    e = subtract(h, square(add(x, y)))
    g = subtract(xx, yy)
    f = add(add(zz, zz), g)
    return multiply(e, f), multiply(g, h), multiply(f, g), multiply(e, h)

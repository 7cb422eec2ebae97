"""Which small multiple of a base a point is: a table of small steps, and leaps.

The table holds 0, 1, ... T times the base by their coordinate y, which m and -m share; the sign of
x tells these apart. So one look-up covers 2 T + 1 numbers, and a leap moves on by as many.
Points are multiplied by four first, which makes one of the four that are the same element of
ristretto255. All leaps of a point are made, whether its number was found or not: the time tells how
large a number could have been, not what it is. Look-ups are not hidden from caches: the numbers are
sums, with which the owner of the key goes on to compute like with any others.

    slots    (2^k, 2)   64 bits of y, and the number plus one: 0 where the slot is empty
    checks   (T + 1)    more of y, and the sign of x: what was found is surely what was sought
    leaps    (2, 15)    addends: -(2 T + 1) and 2 T + 1 times the base
"""

import numpy as np

from fedforest.kernels.jit import borrowing, embedded, kernel
from fedforest.kernels.points.curve import (
    NEUTRAL,
    POINT_LIMBS,
    add_addend,
    add_point,
    double,
    load_addend,
    load_point,
    store_addend,
    store_point,
)
from fedforest.kernels.points.field import (
    carry,
    invert,
    invert_all,
    load,
    multiply,
    negate,
    reduce,
    store,
)

NOT_FOUND = np.int64(-(2**63))
_BLOCK = 128  # points that share an inversion

_0, _1, _5, _10 = (np.uint64(k) for k in (0, 1, 5, 10))
_51, _52 = np.uint64(51), np.uint64(52)


@embedded
def describe(block, k, inverses):
    """(64 bits of y, 63 more in front of a zero) of a point whose 1 / Z is known."""
    y0, y1, _, y3, y4 = reduce(multiply(load(block, k, _5), load(inverses, k, _0)))
    return y0 | (y1 << _51), (y3 << _1) | (y4 << _52)


@embedded
def sign(block, k, inverses):
    """Whether x of the same point is odd, as its last bit."""
    return reduce(multiply(load(block, k, _0), load(inverses, k, _0)))[0] & _1


@embedded
def find_slot(slots, key):
    """The slot that holds a key, or the empty one where it belongs."""
    last = np.uint64(slots.shape[0] - 1)
    slot = key & last
    while slots[slot, _1] != _0 and slots[slot, _0] != key:
        slot = (slot + _1) & last
    return slot


@borrowing
def invert_block(block, count, inverses, products):
    """1 / Z of the first points of a block."""
    for k in range(np.uint64(count)):
        store(inverses, k, _0, load(block, k, _10))
    invert_all(inverses[:count], products)


@kernel
def fill_steps(base, slots, checks, leaps):
    """Fill the table for one base, a point in the first row; slots are zeros, twice the checks."""
    block = np.empty((_BLOCK, POINT_LIMBS), np.uint64)
    inverses, products = np.empty((_BLOCK, 5), np.uint64), np.empty((_BLOCK, 5), np.uint64)
    step = double(double(load_point(base, _0)))
    point = NEUTRAL
    n = checks.shape[0]
    for start in range(0, n, _BLOCK):
        count = min(_BLOCK, n - start)
        for k in range(np.uint64(count)):
            store_point(block, k, point)
            point = add_point(point, step)
        invert_block(block, count, inverses, products)
        for k in range(np.uint64(count)):
            key, check = describe(block, k, inverses)
            number = np.uint64(start) + k
            slot = find_slot(slots, key)
            slots[slot, _0], slots[slot, _1] = key, number + _1
            checks[number] = check | sign(block, k, inverses)
    # `point` is T + 1 times the base, the last in the block T times
    x, y, z, _ = add_point(point, load_point(block, np.uint64(count - 1)))
    inverse = invert(z)
    x, y = multiply(x, inverse), multiply(y, inverse)
    store_addend(leaps, _0, carry(negate(x)), y)
    store_addend(leaps, _1, x, y)


@borrowing
def look_up(block, count, inverses, whose, table, found):
    """Look up the first points of a block, and keep the numbers of those that are there."""
    slots, checks = table
    stride = np.int64(2 * checks.shape[0] - 1)
    for k in range(np.uint64(count)):
        key, check = describe(block, k, inverses)
        number = slots[find_slot(slots, key), _1]
        if number == _0:
            continue
        differs = checks[number - _1] ^ check
        if differs <= _1:
            small = np.int64(number - _1)
            small = small if differs == sign(block, k, inverses) else -small
            found[whose[_0, k]] = whose[_1, k] * stride + small


@kernel
def find_logarithms(points, leaps_up, leaps_down, table, leaps, found):
    """Write to `found` which multiple of the base each point is, or `NOT_FOUND`.

    `table` is (slots, checks); a point is looked for up to so many leaps up and down from zero.
    """
    block = np.empty((_BLOCK, POINT_LIMBS), np.uint64)
    inverses, products = np.empty((_BLOCK, 5), np.uint64), np.empty((_BLOCK, 5), np.uint64)
    whose = np.empty((2, _BLOCK), np.int64)  # of which point, and after how many leaps
    count = 0
    for i in range(points.shape[0]):
        found[i] = NOT_FOUND
        centre = double(double(load_point(points, np.uint64(i))))
        point = centre
        for leap in range(leaps_up[i] + leaps_down[i] + 1):
            n_leaps = leap if leap <= leaps_up[i] else leaps_up[i] - leap
            if n_leaps == -1:
                point = centre
            if n_leaps != 0:
                point = add_addend(point, load_addend(leaps, _0 if n_leaps > 0 else _1))
            store_point(block, np.uint64(count), point)
            whose[0, count], whose[1, count] = i, n_leaps
            count += 1
            if count == _BLOCK:
                invert_block(block, count, inverses, products)
                look_up(block, count, inverses, whose, table, found)
                count = 0
    invert_block(block, count, inverses, products)
    look_up(block, count, inverses, whose, table, found)

"""Multiples of fixed points by secret scalars, without the scalar deciding what is read or done.

A scalar is given as digits a_0, a_1, ... from 0 to 63, one byte each, and stands for the odd number

    s = sum of (2 a_i - 63) 64^i,    which is    2 a - (64^n - 1)    for    a = sum of a_i 64^i.

So uniform digits make a uniform s, nothing has to be recoded, and no digit is zero. For each window
i a table holds 64^i B, 3 64^i B, ... 63 64^i B; its other half are the negatives. A digit is looked
up by reading *all* 32 entries and keeping one by masks that the compiler cannot see through; the
sign swaps and negates by masks, too. There is no branch on a digit and no address made from one, so
neither time nor caches tell it; `tests/kernels/points` looks at the machine code. What numba does
not promise, as no compiler does, is that registers and stack are wiped: who can read this process's
memory has the secret anyway. Without compilation (`NUMBA_DISABLE_JIT`) nothing here is constant
time; that is for debugging.
"""

import numpy as np

from fedforest.kernels.jit import borrowing, embedded, kernel
from fedforest.kernels.points.curve import (
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
    invert_all,
    load,
    multiply,
    negate,
)
from fedforest.kernels.points.wide_products import ENTRIES, ENTRY_LIMBS, copy_entry, hide

DIGIT_BITS = 6
_BLOCK = 128  # scalars between which a window's table, 4 KB, stays in the fastest cache

_0, _1, _5, _10 = (np.uint64(k) for k in (0, 1, 5, 10))
_SIGN = np.uint64(ENTRIES)
_INDEX = np.uint64(ENTRIES - 1)


@kernel
def fill_tables(base, n_windows, tables):
    """Fill (n_windows, ENTRIES, ENTRY_LIMBS) zeros with odd multiples of 64^i times `base`."""
    entries = np.uint64(ENTRIES)
    points = np.empty((n_windows * ENTRIES, POINT_LIMBS), np.uint64)
    first = load_point(base, _0)
    for window in range(np.uint64(n_windows)):
        twice = double(first)
        point = first
        for entry in range(entries):
            store_point(points, window * entries + entry, point)
            point = add_point(point, twice)
        for _ in range(DIGIT_BITS):
            first = double(first)
    inverses = np.ascontiguousarray(points[:, 10:15])
    invert_all(inverses, np.empty_like(inverses))
    flat = tables.reshape(-1, ENTRY_LIMBS)
    for i in range(np.uint64(len(points))):
        x, y, _, _ = load_point(points, i)
        inverse = load(inverses, i, _0)
        store_addend(flat, i, multiply(x, inverse), multiply(y, inverse))


@embedded
def choose(mask, a, b):
    """`b` where the mask is ones, `a` where it is zeros."""
    return (
        a[0] ^ (mask & (a[0] ^ b[0])),
        a[1] ^ (mask & (a[1] ^ b[1])),
        a[2] ^ (mask & (a[2] ^ b[2])),
        a[3] ^ (mask & (a[3] ^ b[3])),
        a[4] ^ (mask & (a[4] ^ b[4])),
    )


@embedded
def select(table, digit, chosen):
    """The addend that a digit stands for; `chosen` is space for one entry."""
    # 32 to 63 are positive: 1, 3, ...; 31 down to 0 negative
    is_negative = hide(_0 - (((digit >> _5) & _1) ^ _1))
    copy_entry(table, (digit ^ is_negative) & _INDEX, chosen[0])
    plus, minus, product = load_addend(chosen, _0)
    return (
        choose(is_negative, plus, minus),
        choose(is_negative, minus, plus),
        choose(is_negative, product, negate(product)),
    )


@kernel
def add_multiples(points, digits, tables):
    """Add to each point the multiple that its row of digits stands for, in constant time."""
    add_selected(points, digits, tables, np.empty((1, ENTRY_LIMBS), np.uint64))


@borrowing
def add_selected(points, digits, tables, chosen):
    """The same, with space for an entry."""
    n = points.shape[0]
    for start in range(0, n, _BLOCK):
        for window in range(tables.shape[0]):
            for i in range(np.uint64(start), np.uint64(min(n, start + _BLOCK))):
                digit = np.uint64(digits[i, np.uint64(window)])
                addend = select(tables[window], digit, chosen)
                store_point(points, i, add_addend(load_point(points, i), addend))

"""Shamir's secret sharing of whole vectors: any `threshold` shares give the secret, fewer nothing.

A secret is the constant of a random polynomial over the integers modulo 2^61 - 1, and a share its
value at one point. Shares of several secrets, added point by point, are shares of their sum.
Numbers are signed and below 2^60 in magnitude, so are the sums that can be told apart.
"""

from collections.abc import Callable, Mapping, Sequence
from math import prod

import numpy as np
from numpy.typing import NDArray

from fedforest.errors import MaskingError
from fedforest.kernels.sums.prime_field import PRIME, PRIME_BITS, add_multiple, add_to, evaluate

Words = Callable[[int], NDArray[np.uint64]]  # secure random words, as many as asked for

LARGEST = 2**60 - 1  # in magnitude: half the field for each sign
_SPARE_WORDS = 8  # a word is unusable once in 2^61, so that nine of a vector's are is not chance


def split(
    secret: NDArray[np.int64], threshold: int, points: Sequence[int], words: Words
) -> dict[int, NDArray[np.uint64]]:
    """One share for each point; `words` is called once, and no other secret may get its words."""
    _check_vector(secret, np.int64)
    _check_points(points)
    if not 2 <= threshold <= len(points):
        raise MaskingError(
            f"the threshold must be from 2 to the number of shares, {len(points)}; it is "
            f"{threshold}. With 1, every share would be the secret itself."
        )
    constants = _to_field(secret)
    coefficients = _draw_elements(words, (threshold - 1) * len(secret)).reshape(threshold - 1, -1)
    shares = {}
    for point in points:
        shares[point] = np.empty(len(secret), np.uint64)
        evaluate(constants, coefficients, np.uint64(point), shares[point])
    return shares


def sum_shares(shares: Sequence[NDArray[np.uint64]]) -> NDArray[np.uint64]:
    """Return the share of a sum, from the shares of its summands at the same point."""
    _check_shares(shares)
    total = shares[0].copy()
    for share in shares[1:]:
        add_to(total, share)
    return total


def combine(shares: Mapping[int, NDArray[np.uint64]], largest: int = LARGEST) -> NDArray[np.int64]:
    """Return the secret, from at least `threshold` shares by their points.

    Too few shares, or shares of different secrets, give random numbers. A number larger in
    magnitude than the secret can be shows that; the tighter `largest`, the surer.
    """
    _check_points(list(shares))
    _check_shares(list(shares.values()))
    if not 0 <= largest <= LARGEST:
        raise MaskingError(f"shared numbers are at most {LARGEST} in magnitude, not {largest}")
    total = np.zeros_like(next(iter(shares.values())))
    for point, share in shares.items():
        add_multiple(total, share, np.uint64(_weight_at_zero(point, shares)))
    secret = np.where(total > LARGEST, total.view(np.int64) - PRIME, total.view(np.int64))
    if np.any(np.abs(secret) > largest):
        raise MaskingError.stating(
            "shares combine to a number that no secret can be: there are too few of them, or they "
            "do not belong together, or a sum grew too large"
        )
    return secret


def _weight_at_zero(point: int, points: Mapping[int, object]) -> int:
    """Weigh the share at this point in the polynomial's value at zero (Lagrange)."""
    others = [int(other) for other in points if other != point]
    quotient: int = pow(prod(other - point for other in others), -1, PRIME)
    return prod(others) * quotient % PRIME


def _draw_elements(words: Words, n_elements: int) -> NDArray[np.uint64]:
    """Uniform elements of the field: the upper 61 bits of words, without those that are 2^61 - 1.

    Words are drawn once, with some to spare, because a stream that starts anew at every call would
    give the same ones again.
    """
    drawn = words(n_elements + _SPARE_WORDS)
    if drawn.dtype != np.uint64 or drawn.shape != (n_elements + _SPARE_WORDS,):
        raise MaskingError(f"the source of random words gave {drawn.shape} of {drawn.dtype}")
    elements = drawn >> np.uint64(64 - PRIME_BITS)
    if np.any(elements[:n_elements] == PRIME):
        elements = elements[elements != PRIME]
    if len(elements) < n_elements:
        raise MaskingError.stating("the source of random words is not random")
    return elements[:n_elements]


def _to_field(secret: NDArray[np.int64]) -> NDArray[np.uint64]:
    if np.any((secret > LARGEST) | (secret < -LARGEST)):
        raise MaskingError.stating(
            "a number is too large to be shared: magnitudes must stay below 2^60; use a coarser "
            "fixed point"
        )
    return np.where(secret < 0, secret + PRIME, secret).view(np.uint64)


def _check_points(points: Sequence[int]) -> None:
    if len(points) < 2 or len(set(points)) != len(points):
        raise MaskingError.stating("a secret is shared among two points or more, each named once")
    if not all(0 < point < PRIME for point in points):
        raise MaskingError.stating(
            "points of shares are from 1 to 2^61 - 2; the value at 0 is the secret itself"
        )


def _check_vector(vector: NDArray[np.generic], dtype: type[np.generic]) -> None:
    if vector.dtype != dtype or vector.ndim != 1:
        raise MaskingError(
            f"a vector of {np.dtype(dtype)} was expected, not {vector.ndim} dimensions of "
            f"{vector.dtype}"
        )


def _check_shares(shares: Sequence[NDArray[np.uint64]]) -> None:
    if not shares:
        raise MaskingError.stating("there are no shares to add up")
    for share in shares:
        _check_vector(share, np.uint64)
        if len(share) != len(shares[0]):
            raise MaskingError(
                f"shares do not fit together: {len(share)} numbers beside {len(shares[0])}"
            )
        if np.any(share >= PRIME):  # an element has one form only
            raise MaskingError.stating(
                "a share holds a number outside the field; it was not made by split"
            )

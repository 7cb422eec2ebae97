"""Ids as points of ristretto255, blinded by secret keys: equal under the same keys if ids are.

A blinded point is the point of an id times a secret scalar. Keys commute: whichever party blinds
first, the same two keys make the same point of the same id. Without a key nothing can be tried out,
and a product tells nothing of its factors (decisional Diffie-Hellman). The group has a prime order,
so there are no points of small order; secrets are multiplied by libsodium, in constant time.
"""

from collections.abc import Iterable
from hashlib import sha512
from typing import Any

import numpy as np

from fedforest.errors import MaskingError
from fedforest.extras import import_extra
from fedforest.masking.key_agreement import Randomness, draw_bytes, join_contexts

POINT_BYTES = 32
POINTS = np.dtype(f"S{POINT_BYTES}")  # ordered as their bytes are
_WIDE_BYTES = 64  # of a number that is reduced to a scalar, so that none is likelier
_HIGHEST_BYTE = 0x7F  # of a point's last byte: libsodium 1.0.18 ignores the bit above
_HASHING = b"fedforest point of an id 1"


def hash_to_points(run: bytes, ids: Iterable[bytes]) -> list[bytes]:
    """Return the point of every id, different in every run; its logarithm is known to no role."""
    to_point = _sodium().crypto_core_ristretto255_from_hash
    start = sha512(join_contexts((_HASHING, run)))
    points = []
    for each in ids:
        wide = start.copy()
        wide.update(each)
        points.append(to_point(wide.digest()))
    return points


def cut_points(data: bytes | memoryview) -> list[bytes]:
    """Points out of the bytes in which they stand one after the other."""
    whole = bytes(data)
    return [whole[i : i + POINT_BYTES] for i in range(0, len(whole), POINT_BYTES)]


class BlindingKey:
    """A party's secret scalar of one run; its `repr` hides it."""

    __slots__ = ("_scalar",)

    def __init__(self, scalar: bytes) -> None:
        self._scalar = scalar

    @staticmethod
    def draw(randomness: Randomness) -> bytes:
        """Draw the scalar of a new key."""
        wide = draw_bytes(randomness, _WIDE_BYTES)
        return bytes(_sodium().crypto_core_ristretto255_scalar_reduce(wide))

    def blind(self, points: Iterable[bytes], owner: str = "") -> bytes:
        """The points times the key, one after the other.

        Refuses what is no point, or the neutral one; the error names the owner of the list.
        """
        multiply, scalar = _sodium().crypto_scalarmult_ristretto255, self._scalar
        products = []
        for point in points:
            if len(point) != POINT_BYTES or point[-1] > _HIGHEST_BYTE:
                raise MaskingError.of("point.invalid", peer=owner)
            try:
                products.append(multiply(scalar, point))
            except RuntimeError:
                raise MaskingError.of("point.invalid", peer=owner) from None
        return b"".join(products)

    def __repr__(self) -> str:
        return "<BlindingKey>"


def check_library() -> None:
    """Raise `ConfigurationError` where libsodium is not installed, before a run begins."""
    _sodium()


def _sodium() -> Any:
    return import_extra("rbcl", "private set intersection")

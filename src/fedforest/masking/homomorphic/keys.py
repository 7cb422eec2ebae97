"""The key pair of a run's encrypted sums: one secret scalar and one public point per plaintext.

All follow from 32 secret bytes, so that a run that is resumed has the same keys, and storing these
bytes stores the pair. The plaintexts of a ciphertext share its first component, which is safe as
their keys are independent (Kurosawa 2002, multi-recipient ElGamal).
"""

from collections.abc import Sequence
from typing import Self

from fedforest.errors import MaskingError
from fedforest.masking.homomorphic.group import POINT_BYTES, derive_scalar, is_key, multiply_base
from fedforest.masking.key_agreement import encode_number

_KEY_OF_SUMS = b"encrypted sums"


class EncryptionKey:
    """One point per plaintext. Who encrypts or re-randomises under it must know whose it is."""

    __slots__ = ("points",)

    def __init__(self, points: Sequence[bytes]) -> None:
        self.points = tuple(points)

    def encode(self) -> bytes:
        return b"".join(self.points)

    @classmethod
    def decode(cls, encoded: bytes, n_keys: int) -> Self:
        """Read what a peer sent as its key of `n_keys` plaintexts."""
        starts = range(0, len(encoded), POINT_BYTES)
        points = [encoded[start : start + POINT_BYTES] for start in starts]
        if len(encoded) != n_keys * POINT_BYTES or not all(map(is_key, points)):
            raise MaskingError.stating(
                "a public key for sums must be one point of ristretto255 for each plaintext, none "
                "the neutral one; no honest party sends another"
            )
        return cls(points)


class DecryptionKey:
    """What decrypts, and never leaves its owner."""

    __slots__ = ("public", "scalars")

    def __init__(self, secret: bytes, n_keys: int) -> None:
        self.scalars = tuple(
            derive_scalar(secret, _KEY_OF_SUMS, encode_number(number)) for number in range(n_keys)
        )
        self.public = EncryptionKey([multiply_base(scalar) for scalar in self.scalars])

    def __repr__(self) -> str:
        return f"<DecryptionKey of {len(self.scalars)} plaintexts>"

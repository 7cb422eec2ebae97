"""ristretto255 by libsodium: everything that touches a secret scalar, in constant time.

The group has a prime order, a little above 2^252, and about 128 bits of security; there is no
weaker one to choose. Points are 32 bytes, scalars too; bytes that encode no point are refused, with
the highest bit looked at here: libsodium 1.0.18, which rbcl 1.1 brings, ignores it.
"""

from collections.abc import Sequence

from fedforest.errors import MaskingError
from fedforest.extras import explain_missing_extras
from fedforest.masking.key_agreement import derive_key

with explain_missing_extras("encryption of labels"):
    import rbcl

POINT_BYTES = 32
ORDER = 2**252 + 27742317777372353535851937790883648493
NEUTRAL = bytes(POINT_BYTES)
_HIGHEST_BYTE = 0x7F  # of a point's last byte


def encode_scalar(number: int) -> bytes:
    """A public integer as a scalar; secret ones are never integers here."""
    return (number % ORDER).to_bytes(32, "little")


def derive_scalar(secret: bytes, *context: bytes) -> bytes:
    """A secret scalar for one use of a secret, of 64 bytes so that none is likelier."""
    wide = b"".join(derive_key(secret, *context, half) for half in (b"low", b"high"))
    scalar: bytes = rbcl.crypto_core_ristretto255_scalar_reduce(wide)
    return scalar


def multiply_base(scalar: bytes) -> bytes:
    """The scalar times the group's base point."""
    point: bytes = rbcl.crypto_scalarmult_ristretto255_base(scalar)
    return point


def multiply(scalar: bytes, point: bytes) -> bytes:
    """The scalar times a point, which may be a peer's."""
    if point[-1] > _HIGHEST_BYTE:
        raise _no_point()
    try:
        product: bytes = rbcl.crypto_scalarmult_ristretto255(scalar, point)
    except RuntimeError:  # no point, or the neutral one
        raise _no_point() from None
    return product


def pack_scalars(scalars: Sequence[bytes], bits: int) -> bytes:
    """The sum of secret scalars, times 1, 2^bits, 4^bits, ..."""
    factor = encode_scalar(1 << bits)
    *others, total = scalars
    for scalar in reversed(others):
        total = rbcl.crypto_core_ristretto255_scalar_mul(total, factor)
        total = rbcl.crypto_core_ristretto255_scalar_add(total, scalar)
    return total


def is_key(point: bytes) -> bool:
    """Whether these bytes encode a point other than the neutral one."""
    if len(point) != POINT_BYTES or point == NEUTRAL or point[-1] > _HIGHEST_BYTE:
        return False
    return bool(rbcl.crypto_core_ristretto255_is_valid_point(point))


def _no_point() -> MaskingError:
    return MaskingError.stating(
        "a ciphertext was spoiled: 32 of its bytes encode no point of ristretto255"
    )

"""Texts that only the owner of a secret key can read, from anyone who has the public one.

Beside encrypted sums travel numbers that their owner may know and the carrier may not. Each text is
sealed under a key of its own: the sender draws a point, and what the receiver's key makes of it is
known to the two only (Abdalla, Bellare, Rogaway 2001, DHIES).
"""

from fedforest.masking.homomorphic.group import POINT_BYTES, derive_scalar, multiply, multiply_base
from fedforest.masking.homomorphic.keys import DecryptionKey, EncryptionKey
from fedforest.masking.key_agreement import derive_key
from fedforest.masking.sealing import open_sealed, seal

_ONCE = b"point of a sealed text"
_KEY = b"key of a sealed text"


def seal_for(receiver: EncryptionKey, text: bytes, secret: bytes, context: bytes) -> bytes:
    """A text for the owner of a key of one point; `secret` are 32 bytes for this text only."""
    scalar = derive_scalar(secret, _ONCE)
    [point], own = receiver.points, multiply_base(scalar)
    key = derive_key(multiply(scalar, point), _KEY, own, point)
    return own + seal(key, text, context)


def open_for(receiver: DecryptionKey, sealed: bytes, context: bytes) -> bytes:
    """The text, or an error if it was changed or is of another context."""
    [scalar], [point] = receiver.scalars, receiver.public.points
    other = sealed[:POINT_BYTES].ljust(POINT_BYTES, b"\0")
    key = derive_key(multiply(scalar, other), _KEY, other, point)
    return open_sealed(key, sealed[POINT_BYTES:], context)

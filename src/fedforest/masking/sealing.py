"""Messages between parties through the coordinator, which carries them and cannot read them.

A key seals one text: it comes from `derive_key` with sender, receiver, run and step as context.
Should a key be used twice all the same, AES-GCM-SIV (RFC 8452) gives away no more than whether
the two texts are equal; plain GCM would give away both texts and the means to forge.
"""

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCMSIV

from fedforest.errors import MaskingError
from fedforest.masking.key_agreement import KEY_BYTES

TAG_BYTES = 16
LARGEST_TEXT = 2**31 - 1 - TAG_BYTES
_NONCE = bytes(12)  # the key is fresh, so the nonce need not be


def seal(key: bytes, plaintext: bytes | memoryview, associated: bytes) -> bytes:
    """The text, unreadable and unchangeable, tied to the associated bytes, which stay outside."""
    if len(plaintext) > LARGEST_TEXT:
        raise MaskingError(
            f"{len(plaintext)} bytes cannot be sealed at once: {LARGEST_TEXT} is the most; "
            "train fewer trees at a time"
        )
    return _cipher(key).encrypt(_NONCE, plaintext, associated)


def open_sealed(key: bytes, sealed: bytes | memoryview, associated: bytes) -> bytes:
    """Return the text as it was sealed under this key with these associated bytes, or an error."""
    cipher = _cipher(key)
    try:
        return cipher.decrypt(_NONCE, sealed, associated)
    except (InvalidTag, OverflowError):
        raise MaskingError.stating(
            "a sealed text was changed on its way, or was sealed for another party, step or run"
        ) from None


def _cipher(key: bytes) -> AESGCMSIV:
    if len(key) != KEY_BYTES:
        raise MaskingError(f"sealing needs a key of {KEY_BYTES} bytes, not {len(key)}")
    return AESGCMSIV(key)

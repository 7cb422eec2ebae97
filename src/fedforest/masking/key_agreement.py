"""Secrets that two parties share and nobody else knows, and keys derived from them.

Parties agree by X25519. Public keys travel through the coordinator, which could put its own in
their place: only fingerprints that parties compare by another way show that it did not. Everything
derived says what it is for, so that no two uses ever get the same key.
"""

import hmac
import re
from base64 import b32encode
from collections.abc import Callable, Iterable
from hashlib import sha256
from typing import Self

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey

from fedforest.errors import MaskingError

Randomness = Callable[[int], bytes]  # secure random bytes, as many as asked for

KEY_BYTES = 32
_FIELD_PRIME = 2**255 - 19  # of X25519's coordinates
_FINGERPRINT_BYTES = 20  # 160 bits: nobody finds a second key with the fingerprint of a first
_SALT = b"fedforest masking 1"  # another release with other rules takes another salt
_PAIR_SECRET = b"pair secret"
_FINGERPRINT = b"fedforest identity fingerprint 1"


class IdentityKey:
    """A party's private key, by which its peers know it; its `repr` hides it."""

    __slots__ = ("_private", "_public")

    def __init__(self, private: X25519PrivateKey) -> None:
        self._private = private
        self._public = private.public_key().public_bytes_raw()

    @classmethod
    def from_randomness(cls, randomness: Randomness) -> Self:
        return cls(X25519PrivateKey.from_private_bytes(draw_bytes(randomness, KEY_BYTES)))

    @property
    def public(self) -> bytes:
        """The 32 bytes that everybody may know."""
        return self._public

    def pair_secret(self, other_public: bytes) -> bytes:
        """Return the 32 bytes that only this party and the owner of the other key can compute.

        They depend on both public keys, not only on what X25519 makes of them: several keys can
        lead to one X25519 secret.
        """
        _check_public(other_public)
        if other_public == self._public:
            raise MaskingError.stating(
                "a peer's public key is this party's own: the peer is this party itself, or the "
                "key was reflected on its way; compare fingerprints"
            )
        try:
            shared = self._private.exchange(X25519PublicKey.from_public_bytes(other_public))
        except ValueError:  # the secret would be zero, whatever our own key
            raise MaskingError.stating(
                "a peer's public key is a point of low order, which gives no secret; no honest "
                "party has such a key"
            ) from None
        return derive_key(shared, _PAIR_SECRET, *sorted((self._public, other_public)))

    def __repr__(self) -> str:
        return f"<IdentityKey {fingerprint(self._public)}>"


def fingerprint(public: bytes) -> str:
    """A public key in a form that people can compare: eight groups of four letters and digits."""
    _check_public(public)
    return write_fingerprint(sha256(_FINGERPRINT + public).digest())


def write_fingerprint(digest: bytes) -> str:
    """Write the beginning of a digest as eight groups of four letters and digits."""
    text = b32encode(digest[:_FINGERPRINT_BYTES]).decode().lower()
    return "-".join(text[i : i + 4] for i in range(0, len(text), 4))


def is_fingerprint(text: str) -> bool:
    """Return whether a text has the form of a fingerprint."""
    return re.fullmatch(r"[a-z2-7]{4}(-[a-z2-7]{4}){7}", text) is not None


def derive_key(secret: bytes, *context: bytes) -> bytes:
    """Return the 32-byte key for one use of a secret (HKDF-SHA256, RFC 5869).

    The first context says what the key is for, the others which use of that kind it is.
    """
    if len(secret) < KEY_BYTES:
        raise MaskingError(f"keys are derived from {KEY_BYTES} secret bytes, not {len(secret)}")
    if not context or not context[0]:
        raise MaskingError.stating(
            "a key must be derived for something: the first context says for what"
        )
    return expand_key(hmac.digest(_SALT, secret, "sha256"), *context)


def expand_key(key: bytes, *context: bytes) -> bytes:
    """A key for one use of a key that was itself derived: the second half of `derive_key`."""
    *others, last = context
    [[expanded]] = expand_each([([key], last)], *others)
    return expanded


def expand_each(
    groups: Iterable[tuple[Iterable[bytes], bytes]], *context: bytes
) -> list[list[bytes]]:
    """Expand several keys, for uses that differ by the last context: that of their group."""
    # one block, which is all that a key of 32 bytes takes; keys are derived by the thousand, and
    # the library's object would take ten times as long as the hashes
    together, expanded = join_contexts(context), []
    for keys, last in groups:
        block = b"".join((together, len(last).to_bytes(8, "big"), last, b"\x01"))
        expanded.append([hmac.digest(_checked(key), block, "sha256") for key in keys])
    return expanded


def _checked(key: bytes) -> bytes:
    if len(key) != KEY_BYTES:
        raise MaskingError(f"keys are expanded from {KEY_BYTES} secret bytes, not {len(key)}")
    return key


def join_contexts(parts: Iterable[bytes]) -> bytes:
    """One context out of several, each preceded by its length: no two lists become the same."""
    return b"".join([len(part).to_bytes(8, "big") + part for part in parts])


def draw_bytes(randomness: Randomness, n_bytes: int) -> bytes:
    """Draw as many bytes as asked for, or raise: a short key must not go unnoticed."""
    drawn = randomness(n_bytes)
    if len(drawn) != n_bytes:
        raise MaskingError(f"the source of randomness gave {len(drawn)} bytes instead of {n_bytes}")
    return drawn


def encode_name(party: str) -> bytes:
    """Return a party's name as context of a key."""
    try:
        return party.encode()
    except UnicodeEncodeError:
        raise MaskingError.stating(
            "a key cannot be bound to a party whose name is not text"
        ) from None


def encode_number(number: int) -> bytes:
    """Return a step or another count as context of a key: eight bytes."""
    if not 0 <= number < 2**64:
        raise MaskingError(f"{number} cannot be bound to a key: it must be from 0 to 2^64 - 1")
    return number.to_bytes(8, "big")


def _check_public(public: bytes) -> None:
    """Refuse keys in a form that no party produces: equal points must be equal bytes."""
    if len(public) != KEY_BYTES:
        raise MaskingError(f"a public key has {KEY_BYTES} bytes, not {len(public)}")
    if int.from_bytes(public, "little") >= _FIELD_PRIME:
        raise MaskingError.stating(
            "a public key is not in its one valid form; no honest party sends such"
        )

"""Signatures by the key of a member's certificate, and by the key of the authority.

A signature is over a purpose and a statement, so that one for one purpose is none for another. The
keys are those of TLS (ECDSA on P-256); what TLS signs begins otherwise than any purpose here.
"""

from datetime import UTC, datetime
from hashlib import sha256
from typing import NamedTuple

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from fedforest.masking.key_agreement import write_fingerprint
from fedforest.transport.identity import Identity
from fedforest.transport.tls import (
    Credentials,
    key_of,
    read_certificate,
    read_expiry,
    read_identity,
    read_key,
)

_ALGORITHM = ec.ECDSA(hashes.SHA256())
_PURPOSE_BYTES = 32


class Signer(NamedTuple):
    """Whom a certificate is for, the fingerprint of its key, and when it ends."""

    identity: Identity
    fingerprint: str
    expires: datetime


def sign(key: bytes, purpose: bytes, statement: bytes) -> bytes:
    """Sign a statement with a private key (PEM)."""
    return read_key(key).sign(_bind(purpose, statement), _ALGORITHM)


def is_signed(certificate: bytes, purpose: bytes, statement: bytes, signature: bytes) -> bool:
    """Tell whether the key of a certificate (PEM) signed a statement."""
    try:
        key_of(certificate).verify(signature, _bind(purpose, statement), _ALGORITHM)
    except InvalidSignature:
        return False
    return True


def read_signer(certificate: bytes) -> Signer:
    """Read whom a certificate names, whoever issued it."""
    return Signer(read_identity(certificate), fingerprint_of(certificate), read_expiry(certificate))


def is_issued(certificate: bytes, authority: bytes, now: float) -> bool:
    """Tell whether an authority (PEM) issued a certificate (PEM) that is in date."""
    read, moment = read_certificate(certificate), datetime.fromtimestamp(now, UTC)
    try:
        read.verify_directly_issued_by(read_certificate(authority))
    except (ValueError, TypeError, InvalidSignature):
        return False
    return read.not_valid_before_utc <= moment < read.not_valid_after_utc


def fingerprint_of(certificate: bytes) -> str:
    """Return the fingerprint of a certificate's key; it stays when the certificate is renewed."""
    form = serialization.PublicFormat.SubjectPublicKeyInfo
    public = key_of(certificate).public_bytes(serialization.Encoding.DER, form)
    return write_fingerprint(sha256(b"fedforest user key" + public).digest())


def own_fingerprint(credentials: Credentials) -> str:
    """Return the fingerprint by which others know the holder of credentials."""
    return fingerprint_of(credentials.certificate)


def _bind(purpose: bytes, statement: bytes) -> bytes:
    assert 0 < len(purpose) < _PURPOSE_BYTES
    return purpose.ljust(_PURPOSE_BYTES, b"\0") + statement

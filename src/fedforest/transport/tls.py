"""Certificates and keys of members: how they are read, kept, and asked for.

Peers are authorised by the identity in a certificate; that the authority signed it is never enough.
Nothing here signs a certificate or opens a connection.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import lru_cache
from hashlib import sha256
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from fedforest.errors import ConfigurationError, StorageError
from fedforest.transport.identity import Identity, parse_identity

CLOCK_TOLERANCE = timedelta(minutes=5)  # a certificate is valid where clocks are a little behind
TLS_VERSION = "TLSv1.3"
# What this variable names, gRPC offers for TLS 1.2 only; our certificates can use none of it.
_SUITES_VARIABLE, _NO_SUITE = "GRPC_SSL_CIPHER_SUITES", "ECDHE-PSK-CHACHA20-POLY1305"
_FILES = ("certificate.pem", "key.pem", "authority.pem")


@dataclass(frozen=True, slots=True)
class Credentials:
    """The files needed to open or accept connections, each as PEM."""

    certificate: bytes
    key: bytes = field(repr=False)
    authority: bytes

    @property
    def identity(self) -> Identity:
        return read_identity(self.certificate)

    @property
    def expires(self) -> datetime:
        """The moment from which on peers refuse the certificate."""
        return read_expiry(self.certificate)

    @property
    def renewal_due(self) -> datetime:
        """Return the time from which its holder asks for the next one: a third of its life is left.

        The tolerance before the certificate's own beginning does not count.
        """
        starts = read_certificate(self.certificate).not_valid_before_utc + CLOCK_TOLERANCE
        return self.expires - (self.expires - starts) / 3

    def save(self, folder: Path) -> None:
        """Write three files that only their owner can read, the certificate last."""
        contents = (self.certificate, self.key, self.authority)
        write_private(folder, dict(reversed(list(zip(_FILES, contents, strict=True)))))

    @classmethod
    def load(cls, folder: Path) -> "Credentials":
        """Load what `save` wrote, and check that it belongs together."""
        credentials = cls(*(read_file(folder / name) for name in _FILES))
        credentials.check()
        return credentials

    def check(self) -> None:
        """Refuse a key of another certificate, and a certificate of another authority."""
        certificate = read_certificate(self.certificate)
        authority = read_certificate(self.authority)
        if read_key(self.key).public_key() != certificate.public_key():
            raise ConfigurationError("the key is not the certificate's; load them from one folder")
        try:
            certificate.verify_directly_issued_by(authority)
        except Exception as error:
            raise ConfigurationError(
                "the certificate was not issued by this federation's authority; enrol again"
            ) from error
        read_identity(self.certificate)


def refuse_older_tls() -> None:
    """Let gRPC shake hands in TLS 1.3 only, in this whole process; to be called before its import.

    gRPC for Python has no other way to say so.
    """
    os.environ[_SUITES_VARIABLE] = _NO_SUITE


def generate_key() -> ec.EllipticCurvePrivateKey:
    """A new private key of the federation's kind."""
    return ec.generate_private_key(ec.SECP256R1())


def make_key() -> bytes:
    """A new private key, PEM."""
    return write_key(generate_key())


def load_key(folder: Path) -> bytes:
    """The key that somebody shows to the authority; made, and on the disk, where there is none."""
    path = folder / "key.pem"
    if not path.exists():
        write_private(folder, {"key.pem": make_key()})
    key = read_file(path)
    read_key(key)
    return key


def make_request(key: bytes) -> bytes:
    """A signing request (PEM), which proves that the key is held.

    It names no holder: the authority decides whom the certificate is for.
    """
    nobody = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "newcomer")])
    request = x509.CertificateSigningRequestBuilder().subject_name(nobody)
    signed = request.sign(read_key(key), hashes.SHA256())
    return signed.public_bytes(serialization.Encoding.PEM)


def read_request(request: bytes) -> ec.EllipticCurvePublicKey:
    """The key of a signing request, whose holder has signed it."""
    try:
        parsed = x509.load_pem_x509_csr(request)
        is_signed = parsed.is_signature_valid
        key = parsed.public_key()
    except (ValueError, UnsupportedAlgorithm):
        raise ConfigurationError("a signing request cannot be read") from None
    return _check_curve(key, is_signed=is_signed)


def key_of(certificate: bytes) -> ec.EllipticCurvePublicKey:
    """The key that a certificate (PEM) is for."""
    return _check_curve(read_certificate(certificate).public_key(), is_signed=True)


def digest_of_key(key: ec.EllipticCurvePublicKey) -> str:
    """Hash a public key, to be stored beside a name."""
    form = serialization.PublicFormat.SubjectPublicKeyInfo
    return sha256(key.public_bytes(serialization.Encoding.DER, form)).hexdigest()


def _check_curve(key: object, *, is_signed: bool) -> ec.EllipticCurvePublicKey:
    if not is_signed or not isinstance(key, ec.EllipticCurvePublicKey):
        raise ConfigurationError("a signing request is not signed by a key of this federation")
    if key.curve.name != "secp256r1":
        raise ConfigurationError("a signing request is not signed by a key of this federation")
    return key


def read_identity(certificate: bytes) -> Identity:
    """Read the identity in a certificate (PEM); the handshake checks that it is valid."""
    parsed = read_certificate(certificate)
    try:
        names = parsed.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        (uri,) = names.get_values_for_type(x509.UniformResourceIdentifier)
    except (x509.ExtensionNotFound, ValueError):
        raise ConfigurationError("the certificate holds no identity of a federation") from None
    return parse_identity(uri)


def read_expiry(certificate: bytes) -> datetime:
    """The moment from which on a certificate (PEM) is refused."""
    return read_certificate(certificate).not_valid_after_utc


def fingerprint(certificate: bytes) -> str:
    """SHA-256 of a certificate, for people to compare."""
    return digest_certificate(certificate).hex(":", 2)


def digest_certificate(certificate: bytes) -> bytes:
    """SHA-256 of a certificate (PEM)."""
    return read_certificate(certificate).fingerprint(hashes.SHA256())


def write_key(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )


@lru_cache(maxsize=256)  # every call of a user shows the same one
def read_certificate(data: bytes) -> x509.Certificate:
    try:
        return x509.load_pem_x509_certificate(data)
    except ValueError:
        raise ConfigurationError("a certificate cannot be read: it is no PEM file") from None


def read_key(data: bytes) -> ec.EllipticCurvePrivateKey:
    try:
        key = serialization.load_pem_private_key(data, password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise ConfigurationError("a private key cannot be read: it is no plain PEM file") from None
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise ConfigurationError("a private key is of another kind than this federation's")
    return key


def read_file(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise ConfigurationError(
            f"{path} cannot be read: {error.strerror}; join first, or "
            "restore tls/ from a copy of this folder"
        ) from error


def write_private(folder: Path, contents: Mapping[str, bytes]) -> None:
    """Files that only their owner can read, each of them replaced as a whole or not at all."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        for name, data in contents.items():
            draft = folder / f"{name}.draft"
            flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
            with open(os.open(draft, flags, 0o600), "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            draft.replace(folder / name)
    except OSError as error:
        raise StorageError.of_write(folder, error) from error

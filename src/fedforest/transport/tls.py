"""Certificates: who somebody is in a federation, signed by the federation's authority.

An identity is the URI `fedforest:<federation>/<role>/<name>` in a certificate. Peers are authorised
by it; that the authority signed the certificate is never enough. Nothing here opens a connection.
"""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import Literal, get_args

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from fedforest.errors import ConfigurationError, StorageError

Role = Literal["coordinator", "party", "user"]

CLOCK_TOLERANCE = timedelta(minutes=5)  # a certificate is valid where clocks are a little behind
_FEDERATION = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")  # also a label of a host name
_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,62}[A-Za-z0-9])?")
_URI = re.compile(r"fedforest:([^/]*)/([^/]*)/([^/]*)")
_FILES = ("certificate.pem", "key.pem", "authority.pem")


@dataclass(frozen=True, slots=True)
class Identity:
    """Who somebody is; names are checked, so that they can stand in logs, paths and addresses."""

    federation: str
    role: Role
    name: str

    def __post_init__(self) -> None:
        if not _FEDERATION.fullmatch(self.federation):
            raise ConfigurationError(
                "the name of a federation has 1 to 63 lower-case letters, digits and inner hyphens"
            )
        if self.role not in get_args(Role):
            raise ConfigurationError(f"a role is one of {', '.join(get_args(Role))}")
        if not _NAME.fullmatch(self.name):
            raise ConfigurationError(
                f"the name of a {self.role} has 1 to 64 letters, digits and inner '.', '_' or '-'"
            )

    def __str__(self) -> str:
        return f"fedforest:{self.federation}/{self.role}/{self.name}"


@dataclass(frozen=True, slots=True)
class Credentials:
    """What somebody needs to open or accept connections, each as PEM."""

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
        """The moment from which on its holder asks for the next one: a third of its life is left.

        What stands before the certificate's own beginning is tolerance, not life.
        """
        starts = _read_certificate(self.certificate).not_valid_before_utc + CLOCK_TOLERANCE
        return self.expires - (self.expires - starts) / 3

    def save(self, folder: Path) -> None:
        """Write three files that only their owner can read, the certificate last."""
        contents = (self.certificate, self.key, self.authority)
        _write_private(folder, dict(reversed(list(zip(_FILES, contents, strict=True)))))

    @classmethod
    def load(cls, folder: Path) -> "Credentials":
        """What `save` wrote, checked to belong together."""
        credentials = cls(*(_read_file(folder / name) for name in _FILES))
        credentials.check()
        return credentials

    def check(self) -> None:
        """Refuse a key of another certificate, and a certificate of another authority."""
        certificate = _read_certificate(self.certificate)
        authority = _read_certificate(self.authority)
        if _read_key(self.key).public_key() != certificate.public_key():
            raise ConfigurationError("the key is not the certificate's; load them from one folder")
        try:
            certificate.verify_directly_issued_by(authority)
        except Exception as error:
            raise ConfigurationError(
                "the certificate was not issued by this federation's authority; enrol again"
            ) from error
        read_identity(self.certificate)


@dataclass(frozen=True, slots=True)
class Authority:
    """Signs the certificates of one federation."""

    federation: str
    certificate: bytes
    key: bytes = field(repr=False)

    def issue(
        self, role: Role, name: str, valid_for: timedelta, *, starting: datetime | None = None
    ) -> Credentials:
        """A new key and its certificate, valid from now on unless `starting` says otherwise."""
        key = ec.generate_private_key(ec.SECP256R1())
        identity = Identity(self.federation, role, name)
        certificate = self.certify(key.public_key(), identity, valid_for, starting=starting)
        return Credentials(certificate, _key_bytes(key), self.certificate)

    def certify(
        self,
        public_key: ec.EllipticCurvePublicKey,
        identity: Identity,
        valid_for: timedelta,
        *,
        starting: datetime | None = None,
    ) -> bytes:
        """A certificate for a key whose private half the authority never saw."""
        if identity.federation != self.federation:
            raise ConfigurationError(
                f"this authority signs for federation {self.federation!r} only, not for "
                f"{identity.federation!r}"
            )
        issuer = _read_certificate(self.certificate).subject
        builder = _blank(identity.name, issuer, valid_for, starting).public_key(public_key)
        builder = builder.add_extension(
            x509.BasicConstraints(ca=False, path_length=None), critical=True
        )
        builder = builder.add_extension(_usage(signs_certificates=False), critical=True)
        builder = builder.add_extension(
            x509.ExtendedKeyUsage([_purpose(identity.role)]), critical=True
        )
        builder = builder.add_extension(
            x509.SubjectAlternativeName(_names(identity)), critical=True
        )
        return _sign(builder, _read_key(self.key))

    def save(self, folder: Path) -> None:
        """Write the authority's certificate and key where only their owner can read them."""
        _write_private(folder, {"authority.pem": self.certificate, "authority.key": self.key})

    @classmethod
    def load(cls, folder: Path) -> "Authority":
        certificate = _read_file(folder / "authority.pem")
        names = _read_certificate(certificate).subject.get_attributes_for_oid(NameOID.COMMON_NAME)
        if len(names) != 1:
            raise ConfigurationError("authority.pem names no federation; it is no authority's")
        return cls(str(names[0].value), certificate, _read_file(folder / "authority.key"))


def make_authority(
    federation: str, valid_for: timedelta, *, starting: datetime | None = None
) -> Authority:
    """A new federation's authority, which signs its own certificate."""
    Identity(federation, "coordinator", "any")  # checks the federation's name
    key = ec.generate_private_key(ec.SECP256R1())
    itself = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, federation)])
    builder = _blank(federation, itself, valid_for, starting).public_key(key.public_key())
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    builder = builder.add_extension(_usage(signs_certificates=True), critical=True)
    return Authority(federation, _sign(builder, key), _key_bytes(key))


def make_key() -> bytes:
    """A new private key, PEM."""
    return _key_bytes(ec.generate_private_key(ec.SECP256R1()))


def load_key(folder: Path) -> bytes:
    """The key that somebody shows to the authority; made, and on the disk, where there is none."""
    path = folder / "key.pem"
    if not path.exists():
        _write_private(folder, {"key.pem": make_key()})
    key = _read_file(path)
    _read_key(key)
    return key


def make_request(key: bytes) -> bytes:
    """A signing request (PEM), which proves that the key is held.

    Whom the certificate is for is not up to the request, so it says nothing about it.
    """
    nobody = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "newcomer")])
    request = x509.CertificateSigningRequestBuilder().subject_name(nobody)
    signed = request.sign(_read_key(key), hashes.SHA256())
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
    return _check_curve(_read_certificate(certificate).public_key(), is_signed=True)


def digest_of_key(key: ec.EllipticCurvePublicKey) -> str:
    """What tells a public key from others, to be kept beside a name."""
    form = serialization.PublicFormat.SubjectPublicKeyInfo
    return sha256(key.public_bytes(serialization.Encoding.DER, form)).hexdigest()


def _check_curve(key: object, *, is_signed: bool) -> ec.EllipticCurvePublicKey:
    if not is_signed or not isinstance(key, ec.EllipticCurvePublicKey):
        raise ConfigurationError("a signing request is not signed by a key of this federation")
    if key.curve.name != "secp256r1":
        raise ConfigurationError("a signing request is not signed by a key of this federation")
    return key


def read_identity(certificate: bytes) -> Identity:
    """Whom a certificate (PEM) is for; that it is valid is for the handshake to check."""
    parsed = _read_certificate(certificate)
    try:
        names = parsed.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        (uri,) = names.get_values_for_type(x509.UniformResourceIdentifier)
    except (x509.ExtensionNotFound, ValueError):
        raise ConfigurationError("the certificate holds no identity of a federation") from None
    return parse_identity(uri)


def parse_identity(uri: str) -> Identity:
    """The identity that a URI names."""
    matched = _URI.fullmatch(uri)
    if matched is None:
        raise ConfigurationError("the certificate holds no identity of a federation")
    return Identity(*matched.groups())  # type: ignore[arg-type] # checks the role itself


def read_expiry(certificate: bytes) -> datetime:
    """The moment from which on a certificate (PEM) is refused."""
    return _read_certificate(certificate).not_valid_after_utc


def fingerprint(certificate: bytes) -> str:
    """SHA-256 of a certificate, for people to compare."""
    return digest_certificate(certificate).hex(":", 2)


def digest_certificate(certificate: bytes) -> bytes:
    """SHA-256 of a certificate (PEM)."""
    return _read_certificate(certificate).fingerprint(hashes.SHA256())


def host_name_of_coordinator(federation: str) -> str:
    """The host name that only coordinators' certificates hold, wherever they run."""
    return f"coordinator.{federation}.fedforest"


def _names(identity: Identity) -> list[x509.GeneralName]:
    names: list[x509.GeneralName] = [x509.UniformResourceIdentifier(str(identity))]
    if identity.role == "coordinator":
        names.append(x509.DNSName(host_name_of_coordinator(identity.federation)))
    return names


def _purpose(role: Role) -> x509.ObjectIdentifier:
    """Only coordinators accept connections, and they open none."""
    return (
        ExtendedKeyUsageOID.SERVER_AUTH
        if role == "coordinator"
        else ExtendedKeyUsageOID.CLIENT_AUTH
    )


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _blank(
    subject: str, issuer: x509.Name, valid_for: timedelta, starting: datetime | None
) -> x509.CertificateBuilder:
    start = starting if starting is not None else datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, subject)]))
        .issuer_name(issuer)
        .serial_number(x509.random_serial_number())
        .not_valid_before(start - CLOCK_TOLERANCE)
        .not_valid_after(start + valid_for)
    )


def _sign(builder: x509.CertificateBuilder, key: ec.EllipticCurvePrivateKey) -> bytes:
    return builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


def _key_bytes(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )


@lru_cache(maxsize=256)  # every call of a user shows the same one
def _read_certificate(data: bytes) -> x509.Certificate:
    try:
        return x509.load_pem_x509_certificate(data)
    except ValueError:
        raise ConfigurationError("a certificate cannot be read: it is no PEM file") from None


def _read_key(data: bytes) -> ec.EllipticCurvePrivateKey:
    try:
        key = serialization.load_pem_private_key(data, password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise ConfigurationError("a private key cannot be read: it is no plain PEM file") from None
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise ConfigurationError("a private key is of another kind than this federation's")
    return key


def _read_file(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise ConfigurationError(f"{path} cannot be read: {error.strerror}; enrol first") from error


def _write_private(folder: Path, contents: Mapping[str, bytes]) -> None:
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
        raise StorageError(f"{folder} cannot be written to: {error.strerror}") from error

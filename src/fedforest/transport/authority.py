"""The authority of a federation, which signs its members' certificates.

The holder of its key decides who belongs to the federation; members hold its certificate only. The
authority never sees keys of members, unless it makes them itself.
"""

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from fedforest.errors import ConfigurationError
from fedforest.transport.identity import Identity, Role, host_name_of_coordinator
from fedforest.transport.tls import (
    CLOCK_TOLERANCE,
    Credentials,
    generate_key,
    read_certificate,
    read_file,
    read_key,
    write_key,
    write_private,
)


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
        key = generate_key()
        identity = Identity(self.federation, role, name)
        certificate = self.certify(key.public_key(), identity, valid_for, starting=starting)
        return Credentials(certificate, write_key(key), self.certificate)

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
        issuer = read_certificate(self.certificate).subject
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
        return _sign(builder, read_key(self.key))

    def save(self, folder: Path) -> None:
        """Write the authority's certificate and key where only their owner can read them."""
        write_private(folder, {"authority.pem": self.certificate, "authority.key": self.key})

    @classmethod
    def load(cls, folder: Path) -> "Authority":
        certificate = read_file(folder / "authority.pem")
        names = read_certificate(certificate).subject.get_attributes_for_oid(NameOID.COMMON_NAME)
        if len(names) != 1:
            raise ConfigurationError("authority.pem names no federation; it is no authority's")
        return cls(str(names[0].value), certificate, read_file(folder / "authority.key"))


def make_authority(
    federation: str, valid_for: timedelta, *, starting: datetime | None = None
) -> Authority:
    """A new federation's authority, which signs its own certificate."""
    Identity(federation, "coordinator", "any")  # checks the federation's name
    key = generate_key()
    itself = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, federation)])
    builder = _blank(federation, itself, valid_for, starting).public_key(key.public_key())
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    builder = builder.add_extension(_usage(signs_certificates=True), critical=True)
    return Authority(federation, _sign(builder, key), write_key(key))


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

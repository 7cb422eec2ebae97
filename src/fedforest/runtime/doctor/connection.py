"""The way to the coordinator: address, port, TLS, admission, release and clock."""

import socket
import ssl
import time
from pathlib import Path

from fedforest.errors import ConfigurationError, FederationError
from fedforest.release import __version__
from fedforest.runtime.doctor.certificates import Clock
from fedforest.runtime.doctor.findings import Diagnoses, Diagnosis, good, problem, warning
from fedforest.transport.enrolment import split_address
from fedforest.transport.frames import PROTOCOL_VERSION
from fedforest.transport.identity import host_name_of_coordinator
from fedforest.transport.tls import CLOCK_TOLERANCE, Credentials

_CONNECT_SECONDS = 5.0
_NOTICED_SECONDS = 5.0  # of difference between clocks
_NOT_YET_VALID, _EXPIRED = 9, 10  # as OpenSSL counts the reasons of a failed verification
_WHY = "without the coordinator there is no run and no prediction"


def examine_connection(home: Path, address: str, clock: Clock = time.time) -> Diagnoses:
    """Examine every step of the way to the coordinator, as far as one can go."""
    try:
        credentials = Credentials.load(home / "tls")
        host, port = split_address(address)
    except ConfigurationError as error:
        if "address" in str(error):
            yield problem("address", str(error), _WHY, "write host:port into the settings file")
        return  # the certificate's own check tells of the others
    failures = [*_connect(host, port, address)] or [*_shake_hands(home, credentials, host, port)]
    if failures:
        yield from failures
        return
    yield good("connection", f"the federation's coordinator answers at {address}")
    yield from _ask(address, credentials, clock)


def _connect(host: str, port: int, address: str) -> Diagnoses:
    try:
        socket.create_connection((host, port), _CONNECT_SECONDS).close()
    except socket.gaierror as error:
        yield problem(
            "address",
            f"the host name {host} is not known on this machine ({error.strerror})",
            _WHY,
            "compare the address with the coordinator's operator, and ask your network's for the "
            "name",
        )
    except ConnectionRefusedError:
        yield problem(
            "coordinator",
            f"nothing listens at {address}",
            _WHY,
            "ask the coordinator's operator whether it runs (`fedforest coordinator start`) and at "
            "which port",
        )
    except OSError as error:
        yield problem(
            "connection",
            f"no connection to {address} ({error.strerror or 'it took too long'})",
            _WHY,
            "see whether the address is right, and whether a firewall lets this machine connect to "
            "that port",
        )


def _shake_hands(home: Path, credentials: Credentials, host: str, port: int) -> Diagnoses:
    federation = credentials.identity.federation
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.set_alpn_protocols(["h2"])
    context.load_verify_locations(cadata=credentials.authority.decode())
    context.load_cert_chain(home / "tls" / "certificate.pem", home / "tls" / "key.pem")
    try:
        name = host_name_of_coordinator(federation)
        with (
            socket.create_connection((host, port), _CONNECT_SECONDS) as raw,
            context.wrap_socket(raw, server_hostname=name) as connection,
        ):
            speaks = connection.selected_alpn_protocol()
    except ssl.SSLCertVerificationError as error:
        yield _describe_certificate(error, federation, f"{host}:{port}")
    except (ssl.SSLError, OSError) as error:
        reason = getattr(error, "reason", None) or error.strerror or type(error).__name__
        yield problem(
            "address",
            f"what listens at {host}:{port} speaks no TLS 1.3 as a coordinator does ({reason})",
            _WHY,
            "compare host and port with the coordinator's operator: the port is that of members, "
            "not of newcomers, and no proxy may end the TLS",
        )
    else:
        if speaks is None:
            yield problem(
                "address",
                f"{host}:{port} is the coordinator's port of newcomers, not that of members",
                _WHY,
                "write the port of members into the settings file, which is 7400 unless the "
                "coordinator's operator chose another",
            )


def _describe_certificate(
    error: ssl.SSLCertVerificationError, federation: str, at: str
) -> Diagnosis:
    if error.verify_code in (_NOT_YET_VALID, _EXPIRED):
        return problem(
            "clock",
            f"this machine refuses the coordinator's certificate: {error.verify_message}",
            _WHY,
            "set the clock of this machine, and keep it right by NTP; if it is right, the "
            "coordinator's operator looks into `fedforest doctor` there",
        )
    return problem(
        "address",
        f"what listens at {at} is not the coordinator of {federation} ({error.verify_message})",
        "it may be another federation's, or somebody sits in between",
        "compare the address with the coordinator's operator; nothing was sent to it",
    )


def _ask(address: str, credentials: Credentials, clock: Clock) -> Diagnoses:
    """Ask the coordinator who it is; it refuses the revoked."""
    from fedforest.transport.grpc.description import (  # noqa: PLC0415 - grpc is an extra
        ask_description,
    )

    try:
        told = ask_description(address, credentials)
    except FederationError as error:
        is_revoked = "was revoked" in str(error)
        yield problem(
            "membership",
            f"{credentials.identity} was revoked" if is_revoked else str(error),
            "the coordinator lets this member in no more" if is_revoked else _WHY,
            "ask the coordinator's operator for an invitation by another name"
            if is_revoked
            else "ask the coordinator's operator what its log says (`refused a connection`)",
        )
        return
    yield good("membership", f"the coordinator lets {credentials.identity} in")
    yield from _compare_releases(told.release, told.protocol_version)
    yield from _compare_clocks(told.now - clock())


def _compare_releases(release: str, protocol: int) -> Diagnoses:
    if protocol != PROTOCOL_VERSION:
        yield problem(
            "version",
            f"the coordinator has release {release} with protocol {protocol}; here is "
            f"{__version__} with protocol {PROTOCOL_VERSION}",
            "roles of different protocols refuse each other",
            f"install the same release at both ends: pip install fedforest=={release}",
        )
    elif release != __version__:
        yield warning(
            "version",
            f"the coordinator has release {release}, here is {__version__}",
            "they understand each other, but mistakes that one has mended may stay in the other",
            "install the same release at all roles when it suits",
        )
    else:
        yield good("version", f"the coordinator has the same release, {release}")


def _compare_clocks(seconds: float) -> Diagnoses:
    difference = f"{abs(seconds):,.0f} seconds {'behind' if seconds > 0 else 'ahead of'}"
    if abs(seconds) > CLOCK_TOLERANCE.total_seconds():
        yield problem(
            "clock",
            f"the clock of this machine is {difference} the coordinator's",
            "certificates are refused as expired or not valid yet, and renewals fail",
            "set the clocks of both machines by NTP (`timedatectl set-ntp true`)",
        )
    elif abs(seconds) > _NOTICED_SECONDS:
        yield warning(
            "clock",
            f"the clock of this machine is {difference} the coordinator's",
            f"beyond {CLOCK_TOLERANCE.total_seconds():.0f} seconds certificates are refused",
            "set the clocks of both machines by NTP (`timedatectl set-ntp true`)",
        )
    else:
        yield good("clock", "the clock agrees with the coordinator's")

"""Certificates name who somebody is; everything that does not belong together is refused."""

import stat
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from hypothesis import given
from hypothesis import strategies as st

from fedforest.errors import ConfigurationError
from fedforest.transport.authority import Authority, make_authority
from fedforest.transport.identity import Identity, host_name_of_coordinator
from fedforest.transport.tls import Credentials, fingerprint, read_identity

DAY = timedelta(days=1)
AUTHORITY = make_authority("testing", DAY)
BANK = AUTHORITY.issue("party", "bank", DAY)


@given(
    st.from_regex(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?", fullmatch=True),
    st.sampled_from(["coordinator", "party", "user"]),
    st.from_regex(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,62}[A-Za-z0-9])?", fullmatch=True),
)
def test_an_identity_is_read_back_from_its_certificate(
    federation: str, role: str, name: str
) -> None:
    authority = replace(AUTHORITY, federation=federation)
    credentials = authority.issue(role, name, DAY)  # type: ignore[arg-type] # one of the roles
    assert credentials.identity == Identity(federation, role, name)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("federation", "role", "name"),
    [
        ("", "party", "bank"),
        ("Upper", "party", "bank"),
        ("a.b", "party", "bank"),
        ("testing", "server", "bank"),
        ("testing", "party", ""),
        ("testing", "party", "../bank"),
        ("testing", "party", "a/b"),
        ("testing", "party", "bank\n"),
        ("testing", "party", "x" * 65),
    ],
)
def test_names_that_could_be_mistaken_are_refused(federation: str, role: str, name: str) -> None:
    with pytest.raises(ConfigurationError):
        Identity(federation, role, name)  # type: ignore[arg-type] # that is the point


def test_only_a_coordinator_holds_the_host_name_that_others_look_for() -> None:
    host = host_name_of_coordinator("testing").encode()
    assert host in certificate_bytes(AUTHORITY.issue("coordinator", "main", DAY))
    assert host not in certificate_bytes(BANK)
    assert host not in certificate_bytes(AUTHORITY.issue("user", "ann", DAY))


def certificate_bytes(credentials: Credentials) -> bytes:
    return x509.load_pem_x509_certificate(credentials.certificate).tbs_certificate_bytes


def test_an_authority_signs_for_its_own_federation_only() -> None:
    key = x509.load_pem_x509_certificate(BANK.certificate).public_key()
    with pytest.raises(ConfigurationError, match="'testing' only"):
        AUTHORITY.certify(key, Identity("other", "party", "bank"), DAY)  # type: ignore[arg-type]


def test_credentials_are_stored_for_their_owner_only_and_loaded_again(tmp_path: Path) -> None:
    BANK.save(tmp_path / "bank")
    assert Credentials.load(tmp_path / "bank") == BANK
    modes = {stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "bank").iterdir()}
    assert modes == {0o600}
    assert stat.S_IMODE((tmp_path / "bank").stat().st_mode) == 0o700


def test_an_authority_is_stored_and_signs_on(tmp_path: Path) -> None:
    AUTHORITY.save(tmp_path)
    loaded = Authority.load(tmp_path)
    assert loaded == AUTHORITY
    loaded.issue("user", "ann", DAY).check()


@pytest.mark.parametrize(
    ("changed", "complaint"),
    [
        (replace(BANK, key=AUTHORITY.issue("party", "bank", DAY).key), "key is not"),
        (replace(BANK, authority=make_authority("testing", DAY).certificate), "not issued by"),
        (replace(BANK, certificate=b"nothing"), "no PEM"),
        (replace(BANK, key=b"nothing"), "no plain PEM"),
        (replace(BANK, certificate=AUTHORITY.certificate, key=AUTHORITY.key), "no identity"),
    ],
)
def test_what_does_not_belong_together_is_refused(changed: Credentials, complaint: str) -> None:
    with pytest.raises(ConfigurationError, match=complaint):
        changed.check()


def test_missing_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"certificate\.pem"):
        Credentials.load(tmp_path)


def test_a_certificate_that_is_no_role_of_a_federation_has_no_identity() -> None:
    with pytest.raises(ConfigurationError, match="no identity"):
        read_identity(AUTHORITY.certificate)


def test_keys_stay_out_of_what_is_printed() -> None:
    assert "PRIVATE" not in repr(BANK)
    assert "PRIVATE" not in repr(AUTHORITY)


def test_dates_are_those_that_were_asked_for() -> None:
    start = datetime(2020, 1, 2, tzinfo=UTC)
    assert AUTHORITY.issue("party", "bank", DAY, starting=start).expires == start + DAY


def test_fingerprints_tell_certificates_apart() -> None:
    again = AUTHORITY.issue("party", "bank", DAY)
    assert fingerprint(BANK.certificate) != fingerprint(again.certificate)
    assert fingerprint(BANK.certificate) == fingerprint(BANK.certificate)
    assert len(fingerprint(BANK.certificate).split(":")) == 16

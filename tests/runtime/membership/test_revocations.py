"""Revocations outlive the coordinator's folder: parties keep them, and nobody else makes them."""

from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path

import msgspec
import pytest

from fedforest.errors import ConfigurationError, StorageError
from fedforest.runtime.coordinator.operation.revocations import RevocationNotices
from fedforest.runtime.membership.invitations import Invitation
from fedforest.runtime.membership.members import Membership
from fedforest.runtime.membership.revocations import KeptRevocations, sign_revocation
from fedforest.runtime.messages.party_requests import KeepRevocations, RevocationsKept
from fedforest.runtime.messages.revocations import Revocation
from fedforest.runtime.recovery.backup import make_backup, restore_backup
from fedforest.transport.authority import make_authority
from fedforest.transport.codec import decode, encode
from fedforest.transport.enrolment import Application
from fedforest.transport.identity import Identity
from fedforest.transport.tls import make_key, make_request

ANN = Identity("tests", "user", "ann")


def enrol(members: Membership, role: str, name: str) -> None:
    token = members.invite(role, name, ("127.0.0.1:1", "127.0.0.1:2"), 60.0)  # type: ignore[arg-type] # a role
    invitation = Invitation.of_token(token)
    members.enrol(Application(invitation.secret, make_request(make_key())), "here")


class Parties:
    """Parties that keep revocations, as their services do; those in `away` do not answer."""

    def __init__(self, folder: Path, members: Path, *names: str) -> None:
        self.kept = {}
        for name in names:
            (folder / name / "tls").mkdir(parents=True)
            authority = (members / "authority" / "authority.pem").read_bytes()
            (folder / name / "tls" / "authority.pem").write_bytes(authority)
            self.kept[name] = KeptRevocations(folder / name)
        self.away: set[str] = set()

    def connected(self) -> list[str]:
        return sorted(self.kept.keys() - self.away)

    def exchange(
        self, requests: Mapping[str, bytes], *, may_lose: bool = False
    ) -> dict[str, bytes]:
        assert may_lose
        told = {name: decode(data, (KeepRevocations,)) for name, data in requests.items()}
        return {
            name: encode(RevocationsKept(self.kept[name].add(asked.revocations)))
            for name, asked in told.items()
        }


@pytest.fixture
def members(tmp_path: Path) -> Membership:
    members = Membership.create(tmp_path / "coordinator", "tests")
    for role, name in (("party", "bank"), ("party", "shop"), ("user", "ann"), ("user", "ben")):
        enrol(members, role, name)
    return members


def test_a_restored_older_copy_hears_from_a_party_whom_it_forgot(
    members: Membership, tmp_path: Path
) -> None:
    make_backup(tmp_path / "coordinator", tmp_path / "copy", "coordinator", "0")
    parties = Parties(tmp_path, tmp_path / "coordinator", "bank", "shop")
    parties.away = {"shop"}
    members.revoke("ann")
    RevocationNotices(parties, parties.connected, members).look()
    assert parties.kept["bank"].has("user", "ann")
    restore_backup(tmp_path / "copy", tmp_path / "older", "coordinator")
    older = Membership(tmp_path / "older")
    assert older.revoked() == set()
    notices = RevocationNotices(parties, parties.connected, older)
    assert notices.unheard() == ["bank", "shop"]
    assert not older.is_revoked(ANN)
    notices.look()
    assert older.revoked() == {ANN}
    assert older.is_revoked(ANN)  # when users are let in again, before anybody else looks
    assert notices.unheard() == ["shop"]
    with pytest.raises(ConfigurationError, match="was revoked, which is for ever"):
        older.invite("user", "ann", ("127.0.0.1:1", "127.0.0.1:2"), 60.0)
    parties.away = set()
    notices.look()
    assert parties.kept["shop"].has("user", "ann")  # which the restored one passes on


def test_a_party_takes_revocations_of_its_authority_only(
    members: Membership, tmp_path: Path
) -> None:
    bank = Parties(tmp_path, tmp_path / "coordinator", "bank").kept["bank"]
    other = make_authority("tests", timedelta(days=1))
    forged = sign_revocation(ANN, other.key)
    for wrong in (forged, Revocation(str(ANN), b""), Revocation(str(ANN), b"x" * 70)):
        with pytest.raises(ConfigurationError, match="not signed by the authority"):
            bank.add([wrong])
    assert not bank.has("user", "ann")
    assert not (tmp_path / "bank" / "revoked.json").exists()
    members.revoke("ben")
    (signed,) = members.revocations()
    with pytest.raises(ConfigurationError, match="not signed"):
        bank.add([Revocation(str(ANN), signed.signature)])  # ben's, for ann


def test_a_lying_party_revokes_nobody(members: Membership) -> None:
    forged = sign_revocation(ANN, make_authority("tests", timedelta(days=1)).key)
    with pytest.raises(ConfigurationError, match="not signed by the authority"):
        members.recall([forged])
    assert members.revoked() == set()


def test_a_party_that_restarts_knows_them_still_and_drops_none(
    members: Membership, tmp_path: Path
) -> None:
    parties = Parties(tmp_path, tmp_path / "coordinator", "bank")
    members.revoke("ann")
    parties.kept["bank"].add(members.revocations())
    again = KeptRevocations(tmp_path / "bank")
    assert [each.identity for each in again.add([])] == [str(ANN)]  # a coordinator names none
    assert again.has("user", "ann")
    assert not again.has("party", "ann")
    (tmp_path / "bank" / "revoked.json").write_bytes(b"[")
    with pytest.raises(StorageError, match=r"revoked\.json cannot be read"):
        KeptRevocations(tmp_path / "bank")


def test_revocations_travel_as_they_are_stored(members: Membership) -> None:
    members.revoke("ann")
    (told,) = members.revocations()
    assert msgspec.json.decode(msgspec.json.encode(told), type=Revocation) == told

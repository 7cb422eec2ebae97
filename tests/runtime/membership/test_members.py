"""Who is let into a federation, by what, and for how long."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedforest.errors import ConfigurationError, FederationError, TransportError
from fedforest.runtime.coordinator.home import describe_members, make_coordinator, public_addresses
from fedforest.runtime.membership.homes import CoordinatorSettings
from fedforest.runtime.membership.invitations import Invitation
from fedforest.runtime.membership.members import Membership, check_members
from fedforest.runtime.membership.pins import Pins
from fedforest.runtime.membership.presence import FolderPresence, Present, read_presence
from fedforest.runtime.membership.renewal import Renewal, load_fresh, renew_if_due
from fedforest.transport.authority import make_authority
from fedforest.transport.enrolment import Application
from fedforest.transport.identity import Identity
from fedforest.transport.tls import Credentials, make_key, make_request

ADDRESSES = ("127.0.0.1:7401", "127.0.0.1:7400")
DAY = timedelta(days=1)
BANK = Identity("clinics", "party", "bank")


@pytest.fixture
def home(tmp_path: Path) -> Path:
    Membership.create(tmp_path / "home", "clinics")
    return tmp_path / "home"


@pytest.fixture
def members(home: Path) -> Membership:
    return Membership(home)


def secret_for(members: Membership, name: str = "bank", seconds: float = 60.0) -> bytes:
    return Invitation.of_token(members.invite("party", name, ADDRESSES, seconds)).secret


def enrol(members: Membership, secret: bytes, key: bytes) -> bytes:
    return members.enrol(Application(secret, make_request(key)), "127.0.0.1")


def enrolled(members: Membership, name: str = "bank") -> Credentials:
    key = make_key()
    certificate = enrol(members, secret_for(members, name), key)
    return Credentials(certificate, key, members._authority.certificate)


def test_an_invitation_lets_exactly_its_name_in(members: Membership) -> None:
    credentials = enrolled(members)
    credentials.check()
    assert credentials.identity == BANK
    assert [(m.role, m.name) for m in members.members()] == [("party", "bank")]


def test_a_second_use_by_another_key_is_refused_and_logged(
    members: Membership, caplog: pytest.LogCaptureFixture
) -> None:
    secret = secret_for(members)
    enrol(members, secret, make_key())
    with pytest.raises(ConfigurationError, match="used before by another key"):
        enrol(members, secret, make_key())
    record = caplog.records[-1]
    assert record.getMessage() == "enrolment refused"
    assert record.fedforest_fields["host"] == "127.0.0.1"  # type: ignore[attr-defined] # an extra


def test_the_same_key_may_use_its_invitation_again_as_after_a_crash(members: Membership) -> None:
    secret, key = secret_for(members), make_key()
    enrol(members, secret, key)
    Credentials(enrol(members, secret, key), key, members._authority.certificate).check()
    assert len(members.members()) == 1


def test_of_many_who_use_an_invitation_at_once_one_is_let_in(members: Membership) -> None:
    secret, outcomes = secret_for(members), []

    def try_it() -> None:
        try:
            outcomes.append(enrol(members, secret, make_key()))
        except ConfigurationError:
            outcomes.append(b"")

    threads = [threading.Thread(target=try_it) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(outcomes) == 8
    assert sum(map(bool, outcomes)) == 1


def test_an_expired_invitation_is_refused(members: Membership) -> None:
    secret = secret_for(members, seconds=-1.0)
    with pytest.raises(ConfigurationError, match="expired"):
        enrol(members, secret, make_key())
    assert members.members() == []


def test_a_used_invitation_expires_for_its_own_key_too(
    members: Membership, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret, key = secret_for(members), make_key()
    enrol(members, secret, key)
    later = time.time() + 61.0
    monkeypatch.setattr(time, "time", lambda: later)
    with pytest.raises(ConfigurationError, match="expired"):
        enrol(members, secret, key)


def test_an_invitation_of_another_federation_is_unknown(
    tmp_path: Path, members: Membership
) -> None:
    other = Membership.create(tmp_path / "other", "clinics")
    with pytest.raises(ConfigurationError, match="unknown"):
        enrol(members, secret_for(other), make_key())


def test_a_newer_invitation_takes_the_place_of_an_unused_one(members: Membership) -> None:
    first, second = secret_for(members), secret_for(members)
    with pytest.raises(ConfigurationError, match="unknown"):
        enrol(members, first, make_key())
    enrol(members, second, make_key())


def test_the_secret_of_an_invitation_is_kept_nowhere(home: Path, members: Membership) -> None:
    secret = secret_for(members)
    for path in home.rglob("*"):
        if path.is_file():
            data = path.read_bytes()
            assert secret not in data
            assert secret.hex().encode() not in data


def test_an_unsigned_or_unreadable_request_uses_no_invitation_up(members: Membership) -> None:
    secret = secret_for(members)
    for request in (b"", b"no request", make_request(make_key())[:-80]):
        with pytest.raises(ConfigurationError, match="signing request"):
            members.enrol(Application(secret, request), "127.0.0.1")
    enrol(members, secret, make_key())


def test_the_revoked_are_members_no_more_and_cannot_be_invited_again(members: Membership) -> None:
    enrolled(members)
    pending = secret_for(members)
    assert members.revoke("bank") == [BANK]
    assert members.members() == []
    assert members.revoked() == {BANK}
    with pytest.raises(ConfigurationError, match="unknown"):
        enrol(members, pending, make_key())
    with pytest.raises(ConfigurationError, match="was revoked"):
        members.invite("party", "bank", ADDRESSES, 60.0)
    with pytest.raises(ConfigurationError, match="nobody called 'bank'"):
        members.revoke("bank")


def test_an_order_may_name_members_only_and_a_slip_is_told(members: Membership) -> None:
    enrolled(members, "laboratory")
    assert members.parties() == ["laboratory"]
    check_members(["laboratory"], members.parties())
    with pytest.raises(ConfigurationError, match="did you mean 'laboratory'"):
        check_members(["laboratory", "labratory"], members.parties())
    members.revoke("laboratory")
    with pytest.raises(ConfigurationError, match="was revoked"):
        check_members(["laboratory"], members.parties())


def test_a_revoked_member_cannot_renew(members: Membership) -> None:
    credentials = enrolled(members)
    members.renew(BANK, credentials.certificate)
    members.revoke("bank")
    with pytest.raises(ConfigurationError, match="revoked"):
        members.renew(BANK, credentials.certificate)


def test_a_revocation_by_another_process_counts_from_the_next_question_on(
    members: Membership, home: Path
) -> None:
    enrolled(members, "shop")
    enrolled(members)
    assert not members.is_revoked(BANK)
    for name in ("shop", "bank"):
        Membership(home).revoke(name)
        assert members.is_revoked(Identity("clinics", "party", name))
        assert members.is_revoked(BANK) == (name == "bank")


def test_a_certificate_renews_for_the_key_of_its_member_only(members: Membership) -> None:
    stolen = enrolled(members)
    enrolled(members)  # the party lost its folder and enrolled again
    with pytest.raises(ConfigurationError, match="no member by this key"):
        members.renew(BANK, stolen.certificate)
    shop = Identity("clinics", "party", "shop")
    with pytest.raises(ConfigurationError, match="no member by this key"):
        members.renew(shop, stolen.certificate)


def test_certificates_live_as_long_as_the_coordinators_settings_say(home: Path) -> None:
    credentials = enrolled(Membership(home, certificate_days=3.0))
    left = credentials.expires - datetime.now(UTC)
    assert timedelta(days=2.99) < left <= timedelta(days=3)
    until_due = credentials.renewal_due - datetime.now(UTC)
    assert timedelta(days=1.99) < until_due <= timedelta(days=2)


def test_a_federation_is_made_once_in_a_folder(home: Path) -> None:
    with pytest.raises(ConfigurationError, match="holds a federation already"):
        Membership.create(home, "clinics")


def test_a_damaged_file_of_members_is_named(home: Path, members: Membership) -> None:
    enrolled(members)
    (home / "members.json").write_text("[")
    with pytest.raises(ConfigurationError, match=r"members\.json is damaged"):
        members.members()


@given(
    name=st.from_regex(r"[a-z]{1,20}", fullmatch=True),
    at=st.integers(min_value=0),
    change=st.sampled_from(["drop", "double", "swap"]),
)
def test_a_mistyped_token_is_refused_before_anything_is_sent(
    name: str, at: int, change: str
) -> None:
    invitation = Invitation("clinics", "party", name, *ADDRESSES, bytes(32), bytes(range(24)))
    token = invitation.as_token()
    assert msgspec.structs.asdict(Invitation.of_token(f" {token}\n")) == msgspec.structs.asdict(
        invitation
    )
    place = at % len(token)
    other = "A" if token[place] != "A" else "B"
    typed = {"drop": "", "double": 2 * token[place], "swap": other}[change]
    mistyped = token[:place] + typed + token[place + 1 :]
    if _means(mistyped) != _means(token):
        with pytest.raises(ConfigurationError, match="no invitation"):
            Invitation.of_token(mistyped)


def _means(token: str) -> bytes:
    """The last letter of a token may hold bits that mean nothing."""
    try:
        return msgspec.msgpack.encode(Invitation.of_token(token))
    except FederationError:
        return token.encode()


def test_an_invitation_shows_its_secret_in_no_log() -> None:
    invitation = Invitation("clinics", "party", "bank", *ADDRESSES, bytes(32), b"s" * 24)
    assert "ssss" not in repr(invitation)


def test_a_due_certificate_is_renewed_once_and_kept(home: Path, members: Membership) -> None:
    credentials = age(home, members)
    used: list[Credentials] = []
    renewal = Renewal(home / "tls", members.renew_own, used.append)
    renewal.look()
    renewal.look()
    assert [new.key for new in used] == [credentials.key]
    assert Credentials.load(home / "tls") == used[0]
    assert used[0].renewal_due > datetime.now(UTC)


def test_a_certificate_that_is_not_due_is_left_alone(home: Path, members: Membership) -> None:
    used: list[Credentials] = []
    Renewal(home / "tls", members.renew_own, used.append).look()
    assert used == []


def test_a_failed_renewal_is_logged_and_tried_again_later(
    home: Path, members: Membership, caplog: pytest.LogCaptureFixture
) -> None:
    before = age(home, members)
    asked: list[Credentials] = []

    def refuse(credentials: Credentials) -> bytes:
        asked.append(credentials)
        raise ConfigurationError("the authority is away")

    renewal = Renewal(home / "tls", refuse, asked.append)
    renewal.look()
    renewal.look()  # too soon
    assert asked == [before]
    assert "not renewed" in caplog.text
    renewal._not_before = 0.0
    renewal.look()
    assert len(asked) == 2
    assert load_fresh(home / "tls", refuse) == before


def test_two_processes_that_renew_one_folder_ask_for_one_certificate(
    home: Path, members: Membership
) -> None:
    before = age(home, members)
    asked: list[Credentials] = []

    def ask(credentials: Credentials) -> bytes:
        asked.append(credentials)
        time.sleep(0.2)  # the other one comes meanwhile
        return members.renew_own(credentials)

    with ThreadPoolExecutor(2) as threads:
        both = [threads.submit(renew_if_due, home / "tls", ask) for _ in range(2)]
        found = [each.result(60) for each in both]
    assert asked == [before]
    assert found == [(Credentials.load(home / "tls"), True)] * 2
    assert renew_if_due(home / "tls", ask) == (found[0][0], False)
    assert renew_if_due(home / "tls", ask, anyway=True)[1]


def test_an_expired_certificate_says_what_to_do(home: Path, members: Membership) -> None:
    starting = datetime.now(UTC) - 2 * DAY
    old = members._authority.issue("user", "ann", DAY, starting=starting)
    old.save(home / "tls")

    def ask(_: Credentials) -> bytes:
        raise TransportError("the handshake failed")

    with pytest.raises(ConfigurationError, match=r"expired at .* to invite ann again"):
        renew_if_due(home / "tls", ask)
    assert load_fresh(home / "tls", ask) == old
    age(home, members)
    with pytest.raises(TransportError, match="handshake"):
        renew_if_due(home / "tls", ask)


def test_a_certificate_for_somebody_else_is_not_kept(home: Path, members: Membership) -> None:
    before = age(home, members)
    strangers = make_authority("clinics", DAY).issue("coordinator", "coordinator", DAY)
    assert load_fresh(home / "tls", lambda _: strangers.certificate) == before
    assert Credentials.load(home / "tls") == before


def age(home: Path, members: Membership) -> Credentials:
    """Give the coordinator a certificate that is due, and in date for long enough."""
    old = members._authority.issue(
        "coordinator", "coordinator", DAY, starting=datetime.now(UTC) - 0.7 * DAY
    )
    old.save(home / "tls")
    return old


def test_a_folder_tells_who_is_connected_only_while_its_coordinator_runs(home: Path) -> None:
    assert read_presence(home) is None
    with FolderPresence(home) as presence:
        assert read_presence(home) == Present([], [])
        presence.tell(Present(["bank"], []))
        assert read_presence(home) == Present(["bank"], [])
        with pytest.raises(ConfigurationError, match="runs with"):
            FolderPresence(home)
        assert read_presence(home) == Present(["bank"], [])
    assert read_presence(home) is None


def test_what_a_killed_coordinator_left_is_not_taken_for_the_truth(home: Path) -> None:
    presence = FolderPresence(home)
    presence.tell(Present(["bank"], []))
    presence._lock.close()  # as when its process is gone
    assert read_presence(home) is None


def test_members_are_described_with_who_is_connected(tmp_path: Path) -> None:
    home = tmp_path / "new"
    make_coordinator(home, "clinics", CoordinatorSettings())
    enrolled(Membership(home))
    enrolled(Membership(home), "shop")
    assert public_addresses(home) == ADDRESSES
    with FolderPresence(home) as presence:
        presence.tell(Present(["shop"], []))
        described = describe_members(home)
    states = [(member["name"], member["connected"]) for member in described["members"]]
    assert states == [("bank", False), ("shop", True)]
    assert described["running"] is True
    assert describe_members(home)["running"] is False


def test_addresses_that_nobody_can_connect_to_need_a_host_name(tmp_path: Path) -> None:
    settings = CoordinatorSettings(address="0.0.0.0:7400", enrolment="[::]:7401")
    with pytest.raises(ConfigurationError, match="--host"):
        make_coordinator(tmp_path, "clinics", settings)
    named = msgspec.structs.replace(settings, host="co.example")
    make_coordinator(tmp_path, "clinics", named)
    assert public_addresses(tmp_path) == ("co.example:7401", "co.example:7400")


PIN = "-".join(["abcd"] * 8)
OTHER_PIN = "-".join(["efgh"] * 8)
CLINICS_PIN = "-".join(["ijkl"] * 8)


def test_a_pin_is_heeded_at_once_and_not_replaced_by_accident(tmp_path: Path) -> None:
    pins = Pins(tmp_path, {"clinic": CLINICS_PIN})
    Pins(tmp_path, {}).trust("shop", f" {PIN.upper()}\n")
    assert dict(pins) == {"clinic": CLINICS_PIN, "shop": PIN}
    with pytest.raises(ConfigurationError, match="somebody may sit in between"):
        pins.trust("shop", OTHER_PIN)
    pins.trust("shop", OTHER_PIN, replace=True)
    assert pins["shop"] == OTHER_PIN
    with pytest.raises(ConfigurationError, match=r"party\.toml"):
        pins.trust("clinic", PIN, replace=True)


def test_a_removed_pin_counts_no_more_and_can_be_given_to_another_name(tmp_path: Path) -> None:
    pins = Pins(tmp_path, {"clinic": CLINICS_PIN})
    pins.trust("shopp", PIN)
    pins.trust("bank", OTHER_PIN)
    Pins(tmp_path, {}).distrust("shopp")
    assert dict(pins) == {"clinic": CLINICS_PIN, "bank": OTHER_PIN}
    pins.trust("shop", PIN)
    assert pins["shop"] == PIN


def test_only_a_pin_that_is_there_and_was_trusted_is_removed(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="of 'shop' is pinned here; pinned: nobody"):
        Pins(tmp_path, {}).distrust("shop")
    pins = Pins(tmp_path, {"clinic": CLINICS_PIN})
    pins.trust("bank", PIN)
    with pytest.raises(ConfigurationError, match="'shop' is pinned here; pinned: bank, clinic"):
        pins.distrust("shop")
    with pytest.raises(ConfigurationError, match=r"'clinic' is pinned in party\.toml"):
        pins.distrust("clinic")
    assert dict(pins) == {"clinic": CLINICS_PIN, "bank": PIN}


def test_two_names_are_not_pinned_by_one_fingerprint(tmp_path: Path) -> None:
    pins = Pins(tmp_path, {"clinic": CLINICS_PIN})
    with pytest.raises(ConfigurationError, match="by which 'clinic' is pinned"):
        pins.trust("clinc", CLINICS_PIN)
    pins.trust("clinic", CLINICS_PIN)  # said again, it is the same


def test_names_that_runs_gave_are_remembered(tmp_path: Path) -> None:
    pins = Pins(tmp_path, {})
    assert pins.peers() == set()
    pins.note_peers(["shop", "clinic"])
    pins.note_peers(["shop"])
    assert Pins(tmp_path, {}).peers() == {"shop", "clinic"}


@pytest.mark.parametrize("text", ["", "abcd", PIN[:-1], PIN.replace("a", "1"), PIN + "-abcd"])
def test_what_is_no_fingerprint_is_not_pinned(tmp_path: Path, text: str) -> None:
    with pytest.raises(ConfigurationError, match="no fingerprint"):
        Pins(tmp_path, {}).trust("shop", text)

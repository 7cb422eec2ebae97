"""Strangers become members of a federation by commands, and attackers do not."""

import json
import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
import pytest
from typer.testing import CliRunner

from fedforest.cli.main import app
from fedforest.errors import ConfigurationError, FederationError, MaskingError, TransportError
from fedforest.masking.key_agreement import fingerprint
from fedforest.protocol.aggregation.options import Masked
from fedforest.runtime.client.connection import Federation
from fedforest.runtime.membership.homes import load_identity
from fedforest.runtime.membership.invitations import Invitation
from fedforest.runtime.membership.joining import join
from fedforest.runtime.messages.orders import ListRuns
from fedforest.runtime.messages.results import HorizontalResult, RunList
from fedforest.transport.authority import Authority
from fedforest.transport.grpc.client import submit
from fedforest.transport.grpc.party import GrpcLink
from fedforest.transport.tls import Credentials, key_of
from tests.integration.federation_folder import Role, find_port, make_federation, running
from tests.integration.samples import divide, horizontal
from tests.transport.grpc_federations import wait_until

KILLED_WHILE_JOINING = """
import os, sys
from pathlib import Path
from fedforest.runtime.membership import joining
joining.write_file = lambda *_: os._exit(9)
joining.join(sys.argv[1], "party", Path(sys.argv[2]))
"""


def command(*arguments: str, typed: str = "") -> str:
    """What a command prints for the next one (hints go to stderr); raises what it ends with."""
    outcome = CliRunner().invoke(app, arguments, input=typed)
    if outcome.exception is not None:
        raise outcome.exception
    return outcome.stdout


@dataclass(frozen=True, slots=True)
class Clinics:
    """A federation that was made by commands, whose coordinator runs."""

    folder: Path
    coordinator: Role

    @property
    def home(self) -> str:
        return str(self.coordinator.home)

    def invite(self, name: str, *options: str) -> str:
        return command("coordinator", "invite", name, "--home", self.home, *options).strip()

    def joined(self, name: str, role: str = "party") -> Path:
        home = self.folder / name
        options = ("--user",) if role == "user" else ()
        words = ("join",) if role == "user" else ("party", "join")
        command(*words, "--home", str(home), typed=self.invite(name, *options))
        return home

    def parties(self) -> dict[str, bool]:
        described = json.loads(command("coordinator", "parties", "--home", self.home, "--json"))
        assert described["running"]
        return {member["name"]: member["connected"] for member in described["members"]}

    def has_logged(self, *words: str) -> bool:
        log = self.coordinator.read_log().splitlines()
        return any(all(word in line for word in words) for line in log)

    @property
    def address(self) -> str:
        return Invitation.of_token(self.invite("anybody")).coordinator

    def authority(self) -> Authority:
        return Authority.load(self.coordinator.home / "authority")


@pytest.fixture(scope="module")
def clinics(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Clinics]:
    folder = tmp_path_factory.mktemp("clinics")
    addresses = [f"127.0.0.1:{find_port()}" for _ in range(2)]
    home = folder / "coordinator"
    options = ("--address", addresses[0], "--enrolment", addresses[1])
    command("coordinator", "init", "clinics", "--home", str(home), *options)
    coordinator = Role("coordinator", home)
    coordinator.start()
    try:
        wait_until(lambda: "newcomers enrol at" in coordinator.read_log(), "it listens", 120)
        yield Clinics(folder, coordinator)
    finally:
        coordinator.stop()


@pytest.fixture
def start(clinics: Clinics) -> Iterator[Callable[[Path], Role]]:
    roles: list[Role] = []

    def start(home: Path) -> Role:
        role = Role("party", home)
        roles.append(role)
        role.start()
        wait_until(lambda: clinics.parties()[home.name], "the party is connected", 120)
        return role

    yield start
    for role in roles:
        role.stop()


def test_a_party_joins_connects_renews_and_is_cut_off_by_commands(
    clinics: Clinics, start: Callable[[Path], Role]
) -> None:
    bank = clinics.joined("bank")
    make_due(clinics, bank)
    before = Credentials.load(bank / "tls")
    role = start(bank)
    wait_until(lambda: Credentials.load(bank / "tls").expires > before.expires, "it renews", 120)
    wait_until(lambda: "connects anew with another certificate" in role.read_log(), "it changes")
    wait_until(lambda: clinics.parties()["bank"], "it is back")
    assert Credentials.load(bank / "tls").key == before.key

    assert "fedforest:clinics/party/bank" in command(
        "coordinator", "revoke", "bank", "--home", clinics.home
    )
    assert clinics.has_logged("party 'bank' is disconnected")
    assert "bank" not in clinics.parties()
    wait_until(
        lambda: "refuses us: fedforest:clinics/party/bank was revoked" in role.read_log(), ""
    )


def test_status_is_whole_for_operators_and_reduced_for_users(clinics: Clinics) -> None:
    eve = str(clinics.joined("eve", "user"))
    told = json.loads(command("status", "--profile", eve, "--json"))
    assert told["users"] is None
    assert told["disk_free_bytes"] is None
    command("coordinator", "grant", "eve", "operator", "--home", clinics.home)
    told = json.loads(command("status", "--profile", eve, "--json"))
    assert {"name": "eve", "user_role": "operator"}.items() <= told["users"][-1].items()
    assert told["disk_free_bytes"] > 0
    assert told["certificate_expires"] > told["own_certificate_expires"][:4]
    assert "disk of the coordinator" in command("status", "--profile", eve)


def make_due(
    clinics: Clinics, home: Path, life: timedelta = timedelta(hours=1), spent: float = 0.7
) -> None:
    """Put a certificate in a member's folder that is to be renewed at once, or before long."""
    old = Credentials.load(home / "tls")
    starting = datetime.now(UTC) - spent * life
    certificate = clinics.authority().certify(
        key_of(old.certificate), old.identity, life, starting=starting
    )
    replace(old, certificate=certificate).save(home / "tls")


def test_the_coordinator_and_users_renew_their_certificates_by_themselves(
    clinics: Clinics,
) -> None:
    ann = clinics.joined("ann", "user")
    make_due(clinics, ann)
    before = Credentials.load(ann / "tls").expires
    with Federation(ann) as federation:
        assert federation.ask(ListRuns(), RunList).runs == []
    assert Credentials.load(ann / "tls").expires > before

    with Federation(ann) as federation:  # an application's, that stays open for weeks
        make_due(clinics, ann)
        before = Credentials.load(ann / "tls").expires
        federation._credentials = Credentials.load(ann / "tls")  # as they are by then
        assert federation.ask(ListRuns(), RunList).runs == []
        assert Credentials.load(ann / "tls").expires > before

    make_due(clinics, clinics.coordinator.home)
    clinics.coordinator.stop()
    clinics.coordinator.start()
    since = len(clinics.coordinator.log_since_start())
    wait_until(
        lambda: "certificate renewed" in clinics.coordinator.log_since_start()[since:], "it renews"
    )
    with Federation(ann) as federation:
        assert federation.ask(ListRuns(), RunList).runs == []


def renewed(home: Path, *options: str) -> bool:
    told = json.loads(command("renew", "--profile", str(home), "--json", *options))
    assert told["expires"] == Credentials.load(home / "tls").expires.isoformat()
    return bool(told["renewed"])


@pytest.mark.slow
def test_a_silent_service_account_is_renewed_by_a_command_and_goes_on(clinics: Clinics) -> None:
    homes = {}
    for name in ("scoring", "forgotten"):
        homes[name] = clinics.folder / name
        token = clinics.invite(name, "--user", "--role", "service")
        command("join", "--home", str(homes[name]), typed=token)
        make_due(clinics, homes[name], timedelta(seconds=12), spent=0.0)  # due in 8 seconds
    before = Credentials.load(homes["scoring"] / "tls")
    with Federation(homes["scoring"]) as application:
        assert not renewed(homes["scoring"])
        wait_until(lambda: before.renewal_due <= datetime.now(UTC), "it is due")
        assert renewed(homes["scoring"])
        after = Credentials.load(homes["scoring"] / "tls")
        assert after.expires - before.expires > timedelta(days=29)
        assert after.key == before.key
        wait_until(lambda: before.expires < datetime.now(UTC), "the old one has expired")
        assert application.ask(ListRuns(), RunList).runs == []  # nothing was asked since it began
    assert not renewed(homes["scoring"])
    assert renewed(homes["scoring"], "--now")
    with pytest.raises(ConfigurationError, match=r"expired at .* cannot be renewed; .* invite"):
        renewed(homes["forgotten"])


def test_the_revoked_are_not_renewed_by_the_command(clinics: Clinics) -> None:
    gone = clinics.joined("gone", "user")
    make_due(clinics, gone)
    command("coordinator", "revoke", "gone", "--home", clinics.home)
    with pytest.raises(ConfigurationError, match="was revoked"):
        renewed(gone)


def test_a_party_that_was_killed_while_it_joined_joins_with_the_same_token(
    clinics: Clinics,
) -> None:
    token, home = clinics.invite("killed"), clinics.folder / "killed"
    arguments = [sys.executable, "-c", KILLED_WHILE_JOINING, token, str(home)]
    outcome = subprocess.run(arguments, env=os.environ, timeout=120, check=False)
    assert outcome.returncode == 9
    assert not (home / "party.toml").exists()
    with pytest.raises(ConfigurationError, match="used before by another key"):
        join(token, "party", clinics.folder / "thief")
    assert clinics.has_logged("enrolment refused", "used before by another key", "killed")
    join(token, "party", home)
    assert str(Credentials.load(home / "tls").identity) == "fedforest:clinics/party/killed"
    with pytest.raises(ConfigurationError, match="belongs to a member already"):
        join(token, "party", home)


def test_an_expired_invitation_is_refused_and_logged(clinics: Clinics) -> None:
    token = clinics.invite("late", "--valid", "0s")
    time.sleep(0.01)
    with pytest.raises(ConfigurationError, match="'late' has expired"):
        join(token, "party", clinics.folder / "late")
    assert clinics.has_logged("enrolment refused", "'late' has expired", "127.0.0.1")


def test_an_invitation_of_another_federation_is_refused_and_logged(clinics: Clinics) -> None:
    other = clinics.folder / "other"
    command("coordinator", "init", "clinics", "--home", str(other))
    token = command("coordinator", "invite", "spy", "--home", str(other)).strip()
    foreign, own = Invitation.of_token(token), Invitation.of_token(clinics.invite("spy"))
    here = msgspec.structs.replace(foreign, enrolment=own.enrolment)
    with pytest.raises(TransportError, match="another fingerprint"):
        join(here.as_token(), "party", clinics.folder / "spy")
    forged = msgspec.structs.replace(here, fingerprint=own.fingerprint)
    with pytest.raises(ConfigurationError, match="unknown here"):
        join(forged.as_token(), "party", clinics.folder / "spy")
    assert clinics.has_logged("enrolment refused", "unknown here")
    assert "spy" not in clinics.parties()


def test_an_invitation_of_a_party_makes_no_user_and_the_other_way_round(clinics: Clinics) -> None:
    with pytest.raises(ConfigurationError, match="use `fedforest party join`"):
        join(clinics.invite("hybrid"), "user", clinics.folder / "hybrid")
    with pytest.raises(ConfigurationError, match="use `fedforest join`"):
        join(clinics.invite("hybrid", "--user"), "party", clinics.folder / "hybrid")


def test_a_partys_certificate_gives_no_orders_and_a_users_is_no_party(clinics: Clinics) -> None:
    party = Credentials.load(clinics.joined("shop") / "tls")
    user = Credentials.load(clinics.joined("bob", "user") / "tls")
    with pytest.raises(TransportError, match="shop is no user's certificate"):
        list(submit(clinics.address, party, b""))
    assert clinics.has_logged("refused a connection", "party/shop is no user's certificate")
    for credentials, name in ((user, "bob"), (user, "shop"), (party, "bank")):
        assert "refuses us" in trouble_of(clinics.address, credentials, name)
        assert not clinics.parties().get(name, False)
    assert clinics.has_logged("refused a connection", "party/shop may not speak for party 'bank'")


def trouble_of(address: str, credentials: Credentials, name: str) -> str:
    """Why nobody may connect by this name with these credentials."""
    stop = threading.Event()
    link = GrpcLink(address, credentials, name, bytes)
    thread = threading.Thread(target=link.run, args=(stop,), daemon=True)
    thread.start()
    wait_until(lambda: link.trouble is not None, "the link is refused")
    stop.set()
    thread.join(60)
    return str(link.trouble)


@pytest.mark.slow
def test_protected_sums_begin_only_where_everybody_is_pinned(tmp_path: Path) -> None:
    federation = make_federation(tmp_path, divide(2))
    for role in federation.parties.values():
        settings = role.home / "party.toml"
        settings.write_text(re.sub(r'\w+ = "[a-z2-7-]{39}"\n', "", settings.read_text()))
    order = horizontal(2, aggregation=Masked())
    with running(federation), Federation(Path(federation.profile)) as user:
        with pytest.raises(MaskingError) as caught:
            user.train(order, HorizontalResult)
        for name, other in (("bank", "shop"), ("shop", "bank")):  # both directions, at once
            missing = f"party '{name}': no fingerprint of '{other}' is pinned here"
            assert missing in str(caught.value)
            assert f"run here: fedforest party trust {other} FINGERPRINT" in str(caught.value)
        for name, other in (("bank", "shop"), ("shop", "bank")):
            pin = fingerprint(load_identity(federation.parties[other].home).public)
            home = str(federation.parties[name].home)
            with pytest.raises(ConfigurationError, match="is this party itself"):
                command("party", "trust", name, pin, "--home", home)
            own = fingerprint(load_identity(federation.parties[name].home).public)
            with pytest.raises(ConfigurationError, match="fingerprint of this party itself"):
                command("party", "trust", other, own, "--home", home)
            command("party", "trust", other, pin, "--home", home)
            typo = ("party", "trust", f"{other}y", "-".join(["abcd"] * 8), "--home", home)
            warned = CliRunner().invoke(app, typo).stderr
            assert f"no run has named a party '{other}y' so far; did you mean '{other}'?" in warned
        assert user.train(order, HorizontalResult).n_rows > 0  # nobody was started again
        home = str(federation.parties["bank"].home)
        removed = CliRunner().invoke(app, ["party", "distrust", "shop", "--home", home, "--json"])
        assert json.loads(removed.stdout) == {"distrusted": "shop", "pinned": ["shopy"]}
        with pytest.raises(MaskingError, match="no fingerprint of 'shop' is pinned here"):
            user.train(order, HorizontalResult)


def test_errors_of_joining_are_one_line_of_a_known_kind(clinics: Clinics) -> None:
    for arguments in (
        ("party", "join", "nowhere", "--home", str(clinics.folder / "x")),
        ("coordinator", "revoke", "nobody", "--home", clinics.home),
        ("coordinator", "invite", "no name!", "--home", clinics.home),
        ("coordinator", "init", "clinics", "--home", clinics.home),
    ):
        with pytest.raises(FederationError):
            command(*arguments)

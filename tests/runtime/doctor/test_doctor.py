"""Broken set-ups, made with real files and real services: the doctor names each, and the cure."""

import json
import shutil
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from typer.testing import CliRunner

from fedforest.cli.main import app
from fedforest.kernels.compiled import preparation
from fedforest.runtime.coordinator.home import make_coordinator
from fedforest.runtime.disclosure.egress_ledger import EgressLedger
from fedforest.runtime.doctor.examination import examine
from fedforest.runtime.doctor.findings import Diagnosis
from fedforest.runtime.membership.homes import CoordinatorSettings, make_keys
from fedforest.runtime.membership.pins import Pins
from fedforest.runtime.membership.presence import FolderPresence, Present
from fedforest.runtime.party.catalogue.catalogue import Catalogue
from fedforest.runtime.party.catalogue.entries import Entry
from fedforest.transport.authority import Authority, make_authority
from fedforest.transport.grpc import description
from fedforest.transport.grpc.coordinator import GrpcHub
from fedforest.transport.identity import Identity
from tests.integration.federation_folder import find_port
from tests.runtime.disks import disk_of

DAY = timedelta(days=1)
PEER = "-".join(["abcd"] * 8)


class SetUp:
    """A party that joined a federation whose coordinator runs."""

    def __init__(self, folder: Path, hub: GrpcHub, authority: Authority) -> None:
        self.home, self.hub, self.authority = folder / "bank", hub, authority
        self.home.mkdir()
        self.enrol()
        self.point_at(hub.address)
        (self.home / "policy.toml").write_text("[default]\nmin_rows_per_leaf = 20\n")
        (self.home / "loans.csv").write_text("amount,paid\n1,0\n2,1\n")
        Catalogue(self.home).add("loans", Entry(source="loans.csv"))
        make_keys(self.home)
        Pins(self.home, {}).trust("shop", PEER)

    def enrol(self, starting: datetime | None = None, authority: Authority | None = None) -> None:
        issued = (authority or self.authority).issue("party", "bank", DAY, starting=starting)
        issued.save(self.home / "tls")

    def point_at(self, address: str) -> None:
        (self.home / "party.toml").write_text(f'coordinator = "{address}"\n')


@pytest.fixture(scope="module")
def authority() -> Authority:
    return make_authority("clinics", 10 * DAY, starting=datetime.now(UTC) - 5 * DAY)


@pytest.fixture
def set_up(tmp_path: Path, authority: Authority) -> Iterator[SetUp]:
    with GrpcHub(authority.issue("coordinator", "main", DAY)) as hub:
        set_up = SetUp(tmp_path, hub, authority)
        with EgressLedger(set_up.home, "bank"):  # as the party's service has it
            yield set_up


@pytest.fixture(autouse=True)
def compiled_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no finding depend on what this machine has compiled."""
    monkeypatch.setattr("fedforest.runtime.doctor.environment.find_missing", dict)


def problems(home: Path, clock: Callable[[], float] = time.time) -> list[Diagnosis]:
    found = [finding for finding in examine(home, clock) if finding.state != "good"]
    for finding in found:
        assert finding.what, finding
        assert finding.why, finding
        assert finding.cure, finding
    return found


def the_problem(home: Path, clock: Callable[[], float] = time.time) -> Diagnosis:
    [found] = [finding for finding in problems(home, clock) if finding.state == "problem"]
    return found


def test_a_sound_party_has_no_findings_and_says_what_was_looked_at(set_up: SetUp) -> None:
    assert problems(set_up.home) == []
    topics = {finding.topic for finding in examine(set_up.home)}
    assert topics == {
        *("release", "extra", "kernels", "disk", "key mode", "certificate", "pin", "policy"),
        *("service", "source", "settings", "connection", "membership", "version", "clock"),
    }


def test_an_expired_certificate(set_up: SetUp) -> None:
    set_up.enrol(starting=datetime.now(UTC) - 2 * DAY)
    found = [each for each in problems(set_up.home) if each.topic == "certificate"]
    assert "expired at" in found[0].what
    assert "invitation" in found[0].cure


def test_a_certificate_that_was_not_renewed_in_time(set_up: SetUp) -> None:
    set_up.enrol(starting=datetime.now(UTC) - 0.8 * DAY)
    [found] = problems(set_up.home)
    assert (found.topic, found.state) == ("certificate", "warning")
    assert "was to be renewed" in found.what


def test_a_clock_that_is_behind_the_own_certificate(set_up: SetUp) -> None:
    long_ago = time.time() - 3 * 86_400
    found = [each.what for each in problems(set_up.home, lambda: long_ago) if each.topic == "clock"]
    assert "the certificate begins at" in found[0]
    assert "behind the coordinator's" in found[1]


def test_a_clock_that_differs_from_the_coordinators(set_up: SetUp) -> None:
    found = the_problem(set_up.home, lambda: time.time() + 3600)
    assert found.topic == "clock"
    assert found.what == "the clock of this machine is 3,600 seconds ahead of the coordinator's"
    [found] = problems(set_up.home, lambda: time.time() - 60)
    assert (found.topic, found.state) == ("clock", "warning")


def test_a_source_that_cannot_be_read(set_up: SetUp) -> None:
    (set_up.home / "loans.csv").unlink()
    found = the_problem(set_up.home)
    assert found.topic == "source"
    assert "'loans' cannot be read (FileNotFoundError)" in found.what


def test_a_source_whose_columns_changed(set_up: SetUp) -> None:
    (set_up.home / "loans.csv").write_text("amount,paid,name\n1,0,a\n")
    found = the_problem(set_up.home)
    assert found.topic == "columns"
    assert "column 'name' is new" in found.what
    assert "--replace" in found.cure
    assert set(Catalogue(set_up.home).schema("loans") or ()) == {"amount", "paid"}


@pytest.mark.parametrize(("protocol", "state"), [(99, "problem"), (None, "warning")])
def test_a_coordinator_of_another_version(
    set_up: SetUp, monkeypatch: pytest.MonkeyPatch, protocol: int | None, state: str
) -> None:
    monkeypatch.setattr(description, "__version__", "9.9.9")
    if protocol is not None:
        monkeypatch.setattr(description, "PROTOCOL_VERSION", protocol)
    [found] = problems(set_up.home)
    assert (found.topic, found.state) == ("version", state)
    assert "9.9.9" in found.what


@pytest.mark.parametrize(
    ("library", "extra", "entry"),
    [
        ("rbcl", "encrypted", '[default]\nalignment_methods = ["psi"]\n'),
        ("grpc", "federation", ""),
    ],
)
def test_a_missing_extra(
    set_up: SetUp, monkeypatch: pytest.MonkeyPatch, library: str, extra: str, entry: str
) -> None:
    (set_up.home / "policy.toml").write_text(entry)
    monkeypatch.setitem(sys.modules, library, None)
    found = the_problem(set_up.home)
    assert found.topic == "extra"
    assert f"the extra {extra!r} is missing: {library} cannot be imported" in found.what
    assert f'pip install "fedforest[{extra}]"' in found.cure


def test_a_full_disk(set_up: SetUp) -> None:
    with disk_of(1000):
        found = the_problem(set_up.home)
    assert found.topic == "disk"
    assert "cannot be written" in found.what
    assert "make room" in found.cure


def test_an_address_whose_name_is_unknown(set_up: SetUp) -> None:
    set_up.point_at("no-such-host.invalid:7400")
    found = the_problem(set_up.home)
    assert found.topic == "address"
    assert "no-such-host.invalid is not known" in found.what


def test_an_address_that_is_none(set_up: SetUp) -> None:
    set_up.point_at("7400")
    assert "'7400' is no address" in the_problem(set_up.home).what


def test_an_address_where_something_else_listens(set_up: SetUp) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def greet() -> None:
            connections = [server.accept()[0] for _ in range(2)]
            connections[1].sendall(b"SSH-2.0-OpenSSH_9.2\r\n")
            time.sleep(0.2)
            for each in connections:
                each.close()

        threading.Thread(target=greet, daemon=True).start()
        set_up.point_at(f"127.0.0.1:{server.getsockname()[1]}")
        found = the_problem(set_up.home)
    assert found.topic == "address"
    assert "speaks no TLS 1.3 as a coordinator does" in found.what


def test_the_coordinator_of_another_federation(set_up: SetUp) -> None:
    other = make_authority("others", DAY)
    with GrpcHub(other.issue("coordinator", "main", DAY)) as hub:
        set_up.point_at(hub.address)
        found = the_problem(set_up.home)
    assert found.topic == "address"
    assert "is not the coordinator of clinics" in found.what


def test_a_coordinator_whose_certificate_has_expired(set_up: SetUp, authority: Authority) -> None:
    expired = authority.issue("coordinator", "main", DAY, starting=datetime.now(UTC) - 2 * DAY)
    with GrpcHub(expired) as hub:
        set_up.point_at(hub.address)
        found = the_problem(set_up.home)
    assert found.topic == "clock"
    assert (
        "this machine refuses the coordinator's certificate: certificate has expired" in found.what
    )


def test_a_coordinator_that_is_not_running(set_up: SetUp) -> None:
    set_up.point_at(f"127.0.0.1:{find_port()}")
    found = the_problem(set_up.home)
    assert found.topic == "coordinator"
    assert "nothing listens at" in found.what
    assert "fedforest coordinator start" in found.cure


def test_a_missing_pin(set_up: SetUp) -> None:
    Pins(set_up.home, {}).note_peers(["shop", "clinic"])
    found = the_problem(set_up.home)
    assert found.topic == "pin"
    assert "'clinic', whose fingerprint is not pinned" in found.what
    assert f"fedforest party trust clinic FINGERPRINT --home {set_up.home}" in found.cure


def test_a_pin_that_is_no_fingerprint(set_up: SetUp) -> None:
    with (set_up.home / "party.toml").open("a") as file:
        file.write('[pins]\nclinic = "abcd"\n')
    assert "the pin of party 'clinic' is no fingerprint" in the_problem(set_up.home).what


def test_a_party_whose_service_does_not_run(set_up: SetUp, tmp_path: Path) -> None:
    copied = tmp_path / "copy"
    shutil.copytree(set_up.home, copied)  # nobody has the copy's ledger open
    [found] = problems(copied)
    assert (found.topic, found.state) == ("service", "warning")
    assert found.cure == f"fedforest party start --home {copied}"


def test_a_user_needs_no_kernels(set_up: SetUp, tmp_path: Path) -> None:
    home = tmp_path / "ann"
    set_up.authority.issue("user", "ann", DAY).save(home / "tls")
    (home / "profile.toml").write_text(f'coordinator = "{set_up.hub.address}"\n')
    assert problems(home) == []
    assert "kernels" not in {finding.topic for finding in examine(home)}


def test_a_key_that_others_can_read(set_up: SetUp) -> None:
    (set_up.home / "tls" / "key.pem").chmod(0o644)
    found = the_problem(set_up.home)
    assert found.topic == "key mode"
    assert found.cure.startswith(f"chmod 600 {set_up.home}/tls/key.pem")


def test_a_key_of_another_certificate(set_up: SetUp, tmp_path: Path) -> None:
    other = set_up.authority.issue("party", "bank", DAY)
    other.save(tmp_path / "other")
    shutil.copy(tmp_path / "other" / "key.pem", set_up.home / "tls" / "key.pem")
    found = the_problem(set_up.home)
    assert found.topic == "certificate"
    assert "the key is not the certificate's" in found.what


def test_a_lost_key(set_up: SetUp) -> None:
    (set_up.home / "keys" / "lasting").unlink()
    found = the_problem(set_up.home)
    assert found.topic == "keys"
    assert "is missing; restore it from a copy" in found.what


def test_a_revoked_member(set_up: SetUp) -> None:
    set_up.hub.revoke(Identity("clinics", "party", "bank"))
    found = the_problem(set_up.home)
    assert found.topic == "membership"
    assert found.what == "fedforest:clinics/party/bank was revoked"


def test_a_mistake_in_the_policy(set_up: SetUp) -> None:
    (set_up.home / "policy.toml").write_text("[default]\nuse = 3\n")
    found = the_problem(set_up.home)
    assert found.topic == "policy"
    assert "policy.toml:2:7" in found.what


def test_a_mistake_in_the_settings(set_up: SetUp) -> None:
    (set_up.home / "party.toml").write_text('coordinator = "x:1"\nthread = 2\n')
    topics = {finding.topic for finding in problems(set_up.home)}
    assert "settings" in topics


def test_kernels_that_are_not_compiled(set_up: SetUp, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "fedforest.runtime.doctor.environment.find_missing", preparation.find_missing
    )
    monkeypatch.setattr(preparation, "_is_kept", lambda _: False)
    [found] = problems(set_up.home)
    assert (found.topic, found.cure) == ("kernels", "fedforest warm-up")


def test_a_coordinator_tells_of_its_members_and_of_other_releases(tmp_path: Path) -> None:
    home = tmp_path / "coordinator"
    make_coordinator(home, "clinics", CoordinatorSettings())
    assert the_problem(home).what == "the coordinator is not running"
    with FolderPresence(home) as presence:
        presence.tell(Present(["bank"], [], {"bank": "0.0.1"}))
        [found] = problems(home)
    assert (found.topic, found.state) == ("version", "warning")
    assert "party 'bank' has release 0.0.1" in found.what


def test_a_folder_of_no_role(tmp_path: Path) -> None:
    assert the_problem(tmp_path).topic == "settings"


def test_the_command_prints_findings_and_its_exit_code_says_whether_there_are_problems(
    set_up: SetUp,
) -> None:
    command = ["doctor", "--home", str(set_up.home)]
    sound = CliRunner().invoke(app, command)
    assert sound.exit_code == 0, sound.output
    assert "no problems" in sound.output
    (set_up.home / "tls" / "key.pem").chmod(0o644)
    broken = CliRunner().invoke(app, command)
    assert broken.exit_code == 1
    assert "PROBLEM key mode: " in broken.stdout
    assert "1 problem\n" in broken.output
    assert "cure: chmod 600" in broken.stdout
    told = json.loads(CliRunner().invoke(app, [*command, "--json"]).stdout)
    assert not told["healthy"]
    [found] = [each for each in told["findings"] if each["state"] == "problem"]
    assert found.keys() == {"topic", "state", "what", "why", "cure"}


def test_a_machine_without_a_role_is_examined(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "rbcl", None)
    found = list(examine(None))
    assert {finding.state for finding in found} == {"good"}
    assert not any("encrypted" in finding.what for finding in found)

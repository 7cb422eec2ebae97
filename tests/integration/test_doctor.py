"""Set-ups that are broken as operators break them: `fedforest doctor` explains each.

The coordinator and a party run; every broken set-up is a copy of that party's folder.
"""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from fedforest.cli.main import app
from fedforest.runtime.membership.pins import Pins
from tests.integration.federation_folder import find_port
from tests.integration.organisations import Organisation, on_loopback
from tests.transport.grpc_federations import wait_until

pytestmark = pytest.mark.slow
SECONDS = 120.0
COMMAND = "from fedforest.cli.main import app_entry; app_entry()"
OTHER_RELEASE = "import fedforest.release as r; r.__version__ = '9.9.9'\n"
OTHER_PROTOCOL = "import fedforest.transport.frames as f; f.PROTOCOL_VERSION = 99\n"
WITHOUT_GRPC = "import sys; sys.modules['grpc'] = None\n"
SMALL_DISK = 'mount -t tmpfs -o size=2m tmpfs "$1" && cp -r "$0"/. "$1" || exit 9\n'
FILL_DISK = '{ dd if=/dev/zero of="$1/filling" bs=64k 2>/dev/null; shift 2; exec "$@"; }'


@dataclass(slots=True)
class Broken:
    """The copy of a party's folder, how the doctor is started there, and what it must find."""

    home: Path
    ports: Mapping[str, int]
    code: str = ""  # before the command is run
    prefix: list[str] = field(default_factory=list)
    environment: dict[str, str] = field(default_factory=dict)

    def rewrite(self, file: str, old: str, new: str) -> None:
        text = (self.home / file).read_text()
        assert old in text
        (self.home / file).write_text(text.replace(old, new))

    def point_at(self, port: str | int) -> None:
        number = port if isinstance(port, int) else self.ports[port]
        self.rewrite("party.toml", str(self.ports["members"]), str(number))


def expired(broken: Broken) -> None:
    """Nobody started the party for two months, by the real clock of its machine."""
    broken.prefix = ["faketime", "+60 days"]


def clock_ahead(broken: Broken) -> None:
    broken.prefix = ["faketime", "+2 hours"]


def clock_behind(broken: Broken) -> None:
    broken.prefix = ["faketime", "-3 days"]


def source_gone(broken: Broken) -> None:
    (broken.home / "loans.csv").unlink()


def source_damaged(broken: Broken) -> None:
    (broken.home / "loans.csv").write_bytes(b"\xff\xfe\x00amount")


def columns_changed(broken: Broken) -> None:
    broken.rewrite("loans.csv", "id,amount,paid", "id,amount,repaid")


def other_release(broken: Broken) -> None:
    broken.code = OTHER_RELEASE + OTHER_PROTOCOL


def extra_missing(broken: Broken) -> None:
    broken.code = WITHOUT_GRPC


def disk_full(broken: Broken) -> None:
    """A disk of two megabytes, in a file system of this process alone."""
    full = broken.home.with_name("full")
    full.mkdir()
    broken.prefix = ["unshare", "--map-root-user", "--mount", "sh", "-c", SMALL_DISK + FILL_DISK]
    broken.prefix += [str(broken.home), str(full), "--"]
    broken.home = full


def port_of_newcomers(broken: Broken) -> None:
    broken.point_at("newcomers")


def coordinator_elsewhere(broken: Broken) -> None:
    broken.point_at(find_port())


def name_unknown(broken: Broken) -> None:
    broken.rewrite("party.toml", "127.0.0.1", "coordinator.invalid")


def pin_missing(broken: Broken) -> None:
    Pins(broken.home, {}).note_peers(["shop", "clinic"])


def kernels_missing(broken: Broken) -> None:
    empty = broken.home / "cache"
    broken.environment = {"FEDFOREST_CACHE": str(empty)}


def key_readable(broken: Broken) -> None:
    (broken.home / "tls" / "key.pem").chmod(0o644)


def key_lost(broken: Broken) -> None:
    (broken.home / "keys" / "lasting").unlink()


def policy_mistaken(broken: Broken) -> None:
    (broken.home / "policy.toml").write_text('[default]\nalign = "perhaps"\n')


# topic, state and a word of what is found; a word of the cure
BROKEN: dict[Callable[[Broken], None], tuple[str, str, str, str]] = {
    expired: ("certificate", "problem", "expired at", "invitation"),
    clock_ahead: ("clock", "problem", "7,2", "NTP"),
    clock_behind: ("clock", "problem", "the certificate begins at", "NTP"),
    source_gone: ("source", "problem", "'loans' cannot be read", "mend the source"),
    source_damaged: ("source", "problem", "'loans' cannot be read", "mend the source"),
    columns_changed: ("columns", "problem", "'repaid' is new", "--replace"),
    other_release: ("version", "problem", "here is 9.9.9 with protocol 99", "pip install"),
    extra_missing: ("extra", "problem", "grpc cannot be imported", "fedforest[federation]"),
    disk_full: ("disk", "problem", "cannot be written", "make room"),
    port_of_newcomers: ("address", "problem", "port of newcomers", "port of members"),
    coordinator_elsewhere: ("coordinator", "problem", "nothing listens", "coordinator start"),
    name_unknown: ("address", "problem", "coordinator.invalid is not known", "compare"),
    pin_missing: ("pin", "problem", "'clinic', whose fingerprint is not pinned", "party trust"),
    kernels_missing: ("kernels", "warning", "are not compiled", "fedforest warm-up"),
    key_readable: ("key mode", "problem", "may be read by others", "chmod 600"),
    key_lost: ("keys", "problem", "is missing", "text says"),
    policy_mistaken: ("policy", "problem", "policy.toml:2", "policy check"),
}
CLOCKS: tuple[Callable[[Broken], None], ...] = (expired, clock_ahead, clock_behind)


@dataclass(frozen=True, slots=True)
class SetUp:
    """A party that joined and runs, another one that was revoked, and ports."""

    home: Path
    revoked: Path
    ports: Mapping[str, int]
    folder: Path

    def broken(self, of: Path, name: str) -> Broken:
        return Broken(shutil.copytree(of, self.folder / name / "party"), self.ports)


@pytest.fixture(scope="module")
def set_up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SetUp]:
    folder = tmp_path_factory.mktemp("doctor")
    ports = {"members": find_port(), "newcomers": find_port()}
    with on_loopback(folder, ("association", "bank", "gone")) as found:
        association = found["association"]
        at = [f"127.0.0.1:{port}" for port in ports.values()]
        options = ("--home", "coordinator")
        association.run(
            *("coordinator", "init", "lenders", *options),
            *("--address", at[0], "--enrolment", at[1]),
        )
        association.start("coordinator", "start", *options)
        wait_until(lambda: "newcomers enrol" in association.read_log(), "listening")
        for name in ("bank", "gone"):
            _join(association, found[name])
        found["bank"].start("party", "start", "--home", "party")
        wait_until(lambda: "connected to" in found["bank"].read_log(), "connected")
        association.run("coordinator", "revoke", "gone", *options)
        yield SetUp(folder / "bank" / "party", folder / "gone" / "party", ports, folder)


def _join(association: Organisation, party: Organisation) -> None:
    invited = association.ask("coordinator", "invite", party.name, "--home", "coordinator")
    party.keep_secret("token", invited["token"])
    party.run("party", "join", "token", "--home", "party")
    home = party.folder / "party"
    (home / "loans.csv").write_text("id,amount,paid\na,1,0\nb,2,1\n")
    party.run("party", "data", "add", "loans", home / "loans.csv", "--id", "id", "--home", home)
    entry = next((home / "catalogue").glob("loans*"))  # so that copies read their own
    entry.write_text(entry.read_text().replace(str(home / "loans.csv"), "loans.csv"))
    (home / "policy.toml").write_text("[default]\nmin_rows_per_leaf = 20\n")
    party.run("party", "trust", "shop", "-".join(["abcd"] * 8), "--home", home)


def examine(broken: Broken) -> dict[str, Any]:
    """What `fedforest doctor --json` tells, and that its exit code agrees.

    Where nothing but the folder is broken it runs in this process, which takes a tenth of the time.
    """
    if not (broken.prefix or broken.code or broken.environment):
        here = CliRunner().invoke(app, ["doctor", "--home", str(broken.home), "--json"])
        return _read(here.exit_code, here.stdout, here.output)
    command = [sys.executable, "-c", broken.code + COMMAND, "doctor", "--home", str(broken.home)]
    outcome = subprocess.run(
        [*broken.prefix, *command, "--json"],
        env={**os.environ, **broken.environment},
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    return _read(outcome.returncode, outcome.stdout, outcome.stdout + outcome.stderr)


def _read(code: int, told: str, everything: str) -> dict[str, Any]:
    assert told.startswith("{"), everything
    found: dict[str, Any] = json.loads(told)
    assert code == (0 if found["healthy"] else 1)
    return found


def findings(told: dict[str, Any], state: str) -> list[dict[str, str]]:
    return [each for each in told["findings"] if each["state"] == state]


@pytest.mark.parametrize("make", BROKEN, ids=lambda make: make.__name__.replace("_", " "))
def test_a_broken_set_up_is_found_and_explained(
    set_up: SetUp, make: Callable[[Broken], None]
) -> None:
    tool = "faketime" if make in CLOCKS else "unshare" if make is disk_full else sys.executable
    if shutil.which(tool) is None:
        pytest.skip(f"there is no `{tool}` here")
    broken = set_up.broken(set_up.home, make.__name__)
    make(broken)
    if make is disk_full and subprocess.run([*broken.prefix, "true"], check=False).returncode:
        pytest.skip("file systems of its own are not permitted to a process here")
    topic, state, what, cure = BROKEN[make]
    found = [each for each in findings(examine(broken), state) if each["topic"] == topic]
    assert found, f"nothing about {topic}"
    assert what in found[0]["what"]
    assert cure in found[0]["cure"]
    assert found[0]["why"]


def test_a_revoked_party_is_told_so(set_up: SetUp) -> None:
    [found] = findings(examine(set_up.broken(set_up.revoked, "revoked")), "problem")
    assert found["topic"] == "membership"
    assert found["what"] == "fedforest:lenders/party/gone was revoked"


def test_the_sound_party_has_no_problem(set_up: SetUp) -> None:
    told = examine(Broken(set_up.home, set_up.ports))
    assert told["healthy"]
    assert {each["topic"] for each in findings(told, "warning")} <= {"kernels"}
    said = {each["topic"]: each["what"] for each in findings(told, "good")}
    assert said["service"] == "the party's service runs"

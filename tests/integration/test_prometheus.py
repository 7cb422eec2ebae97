"""A real Prometheus scrapes a coordinator and a party, and evaluates the alerts of `deploy/`."""

import json
import os
import re
import shutil
import subprocess
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from fedforest.release import __version__
from fedforest.runtime.meters import COUNTERS
from fedforest.runtime.monitoring.gauges import GAUGES
from tests.integration.federation_folder import FederationFolder, find_port, running
from tests.runtime.service_recordings import make_pattern
from tests.transport.grpc_federations import wait_until

DEPLOY = Path(__file__).parents[2] / "deploy" / "prometheus"
TARGETS = '["127.0.0.1:9464", "127.0.0.1:9465"]'
SECONDS = 60.0
Query = Callable[[str], list[dict[str, Any]]]


def need(tool: str) -> str:
    found = shutil.which(tool)
    if found is None:
        pytest.skip(f"there is no `{tool}` here (Debian: apt-get install prometheus)")
    return found


@pytest.fixture
def federation(tmp_path: Path) -> Iterator[FederationFolder]:
    pattern = make_pattern(tmp_path / "federation")
    for role in pattern.roles:
        role.options = ("--metrics-port", "0")
    with running(pattern):
        yield pattern


def find_metrics(federation: FederationFolder) -> list[str]:
    """The addresses at which roles say that they tell metrics."""
    found = [re.search(r"metrics at http://(\S+)/metrics", r.read_log()) for r in federation.roles]
    return [each[1] for each in found if each]


@pytest.fixture
def query(federation: FederationFolder, tmp_path: Path) -> Iterator[Query]:
    """Ask a Prometheus that runs with the documented settings, but for targets and interval."""
    program, port = need("prometheus"), find_port()
    shutil.copytree(DEPLOY, tmp_path / "settings")
    settings = tmp_path / "settings" / "prometheus.yml"
    text = settings.read_text().replace("30s", "1s")
    assert TARGETS in text
    settings.write_text(text.replace(TARGETS, json.dumps(find_metrics(federation))))
    with (tmp_path / "prometheus.log").open("wb") as log:
        process = subprocess.Popen(
            [
                *(program, f"--config.file={settings}", f"--storage.tsdb.path={tmp_path / 'db'}"),
                f"--web.listen-address=127.0.0.1:{port}",
            ],
            stdout=log,
            stderr=log,
            env={**os.environ, "GOMAXPROCS": "1"},
        )

    def ask(path: str) -> list[dict[str, Any]]:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/api/v1/{path}", timeout=10) as it:
                data = json.load(it)["data"]
        except (urllib.error.URLError, ConnectionError):
            return []  # it is starting
        found: list[dict[str, Any]] = data.get("result", data.get("groups"))
        return found

    try:
        yield ask
    finally:
        process.terminate()
        process.wait(SECONDS)


@pytest.mark.slow
def test_prometheus_scrapes_both_roles_and_fires_no_alert_of_a_sound_federation(
    federation: FederationFolder, query: Query
) -> None:
    def values(expression: str, label: str) -> dict[str, float]:
        found = query("query?" + urllib.parse.urlencode({"query": expression}))
        return {each["metric"][label]: float(each["value"][1]) for each in found}

    n_roles = len(federation.roles)
    wait_until(lambda: len(values("up == 1", "instance")) == n_roles, "all scraped")
    infos = f'fedforest_info{{release="{__version__}"}}'
    wait_until(lambda: set(values(infos, "role")) == {"coordinator", "party"}, "all tell")
    assert values("fedforest_party_connected", "party") == dict.fromkeys(federation.parties, 1.0)
    assert len(values("fedforest_certificate_expiry_time_seconds > time()", "instance")) == n_roles
    wait_until(lambda: bool(query("rules")), "rules")
    rules = {rule["name"]: rule["state"] for rule in query("rules")[0]["rules"]}
    assert len(rules) == 6
    expected = {"FedforestCertificateExpires"}  # those of tests are good for a day
    firing = {name for name, state in rules.items() if state != "inactive"}
    assert firing <= expected


def test_settings_and_alerts_are_valid() -> None:
    checked = subprocess.run(
        [need("promtool"), "check", "config", DEPLOY / "prometheus.yml"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert "6 rules found" in checked.stdout


def test_alerts_name_metrics_that_there_are() -> None:
    known = {*GAUGES, *(f"{name}_total" for name in COUNTERS)}
    named = set(re.findall(r"fedforest_\w+", (DEPLOY / "fedforest-alerts.yml").read_text()))
    assert named
    assert named <= known

"""Metrics and health over HTTP: what they tell, to whom, and that they stay few."""

import http.client
import re
import socket
import sys
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest
from prometheus_client.parser import text_string_to_metric_families

from fedforest.errors import AccessRefused, ConfigurationError, TransportError
from fedforest.release import __version__
from fedforest.runtime.messages.orders import ListRuns, ShowRun
from fedforest.runtime.messages.results import RunDetails, RunList, VerticalResult
from fedforest.runtime.meters import COUNTERS, METERS
from fedforest.runtime.monitoring.gauges import GAUGES, Reading, RoleState
from fedforest.runtime.monitoring.server import MetricsAddress, answering
from tests.integration.federation_folder import make_federation
from tests.integration.local_federation import local_federation
from tests.integration.samples import divide, vertical

GUIDE = Path(__file__).parents[3] / "docs" / "how-to" / "operating.md"
EXPIRES = datetime(2030, 1, 1, tzinfo=UTC)
LABELS = {"kind", "outcome", "state", "direction", "severity", "release", "role", "party"}


class Role:
    """A role whose metrics are answered."""

    def __init__(self, home: Path) -> None:
        self.trouble = ""
        self.state = RoleState(
            "coordinator",
            home,
            lambda: EXPIRES,
            lambda: [Reading("fedforest_party_connected", 1.0, ("bank",))],
            lambda: self.trouble,
        )
        self.address = ""

    def get(self, path: str) -> tuple[int, str]:
        with closing(http.client.HTTPConnection(self.address, timeout=20)) as connection:
            connection.request("GET", path)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()

    def scrape(self) -> dict[str, dict[tuple[str, ...], float]]:
        """Return all samples by name and values of labels, as the client library reads them."""
        status, text = self.get("/metrics")
        assert status == 200
        return {
            family.name: {tuple(each.labels.values()): each.value for each in family.samples}
            for family in text_string_to_metric_families(text)
        }


@pytest.fixture
def role(tmp_path: Path) -> Iterator[Role]:
    role = Role(tmp_path)
    with answering(MetricsAddress(0), role.state) as role.address:
        yield role


def test_the_client_library_reads_what_is_told(role: Role) -> None:
    METERS.add("fedforest_runs_ended", "finished")
    read = role.scrape()
    assert read["fedforest_runs_ended"]["finished",] >= 1
    assert read["fedforest_certificate_expiry_time_seconds"][()] == EXPIRES.timestamp()
    assert read["fedforest_party_connected"] == {("bank",): 1.0}
    assert 0 < read["fedforest_disk_free_bytes"][()] <= read["fedforest_disk_bytes"][()]
    assert list(read["fedforest_info"]) == [(__version__, "coordinator")]


def test_it_listens_on_this_machine_only_unless_told_otherwise(role: Role) -> None:
    assert role.address.startswith("127.0.0.1:")


def test_health_and_readiness(role: Role) -> None:
    assert role.get("/healthz") == (200, "ok\n")
    assert role.get("/readyz") == (200, "ok\n")
    role.trouble = "not connected to the coordinator"
    assert role.get("/readyz") == (503, "not connected to the coordinator\n")
    assert role.get("/healthz")[0] == 200
    assert role.get("/etc/passwd")[0] == 404


def test_silent_connections_do_not_keep_scrapes_out(role: Role) -> None:
    host, port = role.address.split(":")
    silent = [socket.create_connection((host, int(port)), timeout=20) for _ in range(40)]
    try:
        assert silent[-1].recv(1) == b""  # beyond a few, connections are shut at once
    finally:
        for each in silent:
            each.close()
    for _ in range(200):  # the server notices that they have gone
        try:
            assert role.get("/healthz")[0] == 200
        except (OSError, http.client.HTTPException):
            continue
        return
    pytest.fail("the server answers nobody any more")


def test_a_port_in_use_is_an_error_by_name(role: Role, tmp_path: Path) -> None:
    address = MetricsAddress(int(role.address.split(":")[1]))
    with (
        pytest.raises(TransportError, match="choose another --metrics-port"),
        answering(address, Role(tmp_path).state),
    ):
        pytest.fail("two servers at one port")


def test_without_the_extra_it_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    with (
        pytest.raises(ConfigurationError, match=r"fedforest\[metrics\]"),
        answering(MetricsAddress(0), Role(tmp_path).state),
    ):
        pytest.fail("no metrics without their library")


def test_requests_runs_and_exchanges_are_counted_whatever_they_are_called(tmp_path: Path) -> None:
    pattern = make_federation(tmp_path / "pattern", divide(2))
    before = {name: METERS.read(name) for name in COUNTERS}
    with local_federation(tmp_path / "local", pattern, users=lambda: {"ann": "scientist"}) as local:
        for number in range(3):
            order = msgspec.structs.replace(vertical(2), name=f"secret name {number}")
            local.ask(order, VerticalResult, bytes([number]) * 16, user="ann")
        local.ask(ListRuns(), RunList, user="ann")
        for number in range(20):
            with pytest.raises(AccessRefused):
                local.ask(ShowRun(run=f"{number:032x}"), RunDetails, user=f"user{number}")

    def added(name: str, *labels: str) -> float:
        return METERS.read(name)[labels] - before[name].get(labels, 0.0)

    assert added("fedforest_runs_ended", "finished") == 3
    assert added("fedforest_requests", "TrainVertical", "answered") == 3
    assert added("fedforest_requests", "ListRuns", "answered") == 1
    assert added("fedforest_requests", "ShowRun", "refused") == 20
    assert added("fedforest_requests", "BeginRun", "answered") == 6  # of two parties
    assert added("fedforest_exchanges") > 10
    assert added("fedforest_exchange_bytes", "to") > 1000
    for name in COUNTERS:  # types, states and directions: not as many as runs or users
        assert len(METERS.read(name)) < 200
        said = " ".join(" ".join(labels) for labels in METERS.read(name))
        assert not re.search(r"secret|user\d|ann\b|[0-9a-f]{32}", said)


def test_labels_are_few_and_name_no_row_column_or_user() -> None:
    for metric in (*COUNTERS.values(), *GAUGES.values()):
        assert set(metric.labels) <= LABELS


def test_the_guide_names_every_metric_with_its_labels() -> None:
    guide = GUIDE.read_text()
    for name, metric in COUNTERS.items():
        assert f"| `{name}_total` | {_labels(metric.labels)} | {metric.help} |" in guide, name
    for name, metric in GAUGES.items():
        assert f"| `{name}` | {_labels(metric.labels)} | {metric.help} |" in guide, name


def _labels(labels: tuple[str, ...]) -> str:
    return ", ".join(f"`{label}`" for label in labels) or "–"

"""What roles log of runs, in either format: events with counts, and no value of any table."""

import json
import socket
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from prometheus_client.parser import text_string_to_metric_families

from fedforest.errors import FederationError
from fedforest.runtime.client.connection import Federation
from fedforest.runtime.messages.orders import CancelRun, PredictVertical
from fedforest.runtime.messages.results import Predictions, RunList, VerticalResult
from tests.integration.federation_folder import FederationFolder, running, wait_for
from tests.integration.processes import result_type
from tests.runtime.service_recordings import (
    PLANTED_COLUMN,
    PLANTED_LABELS,
    PLANTED_NUMBER,
    horizontal_order,
    linear_order,
    make_pattern,
    vertical_order,
)

PLANTED = (*PLANTED_LABELS, str(PLANTED_NUMBER), f"{PLANTED_NUMBER:.6g}", f"{PLANTED_NUMBER:.0f}")


@pytest.fixture(scope="module")
def federation(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FederationFolder]:
    pattern = make_pattern(tmp_path_factory.mktemp("planted"))
    pattern.coordinator.log_format = pattern.parties["shop"].log_format = "text"
    for role in pattern.roles:
        role.log_level = "debug"
    with running(pattern):
        yield pattern


@pytest.mark.slow
def test_logs_tell_of_runs_and_predictions_and_of_no_value(federation: FederationFolder) -> None:
    runs = []
    with Federation(Path(federation.profile)) as user:
        for order in (vertical_order(), horizontal_order(), linear_order()):
            runs.append(user.train(order, result_type(order)).model)
            wrong = msgspec.structs.replace(order, label=PLANTED_COLUMN)
            with pytest.raises(FederationError):  # labels that are numbers, or not there at all
                user.train(msgspec.structs.replace(wrong, class_weight=[("x", 1.0)]), object)
        predict = PredictVertical(data=vertical_order().data, model=runs[0])
        assert user.ask(predict, Predictions).shape[1] == 2
    for role in federation.roles:
        role.stop()  # what is left is written
        log = role.read_log()
        assert all(run in log for run in runs), role.name
        for planted in PLANTED:
            assert planted not in log, (role.name, planted)
        if role.log_format == "json":
            events = [json.loads(line) for line in log.splitlines() if line.startswith("{")]
            assert {event["severity"] for event in events} >= {"info"}
    exchanges = federation.coordinator.read_log().count(" exchange run=")
    assert exchanges > 30


@pytest.mark.slow
def test_a_log_of_json_is_nothing_else_and_has_what_matters_at_info(tmp_path: Path) -> None:
    pattern = make_pattern(tmp_path)
    for role in pattern.roles:
        role.options = ("--metrics-port", "0")
    with running(pattern):
        host, port = pattern.address.split(":")
        with socket.create_connection((host, int(port)), timeout=10) as stranger:
            stranger.sendall(b"\x16\x03\x01\x00\x05hello")  # gRPC complains on standard error
        with Federation(Path(pattern.profile)) as user:
            user.train(vertical_order(), VerticalResult)
            with pytest.raises(FederationError):
                user.train(msgspec.structs.replace(vertical_order(), label="none"), VerticalResult)
        _check_metrics(pattern)
        wait_for(lambda: '"library"' in pattern.coordinator.read_log(), pattern)
        _cancel_one(pattern)
    for role in pattern.roles:
        lines = role.read_log().splitlines()
        said = [line for line in lines if not line.startswith("{")]
        assert len(said) == 2, said  # to standard output, that it has started, and its metrics
        events = [json.loads(line) for line in lines if line.startswith("{")]
        assert not {"exchange", "answered"} & {event["event"] for event in events}
        if role is pattern.coordinator:
            [failed] = [event for event in events if event["event"] == "failed"]
            assert (failed["severity"], failed["user"]) == ("warning", "analyst")
            assert len(failed["run"]) == 32
            [cancelled] = [event for event in events if event["event"] == "cancelled"]
            assert cancelled["user"] == "analyst"
            assert len(cancelled["run"]) == 32
            [finished] = [event for event in events if event["event"] == "finished"]
            assert finished["user"] == "analyst"
            [library] = [event for event in events if event["event"] == "library"][:1]
            assert "handshake" in library["text"].lower()
        else:
            began = [event for event in events if event["event"] == "began"]
            assert {(event["task"], event["user"]) for event in began} >= {("vertical", "analyst")}
            ended = {event["run"] for event in events if event["event"] == "ended"}
            assert ended & {event["run"] for event in began}


def _cancel_one(federation: FederationFolder) -> None:
    """Cancel a run, which waits for a party that is away."""
    federation.parties["shop"].stop()
    with Federation(Path(federation.profile)) as user:
        run = user.begin(vertical_order())
        user.ask(CancelRun(run=run), RunList)


def _check_metrics(federation: FederationFolder) -> None:
    """Scrape every role, whose address of metrics is the first thing that it says."""
    for role in federation.roles:
        [line] = [line for line in role.read_log().splitlines() if line.startswith("metrics at")]
        with urllib.request.urlopen(line.removeprefix("metrics at "), timeout=20) as answer:
            families = text_string_to_metric_families(answer.read().decode())
        samples = {
            (each.name, *each.labels.values()): each.value for f in families for each in f.samples
        }
        if role is federation.coordinator:
            assert samples["fedforest_runs_ended_total", "finished"] == 1
            assert samples["fedforest_runs_ended_total", "failed"] == 1
            assert samples["fedforest_requests_total", "TrainVertical", "answered"] == 1
            assert samples["fedforest_exchanges_total",] > 3
            assert {samples["fedforest_party_connected", name] for name in federation.parties} == {
                1
            }
        else:
            assert samples["fedforest_coordinator_connected",] == 1
            assert samples["fedforest_requests_total", "BeginRun", "answered"] >= 1

"""The benchmark of live federations, run for real on shrunken tasks, without XGBoost.

A run takes minutes, so what looks at one is marked `exhaustive`.
"""

import os
import socket
import threading
import time
from typing import Any

import pytest

from benchmarks.runs.federation import RUN
from benchmarks.runs.federation_findings import divide, expected_seconds, find, overhead
from fedforest.experiments.findings import MISSED
from fedforest.experiments.live.line import CountingLine, Line
from tests.benchmarks.quick_runs import (
    QuickRun,
    check_page,
    check_that_only_full_runs_judge,
    check_what_replaces_published_results,
    run_quick,
)

TASKS = ("depth-6", "xgboost-federated", "small-data", "slow-line", "prediction", "soak")
ROLES = {"coordinator", "bank", "shop"}


@pytest.fixture(scope="module")
def quick_run(tmp_path_factory: pytest.TempPathFactory) -> QuickRun:
    return run_quick("federation", tmp_path_factory.mktemp("federation"), TASKS)


@pytest.fixture
def result(quick_run: QuickRun) -> dict[str, Any]:
    return quick_run.load()


@pytest.mark.exhaustive
def test_a_live_federation_learns_as_well_as_scikit_learn(result: dict[str, Any]) -> None:
    (task,) = result["speed"]
    assert min(task["ours"]["score"]) > min(task["theirs"]["score"]) - 0.1
    assert min(task["ours"]["wall"]) > 0.0


@pytest.mark.exhaustive
def test_the_parts_of_a_training_add_up_to_its_wall_time(result: dict[str, Any]) -> None:
    (task,) = result["speed"]
    phases = task["phases"]
    assert sum(divide(phases).values()) == pytest.approx(phases["wall"])
    assert 0.0 < phases["handling"] < phases["exchanging"] < phases["wall"]
    assert phases["network"] > 0.0
    assert overhead(phases) < 1.0
    assert 0.0 < phases["idle"] < phases["wall"]


@pytest.mark.exhaustive
def test_what_could_not_run_is_named_with_a_reason(result: dict[str, Any]) -> None:
    assert result["xgboost"] is None
    assert "cannot be imported" in result["skipped"]["xgboost-federated"]


@pytest.mark.exhaustive
def test_a_slow_line_costs_at_least_its_round_trips(result: dict[str, Any]) -> None:
    for shaped in result["shaped"]:
        travel = shaped["exchanges"] * shaped["line"]["round_trip_seconds"]
        assert min(shaped["wall"]["line"]) > travel
        assert expected_seconds(shaped) > travel


@pytest.mark.exhaustive
def test_every_call_of_every_caller_is_measured(result: dict[str, Any]) -> None:
    one, batch, alone = result["serving"]
    assert (one["rows"], one["callers"], len(one["seconds"])) == (1, 8, 16)
    assert batch["rows"] > 1
    assert (alone["callers"], len(alone["seconds"])) == (1, 1)


@pytest.mark.exhaustive
def test_memory_and_open_files_of_all_three_processes_are_looked_at(result: dict[str, Any]) -> None:
    assert [look["runs"] for look in result["soak"]] == [2, 3, 4]
    for look in result["soak"]:
        assert look["files"].keys() == look["resident_bytes"].keys() == ROLES
        assert min(look["files"].values()) > 3
        assert min(look["resident_bytes"].values()) > 2**20


@pytest.mark.exhaustive
def test_a_quick_run_judges_no_target_and_a_full_one_every_target(result: dict[str, Any]) -> None:
    check_that_only_full_runs_judge(result, find)


@pytest.mark.exhaustive
def test_a_process_that_grows_is_not_called_flat(result: dict[str, Any]) -> None:
    result["settings"]["quick"] = False
    result["soak"][-1]["files"]["bank"] += 10
    (finding,) = [finding for finding in find(result) if finding.title == "Many trainings"]
    assert {row[0]: row[-1] for row in finding.rows}["bank"] == MISSED


@pytest.mark.exhaustive
def test_the_page_shows_the_figure_and_names_no_path(quick_run: QuickRun) -> None:
    check_page(quick_run, ("federation.png",))


def test_only_a_whole_run_or_an_update_replaces_the_published_results() -> None:
    check_what_replaces_published_results(RUN, TASKS[0])


@pytest.fixture
def echo_address() -> Any:
    """A server that sends back the first thing it hears."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def echo() -> None:
            connection, _ = server.accept()
            with connection:
                while data := connection.recv(65_536):
                    connection.sendall(data)

        thread = threading.Thread(target=echo, daemon=True)
        thread.start()
        yield f"127.0.0.1:{server.getsockname()[1]}"


def test_a_line_takes_its_round_trip_and_its_bandwidth_and_changes_nothing(
    echo_address: str,
) -> None:
    data = os.urandom(50_000)
    proxy = CountingLine(echo_address, Line(round_trip_seconds=0.1, bytes_per_second=500_000))
    host, _, port = proxy.start().rpartition(":")
    try:
        with socket.create_connection((host, int(port)), timeout=60) as connection:
            started = time.perf_counter()
            connection.sendall(b"x")
            assert connection.recv(1) == b"x"
            assert time.perf_counter() - started >= 0.1
            started = time.perf_counter()
            connection.sendall(data)
            back = b""
            while len(back) < len(data):
                back += connection.recv(65_536)
            assert back == data
            assert time.perf_counter() - started >= 0.1 + len(data) / 500_000
    finally:
        proxy.close()

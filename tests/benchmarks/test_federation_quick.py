"""The benchmark of live federations, run for real on shrunken tasks, without XGBoost.

A run takes minutes, so what looks at one is marked `exhaustive`.
"""

import json
import os
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from benchmarks.report import RESULTS
from benchmarks.runs.federation import parse
from benchmarks.runs.federation_findings import divide, expected_seconds, find, overhead
from benchmarks.shaping_proxy import Line, ShapingProxy
from fedforest.experiments.findings import MISSED, NOT_JUDGED, REACHED

ROOT = Path(__file__).parents[2]
TASKS = ("depth-6", "xgboost-federated", "small-data", "slow-line", "prediction", "soak")
ROLES = {"coordinator", "bank", "shop"}


@pytest.fixture(scope="module")
def quick_run(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    """What the script showed, and where it wrote; XGBoost cannot be imported there."""
    folder = tmp_path_factory.mktemp("federation")
    (folder / "xgboost.py").write_text("raise ImportError")
    search = os.pathsep.join(filter(None, [str(folder), os.environ.get("PYTHONPATH", "")]))
    output = folder / "results"
    script = ROOT / "benchmarks" / "runs" / "federation.py"
    outcome = subprocess.run(
        [sys.executable, str(script), "--quick", "--tasks", *TASKS, "--output", str(output)],
        env={**os.environ, "PYTHONPATH": search},
        capture_output=True,
        text=True,
        timeout=900,  # an empty kernel cache is filled first, by each of three processes
        check=False,
    )
    assert outcome.returncode == 0, outcome.stderr
    return outcome.stdout, output


@pytest.fixture
def result(quick_run: tuple[str, Path]) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads((quick_run[1] / "federation.json").read_text())
    return loaded


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
    def words() -> set[str]:
        return {cell for finding in find(result) for row in finding.rows for cell in row}

    assert NOT_JUDGED in words()
    assert words().isdisjoint({REACHED, MISSED})
    result["settings"]["quick"] = False
    assert NOT_JUDGED not in words()
    assert words() & {REACHED, MISSED}


@pytest.mark.exhaustive
def test_a_process_that_grows_is_not_called_flat(result: dict[str, Any]) -> None:
    result["settings"]["quick"] = False
    result["soak"][-1]["files"]["bank"] += 10
    (finding,) = [finding for finding in find(result) if finding.title == "Many trainings"]
    assert {row[0]: row[-1] for row in finding.rows}["bank"] == MISSED


@pytest.mark.exhaustive
def test_the_page_shows_the_figure_and_names_no_path(quick_run: tuple[str, Path]) -> None:
    shown, output = quick_run
    page = (output / "RESULTS.md").read_text()
    assert "(federation.png)" in page
    assert (output / "federation.png").read_bytes().startswith(b"\x89PNG")
    for text in (shown, page, (output / "federation.json").read_text()):
        assert str(ROOT) not in text
        assert str(output) not in text


def test_only_a_whole_run_replaces_the_published_results() -> None:
    assert parse([]).output == RESULTS
    for partial in (["--quick"], ["--repeats", "1"], ["--tasks", "depth-6"]):
        assert parse(partial).output is None


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
    proxy = ShapingProxy(echo_address, Line(round_trip_seconds=0.1, bytes_per_second=500_000))
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

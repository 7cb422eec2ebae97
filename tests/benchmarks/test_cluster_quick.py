"""The benchmark of a cluster: a quick run to its end, and what a result says."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks.runs.cluster_findings import find
from fedforest.experiments.findings import MISSED, NOT_JUDGED, REACHED

ROOT = Path(__file__).resolve().parents[2]


def made_run(n_shards: int, seconds: float, digest: str = "a") -> dict[str, Any]:
    return {
        "shards": n_shards,
        "seconds": seconds,
        "processor_seconds": 2 * seconds,
        "digest": digest,
        "peak_bytes": 10**8,
        "worker_peak_bytes": [10**8] * n_shards,
    }


def made_result(*, quick: bool) -> dict[str, Any]:
    return {
        "environment": {"load_at_start": 0.0},
        "settings": {"quick": quick, "rows": 10, "trees": 5, "depth": 8, "threads": 2},
        "tasks": [made_run(0, 2.0), made_run(1, 2.9), made_run(2, 3.1, "b")],
        "equal": {"two": [True, True], "five": [True, False]},
        "xgboost": None,
    }


def test_shards_are_judged_by_the_local_path_and_their_bytes() -> None:
    places, kinds = find(made_result(quick=False))
    assert [row[5] for row in places.rows] == [NOT_JUDGED, REACHED, MISSED]
    assert [row[6] for row in places.rows] == ["yes", "yes", "NO"]
    assert kinds.rows == [["two", "yes"], ["five", "NO"]]


def test_a_quick_run_judges_nothing() -> None:
    places, _ = find(made_result(quick=True))
    assert {row[5] for row in places.rows} == {NOT_JUDGED}


@pytest.mark.exhaustive
def test_a_quick_run_shows_its_page_and_publishes_nothing() -> None:
    published = ROOT / "benchmarks" / "RESULTS.md"
    before = published.read_bytes()
    script = ROOT / "benchmarks" / "runs" / "cluster.py"
    asked = [sys.executable, str(script), "--quick"]
    done = subprocess.run(asked, capture_output=True, text=True, timeout=600, check=True)
    assert "## A party on a cluster" in done.stdout
    assert done.stdout.count("| yes |") == 5  # both places and three kinds of labels
    assert published.read_bytes() == before

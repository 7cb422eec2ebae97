"""The benchmark of the engine, run for real on shrunken tasks, without the optional rivals."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from threading import Event
from typing import Any

import numpy as np
import pytest

from benchmarks.measure import interleave, peak_growth, timed
from benchmarks.report import write_page
from benchmarks.runs.pooled import RUN
from benchmarks.runs.pooled_findings import find, speed_ratios
from benchmarks.tasks import SPEED_TASKS
from fedforest.experiments.findings import MISSED, NOT_JUDGED, REACHED, Finding, to_markdown
from tests.benchmarks.quick_runs import (
    QuickRun,
    check_page,
    check_what_replaces_published_results,
    run_quick,
)

TASKS = ("binary-100k-depth-6", "letter")


@pytest.fixture(scope="module")
def quick_run(tmp_path_factory: pytest.TempPathFactory) -> QuickRun:
    return run_quick("pooled", tmp_path_factory.mktemp("pooled"), TASKS)


@pytest.fixture
def result(quick_run: QuickRun) -> dict[str, Any]:
    return quick_run.load()


@pytest.mark.slow
def test_every_chosen_task_is_timed_scored_and_weighed(result: dict[str, Any]) -> None:
    assert [task["name"] for task in result["speed"]] == [TASKS[0]]
    for task in result["speed"]:
        assert {"fedforest", "scikit-learn"} <= task["fits"].keys()
        for fits in task["fits"].values():
            assert min(fits["wall"] + fits["cpu"] + fits["predict"]) > 0.0
            assert fits["score"][0] > 0.1
        assert task["memory"]["fedforest"]["peak_bytes"] > 0


@pytest.mark.slow
def test_absent_rivals_and_left_out_tasks_are_named_with_a_reason(result: dict[str, Any]) -> None:
    assert "cannot be imported" in result["absent"]["XGBoost"]
    assert "cannot be imported" in result["absent"]["LightGBM"]
    assert "quick" in result["skipped"]["letter"]


@pytest.mark.slow
def test_the_result_names_machine_versions_seed_and_commit(result: dict[str, Any]) -> None:
    facts = result["environment"]
    assert facts["cpu"]
    assert facts["cores"] == os.cpu_count()
    assert facts["versions"]["numpy"] == np.__version__
    assert re.fullmatch(r"[0-9a-f]{12}\+?|unknown", facts["commit"])
    assert result["settings"]["seed"] == 0


@pytest.mark.slow
def test_a_quick_run_judges_no_target(quick_run: QuickRun, result: dict[str, Any]) -> None:
    words = {cell for finding in find(result) for row in finding.rows for cell in row}
    assert NOT_JUDGED in words
    assert words.isdisjoint({REACHED, MISSED})
    assert NOT_JUDGED in quick_run.shown


@pytest.mark.slow
def test_a_full_result_says_reached_or_missed_beside_each_target(result: dict[str, Any]) -> None:
    result["settings"]["quick"] = False
    ratio = next(ratio.value for ratio in speed_ratios(result))
    for target, word in ((ratio * 0.9, REACHED), (ratio * 1.1, MISSED)):
        result["speed"][0]["target"] = target
        training = find(result)[0]
        assert training.rows[0][training.header.index("verdict")] == word


@pytest.mark.slow
def test_the_page_is_written_from_the_result_file_alone(
    quick_run: QuickRun, result: dict[str, Any], tmp_path: Path
) -> None:
    (tmp_path / "pooled.json").write_text(json.dumps(result))
    (tmp_path / "pooled.png").touch()
    write_page(tmp_path, tmp_path / "RESULTS.md")
    assert (tmp_path / "RESULTS.md").read_text() == (quick_run.output / "RESULTS.md").read_text()


@pytest.mark.slow
def test_the_page_shows_the_figure_and_names_no_path(quick_run: QuickRun) -> None:
    check_page(quick_run, ("pooled.png",))


@pytest.mark.slow
def test_an_unknown_task_is_refused_with_the_list_of_tasks(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit):
        RUN.parse(["--tasks", "no-such-task"])
    refusal = capsys.readouterr().err
    assert all(task.name in refusal for task in SPEED_TASKS)


def test_only_a_whole_run_or_an_update_replaces_the_published_results() -> None:
    check_what_replaces_published_results(RUN, TASKS[0])


def test_each_repeat_has_everybody_once_and_starts_with_the_next() -> None:
    order = list(interleave(["a", "b", "c"], 4))
    rounds = ["".join(name for repeat, name in order if repeat == r) for r in range(4)]
    assert rounds == ["abc", "bca", "cab", "abc"]


def test_processor_time_counts_child_processes_and_not_waiting() -> None:
    _, waiting = timed(lambda: Event().wait(0.3))
    assert waiting.wall >= 0.3
    assert waiting.cpu < 0.2
    count = "import time\nwhile time.process_time() < 0.3: pass"
    _, counting = timed(lambda: subprocess.run([sys.executable, "-c", count], check=True))
    assert counting.cpu >= 0.3


def test_the_peak_is_seen_although_the_memory_is_given_back_and_an_older_peak_was_higher() -> None:
    n_bytes = 100_000_000
    np.ones(5 * n_bytes, np.uint8).sum()
    peak = peak_growth(lambda: np.ones(n_bytes, np.uint8).sum())
    assert peak is not None
    assert 0.9 * n_bytes < peak.n_bytes < 1.3 * n_bytes


def test_a_finding_becomes_a_table_with_its_verdict_in_bold() -> None:
    page = to_markdown(Finding("Speed", ["task", "verdict"], [["a", MISSED]], "Note."))
    assert page == ("### Speed\n\n| task | verdict |\n| --- | --- |\n| a | **missed** |\n\nNote.")

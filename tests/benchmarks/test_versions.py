"""The comparison of two checkouts, run for real on shrunken tasks with this one on both sides."""

import json
from pathlib import Path

import pytest

from benchmarks.versions import AGAIN, NEW, OLD, find_ratios, main
from tests.benchmarks.quick_runs import ROOT

TASKS = ("vertical training, depth 6", "horizontal prediction, text")


@pytest.mark.slow
def test_every_arm_is_measured_and_compared_with_the_old_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "versions.json"
    checkouts = ["--old", str(ROOT), "--new", str(ROOT)]
    main([*checkouts, "--quick", "--tasks", *TASKS, "--write", str(path)])
    compared = json.loads(path.read_text())["tasks"]
    shown = capsys.readouterr().out
    assert list(compared) == list(TASKS)
    for task, result in compared.items():
        assert task in shown
        assert result["commits"][OLD] == result["commits"][NEW]
        for arm in (OLD, NEW, AGAIN):
            assert min(result["costs"][arm]["wall"]) > 0.0
            assert min(result["costs"][arm]["cpu"]) > 0.0


@pytest.mark.slow
def test_a_task_without_its_table_is_left_out_with_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FEDFOREST_DATA", str(tmp_path))
    main(
        ["--old", str(ROOT), "--new", str(ROOT), "--quick", "--tasks", "vertical training, letter"]
    )
    assert "letter.parquet is" in capsys.readouterr().out


def test_a_folder_without_the_package_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="no src/fedforest"):
        main(["--old", str(tmp_path), "--new", str(ROOT)])


def test_ratios_compare_repeat_by_repeat_and_best_with_best() -> None:
    costs = {
        OLD: {"wall": [1.0, 2.0, 4.0], "cpu": [1.0, 1.0, 1.0]},
        NEW: {"wall": [1.5, 2.0, 2.0], "cpu": [2.0, 2.0, 2.0]},
        AGAIN: {"wall": [1.0, 2.0, 4.0], "cpu": [1.0, 1.0, 1.0]},
    }
    ratios = find_ratios(costs)
    assert ratios["new, wall"] == {"median": 1.0, "best": 1.5}
    assert ratios["new, cpu"] == {"median": 2.0, "best": 2.0}
    assert ratios["old again, wall"] == {"median": 1.0, "best": 1.0}

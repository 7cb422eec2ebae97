"""Single tasks measured again take the place of published ones, and the page says so."""

import json
from pathlib import Path
from typing import Any

from benchmarks.publishing import update_published

FACTS = {"commit": "0123456789ab", "date": "2026-01-02"}
PUBLISHED: dict[str, Any] = {
    "run": "vertical",
    "environment": {"commit": "ba9876543210", "date": "2026-01-01"},
    "speed": [{"name": "depth-6", "wall": 1.0}, {"name": "depth-10", "wall": 2.0}],
    "growth": {"rows": {"points": [1]}, "depth": {"points": [2]}},
    "xgboost": {"wall": 9.0},
    "soak": [{"wall": 5.0}, {"wall": 6.0}],
}


def update(folder: Path, **measured: Any) -> dict[str, Any]:
    (folder / "vertical.json").write_text(json.dumps(PUBLISHED))
    nothing: dict[str, Any] = {"speed": [], "growth": {}, "xgboost": None, "soak": []}
    result = {"run": "vertical", "environment": FACTS, "minutes": 1.0, **nothing, **measured}
    return update_published(result, folder)


def test_a_task_takes_its_own_place_and_leaves_the_others(tmp_path: Path) -> None:
    result = update(tmp_path, speed=[{"name": "depth-6", "wall": 0.5}])
    assert [task["wall"] for task in result["speed"]] == [0.5, 2.0]
    assert result["growth"] == PUBLISHED["growth"]
    assert result["xgboost"] == PUBLISHED["xgboost"]


def test_a_task_that_was_not_published_comes_last(tmp_path: Path) -> None:
    result = update(tmp_path, speed=[{"name": "new", "wall": 3.0}])
    assert [task["name"] for task in result["speed"]] == ["depth-6", "depth-10", "new"]


def test_series_are_replaced_by_name_and_other_measurements_as_a_whole(tmp_path: Path) -> None:
    result = update(
        tmp_path, growth={"depth": {"points": [7]}}, xgboost={"wall": 8.0}, soak=[{"wall": 1.0}]
    )
    assert result["growth"] == {"rows": {"points": [1]}, "depth": {"points": [7]}}
    assert result["xgboost"] == {"wall": 8.0}
    assert result["soak"] == [{"wall": 1.0}]


def test_an_update_names_its_tasks_and_its_commit_and_keeps_the_first_one(tmp_path: Path) -> None:
    result = update(tmp_path, speed=[{"name": "depth-6"}], growth={"rows": {}})
    assert result["environment"] == PUBLISHED["environment"]
    assert result["updates"] == [{"tasks": ["depth-6", "growth by rows"], **FACTS}]

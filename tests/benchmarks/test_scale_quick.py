"""The benchmark of scale, run for real on shrunken tasks, and the tables that it makes in pieces.

A run takes minutes, so what looks at one is marked `exhaustive`.
"""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet
import pytest

from benchmarks import scale_tables
from benchmarks.runs.scale import RUN, TASKS
from benchmarks.runs.scale_findings import find, rows_vertical
from fedforest.experiments.findings import MISSED, REACHED
from tests.benchmarks.quick_runs import (
    QuickRun,
    check_page,
    check_that_only_full_runs_judge,
    check_what_replaces_published_results,
    run_quick,
)


@pytest.fixture(scope="module")
def quick_run(tmp_path_factory: pytest.TempPathFactory) -> QuickRun:
    return run_quick("scale", tmp_path_factory.mktemp("scale"), TASKS)


@pytest.fixture
def result(quick_run: QuickRun) -> dict[str, Any]:
    return quick_run.load()


@pytest.mark.exhaustive
def test_every_task_measures_something(result: dict[str, Any]) -> None:
    for task in TASKS:
        assert result[task.replace("-", "_")], task
    assert len({point["votes"] for point in result["beyond_memory"]}) == 1
    near, far = (
        min(point["wall"] for point in result["slow_line"] if point["line"] == line)
        for line in ("none", "slow")
    )
    assert far > near + 1.0  # 26 exchanges at 50 ms


@pytest.mark.exhaustive
def test_a_quick_run_judges_no_target_and_a_full_one_every_target(result: dict[str, Any]) -> None:
    check_that_only_full_runs_judge(result, find)


@pytest.mark.exhaustive
def test_the_page_shows_the_figure_and_names_no_path(quick_run: QuickRun) -> None:
    check_page(quick_run, ("scale.png",))


def test_only_a_whole_run_or_an_update_replaces_the_published_results() -> None:
    check_what_replaces_published_results(RUN, TASKS[0])


def test_a_table_is_the_same_whoever_writes_it_and_its_label_follows_from_all_columns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scale_tables, "PIECE_ROWS", 400)
    names = ("bank", "shop")
    for number, name in enumerate(names):
        scale_tables.write_columns(1_000, (4, 5), number)(tmp_path / f"{name}.parquet")
    bank, shop = (pyarrow.parquet.read_table(tmp_path / f"{name}.parquet") for name in names)
    assert bank.column_names == [*(f"column_{k}" for k in range(4)), "label"]
    assert shop.column_names == [f"column_{k}" for k in range(4, 9)]
    assert bank.num_rows == shop.num_rows == 1_000
    label = bank["label"].to_numpy() - 0.5
    for column in (bank["column_0"], shop["column_4"]):
        assert np.corrcoef(label, column.to_numpy())[0, 1] > 0.1
    again = tmp_path / "again.parquet"
    scale_tables.write_columns(1_000, (4, 5), 1)(again)
    assert pyarrow.parquet.read_table(again) == shop


def test_a_party_beyond_its_budget_and_a_slower_row_are_not_called_reached() -> None:
    base = {"rows": 1_000_000, "wall": 1.0, "peak_bytes": {"bank": 2**29, "coordinator": 2**40}}
    slow = {"rows": 10_000_000, "wall": 16.0, "peak_bytes": {"bank": 2**31, "coordinator": 0}}
    good, bad = rows_vertical([base, slow]).rows
    assert (good[3], good[6]) == (REACHED, REACHED)
    assert (bad[3], bad[6]) == (MISSED, MISSED)

"""The benchmark of Federated Forest, run for real on shrunken tasks, without XGBoost."""

import socket
from typing import Any

import numpy as np
import pytest

from benchmarks.comparisons import xgboost_federated
from benchmarks.contestants import federated_forest
from benchmarks.runs.vertical import RUN
from benchmarks.runs.vertical_findings import find, pair_ratio
from benchmarks.runs.vertical_growth import MODES, scaled
from benchmarks.runs.vertical_traffic import TrafficTask, measure_traffic, moved_rows
from benchmarks.tasks import SEED, ForestSettings, make_split
from fedforest.kernels.growth.sampling import count_draws
from fedforest.tree.growth.seeds import derive_seeds
from tests.benchmarks.quick_runs import (
    QuickRun,
    check_page,
    check_that_only_full_runs_judge,
    check_what_replaces_published_results,
    run_quick,
)

TASKS = (
    *("depth-6", "xgboost-federated", "bytes-per-level"),
    *("training-by-parties", "prediction-by-depth"),
)


@pytest.fixture(scope="module")
def quick_run(tmp_path_factory: pytest.TempPathFactory) -> QuickRun:
    return run_quick("vertical", tmp_path_factory.mktemp("vertical"), TASKS)


@pytest.fixture
def result(quick_run: QuickRun) -> dict[str, Any]:
    return quick_run.load()


@pytest.mark.slow
def test_two_parties_and_one_table_grow_the_same_forest(result: dict[str, Any]) -> None:
    (task,) = result["speed"]
    assert task["pairs"]["fedforest"]["score"] == task["pairs"]["fedforest, two parties"]["score"]
    assert pair_ratio(task, "wall") > 0.0
    assert min(task["fits"]["scikit-learn"]["wall"]) > 0.0


@pytest.mark.slow
def test_what_could_not_run_is_named_with_a_reason(result: dict[str, Any]) -> None:
    assert result["xgboost"] is None
    assert "cannot be imported" in result["skipped"]["xgboost-federated"]


@pytest.mark.slow
def test_growth_is_measured_for_one_and_for_ten_parties(result: dict[str, Any]) -> None:
    points = result["growth"]["parties"]["points"]
    assert [point["n_parties"] for point in points] == [1, 10]
    assert points[0]["level_bytes"] < points[1]["level_bytes"]


@pytest.mark.slow
def test_one_round_is_one_exchange_and_classical_one_for_each_row_and_node(
    result: dict[str, Any],
) -> None:
    for point in result["prediction"]["depth"]["points"]:
        modes = point["modes"]
        assert modes["one_round"]["exchanges"] == 1
        assert modes["classical"]["exchanges"] > modes["classical"]["measured_rows"]
        share = point["prediction_rows"] / modes["classical"]["measured_rows"]
        exchanges = [scaled(point, mode, lambda cost: cost["exchanges"]) for mode in MODES]
        assert exchanges[0] == share * modes["classical"]["exchanges"]
        assert exchanges[1:] == [modes[mode]["exchanges"] for mode in MODES[1:]]


@pytest.mark.slow
def test_a_quick_run_judges_no_target_and_a_full_one_every_target(result: dict[str, Any]) -> None:
    check_that_only_full_runs_judge(result, find)


@pytest.mark.slow
def test_the_page_shows_both_figures_and_names_no_path(quick_run: QuickRun) -> None:
    check_page(quick_run, ("vertical.png", "vertical-messages.png"))


def test_only_a_whole_run_or_an_update_replaces_the_published_results() -> None:
    check_what_replaces_published_results(RUN, TASKS[0])


def test_rows_that_move_are_the_distinct_rows_drawn_and_grow_fewer_from_level_to_level() -> None:
    split = make_split("binary", 2_000)
    forest = federated_forest(ForestSettings("binary", 3, None), SEED, 2)
    forest.fit(split.X_train, split.y_train)
    drawn = np.empty(len(split.X_train), np.uint8)
    n_distinct = 0
    for seed in derive_seeds(SEED, "rows", 0, 3):
        count_draws(seed, len(drawn), drawn)
        n_distinct += int((drawn > 0).sum())
    moved = moved_rows(forest, split.X_train, 1 + max(s.level for s in forest.fit_log_))
    assert moved[0] == n_distinct
    assert (np.diff(moved) <= 0).all()
    assert moved[-1] > 0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("max_depth", "labels"),
    [
        (6, {}),
        (9, {"n_classes": 0}),
        (None, {"n_classes": 0, "weighted": True}),
        (None, {"n_classes": 6, "weighted": True}),
        (None, {"n_classes": 20}),
    ],
)
def test_a_training_sends_about_what_the_formula_says(
    max_depth: int | None, labels: dict[str, Any]
) -> None:
    traffic = measure_traffic(TrafficTask(20_000, 40, 2, 4, max_depth, **labels))
    measured, least = (sum(traffic[key]) for key in ("measured_bytes", "least_bytes"))
    assert 0.9 < measured / least < 1.2


@pytest.mark.slow
def test_the_server_is_not_started_beside_any_interface_but_loopback(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(socket, "if_nameindex", lambda: [(1, "lo"), (2, "eth0")])
    with pytest.raises(SystemExit, match="more than loopback"):
        xgboost_federated.run_federation({})


@pytest.mark.slow
@pytest.mark.skipif(
    xgboost_federated.reason_absent() is not None,
    reason="needs XGBoost and permission to make a network namespace",
)
def test_xgboosts_federation_trains_inside_its_namespace() -> None:
    theirs = xgboost_federated.measure(
        make_split("binary", 2_000), ForestSettings("binary", 4, 4), repeats=2
    )
    assert theirs.keys() == {"wall", "cpu", "score"}
    assert len(theirs["wall"]) == 2
    assert min(theirs["score"]) > 0.55

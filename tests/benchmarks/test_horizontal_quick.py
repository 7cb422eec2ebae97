"""The benchmark of Federated Extra-Trees, run for real on shrunken tasks, without XGBoost."""

from typing import Any

import numpy as np
import pytest

from benchmarks.comparisons import xgboost_federated
from benchmarks.contestants import (
    ROW_FEDERATIONS,
    ROWS_GLOBAL,
    ROWS_LOCAL,
    ROWS_PLAIN,
    SKLEARN_EXTRA,
    RowFederation,
)
from benchmarks.runs.horizontal import RUN
from benchmarks.runs.horizontal_findings import SAME_FOREST, beside_plain, beside_sklearn, find
from benchmarks.tasks import SEED, ForestSettings, make_split
from tests.benchmarks.quick_runs import (
    QuickRun,
    check_page,
    check_that_only_full_runs_judge,
    check_what_replaces_published_results,
    run_quick,
)

TASKS = (
    *("depth-6", "protected-depth-6", "xgboost-federated"),
    *("training-by-parties", "training-by-peers"),
)


@pytest.fixture(scope="module")
def quick_run(tmp_path_factory: pytest.TempPathFactory) -> QuickRun:
    return run_quick("horizontal", tmp_path_factory.mktemp("horizontal"), TASKS)


@pytest.fixture
def result(quick_run: QuickRun) -> dict[str, Any]:
    return quick_run.load()


@pytest.mark.slow
def test_two_parties_are_timed_and_scored_beside_scikit_learn(result: dict[str, Any]) -> None:
    (task,) = result["speed"]
    assert task["fits"].keys() == {ROWS_PLAIN, SKLEARN_EXTRA}
    for fits in task["fits"].values():
        assert min(fits["wall"]) > 0.0
        assert min(fits["score"]) > 0.55


@pytest.mark.slow
def test_masks_ring_and_shares_grow_the_plain_forest_and_noise_another_one(
    result: dict[str, Any],
) -> None:
    (task,) = result["protected"]
    assert list(task["fits"]) == [contestant.name for contestant in ROW_FEDERATIONS]
    plain = task["fits"][ROWS_PLAIN]["score"]
    for name in SAME_FOREST:
        assert task["fits"][name]["score"] == plain
    for name in (ROWS_LOCAL, ROWS_GLOBAL):
        assert task["fits"][name]["score"] != plain


@pytest.mark.slow
def test_protection_sends_more_bytes_than_plain_sums(result: dict[str, Any]) -> None:
    (task,) = result["protected"]
    traffic = {name: entry["level_bytes"] for name, entry in task["traffic"].items()}
    for name in SAME_FOREST:
        assert traffic[name] > traffic[ROWS_PLAIN]


@pytest.mark.slow
def test_a_forest_that_should_be_the_same_and_is_not_is_shouted_about(
    result: dict[str, Any],
) -> None:
    result["protected"][0]["fits"][SAME_FOREST[0]]["score"] = [0.5]
    cells = [row[9] for row in beside_plain(result).rows]
    assert cells.count("DIFFERENT") == 1
    assert cells.count("equal") == len(SAME_FOREST) - 1


@pytest.mark.slow
def test_growth_is_measured_for_two_and_fifty_parties_and_for_one_and_many_peers(
    result: dict[str, Any],
) -> None:
    by_parties = result["growth"]["parties"]["points"]
    assert [point["n_parties"] for point in by_parties] == [2, 50]
    for mode in ("plain", "masked"):
        few, many = (point["modes"][mode]["level_bytes"] for point in by_parties)
        assert 10 * few < many
    one, many = result["growth"]["peers"]["points"]
    assert (one["k"], many["k"]) == (1, 19)
    assert one["modes"]["masked"]["level_bytes"] == pytest.approx(
        many["modes"]["masked"]["level_bytes"], rel=0.05
    )


@pytest.mark.slow
def test_speed_is_the_best_of_the_first_repeats_and_accuracy_the_mean_of_all(
    result: dict[str, Any],
) -> None:
    (task,) = result["speed"]
    task["timed_repeats"] = 2
    walls = {ROWS_PLAIN: [1.0, 0.5, 0.1], SKLEARN_EXTRA: [2.0, 3.0, 0.1]}
    for name, fits in task["fits"].items():
        fits |= {"wall": walls[name], "cpu": walls[name], "score": [0.9, 0.9, 0.6]}
    finding = beside_sklearn(result)
    (row,) = finding.rows
    assert row[finding.header.index("faster")] == "4.0×"
    assert row[finding.header.index("accuracy")] == "0.8000"


@pytest.mark.slow
def test_what_could_not_run_is_named_with_a_reason(result: dict[str, Any]) -> None:
    assert result["xgboost"] is None
    assert "cannot be imported" in result["skipped"]["xgboost-federated"]


@pytest.mark.slow
def test_a_quick_run_judges_no_target_and_a_full_one_every_target(result: dict[str, Any]) -> None:
    check_that_only_full_runs_judge(result, find)


@pytest.mark.slow
def test_the_page_shows_the_figure_and_names_no_path(quick_run: QuickRun) -> None:
    check_page(quick_run, ("horizontal.png",))


def test_only_a_whole_run_or_an_update_replaces_the_published_results() -> None:
    check_what_replaces_published_results(RUN, TASKS[0])


def test_parties_of_the_benchmark_hold_equal_shares_of_the_rows() -> None:
    split = make_split("binary", 2_000)
    forest = RowFederation(ForestSettings("binary", 2, 3), SEED, n_parties=5)
    forest.fit(split.X_train, split.y_train)
    assert len(forest.forest.bytes_sent_) == 5
    assert forest.predict(split.X_test).shape == split.y_test.shape


def test_xgboosts_parties_have_half_of_the_rows_with_their_labels_or_half_of_the_columns() -> None:
    split = make_split("binary", 2_000)
    tables = split._asdict()
    halves = [xgboost_federated.take_share(tables, "rows", rank) for rank in (0, 1)]
    np.testing.assert_array_equal(np.vstack([half.train for half in halves]), split.X_train)
    labels = [half.labels for half in halves if half.labels is not None]
    np.testing.assert_array_equal(np.concatenate(labels), split.y_train)
    assert all(half.test is split.X_test for half in halves)
    halves = [xgboost_federated.take_share(tables, "columns", rank) for rank in (0, 1)]
    np.testing.assert_array_equal(np.hstack([half.train for half in halves]), split.X_train)
    assert halves[0].labels is split.y_train
    assert halves[1].labels is None


@pytest.mark.slow
@pytest.mark.skipif(
    xgboost_federated.reason_absent() is not None,
    reason="needs XGBoost and permission to make a network namespace",
)
def test_xgboosts_federation_by_rows_trains_inside_its_namespace() -> None:
    theirs = xgboost_federated.measure(
        make_split("binary", 2_000), ForestSettings("binary", 4, 4), repeats=2, divided="rows"
    )
    assert theirs.keys() == {"wall", "cpu", "score"}
    assert len(theirs["wall"]) == 2
    assert min(theirs["score"]) > 0.55

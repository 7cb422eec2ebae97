"""The benchmark of real tables, run for real on shrunken made ones."""

from typing import Any

import pytest

from benchmarks.real_tables import TABLES, has_text, make_census, make_forest_cover
from benchmarks.runs.real_tables import RUN
from benchmarks.runs.real_tables_findings import (
    NATIVE,
    ROWS_MASKED,
    ROWS_NATIVE,
    SKLEARN,
    SKLEARN_EXTRA,
    TLS,
    VERTICAL_ONE,
    VERTICAL_TWO,
    categories,
    find,
    targets,
)
from tests.benchmarks.quick_runs import (
    QuickRun,
    check_page,
    check_that_only_full_runs_judge,
    check_what_replaces_published_results,
    run_quick,
)

CENSUS, COVER = "census (made)", "forest cover (made)"


@pytest.fixture(scope="module")
def quick_run(tmp_path_factory: pytest.TempPathFactory) -> QuickRun:
    return run_quick("real_tables", tmp_path_factory.mktemp("real_tables"), (CENSUS, COVER))


@pytest.fixture
def result(quick_run: QuickRun) -> dict[str, Any]:
    return quick_run.load()


@pytest.mark.slow
def test_native_categories_are_measured_where_a_table_has_text(result: dict[str, Any]) -> None:
    census, cover = result["tables"]
    assert {NATIVE, ROWS_NATIVE} <= census["fits"].keys()
    assert {NATIVE, ROWS_NATIVE}.isdisjoint(cover["fits"])
    for table in (census, cover):
        assert {VERTICAL_ONE, VERTICAL_TWO, SKLEARN, TLS, ROWS_MASKED} <= table["fits"].keys()
        assert min(table["fits"][TLS]["wall"]) > 0.0


@pytest.mark.slow
def test_one_party_and_two_give_the_same_scores(result: dict[str, Any]) -> None:
    for table in result["tables"]:
        assert table["fits"][VERTICAL_ONE]["score"] == table["fits"][VERTICAL_TWO]["score"]


@pytest.mark.slow
def test_a_target_is_missed_by_the_median_or_by_a_single_table(result: dict[str, Any]) -> None:
    def judge(walls: tuple[float, float]) -> list[str]:
        for table, wall in zip(result["tables"], walls, strict=True):
            for quantity in ("wall", "cpu"):
                table["fits"][ROWS_MASKED][quantity] = [wall]
                table["fits"][SKLEARN_EXTRA][quantity] = [1.0]
        rows = [row for row in targets(result).rows if row[0] == ROWS_MASKED]
        return list(rows[0])

    assert judge((0.5, 0.5))[-1] == "reached"
    assert judge((0.5, 1.5))[-1] == "missed"
    assert judge((0.9, 0.9))[-1] == "missed"


@pytest.mark.slow
def test_targets_are_judged_by_processor_time_where_the_machine_was_busy(
    result: dict[str, Any],
) -> None:
    for table in result["tables"]:
        table["fits"][ROWS_MASKED] |= {"wall": [9.0], "cpu": [0.1]}
        table["fits"][SKLEARN_EXTRA] |= {"wall": [1.0], "cpu": [1.0]}
    words = {}
    for load in (0.1, 50.0):
        result["environment"]["load_at_start"] = load
        words[load] = [row[-1] for row in targets(result).rows if row[0] == ROWS_MASKED]
    assert words == {0.1: ["missed"], 50.0: ["reached"]}


@pytest.mark.slow
def test_native_categories_are_judged_by_training_and_by_prediction(result: dict[str, Any]) -> None:
    fits = result["tables"][0]["fits"]
    for name, wall in ((NATIVE, 1.2), (VERTICAL_TWO, 1.0)):
        fits[name] |= {key: [wall] for key in ("wall", "cpu", "predict", "predict_cpu")}
    assert categories(result).rows[0][6] == "reached"
    fits[NATIVE] |= {"predict": [1.6], "predict_cpu": [1.6]}
    assert categories(result).rows[0][6] == "missed"


@pytest.mark.slow
def test_a_quick_run_judges_no_target_and_a_full_one_every_target(result: dict[str, Any]) -> None:
    check_that_only_full_runs_judge(result, find)


@pytest.mark.slow
def test_the_page_names_no_path(quick_run: QuickRun) -> None:
    check_page(quick_run, ())


def test_only_a_whole_run_or_an_update_replaces_the_published_results() -> None:
    check_what_replaces_published_results(RUN, CENSUS)


def test_made_tables_have_the_shape_that_they_are_made_for() -> None:
    census, cover = make_census(), make_forest_cover()
    assert has_text(census)
    assert not has_text(cover)
    assert census.X_train.shape[1] == 14
    assert cover.X_train.shape[1] == 54
    assert set(cover.y_train) == set(range(7))
    assert {table.name for table in TABLES if table.is_made} == {CENSUS, COVER}

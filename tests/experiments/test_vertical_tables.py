"""Tables 3 and 4 of Federated Forest, on built-in data and on the papers'."""

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris

from fedforest.experiments.data.reading import PaperTable, read_table, reason_missing
from fedforest.experiments.record import Record
from fedforest.experiments.statistics import paired_interval, z_test
from fedforest.experiments.vertical.methods import (
    GRID,
    METHODS,
    STANDARD_ERROR,
    USUAL,
    divide,
    pool,
    score_forest,
    score_method,
    search_grid,
)
from fedforest.experiments.vertical.table_report import SEARCH, chosen_point
from fedforest.experiments.vertical.tables import TABLE_3
from fedforest.experiments.vertical.trials import FOREST_TRIALS, LINEAR_TRIALS, try_setting

CANCER = PaperTable.of_numbers("cancer", "classification", *load_breast_cancer(return_X_y=True))
DIABETES = PaperTable.of_numbers("diabetes", "regression", *load_diabetes(return_X_y=True))
IRIS = PaperTable.of_numbers("iris", "classification", *load_iris(return_X_y=True))


def scores(table: PaperTable, method: str, n: int) -> np.ndarray:
    point = USUAL[table.task]
    return np.array(
        [score_method(method, divide(table, 3, number), point, 2) for number in range(n)]
    )


@pytest.mark.slow
@pytest.mark.parametrize(("table", "tolerance"), [(CANCER, 0.012), (DIABETES, 0.02)])
def test_the_federated_forest_is_as_good_as_scikit_learns_on_the_pooled_columns(
    table: PaperTable, tolerance: float
) -> None:
    """The papers' z-test, and the paired interval, which is hard to pass: over three seeds it
    reached out to 0.008 of accuracy and 1.5% of RMSE.
    """
    federated, pooled = (scores(table, method, 20) for method in ("FF", "NonFF"))
    assert z_test(federated, pooled) >= 0.01
    unit = pooled.mean() if table.task == "regression" else 1.0
    assert paired_interval(federated, pooled).scaled(1.0 / unit).lies_within(tolerance)


@pytest.mark.slow
def test_the_same_test_tells_a_party_alone_from_the_federation() -> None:
    federated, alone = (scores(DIABETES, method, 12) for method in ("FF", "RF1"))
    assert z_test(federated, alone) < 0.01
    assert paired_interval(alone, federated).low > 0.0  # errors


def test_a_repetition_divides_columns_into_halves_and_holds_a_fifth_of_the_rows_out() -> None:
    division = divide(CANCER, 3, 0)
    assert [table.shape[1] for table in division.train.values()] == [15, 15]
    assert len(division.y_test) == pytest.approx(0.2 * len(CANCER.y), abs=1)
    joined = np.vstack([pool(division.train), pool(division.test)])
    assert sorted(joined.sum(axis=0)) == pytest.approx(sorted(CANCER.codes.sum(axis=0)))


def test_a_repetition_follows_from_the_seed_and_its_number_alone() -> None:
    first, again, next_one = (divide(CANCER, 3, number) for number in (0, 0, 1))
    for party, table in first.train.items():
        np.testing.assert_array_equal(table, again.train[party])
        assert not np.array_equal(table, next_one.train[party])
    assert first.seed == again.seed != next_one.seed


def test_linear_models_tell_more_than_two_classes_apart_one_by_one() -> None:
    assert score_method("F-LR", divide(IRIS, 3, 0), GRID[0], 1) > 0.8


def test_a_forest_over_one_party_has_its_columns_only() -> None:
    division = divide(CANCER, 3, 0)
    parameters = {"n_estimators": 5, "random_state": 1}
    alone = score_forest(division, parameters, ("party_1",))
    hidden = {**division.train, "party_2": np.zeros_like(division.train["party_2"])}
    assert score_forest(division._replace(train=hidden), parameters, ("party_1",)) == alone


def test_the_grid_search_scores_every_point_and_the_error_of_the_best() -> None:
    scores = search_grid(divide(DIABETES, 3, 0), 5, 1)
    assert set(scores) == {*(point.tell() for point in GRID), STANDARD_ERROR}
    assert all(value > 0.0 for value in scores.values())


@pytest.mark.parametrize(("error", "is_usual"), [(0.5, False), (1.5, True)])
def test_the_usual_forest_stays_within_a_standard_error_of_the_best(
    error: float, is_usual: bool
) -> None:
    record, usual = Record("ff-table-4", {}), USUAL["regression"]
    assert chosen_point(record, "superconduct") == usual
    scores = {point.tell(): 10.0 for point in GRID} | {GRID[0].tell(): 9.0, STANDARD_ERROR: error}
    record.add((SEARCH, "superconduct", ""), scores)
    assert chosen_point(record, "superconduct") == (usual if is_usual else GRID[0])


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_every_likely_setting_of_the_paper_trains() -> None:
    cancer = divide(CANCER, 3, 0)
    for trial in FOREST_TRIALS:
        assert try_setting(cancer, "RF2", trial, 1) > 0.7
    for trial in LINEAR_TRIALS:
        assert try_setting(cancer, "F-LR", trial, 1) > 0.7


def test_a_difference_from_the_printed_value_is_judged_by_both_spreads() -> None:
    record = Record("ff-table-3", {})
    for score in (0.92, 0.94):
        record.add(("spambase", "FF", ""), {"score": score})
        record.add(("spambase", "RF1", ""), {"score": score})
        record.add(("spambase", "RF1", "depth 4"), {"score": 0.85})
    table = TABLE_3.report(record).tables[0]
    rows = {row[1]: row for row in table.rows}
    assert rows["FF"][table.header.index("verdict")] == "same"
    assert rows["RF1"][table.header.index("verdict")] == "higher"
    assert rows["RF1"][-1] == "depth 4 gives 0.850 ± 0.000, as printed"
    assert rows["NonFF"][table.header.index("verdict")] == "not measured"


def test_the_made_wide_table_can_be_learned_and_not_perfectly() -> None:
    division = divide(read_table("gene", quick=True), 3, 0)
    assert 0.4 < score_forest(division, {"n_estimators": 50, "random_state": 1}) < 1.0


@pytest.mark.data
@pytest.mark.skipif(reason_missing("ionosphere") is not None, reason="the data set is missing")
def test_a_method_on_real_rows_scores_as_the_committed_repetition_says() -> None:
    division = divide(read_table("ionosphere"), 0, 0)
    for method in METHODS:
        assert 0.7 < score_method(method, division, USUAL["classification"], 2) <= 1.0

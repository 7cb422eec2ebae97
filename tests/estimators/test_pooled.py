"""A forest on one table: the tables it takes, what it predicts, and what decides it."""

from typing import Any

import numpy as np
import pandas as pd
import pytest

from fedforest.errors import ConfigurationError, DataError, FederationError
from fedforest.estimators.pooled import PooledForest
from fedforest.tree.growth.level_loop import GrowthProgress
from tests.estimators.pooled_samples import (
    N_ROWS,
    classifier,
    contents,
    labels,
    numbers,
    regressor,
)


def mixed_frame() -> pd.DataFrame:
    matrix = numbers()
    colour = np.array(["red", "green", "blue", "grey"])[(matrix[:, 2] * 2).astype(int) % 4]
    frame = pd.DataFrame({"size": matrix[:, 0], "colour": colour, "age": matrix[:, 1]})
    frame.loc[::9, "colour"] = None
    frame.loc[::11, "size"] = np.nan
    return frame


@pytest.mark.parametrize("table", [np.zeros((0, 3)), pd.DataFrame({"a": []}), {"a": []}])
def test_a_table_without_rows_is_refused(table: Any) -> None:
    with pytest.raises(DataError, match="no rows"):
        classifier().fit(table, [])


def test_a_table_without_columns_gives_the_shares_of_the_classes() -> None:
    y = np.array([0, 0, 0, 1])
    forest = classifier(bootstrap=False).fit(np.zeros((4, 0)), y)
    assert forest.predict_proba(np.zeros((2, 0))).tolist() == [[0.75, 0.25]] * 2


def test_one_row_is_enough() -> None:
    assert classifier().fit([[1.0, 2.0]], ["yes"]).predict([[5.0, np.nan]]).tolist() == ["yes"]
    assert regressor().fit([[1.0, 2.0]], [2.5]).predict([[5.0, np.nan]]).tolist() == [2.5]


def test_constant_and_missing_columns_are_no_obstacle() -> None:
    matrix = numbers()
    matrix[:, 2], matrix[:, 3] = 7.0, np.nan
    y = labels(matrix)
    forest = classifier(max_features=1, bootstrap=False).fit(matrix, y)
    assert (forest.predict(matrix) == y).all()
    assert set(forest.forest_.splits.feature.tolist()) <= {-1, 0, 1}


def test_missing_and_infinite_values_can_be_learned_from() -> None:
    matrix = numbers()
    matrix[::3, 0], matrix[1::3, 0] = np.nan, np.inf
    y = np.arange(N_ROWS) % 3
    forest = classifier(max_features=None, bootstrap=False).fit(matrix, y)
    assert (forest.predict(matrix) == y).all()


@pytest.mark.parametrize("n_columns", [0, 3, 5])
def test_a_wrong_number_of_columns_is_refused_at_prediction(n_columns: int) -> None:
    matrix = numbers()
    forest = classifier().fit(matrix, labels(matrix))
    with pytest.raises(DataError, match=f"{n_columns} columns, but training had 4"):
        forest.predict(np.zeros((2, n_columns)))


def test_columns_are_found_by_name_and_others_are_refused() -> None:
    frame = mixed_frame()
    y = labels(numbers())
    forest = classifier().fit(frame, y)
    shuffled = frame[["age", "size", "colour"]]
    assert forest.predict_proba(shuffled).tolist() == forest.predict_proba(frame).tolist()
    with pytest.raises(DataError, match="lacks these columns of training: 'age'"):
        forest.predict(frame.drop(columns="age"))
    with pytest.raises(DataError, match="training had not: 'extra'"):
        forest.predict(frame.assign(extra=1.0))


def test_text_in_a_numeric_column_is_refused_at_prediction() -> None:
    frame = mixed_frame()
    forest = classifier().fit(frame, labels(numbers()))
    with pytest.raises(DataError, match="'age' was numeric in training"):
        forest.predict(frame.assign(age="old"))


@pytest.mark.parametrize("task", ["classification", "regression"])
def test_an_unknown_category_goes_where_a_missing_one_goes(task: str) -> None:
    frame = mixed_frame()
    build, y = (
        (classifier, labels(numbers()))
        if task == "classification"
        else (
            regressor,
            numbers()[:, 2],
        )
    )
    forest = build(max_features=None).fit(frame, y)
    unknown, missing = frame.assign(colour="ultraviolet"), frame.assign(colour=None)
    assert forest.apply(unknown).tolist() == forest.apply(missing).tolist()
    assert forest.apply(unknown).tolist() != forest.apply(frame).tolist()


def test_many_categories_are_split_into_sets() -> None:
    codes = np.random.default_rng(0).integers(0, 150, 3000)
    y = (codes % 7 < 3).astype(int)
    frame = pd.DataFrame({"code": [f"c{code}" for code in codes]})
    forest = classifier(max_depth=1).fit(frame, y)
    assert (forest.predict(frame) == y).all(), "one set holds all categories of a class"


def test_a_regression_forest_has_no_probabilities() -> None:
    forest = regressor().fit(numbers(), numbers()[:, 0])
    with pytest.raises(ConfigurationError, match="no class probabilities"):
        forest.predict_proba(numbers())


@pytest.mark.parametrize(
    "parameters",
    [
        {"n_jobs": 0},
        {"n_jobs": 1.5},
        {"n_jobs": "2"},
        {"random_state": -1},
        {"random_state": 2**63},
        {"random_state": None},
        {"random_state": 0.5},
        {"n_estimators": 0},
        {"max_depth": 0},
        {"min_samples_leaf": 0},
        {"min_weight_fraction_leaf": 0.7},
        {"min_samples_split": 1},
        {"max_features": 5},
        {"max_features": 0.0},
        {"max_features": "all"},
        {"max_samples": N_ROWS + 1},
        {"max_bins": 1},
        {"criterion": "mse"},
        {"bootstrap": "no"},
    ],
)
def test_a_parameter_out_of_range_is_refused_by_name(parameters: dict[str, Any]) -> None:
    [name] = parameters
    with pytest.raises(ConfigurationError, match=name):
        classifier(**parameters).fit(numbers(), labels(numbers()))


@pytest.mark.parametrize("build", [classifier, regressor])
@pytest.mark.parametrize(("n_jobs", "batch_bytes"), [(3, 1), (3, None), (2, None)])
def test_jobs_and_batches_do_not_change_the_forest(
    build: Any, n_jobs: int, batch_bytes: int | None
) -> None:
    matrix = np.random.default_rng(1).standard_normal((2000, 5))
    y = labels(matrix)
    plain = build(oob_score=True).fit(matrix, y)
    other = build(oob_score=True, n_jobs=n_jobs, batch_bytes=batch_bytes).fit(matrix, y)
    assert contents(plain) == contents(other)
    np.testing.assert_array_equal(plain.oob_decision_function_, other.oob_decision_function_)


def test_the_seed_decides_the_forest() -> None:
    matrix = numbers()
    y = labels(matrix)
    same = [contents(classifier(random_state=7).fit(matrix, y)) for _ in range(2)]
    assert same[0] == same[1]
    assert contents(classifier(random_state=8).fit(matrix, y)) != same[0]


def test_all_cores_can_be_asked_for() -> None:
    assert classifier(n_jobs=None).n_jobs == 1
    assert classifier(n_jobs=-1).n_jobs >= 1
    assert classifier(n_jobs=-10_000).n_jobs == 1


def test_progress_ends_with_all_trees() -> None:
    heard: list[GrowthProgress] = []
    matrix = numbers()
    forest = classifier(progress=heard.append, batch_bytes=1)
    forest.fit(matrix, labels(matrix))
    assert [report.trees_done for report in heard] == sorted(r.trees_done for r in heard)
    assert heard[0] == GrowthProgress(0, 5, 0, 1)
    assert heard[-1] == GrowthProgress(5, 5, 0, 0)


def test_progress_of_trees_side_by_side_never_goes_back() -> None:
    heard: list[GrowthProgress] = []
    matrix = numbers()
    classifier(progress=heard.append, n_jobs=2).fit(matrix, labels(matrix))
    order = [(report.trees_done, report.level) for report in heard]
    assert order == sorted(order)
    assert any(0 < done < 5 for done, _ in order)
    assert heard[-1] == GrowthProgress(5, 5, 0, 0)


def test_an_error_of_the_listener_ends_the_training() -> None:
    def refuse(progress: GrowthProgress) -> None:
        if progress.trees_done:
            raise KeyError

    matrix = numbers()
    with pytest.raises(KeyError):
        classifier(progress=refuse, n_jobs=2).fit(matrix, labels(matrix))


def test_out_of_bag_votes_come_only_from_trees_that_left_the_row_out() -> None:
    matrix = numbers()
    y = labels(matrix)
    few = classifier(n_estimators=2, oob_score=True).fit(matrix, y).oob_decision_function_
    assert np.isnan(few).any(axis=1).sum() == np.isnan(few).all(axis=1).sum() > 10
    many = classifier(n_estimators=100, oob_score=True).fit(matrix, y).oob_decision_function_
    np.testing.assert_allclose(many.sum(axis=1), 1.0)
    accuracy = (many.argmax(axis=1) == y).mean()
    assert 0.8 < accuracy < 1.0, "better than guessing, worse than on known rows"


@pytest.mark.parametrize("method", ["predict", "predict_proba", "apply"])
def test_an_untrained_forest_says_that_fit_comes_first(method: str) -> None:
    with pytest.raises(FederationError, match="call fit before"):
        getattr(PooledForest(), method)(np.zeros((2, 2)))

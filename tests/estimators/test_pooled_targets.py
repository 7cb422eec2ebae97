"""Labels, regression targets and row weights: any kind and scale, or a named refusal."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from fedforest.errors import DataError
from tests.estimators.pooled_samples import (
    N_ROWS,
    classifier,
    contents,
    labels,
    numbers,
    regressor,
)


def test_one_class_is_learned_and_predicted() -> None:
    forest = classifier(oob_score=True).fit(numbers(), ["same"] * N_ROWS)
    assert set(forest.predict(numbers(1)).tolist()) == {"same"}
    assert (forest.predict_proba(numbers(1)) == 1.0).all()


@pytest.mark.parametrize("value", [0.0, -3.25, 1e300, 5e-324])
def test_a_constant_target_is_predicted_exactly(value: float) -> None:
    forest = regressor().fit(numbers(), np.full(N_ROWS, value))
    assert set(forest.predict(numbers(1)).tolist()) == {value}


def test_no_column_matters_where_no_tree_has_a_split() -> None:
    forest = classifier().fit(numbers(), np.ones(N_ROWS))
    assert forest.forest_.importances().tolist() == [0, 0, 0, 0]


@pytest.mark.parametrize("scale", [1e-150, 1e-30, 1.0, 1e30, 1e150, 1e300])
def test_targets_of_any_scale_are_predicted(scale: float) -> None:
    matrix = numbers()
    y = scale * matrix[:, 0]
    forest = regressor(max_features=None, bootstrap=False).fit(matrix, y)
    np.testing.assert_allclose(forest.predict(matrix), y, atol=1e-9 * scale)
    assert forest.forest_.importances()[0] == pytest.approx(1.0)


@pytest.mark.parametrize(
    "kind", [np.int8, np.uint64, np.float32, np.bool_, object, "U5", "datetime64[s]"]
)
def test_labels_of_any_kind_are_given_back(kind: Any) -> None:
    matrix = numbers()
    y = labels(matrix).astype(kind)
    predicted = classifier(max_features=None, bootstrap=False).fit(matrix, y).predict(matrix)
    assert predicted.dtype == y.dtype
    assert (predicted == y).all()


def text_with(value: object) -> NDArray[np.object_]:
    y: NDArray[np.object_] = np.array(["yes", "no"] * (N_ROWS // 2), object)
    y[3] = value
    return y


def numbers_with(value: float) -> NDArray[np.float64]:
    y = np.arange(N_ROWS, dtype=np.float64) % 2
    y[3] = value
    return y


@pytest.mark.parametrize(
    "y",
    [
        pytest.param(numbers_with(np.nan), id="NaN"),
        pytest.param(numbers_with(np.inf), id="infinity"),
        pytest.param(text_with(None), id="None among text"),
        pytest.param(text_with(np.nan), id="NaN among text"),
        pytest.param(text_with(7), id="a number among text"),
        pytest.param(numbers_with(np.nan).astype(object), id="NaN among objects"),
        pytest.param(pd.Series(text_with(None), dtype="str"), id="missing pandas text"),
        pytest.param(pd.Series(numbers_with(np.nan), dtype="Int64"), id="missing pandas number"),
        pytest.param(pd.Categorical(text_with(None)), id="missing pandas category"),
        pytest.param([0, 1], id="too short"),
        pytest.param(np.zeros((N_ROWS, 1)), id="a column"),
        pytest.param(1, id="a scalar"),
        pytest.param([[1], [1, 2]] * (N_ROWS // 2), id="ragged"),
        pytest.param(np.arange(N_ROWS) + 1j, id="complex"),
    ],
)
def test_labels_that_cannot_be_used_are_refused(y: Any) -> None:
    with pytest.raises(DataError, match="target"):
        classifier().fit(numbers(), y)


@pytest.mark.parametrize(
    "y",
    [
        pytest.param(numbers_with(np.nan), id="NaN"),
        pytest.param(numbers_with(-np.inf), id="infinity"),
        pytest.param(text_with("maybe"), id="text"),
        pytest.param(text_with(None), id="None"),
        pytest.param(pd.Series(numbers_with(np.nan), dtype="Int64"), id="missing pandas number"),
        pytest.param([0.5, 1.5], id="too short"),
        pytest.param(np.zeros((N_ROWS, 1)), id="a column"),
        pytest.param([[1], [1, 2]] * (N_ROWS // 2), id="ragged"),
        pytest.param(np.arange(N_ROWS) + 1j, id="complex"),
    ],
)
def test_targets_that_cannot_be_used_are_refused(y: Any) -> None:
    with pytest.raises(DataError, match="target"):
        regressor().fit(numbers(), y)


def test_an_error_about_labels_does_not_show_them() -> None:
    y = text_with(7)
    y[5] = "patient-4711"
    with pytest.raises(DataError) as caught:
        classifier().fit(numbers(), y)
    assert "4711" not in str(caught.value)


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (-np.ones(N_ROWS), "negative in 120 rows"),
        (np.zeros(N_ROWS), "every sample weight is zero"),
        (np.full(N_ROWS, np.nan), "NaN"),
        (np.ones(N_ROWS - 1), "one weight for each of the 120 rows"),
        (["heavy"] * N_ROWS, "sample_weight"),
    ],
)
def test_weights_that_cannot_be_used_are_refused(weights: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        classifier().fit(numbers(), labels(numbers()), sample_weight=weights)


@pytest.mark.parametrize("build", [classifier, regressor])
def test_a_row_without_weight_counts_as_if_it_were_not_there(build: Any) -> None:
    # a few distinct values, so that bins do not depend on the rows that are dropped
    matrix = np.random.default_rng(3).integers(0, 6, (N_ROWS, 4)).astype(np.float64)
    y = labels(matrix - 2.5)
    weights = (np.arange(N_ROWS) % 5 > 0).astype(np.float64)
    one = build(bootstrap=False).fit(matrix, y, sample_weight=weights)
    other = build(bootstrap=False).fit(matrix[weights > 0], y[weights > 0])
    assert contents(one) == contents(other)


@pytest.mark.parametrize("build", [classifier, regressor])
def test_a_weight_of_two_counts_as_two_rows(build: Any) -> None:
    matrix = numbers()
    y = labels(matrix)
    weights = 1.0 + (np.arange(N_ROWS) % 3 == 0)
    rows = np.repeat(np.arange(N_ROWS), weights.astype(int))
    one = build(bootstrap=False).fit(matrix, y, sample_weight=weights)
    other = build(bootstrap=False).fit(matrix[rows], y[rows])
    # where no node saw missing values, they follow the number of rows, not their weight
    assert {**contents(one), "missing_left": []} == {**contents(other), "missing_left": []}


@given(st.integers(-60, 60))
@settings(max_examples=15)
def test_only_the_ratios_of_weights_matter(exponent: int) -> None:
    matrix = numbers()
    weights = np.random.default_rng(5).uniform(0.1, 1.0, N_ROWS)
    one = classifier().fit(matrix, labels(matrix), sample_weight=weights)
    other = classifier().fit(matrix, labels(matrix), sample_weight=weights * 2.0**exponent)
    assert contents(one) == contents(other)


@pytest.mark.parametrize("scale", [1e-9, 1e-3, 1.0, 1e3, 1e6, 1e9])
def test_weights_of_any_scale_leave_predictions_precise(scale: float) -> None:
    matrix = numbers()
    y = matrix[:, 0]
    weights = scale * np.random.default_rng(5).uniform(0.1, 1.0, N_ROWS)
    forest = regressor(max_features=None, bootstrap=False).fit(matrix, y, sample_weight=weights)
    np.testing.assert_allclose(forest.predict(matrix), y, atol=1e-5)

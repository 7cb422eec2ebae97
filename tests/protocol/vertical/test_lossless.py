"""Lossless: parties that hold parts of the columns train the forest of the joined table."""

import numpy as np
from hypothesis import HealthCheck, given, settings

from fedforest.estimators.pooled import PooledForest
from fedforest.tree.forest_file import encode_forest
from fedforest.tree.table import read_table
from tests.protocol.vertical.cases import (
    Vertical,
    VerticalCase,
    vertical_cases,
    whole_file,
    whole_forest,
)

MODES = ("one_round", "classical", 1, 2, 3, 5, "auto")


@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@given(vertical_cases())
def test_vertical_forest_equals_the_forest_trained_on_the_joined_table(case: VerticalCase) -> None:
    vertical, pooled = case.vertical(), case.pooled()
    assert whole_file(vertical) == encode_forest(pooled.forest_, pooled.bins_)
    importances = pooled.forest_.importances()
    assert vertical.feature_importances_.tobytes() == importances.tobytes()
    assert_same_out_of_bag_votes(case, vertical, pooled)


def assert_same_out_of_bag_votes(
    case: VerticalCase, vertical: Vertical, pooled: PooledForest
) -> None:
    if case.parameters.get("oob_score"):
        name = "oob_prediction_" if case.is_regression else "oob_decision_function_"
        votes = getattr(vertical, name).reshape(len(case.y), -1)
        assert votes.tobytes() == pooled.oob_decision_function_.tobytes()


@settings(max_examples=25, suppress_health_check=[HealthCheck.too_slow])
@given(vertical_cases(max_rows=40))
def test_every_prediction_mode_says_what_the_forest_of_the_joined_table_says(
    case: VerticalCase,
) -> None:
    vertical, pooled = case.vertical(), case.pooled()
    rows = case.other_rows()
    leaves, labels = pooled.apply(rows), pooled.predict(rows)
    depth = int(whole_forest(vertical).shape.depths().max())
    for mode in {*MODES, *range(1, depth + 2)}:
        vertical.set_params(prediction=mode)
        assert np.array_equal(vertical.apply(read_table(rows)), leaves), mode
        assert vertical.predict(read_table(rows)).tobytes() == labels.tobytes(), mode

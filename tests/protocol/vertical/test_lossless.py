"""Lossless: parties that hold parts of the columns train the forest of the joined table."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from fedforest.estimators.pooled import PooledForest
from fedforest.estimators.vertical.forests import VerticalForestClassifier
from fedforest.tree.files.forests import encode_forest
from fedforest.tree.table.frames import read_table
from tests.estimators.vertical_samples import few_trees
from tests.protocol.vertical.cases import (
    Vertical,
    VerticalCase,
    class_weighted_cases,
    sample_case,
    whole_file,
    whole_forest,
)

MODES = ("one_round", "classical", 1, 2, 3, 5, "auto")

pytestmark = few_trees  # drawn cases grow one or a few


@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@given(class_weighted_cases())
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
@given(class_weighted_cases(max_rows=40), st.sampled_from(["soft", "hard"]))
def test_every_prediction_mode_says_what_the_forest_of_the_joined_table_says(
    case: VerticalCase, voting: str
) -> None:
    vertical, pooled = case.vertical(), case.pooled()
    rows = case.other_rows()
    table = read_table(rows)
    if isinstance(vertical, VerticalForestClassifier):
        vertical.set_params(voting=voting)
        expected = pooled.predict_proba(rows) if voting == "soft" else vote_hard(pooled, rows)
        answers = pooled.classes_[expected.argmax(axis=1)]
    else:
        answers = pooled.predict(rows)
    depth = int(whole_forest(vertical).shape.depths().max())
    for mode in {*MODES, *range(1, depth + 2)}:
        vertical.set_params(prediction=mode)
        assert np.array_equal(vertical.apply(table), pooled.apply(rows)), mode
        assert vertical.predict(table).tobytes() == answers.tobytes(), mode
        if isinstance(vertical, VerticalForestClassifier):
            assert vertical.predict_proba(table).tobytes() == expected.tobytes(), mode


def vote_hard(pooled: PooledForest, rows: Mapping[str, Any]) -> NDArray[np.float64]:
    """Shares of trees, each of which votes for the first of its leaf's likeliest classes."""
    forest = pooled.forest_
    start, label, share = forest.leaves
    leaf_of = pooled.apply(rows) + forest.shape.tree_start[:-1]
    votes = np.zeros((len(leaf_of), forest.n_classes))
    for row, leaves in enumerate(leaf_of):
        for leaf in leaves:
            entries = slice(start[leaf], start[leaf + 1])
            votes[row, label[entries][share[entries].argmax()]] += 1
    return votes / forest.shape.n_trees


def test_a_fixed_case_with_words_gaps_and_three_classes_is_divided_in_every_way() -> None:
    case = sample_case(parameters={"n_estimators": 4, "oob_score": True})
    pooled = case.pooled()
    expected = encode_forest(pooled.forest_, pooled.bins_)
    for shares in ((6,), (1, 5), (3, 3), (0, 6), (2, 0, 0, 4), (1, 1, 1, 1, 1, 1)):
        for label_party in {0, len(shares) - 1}:
            divided = replace(case, shares=shares, label_party=label_party).vertical()
            assert whole_file(divided) == expected
            assert_same_out_of_bag_votes(case, divided, pooled)

"""Encrypted labels: the same forest, and nobody but the label party learns of labels."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

from fedforest.errors import FederationError
from fedforest.protocol.vertical.order import EarlyStopping
from tests.estimators.vertical_samples import few_trees
from tests.protocol.vertical.cases import VerticalCase, numeric_cases, sample_case, whole_file
from tests.protocol.vertical.conversations import train_openly
from tests.protocol.vertical.encrypted_trainings import train_encryptedly

pytestmark = few_trees  # drawn cases grow one or a few


def test_early_stopping_keeps_the_trees_that_the_encoded_training_keeps() -> None:
    rng = np.random.default_rng(5)
    columns = {f"c{k}": rng.standard_normal(120) for k in range(4)}
    y = (columns["c0"] > 0).astype(np.int64)
    parameters = {"n_estimators": 12, "max_depth": 2, "max_bins": 8}
    case = VerticalCase(columns, y, None, parameters, (2, 1, 1), label_party=2)
    stopping = EarlyStopping(patience=3, tolerance=0.0)
    encoded = train_openly(case, early_stopping=stopping)
    encrypted = train_encryptedly(case, early_stopping=stopping)
    outline, curve = encoded.trained.outline, encoded.trained.out_of_bag_curve
    assert 3 <= outline.shape.n_trees < 12
    own = encrypted.label_party.outline()
    assert own.leaves.value.tobytes() == outline.leaves.value.tobytes()
    assert own.decrease.tobytes() == outline.decrease.tobytes()
    assert np.array_equal(encrypted.trained.outline.owner, outline.owner)
    assert curve is not None
    assert encrypted.trained.out_of_bag_curve is not None
    assert encrypted.trained.out_of_bag_curve.tobytes() == curve.tobytes()


def test_a_row_without_weight_is_refused_with_what_to_do() -> None:
    rng = np.random.default_rng(5)
    weights = np.where(np.arange(20) == 7, 0.0, 1.0)
    columns = {f"c{k}": rng.standard_normal(20) for k in range(2)}
    case = VerticalCase(columns, rng.integers(0, 2, 20), weights, {"n_estimators": 1}, (1, 1))
    with pytest.raises(FederationError, match="leave these rows out"):
        train_encryptedly(case)


def test_a_column_of_categories_is_refused_with_what_to_do() -> None:
    with pytest.raises(FederationError, match="turn them into numbers"):
        train_encryptedly(sample_case())


def test_a_cut_that_only_the_label_party_rules_out_does_not_end_the_training() -> None:
    """A side of zeros has no score by `poisson`, which parties without labels cannot see."""
    column = np.array([0.0, 0.0, 0.0, 0.0, -0.2, -1.2, 0.0, 0.0, 0.0])
    y = np.array([1.0, 0.3, 0.0, 0.5, 0.1, 0.0, 0.4, 0.3, 0.3])
    parameters = {"n_estimators": 1, "max_bins": 16, "bootstrap": False, "criterion": "poisson"}
    parameters |= {"max_features": "sqrt"}
    case = VerticalCase({"c0": column, "c1": column}, y, None, parameters, (0, 2))
    assert train_encryptedly(case).whole_file() == whole_file(case.vertical())


@settings(max_examples=20, suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(numeric_cases())
def test_the_encrypted_forest_is_the_encoded_one_to_the_byte(case: VerticalCase) -> None:
    encoded, encrypted = case.vertical(), train_encryptedly(case)
    assert encrypted.whole_file() == whole_file(encoded)
    if case.parameters.get("oob_score"):
        name = "oob_decision_function_" if not case.is_regression else "oob_prediction_"
        votes = getattr(encoded, name).reshape(len(case.y), -1)
        record = encrypted.label_party.model().out_of_bag
        assert record is not None
        assert record.means().tobytes() == votes.tobytes()

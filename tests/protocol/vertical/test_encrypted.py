"""Encrypted labels: the same forest, and nobody but the label party learns of labels."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

from fedforest.errors import FederationError
from fedforest.protocol.vertical.encrypted.messages import EncryptLabels
from fedforest.protocol.vertical.messages import BinColumns
from fedforest.protocol.vertical.order import EarlyStopping
from fedforest.tree.growth.batches import RowsHere
from tests.estimators.vertical_samples import few_trees
from tests.protocol.vertical.cases import VerticalCase, small_cases, whole_file
from tests.protocol.vertical.conversations import make_order, train_openly
from tests.protocol.vertical.encrypted_trainings import make_encrypted_parties, train_encryptedly

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


def test_a_class_without_weight_is_refused_because_its_rows_would_be_known() -> None:
    rng = np.random.default_rng(5)
    columns = {f"c{k}": rng.standard_normal(20) for k in range(2)}
    case = VerticalCase(columns, np.arange(20) % 3, None, {"n_estimators": 1}, (1, 1))
    order = make_order(case)
    parties = make_encrypted_parties(case, order, seed=0)
    label_party = parties["p0"]
    label_party._labels = replace(label_party._labels, class_weights=np.array([1.0, 0.0, 1.0]))  # type: ignore[union-attr, type-var] # classes
    parties["p0"].handle(BinColumns(1, 8, order.parameters.scored_by.wire))
    with pytest.raises(FederationError, match="a class has no weight"):
        label_party._encrypt_labels(EncryptLabels((0, 1, 2), 2))  # type: ignore[union-attr] # of labels


def test_rows_without_weight_are_known_and_no_other_weight_is() -> None:
    rng = np.random.default_rng(5)
    weights = np.where(np.arange(40) % 7 == 3, 0.0, rng.choice([0.5, 1.0, 2.0], 40))
    columns = {f"c{k}": rng.standard_normal(40) for k in range(2)}
    case = VerticalCase(columns, rng.integers(0, 2, 40), weights, {"n_estimators": 1}, (1, 1))
    training = train_encryptedly(case)
    assert training.whole_file() == whole_file(case.vertical())
    rows = training.parties["p1"]._rows
    assert isinstance(rows, RowsHere)
    targets = rows.targets
    assert np.array_equal(targets.allowed, weights > 0)
    assert not len(targets.kernel.weights)


def test_a_cut_that_only_the_label_party_rules_out_does_not_end_the_training() -> None:
    """A side of zeros has no score by `poisson`, which parties without labels cannot see."""
    column = np.array([0.0, 0.0, 0.0, 0.0, -0.2, -1.2, 0.0, 0.0, 0.0])
    y = np.array([1.0, 0.3, 0.0, 0.5, 0.1, 0.0, 0.4, 0.3, 0.3])
    parameters = {"n_estimators": 1, "max_bins": 16, "bootstrap": False, "criterion": "poisson"}
    parameters |= {"max_features": "sqrt"}
    case = VerticalCase({"c0": column, "c1": column}, y, None, parameters, (0, 2))
    assert train_encryptedly(case).whole_file() == whole_file(case.vertical())


@settings(max_examples=20, suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(small_cases())
def test_the_encrypted_forest_is_the_encoded_one_to_the_byte(case: VerticalCase) -> None:
    encoded, encrypted = case.vertical(), train_encryptedly(case)
    assert encrypted.whole_file() == whole_file(encoded)
    if case.parameters.get("oob_score"):
        name = "oob_decision_function_" if not case.is_regression else "oob_prediction_"
        votes = getattr(encoded, name).reshape(len(case.y), -1)
        record = encrypted.label_party.model().out_of_bag
        assert record is not None
        assert record.means().tobytes() == votes.tobytes()

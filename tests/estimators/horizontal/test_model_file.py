"""A horizontal forest as one file: it comes back the same, or is refused."""

from typing import Any

import numpy as np
import pytest

from fedforest import (
    GlobalDP,
    HorizontalExtraTreesClassifier,
    HorizontalExtraTreesRegressor,
    LocalDP,
    Masked,
    Ring,
    Shamir,
)
from fedforest.errors import DamagedModelError, ModelFileError
from fedforest.estimators.pooled import PooledForest
from fedforest.tree.files.forests import decode_forest, encode_forest
from tests.estimators.horizontal_samples import classifier, owners, regressor
from tests.estimators.vertical_samples import amounts, frame_labels, labels, mixed_frame, numbers


@pytest.mark.parametrize(
    "parameters",
    [
        {},
        {"voting": "hard", "max_depth": 2, "max_features": np.float64(0.5)},
        {"class_weight": {"red": 3.0}},
        {"class_weight": "balanced", "aggregation": Ring()},
        {"aggregation": Masked(k=2), "participation": 0.5, "participation_scope": "run"},
        {"aggregation": Ring(), "min_participants": np.int64(3)},
        {"aggregation": Shamir(threshold=3), "privacy": LocalDP(keep=0.9, bits=8, hashes=2)},
        {"privacy": GlobalDP(epsilon=5.0), "max_depth": 3},
    ],
    ids=str,
)
def test_a_stored_classifier_comes_back(parameters: dict[str, Any]) -> None:
    X = numbers()
    forest = classifier(**parameters).fit(X, labels(X), party=owners())
    again = HorizontalExtraTreesClassifier.from_bytes(forest.to_bytes())
    assert again.predict_proba(X).tolist() == forest.predict_proba(X).tolist()
    assert again.classes_.tolist() == forest.classes_.tolist()
    assert again.parties_ == forest.parties_
    assert again.feature_importances_.tolist() == forest.feature_importances_.tolist()
    expected = forest.get_params() | {"random_state": None}
    if isinstance(forest.class_weight, dict):
        expected["class_weight"] = {"blue": 1.0, "green": 1.0, "red": 3.0}
    assert again.get_params() == expected
    assert again.to_bytes() == forest.to_bytes()


def test_a_stored_regressor_comes_back() -> None:
    X = numbers()
    bounds = GlobalDP(epsilon_query=1.0, target_bounds=(0.0, 200.0))
    forest = regressor(privacy=bounds).fit(X, amounts(X), party=owners())
    again = HorizontalExtraTreesRegressor.from_bytes(forest.to_bytes())
    assert again.predict(X).tolist() == forest.predict(X).tolist()
    assert again.privacy == bounds


def test_columns_and_categories_come_back() -> None:
    frame = mixed_frame()
    forest = classifier().fit(frame, frame_labels(frame), party=owners())
    again = HorizontalExtraTreesClassifier.from_bytes(forest.to_bytes())
    assert again.feature_names_in_.tolist() == list(frame.columns)
    assert again.predict(frame).tolist() == forest.predict(frame).tolist()


def test_the_file_has_neither_seed_nor_counts_nor_decreases_of_single_splits() -> None:
    X = numbers()
    forest = classifier(random_state=123456789).fit(X, labels(X))
    assert b"123456789" not in forest.to_bytes()
    stored = decode_forest(forest.to_bytes()).forest
    trees = stored.shape.tree_of_node()
    for tree in range(stored.shape.n_trees):
        for column in range(4):
            here = (trees == tree) & (stored.splits.feature == column)
            assert len(set(stored.decrease[here])) <= 1


def change(data: bytes, **changes: Any) -> bytes:
    """The same file with other entries about the model."""
    stored = decode_forest(data)
    about = {**stored.metadata, **changes}
    return encode_forest(stored.forest, stored.bins, stored.classes, about)


def change_parameter(data: bytes, **changes: Any) -> bytes:
    parameters = decode_forest(data).metadata["parameters"]
    assert isinstance(parameters, dict)
    return change(data, parameters={**parameters, **changes})


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"parties": None}, "its parties are missing"),
        ({"parties": []}, "its parties are not distinct"),
        ({"parties": ["a", "a"]}, "its parties are not distinct"),
        ({"parties": ["a", 3]}, "its parties are not distinct"),
        ({"parameters": None}, "its parameters are incomplete"),
        ({"parameters": {}}, "its parameters are incomplete"),
    ],
)
def test_entries_that_cannot_be_are_refused(changes: dict[str, Any], message: str) -> None:
    X = numbers()
    data = classifier().fit(X, labels(X)).to_bytes()
    with pytest.raises(DamagedModelError, match=message):
        HorizontalExtraTreesClassifier.from_bytes(change(data, **changes))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"n_estimators": 7}, "another number of trees"),
        ({"max_depth": "deep"}, "its parameters cannot be"),
        ({"max_depth": [1, 2]}, "its parameters cannot be"),
        ({"privacy": {"option": "LocalDP"}}, "one of its parameters is unknown"),
        ({"privacy": {"option": "Popen", "settings": {}}}, "one of its parameters is unknown"),
        ({"privacy": {"option": "LocalDP", "settings": {}}}, "settings .* are incomplete"),
        (
            {"aggregation": {"option": "Masked", "settings": {"k": 1, "more": 2}}},
            "settings .* are incomplete",
        ),
        ({"aggregation": {"option": "GlobalDP", "settings": {}}}, "incomplete"),
        ({"class_weight": [1.0]}, "another number of class weights"),
        ({"class_weight": [1.0, "x", 2.0]}, "a class weight is no weight"),
        ({"surplus": 1}, "its parameters are incomplete"),
    ],
)
def test_parameters_that_cannot_be_are_refused(changes: dict[str, Any], message: str) -> None:
    X = numbers()
    data = classifier().fit(X, labels(X)).to_bytes()
    with pytest.raises(DamagedModelError, match=message):
        HorizontalExtraTreesClassifier.from_bytes(change_parameter(data, **changes))


def test_a_file_of_another_estimator_is_refused() -> None:
    X = numbers()
    data = classifier().fit(X, labels(X)).to_bytes()
    with pytest.raises(ModelFileError, match="does not hold a HorizontalExtraTreesRegressor"):
        HorizontalExtraTreesRegressor.from_bytes(data)
    with pytest.raises(DamagedModelError, match="leaves are of another task"):
        HorizontalExtraTreesRegressor.from_bytes(
            change(data, estimator="HorizontalExtraTreesRegressor")
        )
    binned = PooledForest(n_estimators=6).fit(X, labels(X)).to_bytes()
    with pytest.raises(DamagedModelError, match="cuts are not thresholds"):
        HorizontalExtraTreesClassifier.from_bytes(
            change(binned, estimator="HorizontalExtraTreesClassifier")
        )


@pytest.mark.parametrize("data", [None, "text", b"", b"fedforest"])
def test_what_is_no_model_file_is_refused(data: Any) -> None:
    with pytest.raises(ModelFileError):
        HorizontalExtraTreesClassifier.from_bytes(data)


def test_what_only_a_training_tells_is_explained_where_it_is_missing() -> None:
    X = numbers()
    forest = classifier().fit(X, labels(X))
    again = HorizontalExtraTreesClassifier.from_bytes(forest.to_bytes())
    with pytest.raises(AttributeError, match="'leakage_': the model was read from a file"):
        again.leakage_  # noqa: B018 - it is the asking that counts
    assert "Protected: nothing" in str(forest.privacy_spent_)

"""A stored forest predicts as the trained one did, and what does not fit together is refused."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray

from fedforest.errors import ConfigurationError, DamagedModelError, FederationError, ModelFileError
from fedforest.estimators.pooled import PooledExtraTrees, PooledForest
from fedforest.tree.files.container import decode_model, encode_model

N_ROWS = 150
ESTIMATORS = (PooledForest, PooledExtraTrees)

Metadata = dict[str, Any]


def mixed_table() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "size": rng.standard_normal(N_ROWS),
            "colour": rng.choice(["red", "green", "blue"], N_ROWS),
            "grade": rng.integers(0, 4, N_ROWS),
        }
    )
    frame.loc[::7, "size"] = np.nan
    frame.loc[::9, "colour"] = None
    return frame


def target(task: str, labels: NDArray[Any] | None = None) -> NDArray[Any]:
    grade: NDArray[np.int64] = mixed_table()["grade"].to_numpy()
    if task == "regression":
        return grade + np.linspace(0, 1, N_ROWS)
    names: NDArray[Any] = np.array(["high", "low", "none"]) if labels is None else labels
    return names.take((grade + np.arange(N_ROWS) // 50) % 3)


def trained(
    estimator: type[PooledForest], task: str = "classification", **parameters: Any
) -> PooledForest:
    forest = estimator(task=task, n_estimators=4, random_state=3, **parameters)
    return forest.fit(mixed_table(), target(task))


def edited(data: bytes, edit: Callable[[dict[str, NDArray[Any]], Metadata], None]) -> bytes:
    """The file with something else in it, and right checksums."""
    file = decode_model(data)
    arrays, metadata = dict(file.arrays), dict(file.metadata)
    edit(arrays, metadata)
    return encode_model(file.kind, metadata, arrays)


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_a_stored_classifier_predicts_as_before(estimator: type[PooledForest]) -> None:
    forest, table = trained(estimator), mixed_table()
    restored = estimator.from_bytes(forest.to_bytes())
    assert type(restored) is estimator
    np.testing.assert_array_equal(restored.predict(table), forest.predict(table), strict=True)
    np.testing.assert_array_equal(restored.predict_proba(table), forest.predict_proba(table))
    np.testing.assert_array_equal(restored.apply(table), forest.apply(table))
    np.testing.assert_array_equal(restored.classes_, forest.classes_, strict=True)
    assert restored.parameters == forest.parameters


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_a_stored_regressor_predicts_as_before(estimator: type[PooledForest]) -> None:
    forest, table = trained(estimator, "regression"), mixed_table()
    restored = estimator.from_bytes(forest.to_bytes())
    np.testing.assert_array_equal(restored.predict(table), forest.predict(table), strict=True)
    assert not hasattr(restored, "classes_")


@pytest.mark.parametrize(
    "labels",
    [
        np.array([3, 1, 2], np.int16),
        np.array([0.5, 0.25, 1e9]),
        np.array(["a", "b", "c"], object),
        np.array([True, False, True]),
        np.array([2, 1.5, 3], object),
    ],
    ids=lambda labels: str(labels.dtype),
)
def test_labels_of_any_type_are_predicted_as_before(labels: NDArray[Any]) -> None:
    table = mixed_table()
    forest = PooledForest(n_estimators=4).fit(table, target("classification", labels))
    predicted = PooledForest.from_bytes(forest.to_bytes()).predict(table)
    np.testing.assert_array_equal(predicted, forest.predict(table), strict=True)
    assert [type(label) for label in predicted] == [type(label) for label in forest.predict(table)]


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_storing_twice_gives_the_same_bytes(estimator: type[PooledForest]) -> None:
    data = trained(estimator).to_bytes()
    assert trained(estimator).to_bytes() == data
    assert estimator.from_bytes(data).to_bytes() == data


def test_the_number_of_threads_changes_no_byte_and_is_chosen_when_loading() -> None:
    data = trained(PooledForest, n_jobs=1).to_bytes()
    assert trained(PooledForest, n_jobs=2).to_bytes() == data
    assert PooledForest.from_bytes(data).n_jobs == 1
    assert PooledForest.from_bytes(data, n_jobs=2).n_jobs == 2
    with pytest.raises(ConfigurationError, match="n_jobs"):
        PooledForest.from_bytes(data, n_jobs=0)


def test_parameters_given_as_numpy_numbers_are_stored_as_numbers() -> None:
    forest = trained(
        PooledForest,
        max_depth=np.int64(3),
        min_samples_leaf=np.float32(0.25),
        bootstrap=np.bool_(True),  # noqa: FBT003 - the value is what is tested
        max_bins=np.uint8(40),
    )
    parameters = PooledForest.from_bytes(forest.to_bytes()).parameters
    assert (parameters.max_depth, parameters.min_samples_leaf) == (3, 0.25)
    assert (parameters.bootstrap, parameters.max_bins) == (True, 40)


def test_neither_the_seed_nor_out_of_bag_votes_are_in_the_file() -> None:
    seed = 7_777_777_777_777
    forest = PooledForest(n_estimators=2, random_state=seed, oob_score=True)
    data = forest.fit(mixed_table(), target("classification")).to_bytes()
    assert str(seed).encode() not in data
    assert seed.to_bytes(8, "little") not in data
    restored = PooledForest.from_bytes(data)
    assert restored.random_state == 0
    assert not hasattr(restored, "oob_decision_function_")


def test_an_untrained_forest_cannot_be_stored() -> None:
    with pytest.raises(FederationError, match="not trained"):
        PooledForest().to_bytes()


def test_a_forest_is_loaded_by_the_class_that_stored_it() -> None:
    with pytest.raises(ModelFileError, match="does not hold a PooledExtraTrees"):
        PooledExtraTrees.from_bytes(trained(PooledForest).to_bytes())
    with pytest.raises(ModelFileError, match="does not hold a PooledForest"):
        PooledForest.from_bytes(trained(PooledExtraTrees).to_bytes())


def test_thresholds_in_a_forest_of_bins_are_refused_and_bins_in_extra_trees() -> None:
    def rename(estimator: str) -> Callable[[Any, Metadata], None]:
        return lambda _, metadata: metadata["about"].update(estimator=estimator)

    with pytest.raises(DamagedModelError, match="not bins"):
        PooledForest.from_bytes(
            edited(trained(PooledExtraTrees).to_bytes(), rename("PooledForest"))
        )
    with pytest.raises(DamagedModelError, match="not thresholds"):
        PooledExtraTrees.from_bytes(
            edited(trained(PooledForest).to_bytes(), rename("PooledExtraTrees"))
        )


def test_extra_trees_without_any_split_come_back() -> None:
    forest = PooledExtraTrees(n_estimators=2).fit([[1.0], [1.0]], ["no", "yes"])
    restored = PooledExtraTrees.from_bytes(forest.to_bytes())
    assert restored.predict_proba([[5.0]]).tolist() == [[0.5, 0.5]]


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"max_depth": 0}, "parameters cannot be"),
        ({"max_depth": "deep"}, "parameters cannot be"),
        ({"task": []}, "parameters cannot be"),
        ({"bootstrap": 1}, "parameters cannot be"),
        ({"task": "regression", "criterion": "squared_error"}, "another task"),
        ({"n_estimators": 5}, "another number of trees"),
        ({"patience": 1}, "incomplete"),
    ],
)
def test_parameters_that_do_not_fit_the_stored_forest_are_refused(
    changes: Metadata, reason: str
) -> None:
    def edit(_arrays: Any, metadata: Metadata) -> None:
        metadata["about"]["parameters"].update(changes)

    with pytest.raises(DamagedModelError, match=reason):
        PooledForest.from_bytes(edited(trained(PooledForest).to_bytes(), edit))


@pytest.mark.parametrize(
    ("edit", "reason"),
    [
        (lambda _, metadata: metadata.update(classes=None), "class labels are missing"),
        (lambda _, metadata: metadata["about"].pop("parameters"), "incomplete"),
        (lambda _, metadata: metadata["about"].update(parameters=[]), "incomplete"),
    ],
)
def test_a_stored_forest_without_labels_or_parameters_is_refused(
    edit: Callable[[Any, Metadata], None], reason: str
) -> None:
    with pytest.raises(DamagedModelError, match=reason):
        PooledForest.from_bytes(edited(trained(PooledForest).to_bytes(), edit))

"""An exported forest is scikit-learn's own, predicts the same, and tells no row counts."""

import pickle
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.ensemble import ExtraTreesClassifier, ExtraTreesRegressor
from sklearn.inspection import permutation_importance
from sklearn.tree import export_text

from fedforest.errors import ConfigurationError
from fedforest.estimators.horizontal.sklearn_export import to_sklearn
from fedforest.estimators.pooled import PooledExtraTrees, PooledForest
from fedforest.tree.forest.forest import ForestWalker
from fedforest.tree.table.frames import read_table
from fedforest.tree.workers import ALONE

N_ROWS = 300


def numbers(*, with_gaps: bool = False) -> NDArray[np.float64]:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((N_ROWS, 4))
    if with_gaps:
        X[rng.random(X.shape) < 0.2] = np.nan
    return X


def labels(X: NDArray[np.floating], n_classes: int = 3) -> NDArray[np.str_]:
    score = np.nan_to_num(X[:, 0].astype(np.float64)) + np.random.default_rng(1).normal(
        0, 0.5, len(X)
    )
    places = np.searchsorted(np.quantile(score, np.linspace(0, 1, n_classes + 1)[1:-1]), score)
    return np.array(["blue", "green", "red", "violet"])[places]


def amounts(X: NDArray[np.floating]) -> NDArray[np.float64]:
    columns = np.nan_to_num(X.astype(np.float64))
    return 100.0 + 3.0 * columns[:, 0] - columns[:, 1] ** 2


def classifier(X: Any, y: Any, **parameters: Any) -> PooledExtraTrees:
    return PooledExtraTrees(**{"n_estimators": 7, **parameters}).fit(X, y)


def regressor(X: Any, y: Any, **parameters: Any) -> PooledExtraTrees:
    return classifier(X, y, task="regression", **parameters)


def export(trained: PooledForest, **options: Any) -> Any:
    return to_sklearn(trained.forest_, trained.bins_, getattr(trained, "classes_", None), **options)


@pytest.mark.parametrize("max_depth", [1, 4, None])
@pytest.mark.parametrize("n_classes", [1, 2, 4])
@pytest.mark.parametrize("with_gaps", [False, True])
def test_classes_and_their_probabilities_are_identical(
    n_classes: int, max_depth: int | None, with_gaps: bool
) -> None:
    X = numbers(with_gaps=with_gaps)
    ours = classifier(X, labels(X, n_classes), max_depth=max_depth)
    theirs = export(ours)
    assert type(theirs) is ExtraTreesClassifier
    fresh = np.random.default_rng(7).standard_normal((500, 4)) * 2
    for table in (X, fresh):
        assert theirs.predict(table).tolist() == ours.predict(table).tolist()
        np.testing.assert_allclose(
            theirs.predict_proba(table), ours.predict_proba(table), rtol=0, atol=1e-15
        )
        assert theirs.apply(table).tolist() == ours.apply(table).tolist()


@pytest.mark.parametrize("max_depth", [1, 4, None])
@pytest.mark.parametrize("with_gaps", [False, True])
def test_numbers_are_identical(max_depth: int | None, with_gaps: bool) -> None:
    X = numbers(with_gaps=with_gaps)
    ours = regressor(X, amounts(X), max_depth=max_depth)
    theirs = export(ours)
    assert type(theirs) is ExtraTreesRegressor
    np.testing.assert_allclose(theirs.predict(X), ours.predict(X), rtol=1e-15)
    assert theirs.apply(X).tolist() == ours.apply(X).tolist()


def test_values_that_differ_beyond_single_precision_go_the_same_way() -> None:
    X = 1.0 + np.random.default_rng(3).random((N_ROWS, 2)) * 2e-6
    ours = classifier(X, X[:, 0] > np.median(X[:, 0]))
    theirs = export(ours)
    assert theirs.apply(X).tolist() == ours.apply(X).tolist()


def test_votes_of_majorities_are_exported_as_such() -> None:
    X = numbers()
    ours = classifier(X, labels(X), max_depth=2)
    theirs = export(ours, voting="hard")
    walker, values = ForestWalker(ours.forest_), ours.bins_.raw_values(read_table(X))
    shares = walker.votes(values, ALONE, hard=True) / 7
    np.testing.assert_allclose(theirs.predict_proba(X), shares, rtol=0, atol=1e-15)
    assert np.allclose(theirs.predict_proba(X) * 7, np.rint(theirs.predict_proba(X) * 7))


def test_importances_are_those_of_the_forest() -> None:
    X = numbers()
    for ours in (classifier(X, labels(X)), regressor(X, amounts(X), max_depth=3)):
        np.testing.assert_allclose(
            export(ours).feature_importances_, ours.forest_.importances(), atol=1e-12
        )


def test_a_forest_of_single_leaves_is_exported() -> None:
    X = numbers()
    theirs = export(classifier(X, np.zeros(N_ROWS, int)))
    assert theirs.predict(X).tolist() == [0] * N_ROWS
    assert theirs.feature_importances_.tolist() == [0.0] * 4


def test_row_counts_are_not_told() -> None:
    X = numbers()
    theirs = export(classifier(X, labels(X), max_depth=4))
    for estimator in theirs.estimators_:
        tree = estimator.tree_
        assert tree.n_node_samples[0] == tree.n_leaves
        assert tree.n_node_samples[tree.children_left == -1].tolist() == [1] * tree.n_leaves
        assert tree.weighted_n_node_samples.tolist() == tree.n_node_samples.tolist()


def test_a_split_does_not_tell_its_own_decrease_of_impurity() -> None:
    X = numbers()
    theirs = export(classifier(X, labels(X), max_depth=5))
    for estimator in theirs.estimators_:
        tree = estimator.tree_
        inner = np.flatnonzero(tree.children_left >= 0)
        left, right = tree.children_left[inner], tree.children_right[inner]
        total = tree.impurity * tree.weighted_n_node_samples
        decrease = total[inner] - total[left] - total[right]
        for column in range(4):
            same = decrease[tree.feature[inner] == column]
            assert len(same) == 0 or np.ptp(same) < 1e-12


def test_inner_nodes_are_the_sum_and_the_mean_of_what_is_below() -> None:
    X = numbers()
    for ours in (classifier(X, labels(X)), regressor(X, amounts(X))):
        for estimator in export(ours).estimators_:
            tree = estimator.tree_
            inner = np.flatnonzero(tree.children_left >= 0)
            left, right = tree.children_left[inner], tree.children_right[inner]
            n = tree.n_node_samples
            assert (n[inner] == n[left] + n[right]).all()
            both = tree.value[left] * n[left, None, None] + tree.value[right] * n[right, None, None]
            np.testing.assert_allclose(tree.value[inner], both / n[inner, None, None], rtol=1e-12)


def test_columns_keep_their_names() -> None:
    X = pd.DataFrame(numbers(), columns=["age", "height", "debts", "visits"])
    ours = classifier(X, labels(X.to_numpy()))
    theirs = export(ours)
    assert theirs.feature_names_in_.tolist() == list(X.columns)
    assert theirs.predict(X).tolist() == ours.predict(X).tolist()
    with pytest.raises(ValueError, match="order"):
        theirs.predict(X[["visits", "age", "height", "debts"]])


def test_categorical_columns_are_refused_with_what_to_do() -> None:
    X = pd.DataFrame({"age": [1.0, 2.0, 3.0, 4.0], "city": ["a", "b", "a", "b"]})
    with pytest.raises(ConfigurationError, match=r"'city'.*OneHotEncoder"):
        export(classifier(X, [0, 1, 0, 1]))


def test_a_forest_on_bins_is_refused() -> None:
    X = numbers()
    ours = PooledForest(n_estimators=2).fit(X, labels(X))
    with pytest.raises(ConfigurationError, match="only extra-trees"):
        export(ours)


def test_an_exported_forest_can_be_pickled_printed_and_trained_again() -> None:
    X = numbers()
    y = labels(X)
    theirs = export(classifier(X, y), parameters={"max_depth": 3, "random_state": 0})
    again = pickle.loads(pickle.dumps(theirs))
    assert again.predict_proba(X).tolist() == theirs.predict_proba(X).tolist()
    assert "class: " in export_text(theirs.estimators_[0])
    assert theirs.decision_path(X)[0].shape[0] == N_ROWS
    fresh = clone(theirs).fit(X, y)
    assert [tree.get_depth() for tree in fresh.estimators_] == [3] * 7


def test_permutation_importance_finds_the_column_that_matters() -> None:
    X = numbers()
    y = X[:, 2] > 0
    theirs = export(classifier(X, y))
    result = permutation_importance(theirs, X, y, n_repeats=2, random_state=0)
    assert result.importances_mean.argmax() == 2


@pytest.mark.filterwarnings("ignore")  # of shap, about what it imports
@pytest.mark.parametrize("background", [False, True])
@pytest.mark.parametrize("with_gaps", [False, True])
@pytest.mark.parametrize("task", ["classification", "regression"])
def test_shap_explains_exported_forests(task: str, with_gaps: bool, background: bool) -> None:
    import shap  # noqa: PLC0415 - it warns when it is imported

    X = numbers(with_gaps=with_gaps)
    ours = classifier(X, labels(X)) if task == "classification" else regressor(X, amounts(X))
    theirs = export(ours)
    explainer = shap.TreeExplainer(theirs, X[:50] if background else None)
    explained = explainer(X[:20])
    if task == "classification":
        said = explained.values.sum(axis=1) + np.atleast_2d(explained.base_values)
        np.testing.assert_allclose(said, ours.predict_proba(X[:20]), atol=1e-6)
    else:
        said = explained.values.sum(axis=1) + explained.base_values
        np.testing.assert_allclose(said, ours.predict(X[:20]), rtol=1e-5)
    weight = np.abs(explained.values).mean(axis=0)
    assert weight.reshape(4, -1).sum(axis=1).argmax() == 0  # labels follow the first column


@pytest.mark.filterwarnings("ignore")  # of onnx, about what it imports
@pytest.mark.parametrize("voting", ["soft", "hard"])
def test_onnx_predicts_the_same_classes_where_nothing_is_missing(voting: str) -> None:
    X = numbers().astype(np.float32)
    gaps = numbers(with_gaps=True).astype(np.float32)
    theirs = export(classifier(gaps, labels(gaps), max_depth=5), voting=voting)
    label, shares = run_onnx(theirs, X)
    np.testing.assert_allclose(shares, theirs.predict_proba(X), atol=1e-5)
    top = np.sort(theirs.predict_proba(X), axis=1)
    is_clear = top[:, -1] - top[:, -2] > 1e-4  # single precision may break ties another way
    assert is_clear.mean() > 0.8
    assert label[is_clear].tolist() == theirs.predict(X)[is_clear].tolist()


@pytest.mark.filterwarnings("ignore")  # of onnx, about what it imports
def test_onnx_predicts_the_same_numbers() -> None:
    X = numbers().astype(np.float32)
    theirs = export(regressor(X, amounts(X)))
    (values,) = run_onnx(theirs, X)
    np.testing.assert_allclose(values[:, 0], theirs.predict(X), rtol=1e-5)


def run_onnx(model: Any, X: NDArray[np.float32]) -> list[NDArray[Any]]:
    import onnxruntime  # noqa: PLC0415 - they warn when they are imported
    import skl2onnx  # noqa: PLC0415 - they warn when they are imported

    options = {"zipmap": False} if hasattr(model, "classes_") else {}
    described = skl2onnx.to_onnx(model, X[:1], options={id(model): options} if options else None)
    session = onnxruntime.InferenceSession(
        described.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    outputs: list[NDArray[Any]] = session.run(None, {session.get_inputs()[0].name: X})
    return outputs

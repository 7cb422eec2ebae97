"""The forest learns what scikit-learn's forest learns; all seeds are fixed."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.datasets import make_classification, make_regression
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.metrics import r2_score
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from fedforest.estimators.pooled import PooledExtraTrees, PooledForest

Data = tuple[NDArray[np.float64], NDArray[Any]]


def classification_data(n_classes: int) -> Data:
    X, y = make_classification(
        n_samples=3000,
        n_features=12,
        n_informative=6,
        n_classes=n_classes,
        flip_y=0.05,
        random_state=3,
    )
    return X, y


def regression_data() -> Data:
    X, y = make_regression(
        n_samples=3000, n_features=12, n_informative=5, noise=20.0, random_state=3
    )
    return X, y


def few_valued(n_rows: int, seed: int = 0) -> Data:
    """Few distinct values, so that binning loses nothing and trees can be compared node by node."""
    rng = np.random.default_rng(seed)
    X = rng.integers(0, 12, (n_rows, 5)).astype(np.float64)
    return X, X[:, 0] * 1.7 - X[:, 1] * (X[:, 2] > 5) + rng.standard_normal(n_rows)


@pytest.mark.parametrize(
    ("n_classes", "criterion"), [(2, "gini"), (2, "entropy"), (5, "gini"), (5, "entropy")]
)
def test_classification_is_as_accurate_as_scikit_learn(n_classes: int, criterion: str) -> None:
    X, y = classification_data(n_classes)
    settings: dict[str, Any] = {"n_estimators": 60, "criterion": criterion, "random_state": 1}
    ours = PooledForest(**settings).fit(X[:2000], y[:2000]).predict(X[2000:])
    theirs = RandomForestClassifier(**settings).fit(X[:2000], y[:2000]).predict(X[2000:])
    accuracies = (ours == y[2000:]).mean(), (theirs == y[2000:]).mean()
    assert accuracies[0] > accuracies[1] - 0.02
    assert accuracies[0] > 0.7


@pytest.mark.parametrize("kind", [PooledForest, PooledExtraTrees])
def test_log_loss_is_another_name_of_entropy(kind: type[PooledForest]) -> None:
    X, y = classification_data(3)
    forests = [
        kind(n_estimators=3, criterion=name, random_state=1).fit(X, y).forest_
        for name in ("entropy", "log_loss")
    ]
    assert forests[0].splits.cut.tolist() == forests[1].splits.cut.tolist()
    assert forests[0].leaves.value.tolist() == forests[1].leaves.value.tolist()
    assert forests[0].decrease.tolist() == forests[1].decrease.tolist()


def test_regression_is_as_accurate_as_scikit_learn() -> None:
    X, y = regression_data()
    settings: dict[str, Any] = {"n_estimators": 60, "max_features": 0.5, "random_state": 1}
    ours = PooledForest(task="regression", **settings).fit(X[:2000], y[:2000])
    theirs = RandomForestRegressor(**settings).fit(X[:2000], y[:2000])
    scores = [r2_score(y[2000:], forest.predict(X[2000:])) for forest in (ours, theirs)]
    assert scores[0] > scores[1] - 0.02
    assert scores[0] > 0.75


def test_importances_agree_with_scikit_learn() -> None:
    X, y = classification_data(2)
    settings: dict[str, Any] = {"n_estimators": 100, "max_depth": 8, "random_state": 1}
    ours = PooledForest(**settings).fit(X, y).forest_.importances()
    theirs = RandomForestClassifier(**settings).fit(X, y).feature_importances_
    assert ours.sum() == pytest.approx(1.0)
    np.testing.assert_allclose(ours, theirs, atol=0.03)


@pytest.mark.parametrize("criterion", ["gini", "entropy"])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("n_classes", [2, 4])
def test_a_single_tree_on_all_rows_is_scikit_learns_tree(
    criterion: str, weighted: bool, n_classes: int
) -> None:
    X, target = few_valued(800)
    y = np.digitize(target, np.quantile(target, np.arange(1, n_classes) / n_classes))
    weights = np.random.default_rng(1).uniform(0.5, 2.0, len(X)) if weighted else None
    rules: dict[str, Any] = {
        "max_depth": 4,
        "min_samples_leaf": 8,
        "criterion": criterion,
        "max_features": None,
    }
    ours = PooledForest(n_estimators=1, bootstrap=False, **rules).fit(X, y, sample_weight=weights)
    theirs = DecisionTreeClassifier(random_state=0, **rules).fit(X, y, sample_weight=weights)
    np.testing.assert_allclose(ours.predict_proba(X), theirs.predict_proba(X), atol=1e-4)
    np.testing.assert_allclose(ours.forest_.importances(), theirs.feature_importances_, atol=1e-4)


@pytest.mark.parametrize("criterion", ["squared_error", "poisson"])
@pytest.mark.parametrize("weighted", [False, True])
def test_a_single_regression_tree_on_all_rows_is_scikit_learns_tree(
    criterion: str, weighted: bool
) -> None:
    X, y = few_valued(800)
    if criterion == "poisson":  # real numbers, some of them zero: cuts do not tie
        y = np.maximum(y - 8.0, 0.0)
    weights = np.random.default_rng(1).uniform(0.5, 2.0, len(X)) if weighted else None
    rules: dict[str, Any] = {"max_depth": 5, "min_samples_leaf": 8, "max_features": None}
    rules["criterion"] = criterion
    ours = PooledForest(task="regression", n_estimators=1, bootstrap=False, **rules)
    ours.fit(X, y, sample_weight=weights)
    theirs = DecisionTreeRegressor(random_state=0, **rules).fit(X, y, sample_weight=weights)
    np.testing.assert_allclose(ours.predict(X), theirs.predict(X), atol=1e-4)
    np.testing.assert_allclose(ours.forest_.importances(), theirs.feature_importances_, atol=1e-4)


@pytest.mark.parametrize("share", [0.06, 0.1, 0.3])  # below, cuts tie
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("n_classes", [0, 2, 4])
def test_a_limit_on_the_weight_of_leaves_grows_scikit_learns_tree(
    n_classes: int, weighted: bool, share: float
) -> None:
    X, target = few_valued(400)
    weights = np.random.default_rng(1).integers(1, 50, len(X)) if weighted else None
    rules: dict[str, Any] = {"max_features": None, "min_weight_fraction_leaf": share}
    tree: DecisionTreeClassifier | DecisionTreeRegressor
    if n_classes:
        y = np.digitize(target, np.quantile(target, np.arange(1, n_classes) / n_classes))
        task, tree = "classification", DecisionTreeClassifier(random_state=0, **rules)
    else:
        y, task, tree = target, "regression", DecisionTreeRegressor(random_state=0, **rules)
    ours = PooledForest(task=task, n_estimators=1, bootstrap=False, **rules)
    ours.fit(X, y, sample_weight=weights)
    tree.fit(X, y, sample_weight=weights)
    assert 1 < ours.forest_.shape.n_nodes == tree.tree_.node_count
    if n_classes:
        np.testing.assert_allclose(ours.predict_proba(X), tree.predict_proba(X), atol=1e-9)
    else:
        np.testing.assert_allclose(ours.predict(X), tree.predict(X), atol=1e-9)


@pytest.mark.parametrize("task", ["classification", "regression"])
def test_a_minimal_decrease_of_impurity_prunes_as_in_scikit_learn(task: str) -> None:
    X, target = few_valued(800)
    rules: dict[str, Any] = {"max_features": None, "min_impurity_decrease": 0.011}
    tree: DecisionTreeClassifier | DecisionTreeRegressor
    if task == "classification":
        y, tree = (target > 5).astype(int), DecisionTreeClassifier(random_state=0, **rules)
    else:
        y, tree = target, DecisionTreeRegressor(random_state=0, **rules)
    ours = PooledForest(task=task, n_estimators=1, bootstrap=False, **rules).fit(X, y)
    assert 5 < ours.forest_.shape.n_nodes == tree.fit(X, y).tree_.node_count
    np.testing.assert_allclose(ours.predict(X), tree.predict(X), atol=1e-9)

"""Extremely randomized trees on one table."""

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import make_classification, make_regression
from sklearn.ensemble import ExtraTreesClassifier, ExtraTreesRegressor

from fedforest.estimators.pooled import PooledExtraTrees


def test_accuracy_is_that_of_scikit_learn() -> None:
    X, y = make_classification(3000, 20, n_informative=10, random_state=0)
    ours = PooledExtraTrees(n_estimators=60, random_state=0).fit(X[:2000], y[:2000])
    theirs = ExtraTreesClassifier(60, random_state=0).fit(X[:2000], y[:2000])
    accuracy = (ours.predict(X[2000:]) == y[2000:]).mean()
    assert accuracy == pytest.approx(theirs.score(X[2000:], y[2000:]), abs=0.03)


def test_regression_error_is_that_of_scikit_learn() -> None:
    X, y = make_regression(2000, 10, n_informative=5, noise=5.0, random_state=0)
    ours = PooledExtraTrees(task="regression", n_estimators=60, max_features=1.0)
    theirs = ExtraTreesRegressor(60, random_state=0)
    error = ((ours.fit(X[:1500], y[:1500]).predict(X[1500:]) - y[1500:]) ** 2).mean()
    expected = ((theirs.fit(X[:1500], y[:1500]).predict(X[1500:]) - y[1500:]) ** 2).mean()
    assert error == pytest.approx(expected, rel=0.15)


@pytest.mark.parametrize("task", ["classification", "regression"])
def test_the_forest_does_not_depend_on_threads_or_batches(task: str) -> None:
    X, y = make_classification(600, 8, random_state=1)
    alone = PooledExtraTrees(task=task, n_estimators=9, random_state=3).fit(X, y)
    shared = PooledExtraTrees(
        task=task, n_estimators=9, random_state=3, n_jobs=3, batch_bytes=20_000
    ).fit(X, y)
    assert alone.to_bytes() == shared.to_bytes()


def test_a_stored_forest_predicts_the_same() -> None:
    X, y = make_classification(400, 6, random_state=2)
    forest = PooledExtraTrees(n_estimators=10).fit(X, y)
    loaded = PooledExtraTrees.from_bytes(forest.to_bytes())
    np.testing.assert_array_equal(loaded.predict_proba(X), forest.predict_proba(X))


def test_categories_and_gaps_are_learned_from() -> None:
    rng = np.random.default_rng(0)
    kind = rng.choice(["a", "b", "c", "d"], 800)
    size = rng.normal(size=800)
    gaps = np.where(rng.random(800) < 0.3, np.nan, size)
    y = np.isin(kind, ["b", "d"]) ^ np.isnan(gaps)
    table = pd.DataFrame({"kind": kind, "size": gaps})
    forest = PooledExtraTrees(n_estimators=40, max_features=None).fit(table, y)
    assert (forest.predict(table) == y).mean() > 0.97
    unknown = pd.DataFrame({"kind": ["z"], "size": [0.0]})
    assert forest.predict(unknown).shape == (1,)


def test_a_column_of_text_where_training_had_numbers_is_refused() -> None:
    table = pd.DataFrame({"a": [1.0, 2.0, 3.0, 4.0]})
    forest = PooledExtraTrees(n_estimators=2).fit(table, [0, 1, 0, 1])
    with pytest.raises(ValueError, match="'a' was numeric in training"):
        forest.predict(pd.DataFrame({"a": ["x", "y"]}))


@pytest.mark.parametrize("task", ["classification", "regression"])
def test_labels_that_are_all_the_same_give_single_leaves_that_predict(task: str) -> None:
    X = np.random.default_rng(0).standard_normal((30, 3))
    forest = PooledExtraTrees(task=task, n_estimators=2).fit(X, np.full(30, 7))
    assert forest.predict(X).tolist() == [7] * 30
    assert forest.apply(X).tolist() == [[0, 0]] * 30
    assert PooledExtraTrees.from_bytes(forest.to_bytes()).predict(X).tolist() == [7] * 30

"""What horizontal extra-trees learn, from which inputs, and how they predict."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import make_classification, make_regression
from sklearn.ensemble import ExtraTreesClassifier, ExtraTreesRegressor

from fedforest.errors import DataError
from tests.estimators.horizontal_samples import by_owner, classifier, owners, regressor
from tests.estimators.vertical_samples import amounts, labels, numbers


def test_accuracy_is_that_of_scikit_learn_on_all_rows() -> None:
    X, y = make_classification(2500, 20, n_informative=10, random_state=0)
    owner = owners(1500)
    ours = classifier(n_estimators=60).fit(X[:1500], y[:1500], party=owner)
    theirs = ExtraTreesClassifier(60, random_state=0).fit(X[:1500], y[:1500])
    expected = theirs.score(X[1500:], y[1500:])
    assert ours.score(X[1500:], y[1500:]) == pytest.approx(expected, abs=0.03)


def test_regression_error_is_that_of_scikit_learn_on_all_rows() -> None:
    X, y = make_regression(2000, 10, n_informative=5, noise=5.0, random_state=0)
    ours = regressor(n_estimators=60).fit(X[:1500], y[:1500], party=owners(1500))
    theirs = ExtraTreesRegressor(60, random_state=0).fit(X[:1500], y[:1500])
    expected = theirs.score(X[1500:], y[1500:])
    assert ours.score(X[1500:], y[1500:]) == pytest.approx(expected, abs=0.03)


@pytest.mark.parametrize("make", [classifier, regressor])
def test_both_forms_of_input_give_the_same_forest(make: Any) -> None:
    X, owner = numbers(), owners()
    y = labels(X) if make is classifier else amounts(X)
    together = make().fit(X, y, party=owner)
    apart = make().fit(by_owner(X, owner), by_owner(y, owner))
    assert together.to_bytes() == apart.to_bytes()
    assert together.parties_ == apart.parties_ == ("bank", "clinic", "shop")


def test_owners_may_be_numbers_and_a_party_may_see_one_class_only() -> None:
    X = numbers()
    y = labels(X)
    forest = classifier().fit(X, y, party=np.searchsorted(["blue", "green", "red"], y))
    assert forest.parties_ == ("party_0", "party_1", "party_2")
    assert forest.classes_.tolist() == ["blue", "green", "red"]
    assert forest.score(X, y) > 0.9


def test_a_party_without_rows_changes_nothing_but_the_parties() -> None:
    X, owner = numbers(), owners(n_parties=2)
    y = labels(X)
    without = classifier().fit(by_owner(X, owner), by_owner(y, owner))
    tables = by_owner(X, owner) | {"zoo": X[:0]}
    with_zoo = classifier().fit(tables, by_owner(y, owner) | {"zoo": y[:0]})
    assert with_zoo.parties_ == ("bank", "clinic", "zoo")
    assert with_zoo.predict_proba(X).tolist() == without.predict_proba(X).tolist()


def test_labels_of_different_kinds_are_refused() -> None:
    X = numbers()
    tables = {"a": X[:75], "b": X[75:]}
    with pytest.raises(DataError, match="text at party 'a' and numbers at 'b'"):
        classifier().fit(tables, {"a": ["x"] * 75, "b": [1] * 75})


def test_weights_move_the_forest() -> None:
    X = numbers()
    y = labels(X)
    weights = np.where(y == "red", 50.0, 1.0)
    plain = classifier(max_depth=1).fit(X, y, party=owners())
    heavy = classifier(max_depth=1).fit(X, y, sample_weight=weights, party=owners())
    by_class = classifier(max_depth=1, class_weight={"red": 50.0}).fit(X, y, party=owners())
    assert (heavy.predict(X) == "red").mean() > (plain.predict(X) == "red").mean()
    assert by_class.predict_proba(X).tolist() == heavy.predict_proba(X).tolist()


def test_balanced_classes_weigh_the_same() -> None:
    X = numbers()
    rare = X[:, 0] > np.quantile(X[:, 0], 0.9)
    plain = classifier(max_depth=1, n_estimators=30).fit(X, rare)
    balanced = classifier(max_depth=1, n_estimators=30, class_weight="balanced").fit(X, rare)
    shares = balanced.predict_proba(X)[:, 1].mean()
    assert shares > 2 * plain.predict_proba(X)[:, 1].mean()


def test_logarithms_of_shares_may_be_minus_infinity() -> None:
    X = numbers()
    forest = classifier().fit(X, labels(X))
    logs = forest.predict_log_proba(X)
    np.testing.assert_array_equal(np.exp(logs) > 0, forest.predict_proba(X) > 0)
    assert np.isneginf(logs).any()


def test_leaves_are_those_that_vote() -> None:
    X = numbers()
    forest = regressor(n_estimators=1).fit(X, amounts(X))
    leaves = forest.apply(X)
    assert leaves.shape == (len(X), 1)
    for leaf in np.unique(leaves):
        assert len(set(forest.predict(X)[leaves[:, 0] == leaf])) == 1


def test_prediction_is_about_one_table_with_the_columns_of_training() -> None:
    X = pd.DataFrame(numbers(), columns=list("abcd"))
    forest = classifier().fit(X, labels(X.to_numpy()), party=owners())
    with pytest.raises(DataError, match="every party predicts its own rows"):
        forest.predict({"bank": X})
    with pytest.raises(DataError, match="unseen at fit time"):
        forest.predict(X.rename(columns={"a": "z"}))
    with pytest.raises(DataError, match="same order"):
        forest.predict(X[["b", "a", "c", "d"]])
    with pytest.raises(DataError, match="3 features"):
        forest.predict(X.to_numpy()[:, :3])


@pytest.mark.parametrize("make", [classifier, regressor])
@pytest.mark.parametrize("voting", ["soft", "hard"])
def test_the_scikit_learn_ensemble_predicts_the_same(make: Any, voting: str) -> None:
    X = numbers()
    X[::5, 0] = np.nan
    is_classifier = make is classifier
    y = labels(numbers()) if is_classifier else amounts(numbers())
    options = {"voting": voting} if is_classifier else {}
    forest = make(max_depth=4, **options).fit(X, y, party=owners())
    ensemble = forest.to_sklearn()
    assert ensemble.predict(X).tolist() == forest.predict(X).tolist()
    assert ensemble.apply(X).tolist() == forest.apply(X).tolist()
    assert ensemble.max_depth == 4
    np.testing.assert_allclose(
        ensemble.feature_importances_, forest.feature_importances_, atol=1e-12
    )
    if is_classifier:
        np.testing.assert_allclose(
            ensemble.predict_proba(X), forest.predict_proba(X), rtol=0, atol=1e-15
        )


def test_both_names_of_entropy_give_one_horizontal_forest() -> None:
    X = np.random.default_rng(3).normal(size=(90, 3))
    y, party = np.where(X[:, 0] > 0.3, 1, np.arange(90) % 3), owners(90)
    importances = [
        classifier(criterion=name).fit(X, y, party=party).feature_importances_
        for name in ("entropy", "log_loss", "gini")
    ]
    assert np.array_equal(importances[0], importances[1])
    assert not np.array_equal(importances[0], importances[2])

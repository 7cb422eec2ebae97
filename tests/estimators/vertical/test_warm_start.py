"""Out-of-bag estimates, early stopping and warm starts."""

import pickle
from typing import Any

import numpy as np
import pytest
from sklearn.metrics import accuracy_score, r2_score

from fedforest import RandomizedResponse
from fedforest.errors import ConfigurationError, DataError
from fedforest.estimators.pooled import PooledForest
from fedforest.tree.files.forests import encode_outline
from tests.estimators.vertical_samples import (
    amounts,
    by_party,
    classifier,
    few_trees,
    fitted_state,
    forest_bytes,
    labels,
    numbers,
    regressor,
)


@pytest.mark.parametrize("parties", [None, 2])
def test_out_of_bag_votes_of_classes_are_those_of_the_pooled_forest(parties: int | None) -> None:
    X = numbers()
    y = labels(X)
    forest = classifier(n_estimators=20, oob_score=True, parties=parties).fit(X, y)
    pooled = PooledForest(n_estimators=20, oob_score=True).fit(X, y)
    assert np.array_equal(
        forest.oob_decision_function_, pooled.oob_decision_function_, equal_nan=True
    )
    voted = ~np.isnan(forest.oob_decision_function_[:, 0])
    said = forest.classes_[forest.oob_decision_function_[voted].argmax(axis=1)]
    assert forest.oob_score_ == pytest.approx(accuracy_score(y[voted], said))
    assert forest.oob_score_ < forest.score(X, y)


def test_out_of_bag_predictions_of_numbers_are_those_of_the_pooled_forest() -> None:
    X = numbers()
    y = amounts(X)
    forest = regressor(n_estimators=20, oob_score=True, parties=3).fit(X, y)
    pooled = PooledForest(n_estimators=20, oob_score=True, task="regression", max_features=1.0).fit(
        X, y
    )
    assert np.array_equal(
        forest.oob_prediction_, pooled.oob_decision_function_[:, 0], equal_nan=True
    )
    voted = ~np.isnan(forest.oob_prediction_)
    assert forest.oob_score_ == pytest.approx(r2_score(y[voted], forest.oob_prediction_[voted]))


@few_trees
@pytest.mark.parametrize("n_trees", [1, 4, 9])
def test_the_out_of_bag_curve_has_the_score_of_every_smaller_forest(n_trees: int) -> None:
    X = numbers()
    curve = classifier(n_estimators=9, oob_score=True).fit(by_party(X), labels(X)).oob_curve_
    smaller = classifier(n_estimators=n_trees, oob_score=True).fit(by_party(X), labels(X))
    assert curve.shape == (9,)
    assert smaller.oob_curve_.tolist() == curve[:n_trees].tolist()
    assert smaller.oob_score_ == curve[n_trees - 1]


@few_trees
def test_a_fit_without_out_of_bag_forgets_what_an_earlier_one_set() -> None:
    X = numbers()
    forest = classifier(oob_score=True).fit(X, labels(X))
    forest.set_params(oob_score=False).fit(X, labels(X))
    assert not any(name.startswith("oob_") and name.endswith("_") for name in vars(forest))


@pytest.mark.parametrize("make", [classifier, regressor])
def test_early_stopping_keeps_the_first_trees_whatever_the_size_of_batches(make: Any) -> None:
    X = numbers()
    y = labels(X) if make is classifier else amounts(X)
    settings = {"n_estimators": 60, "early_stopping": True, "n_iter_no_change": 4, "tol": 0.01}
    stopped = make(**settings).fit(by_party(X), y)
    assert 4 < stopped.n_trees_ < 60
    assert len(stopped.oob_curve_) == stopped.n_trees_
    whole = make(n_estimators=60).fit(by_party(X), y)
    kept = whole._model.outline.first_trees(stopped.n_trees_)
    assert encode_outline(kept) == encode_outline(stopped._model.outline)
    for batch_bytes in (1, 20_000):
        again = make(**settings)
        again._batch_bytes = batch_bytes
        again.fit(by_party(X), y)
        assert fitted_state(again)["forest"] == fitted_state(stopped)["forest"]
        assert again.oob_curve_.tolist() == stopped.oob_curve_.tolist()


def test_early_stopping_stops_where_the_curve_is_flat() -> None:
    X = numbers()
    forest = classifier(n_estimators=60, early_stopping=True, n_iter_no_change=5, tol=0.005)
    curve = forest.fit(X, labels(X)).oob_curve_
    best = [curve[: n + 1].max() for n in range(len(curve))]
    assert all(score <= best[-6] + 0.005 * 5 for score in curve[-5:])
    longer = classifier(n_estimators=60, early_stopping=True, n_iter_no_change=60, tol=0.005)
    assert longer.fit(X, labels(X)).n_trees_ == 60
    assert longer.oob_curve_[: len(curve)].tolist() == curve.tolist()


def test_early_stopping_alone_keeps_the_votes_at_the_label_party() -> None:
    X = numbers()
    forest = classifier(early_stopping=True).fit(X, labels(X))
    assert not hasattr(forest, "oob_score_")
    assert not hasattr(forest, "oob_decision_function_")


@pytest.mark.parametrize("make", [classifier, regressor])
@pytest.mark.parametrize("oob_score", [False, True])
def test_a_warm_start_gives_the_forest_of_one_fit(make: Any, oob_score: bool) -> None:
    X = numbers()
    y = labels(X) if make is classifier else amounts(X)
    grown = make(n_estimators=10, warm_start=True, oob_score=oob_score).fit(by_party(X), y)
    grown.set_params(n_estimators=20).fit(by_party(X), y)
    at_once = make(n_estimators=20, oob_score=oob_score).fit(by_party(X), y)
    assert forest_bytes(grown) == forest_bytes(at_once)
    assert grown.feature_importances_.tolist() == at_once.feature_importances_.tolist()
    if oob_score:
        assert grown.oob_curve_.tolist() == at_once.oob_curve_.tolist()
        assert grown.oob_score_ == at_once.oob_score_
    assert grown.predict(by_party(X)).tolist() == at_once.predict(by_party(X)).tolist()


def test_a_warm_start_works_with_a_party_without_columns() -> None:
    X = numbers()
    tables = {"registry": X[:, :0], **by_party(X)}
    grown = classifier(n_estimators=3, warm_start=True).fit(tables, labels(X))
    grown.set_params(n_estimators=6).fit(tables, labels(X))
    assert forest_bytes(grown) == forest_bytes(classifier().fit(tables, labels(X)))


@few_trees
def test_a_warm_start_without_more_trees_warns_and_changes_nothing() -> None:
    X = numbers()
    forest = classifier(warm_start=True, oob_score=True).fit(X, labels(X))
    before = fitted_state(forest)
    with pytest.warns(UserWarning, match="does not fit new trees"):
        forest.fit(X, labels(X))
    assert fitted_state(forest) == before


def test_what_a_warm_start_cannot_go_on_with_is_named_and_the_model_stays() -> None:
    X = numbers()
    y = labels(X)
    forest = classifier(warm_start=True).fit(by_party(X), y)
    before = fitted_state(forest)
    more = {"n_estimators": 12}
    foreign = np.where(y == "red", "violet", y)
    wrong: list[tuple[dict[str, Any], Any, Any, type[Exception], str]] = [
        ({"n_estimators": 5}, by_party(X), y, ConfigurationError, "6 trees of earlier fits"),
        (more, {"bank": X[:, :2]}, y, DataError, "lacks the tables of these parties: 'shop'"),
        (more, {**by_party(X), "clinic": X}, y, DataError, "'clinic'"),
        (more, by_party(X, 3), y, DataError, "party 'bank': X has 3 features"),
        (more, X, y, DataError, "X is one table"),
        (more, by_party(X), foreign, DataError, "classes that the earlier training did not have"),
        ({**more, "label_party": "shop"}, by_party(X), y, ConfigurationError, "label_party"),
        ({**more, "oob_score": True}, by_party(X), y, ConfigurationError, "cannot begin in a warm"),
    ]
    for parameters, tables, target, error, message in wrong:
        parameters_before = forest.get_params()
        with pytest.raises(error, match=message):
            forest.set_params(**parameters).fit(tables, target)
        forest.set_params(**parameters_before)
        assert fitted_state(forest) == before
    grown = forest.set_params(n_estimators=12).fit(by_party(X), y)
    assert forest_bytes(grown) == forest_bytes(classifier(n_estimators=12).fit(by_party(X), y))


def test_a_warm_start_with_another_division_of_the_table_is_refused() -> None:
    X = numbers()
    forest = classifier(warm_start=True, parties=2).fit(X, labels(X))
    with pytest.raises(ConfigurationError, match="another way than in earlier fits"):
        forest.set_params(n_estimators=9, parties=3).fit(X, labels(X))


@few_trees
def test_a_warm_start_with_votes_about_other_rows_is_refused() -> None:
    X = numbers()
    forest = classifier(warm_start=True, oob_score=True).fit(X, labels(X))
    with pytest.raises(DataError, match="needs the same rows"):
        forest.set_params(n_estimators=9).fit(X[:99], labels(X)[:99])


@few_trees
def test_a_pickled_forest_grows_on_but_has_no_votes() -> None:
    X = numbers()
    y = labels(X)
    grown = pickle.loads(pickle.dumps(classifier(warm_start=True, oob_score=True).fit(X, y)))
    with pytest.raises(ConfigurationError, match="a pickled forest forgets it"):
        grown.set_params(n_estimators=9).fit(X, y)
    grown.set_params(oob_score=False).fit(X, y)
    assert forest_bytes(grown) == forest_bytes(classifier(n_estimators=9).fit(X, y))


def test_every_fit_of_a_warm_start_spends_label_privacy_again() -> None:
    X = numbers()
    forest = classifier(warm_start=True, labels=RandomizedResponse(1.5)).fit(X, labels(X))
    assert forest.privacy_spent_["label_epsilon"] == 1.5
    forest.set_params(n_estimators=9).fit(X, labels(X))
    assert forest.privacy_spent_["label_epsilon"] == 3.0
    assert "epsilon = 3 " in str(forest.leakage_)
    forest.set_params(n_estimators=12, labels="encoded").fit(X, labels(X))
    assert forest.privacy_spent_["label_epsilon"] == float("inf")
    assert "under permuted codes; class sizes" in str(forest.leakage_)


def test_a_forest_on_noisy_labels_still_learns_and_noise_is_never_seeded() -> None:
    X = np.vstack([numbers(seed) for seed in range(10)])
    y = np.where(X[:, 0] > 0, "yes", "no")
    settings: dict[str, Any] = {"labels": RandomizedResponse(1.0), "min_samples_leaf": 20}
    first, second = (classifier(**settings).fit(X, y) for _ in range(2))
    assert first.score(X, y) > 0.8
    assert forest_bytes(first) != forest_bytes(second)

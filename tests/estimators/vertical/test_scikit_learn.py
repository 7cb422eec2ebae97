"""Vertical forests are scikit-learn estimators like others."""

import pickle
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.ensemble import RandomForestClassifier
from sklearn.exceptions import NotFittedError
from sklearn.impute import SimpleImputer
from sklearn.inspection import permutation_importance
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.multioutput import MultiOutputClassifier
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

from fedforest import RandomizedResponse, VerticalForestClassifier, VerticalForestRegressor
from tests.estimators.heavy_classes import share_of_heavy_class
from tests.estimators.vertical_samples import (
    amounts,
    by_party,
    classifier,
    few_trees,
    fitted_state,
    labels,
    numbers,
    regressor,
)


def _expected_failures(_: Any) -> dict[str, str]:
    return {
        "check_sample_weight_equivalence_on_dense_data": (
            "a bootstrap draws rows, not weights; scikit-learn expects the same of its own forests"
        )
    }


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
@parametrize_with_checks(  # type: ignore[untyped-decorator] # scikit-learn ships no types
    [
        VerticalForestClassifier(n_estimators=5, random_state=0),
        VerticalForestClassifier(5, random_state=0, parties=2, min_weight_fraction_leaf=0.05),
        VerticalForestRegressor(n_estimators=5, random_state=0),
        VerticalForestRegressor(n_estimators=5, random_state=0, parties=2),
    ],
    expected_failed_checks=_expected_failures,
)
def test_scikit_learn_accepts_the_estimator(estimator: Any, check: Any) -> None:
    check(estimator)


def test_without_weights_in_draws_and_leaf_sizes_scikit_learns_forest_predicts_as_ours() -> None:
    """What `check_class_weight_classifiers` asks for, taken apart (docs/decisions/0013)."""
    pure: dict[str, Any] = {"n_estimators": 5, "bootstrap": False}
    theirs = share_of_heavy_class(RandomForestClassifier(**pure))
    assert share_of_heavy_class(VerticalForestClassifier(**pure)) == pytest.approx(theirs, abs=0.1)
    assert theirs < 0.6
    pure["min_weight_fraction_leaf"] = 0.01
    for forest in (RandomForestClassifier(**pure), VerticalForestClassifier(**pure, parties=2)):
        assert share_of_heavy_class(forest) > 0.87


def test_a_forest_works_at_the_end_of_a_pipeline() -> None:
    X = numbers()
    y = labels(X)
    X[::7, 1] = np.nan
    pipeline = make_pipeline(SimpleImputer(), classifier(parties=2)).fit(X, y)
    assert pipeline.score(X, y) > 0.9


def test_grid_search_tries_divisions_depths_and_label_protections() -> None:
    X = numbers()
    grid = {
        "max_depth": [1, 4],
        "parties": [None, 2, {"bank": [0, 1], "shop": [3, 2]}],
        "labels": ["encoded", RandomizedResponse(epsilon=8.0)],
    }
    search = GridSearchCV(classifier(), grid, cv=2, n_jobs=1).fit(X, labels(X))
    assert search.best_params_["max_depth"] == 4
    assert len(search.cv_results_["params"]) == 12
    assert search.predict(X).shape == (len(X),)


def test_cross_validation_gives_the_same_scores_for_every_division_into_consecutive_columns() -> (
    None
):
    X = numbers()
    alone = cross_val_score(regressor(), X, amounts(X), cv=3)
    divided = cross_val_score(regressor(parties=3), X, amounts(X), cv=3)
    assert alone.tolist() == divided.tolist()
    assert alone.mean() > 0.3


def test_one_forest_per_target_through_a_meta_estimator() -> None:
    X = numbers()
    both = np.column_stack([X[:, 0] > 0, X[:, 1] > 0])
    forest = MultiOutputClassifier(classifier(parties=2)).fit(X, both)
    assert (forest.predict(X) == both).mean() > 0.9


def test_permutation_importance_finds_the_column_that_matters() -> None:
    X = numbers()
    y = X[:, 2] > 0
    forest = classifier(parties=2).fit(X, y)
    result = permutation_importance(forest, X, y, n_repeats=2, random_state=0)
    assert result.importances_mean.argmax() == forest.feature_importances_.argmax() == 2


def test_a_clone_has_equal_parameters_and_no_model() -> None:
    X = numbers()
    forest = classifier(labels=RandomizedResponse(epsilon=2.0), parties={"a": [0, 1], "b": [2, 3]})
    forest.fit(X, labels(X))
    copy = clone(forest)
    assert copy.get_params() == forest.get_params()
    assert copy.labels == RandomizedResponse(epsilon=2.0)
    assert not hasattr(copy, "classes_")
    assert not hasattr(copy, "n_trees_")


@few_trees
@pytest.mark.parametrize("make", [classifier, regressor])
def test_a_pickled_forest_predicts_identically(make: Any) -> None:
    X = numbers()
    y = labels(X) if make is classifier else amounts(X)
    forest = make(oob_score=True).fit(by_party(X), y)
    again = pickle.loads(pickle.dumps(forest))
    assert again.predict(by_party(X)).tolist() == forest.predict(by_party(X)).tolist()
    assert fitted_state(again) == fitted_state(forest)


@few_trees
def test_a_pickle_holds_no_training_label() -> None:
    X = numbers()
    y = amounts(X)
    forest = regressor(oob_score=True, max_depth=2).fit(X, y)
    record = forest._model.shares["party_0"].out_of_bag
    assert record is not None
    assert record.key.answers.tolist() == y.tolist()
    data = pickle.dumps(forest)
    assert all(value.tobytes() not in data for value in y)
    assert forest._model.shares["party_0"].out_of_bag is not None  # the forest itself can go on


def test_set_params_takes_effect_at_the_next_prediction() -> None:
    X = numbers()
    forest = classifier(max_depth=2).fit(X, labels(X))
    soft = forest.predict_proba(X)
    hard = forest.set_params(voting="hard").predict_proba(X)
    assert np.allclose(hard * 6, np.rint(hard * 6))
    assert not np.allclose(soft, hard)


@pytest.mark.parametrize("n_jobs", [None, 1, 2, -1])
def test_the_number_of_jobs_changes_nothing(n_jobs: int | None) -> None:
    X = numbers(n_columns=6)
    tables = {f"party {i}": X[:, i : i + 1] for i in range(6)}  # more parties than threads
    expected = classifier().fit(tables, labels(X))
    forest = classifier(n_jobs=n_jobs).fit(tables, labels(X))
    assert fitted_state(forest)["forest"] == fitted_state(expected)["forest"]
    assert forest.predict_proba(tables).tolist() == expected.predict_proba(tables).tolist()


def test_without_a_random_state_two_forests_differ() -> None:
    X = numbers()
    first, second = (classifier(random_state=None).fit(X, labels(X)) for _ in range(2))
    assert fitted_state(first)["forest"] != fitted_state(second)["forest"]


def test_a_random_state_object_is_drawn_from() -> None:
    X = numbers()
    one, same = (classifier(random_state=np.random.RandomState(3)).fit(X, labels(X)) for _ in "ab")
    assert fitted_state(one)["forest"] == fitted_state(same)["forest"]


def test_notebooks_show_parameters_and_whether_the_forest_is_fitted() -> None:
    X = numbers()
    forest = classifier(parties=2)
    assert "Not fitted" in forest._repr_html_()
    page = forest.fit(X, labels(X))._repr_html_()
    assert "VerticalForestClassifier" in page
    assert "Not fitted" not in page
    assert repr(forest) == "VerticalForestClassifier(n_estimators=6, parties=2, random_state=0)"


def test_a_progress_bar_shows_trees_levels_open_nodes_and_bytes(
    capsys: pytest.CaptureFixture[str],
) -> None:
    X = numbers()
    classifier(parties=2, verbose=1).fit(X, labels(X))
    shown = capsys.readouterr().out
    assert "6/6 trees" in shown
    assert "done" in shown
    assert "B" in shown.split("done")[1]
    classifier(parties=2).fit(X, labels(X))
    assert capsys.readouterr().out == ""


def test_the_fit_log_tells_levels_open_nodes_bytes_and_seconds() -> None:
    X = numbers()
    forest = classifier(max_depth=3).fit(by_party(X), labels(X))
    log = pd.DataFrame(forest.fit_log_)
    assert log.columns.tolist() == [
        *("first_tree", "n_trees", "step", "level", "open_nodes", "n_bytes", "seconds")
    ]
    assert log["level"].tolist() == [0, 1, 2]
    assert log["open_nodes"][0] == 6
    assert (log["open_nodes"] <= 6 * 2 ** log["level"]).all()
    assert (log[["n_bytes", "seconds"]] > 0).all(axis=None)
    assert sum(forest.bytes_sent_.values()) > 0
    assert forest.bytes_sent_.keys() == {"bank", "shop"}
    assert forest.n_exchanges_ > 2 * len(log)


def test_a_notebook_reader_finds_parties_and_columns() -> None:
    X = pd.DataFrame(numbers(), columns=["age", "height", "debts", "visits"])
    tables = {"bank": X[["debts"]], "shop": X[["visits", "age", "height"]]}
    forest = classifier(label_party="shop").fit(tables, labels(X.to_numpy()))
    assert forest.parties_ == ("bank", "shop")
    assert forest.label_party_ == "shop"
    assert forest.columns_by_party_ == {"bank": ("debts",), "shop": ("visits", "age", "height")}
    assert forest.feature_names_in_.tolist() == ["debts", "visits", "age", "height"]
    assert forest.n_features_in_ == 4
    assert forest.n_trees_ == 6
    assert forest.feature_importances_.sum() == pytest.approx(1.0)


def test_logarithms_of_votes_are_those_of_predict_proba() -> None:
    X = numbers()
    forest = classifier().fit(X, labels(X))
    with np.errstate(divide="ignore"):
        assert np.array_equal(forest.predict_log_proba(X), np.log(forest.predict_proba(X)))


def test_what_was_spent_can_be_printed() -> None:
    X = numbers()
    forest = classifier(labels=RandomizedResponse(2.0)).fit(X, labels(X))
    text = str(forest.privacy_spent_)
    assert text.startswith("The label of each row is protected by differential privacy with ε = 2 ")
    assert "Protected: each row's label, by randomized response: epsilon = 2 " in text
    assert "Not protected:\n  - the number of classes\n" in text


@pytest.mark.parametrize(("prediction", "n_exchanges"), [("one_round", 1), (1, None)])
def test_what_a_prediction_takes_is_told(prediction: Any, n_exchanges: int | None) -> None:
    X = numbers()
    forest = classifier(parties=2, prediction=prediction).fit(X, labels(X))
    before = set(vars(forest))
    few, many = forest.prediction_cost(X[:10]), forest.prediction_cost(X)
    assert set(vars(forest)) == before
    assert set(many.bytes_sent) == set(many.bytes_received) == {"party_0", "party_1"}
    assert few.n_exchanges > 1 if n_exchanges is None else few.n_exchanges == n_exchanges
    for party in forest.parties_:
        assert 0 < few.bytes_sent[party] < many.bytes_sent[party]
    with pytest.raises(NotFittedError):
        classifier().prediction_cost(X)

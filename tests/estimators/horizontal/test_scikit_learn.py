"""Horizontal extra-trees are scikit-learn estimators like others."""

import pickle
from typing import Any

import numpy as np
import pandas as pd
import pytest
import sklearn
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.ensemble import ExtraTreesClassifier
from sklearn.impute import SimpleImputer
from sklearn.inspection import permutation_importance
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.multioutput import MultiOutputClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder
from sklearn.utils.estimator_checks import parametrize_with_checks

from fedforest import (
    GlobalDP,
    HorizontalExtraTreesClassifier,
    HorizontalExtraTreesRegressor,
    LocalDP,
    Masked,
    Shamir,
)
from tests.estimators.heavy_classes import share_of_heavy_class
from tests.estimators.horizontal_samples import classifier, fitted_state, owners, regressor
from tests.estimators.vertical_samples import (
    amounts,
    frame_labels,
    labels,
    mixed_frame,
    numbers,
)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
@parametrize_with_checks(  # type: ignore[untyped-decorator] # scikit-learn ships no types
    [
        HorizontalExtraTreesClassifier(n_estimators=5, random_state=0),
        HorizontalExtraTreesClassifier(5, random_state=0, min_weight_fraction_leaf=0.05),
        HorizontalExtraTreesRegressor(n_estimators=5, random_state=0),
        HorizontalExtraTreesRegressor(5, random_state=0, min_weight_fraction_leaf=0.05),
    ]
)
def test_scikit_learn_accepts_the_estimator(estimator: Any, check: Any) -> None:
    check(estimator)


def test_without_a_limit_on_the_weight_of_leaves_scikit_learns_extra_trees_predict_as_ours() -> (
    None
):
    """What `check_class_weight_classifiers` asks for, taken apart (docs/decisions/0013)."""
    theirs = share_of_heavy_class(ExtraTreesClassifier(n_estimators=5))
    ours = share_of_heavy_class(HorizontalExtraTreesClassifier(n_estimators=5))
    assert ours == pytest.approx(theirs, abs=0.1)
    assert theirs < 0.6
    for kind in (ExtraTreesClassifier, HorizontalExtraTreesClassifier):
        limited = kind(n_estimators=5, min_weight_fraction_leaf=0.01)
        assert share_of_heavy_class(limited) > 0.87


def test_a_forest_works_at_the_end_of_a_pipeline() -> None:
    X = numbers()
    y = labels(X)
    X[::7, 1] = np.nan
    pipeline = make_pipeline(SimpleImputer(), classifier())
    pipeline.fit(X, y, horizontalextratreesclassifier__party=owners())
    assert pipeline.score(X, y) > 0.9
    assert pipeline[-1].parties_ == ("bank", "clinic", "shop")


def test_grid_search_tries_depths_protections_and_noises_with_the_owners_of_each_fold() -> None:
    X = numbers()
    grid = {
        "max_depth": [1, 4],
        "aggregation": ["plain", Masked(k=1), Shamir(threshold=2)],
        "privacy": [None, LocalDP(keep=0.99)],
    }
    search = GridSearchCV(classifier(), grid, cv=2, n_jobs=1)
    search.fit(X, labels(X), party=owners())
    assert len(search.cv_results_["params"]) == 12
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    assert search.best_estimator_.parties_ == ("bank", "clinic", "shop")
    assert search.predict(X).shape == (len(X),)


def test_owners_are_routed_as_metadata() -> None:
    X = numbers()
    with sklearn.config_context(enable_metadata_routing=True):
        forest = classifier().set_fit_request(party=True, sample_weight=True)
        forest.set_score_request(sample_weight=False)
        weights = np.arange(1.0, len(X) + 1)
        search = GridSearchCV(forest, {"max_depth": [2, 3]}, cv=2)
        search.fit(X, labels(X), party=owners(), sample_weight=weights)
    assert search.best_estimator_.parties_ == ("bank", "clinic", "shop")


def test_cross_validation_passes_the_owners_of_each_fold() -> None:
    X = numbers()
    scores = cross_val_score(regressor(), X, amounts(X), cv=3, params={"party": owners()})
    assert scores.mean() > 0.3


def test_one_forest_per_target_through_a_meta_estimator() -> None:
    X = numbers()
    both = np.column_stack([X[:, 0] > 0, X[:, 1] > 0])
    forest = MultiOutputClassifier(classifier()).fit(X, both, party=owners())
    assert (forest.predict(X) == both).mean() > 0.9


def test_permutation_importance_finds_the_column_that_matters() -> None:
    X = numbers()
    y = X[:, 2] > 0
    forest = classifier().fit(X, y, party=owners())
    result = permutation_importance(forest, X, y, n_repeats=2, random_state=0)
    assert result.importances_mean.argmax() == forest.feature_importances_.argmax() == 2


def test_a_clone_has_equal_parameters_and_no_model() -> None:
    X = numbers()
    forest = classifier(aggregation=Masked(k=2), privacy=GlobalDP(epsilon_query=1.0))
    copy = clone(forest.fit(X, labels(X), party=owners()))
    assert copy.get_params() == forest.get_params()
    assert copy.aggregation == Masked(k=2)
    assert not hasattr(copy, "classes_")
    assert not hasattr(copy, "n_trees_")


@pytest.mark.parametrize("make", [classifier, regressor])
def test_a_pickled_forest_predicts_identically(make: Any) -> None:
    X = numbers()
    y = labels(X) if make is classifier else amounts(X)
    forest = make().fit(X, y, party=owners())
    forest.predict(X)
    again = pickle.loads(pickle.dumps(forest))
    assert again.predict(X).tolist() == forest.predict(X).tolist()
    assert fitted_state(again) == fitted_state(forest)


def test_a_pickle_is_the_same_before_and_after_predicting() -> None:
    X = numbers()
    forest = classifier().fit(X, labels(X))
    before = len(pickle.dumps(forest))
    forest.predict(X)
    assert len(pickle.dumps(forest)) == before


def test_a_pickle_holds_no_training_target() -> None:
    X = numbers()
    y = amounts(X)
    data = pickle.dumps(regressor(max_depth=2).fit(X, y, party=owners()))
    assert all(value.tobytes() not in data for value in y)


def test_tables_of_mixed_kinds_with_gaps_are_learned_from() -> None:
    frame = mixed_frame()
    y = frame_labels(frame)
    forest = classifier(n_estimators=30, max_features=None).fit(frame, y, party=owners())
    assert forest.score(frame, y) > 0.95
    assert forest.feature_names_in_.tolist() == list(frame.columns)
    unseen = frame.assign(city="Oslo")
    assert forest.predict(unseen).shape == (len(frame),)


def test_encoded_categories_make_a_forest_that_can_be_exported() -> None:
    frame = mixed_frame().drop(columns=["size", "member", "visits"]).fillna({"city": "none"})
    y = frame_labels(frame)
    encode = make_column_transformer(
        (OneHotEncoder(categories=[["Bern", "Lyon", "Porto", "none"]]), ["city"]),
        remainder="passthrough",
    )
    pipeline = make_pipeline(encode, classifier())
    pipeline.fit(frame, y, horizontalextratreesclassifier__party=owners())
    ensemble = pipeline[-1].to_sklearn()
    table = pipeline[0].transform(frame)
    assert ensemble.predict(table).tolist() == pipeline.predict(frame).tolist()


def test_set_params_takes_effect_at_the_next_prediction() -> None:
    X = numbers()
    forest = classifier(max_depth=2).fit(X, labels(X))
    soft = forest.predict_proba(X)
    hard = forest.set_params(voting="hard").predict_proba(X)
    assert np.allclose(hard * 6, np.rint(hard * 6))
    assert not np.allclose(soft, hard)


@pytest.mark.parametrize("n_jobs", [None, 1, 2, -1])
def test_the_number_of_jobs_changes_nothing(n_jobs: int | None) -> None:
    X = numbers()
    expected = classifier().fit(X, labels(X), party=owners())
    forest = classifier(n_jobs=n_jobs).fit(X, labels(X), party=owners())
    assert forest.to_bytes() == expected.to_bytes()
    assert forest.predict_proba(X).tolist() == expected.predict_proba(X).tolist()


def test_without_a_random_state_two_forests_differ() -> None:
    X = numbers()
    first, second = (classifier(random_state=None).fit(X, labels(X)) for _ in range(2))
    assert first.to_bytes() != second.to_bytes()


def test_a_random_state_object_is_drawn_from() -> None:
    X = numbers()
    one, same = (classifier(random_state=np.random.RandomState(3)).fit(X, labels(X)) for _ in "ab")
    assert one.to_bytes() == same.to_bytes()


def test_notebooks_show_parameters_and_whether_the_forest_is_fitted() -> None:
    X = numbers()
    forest = classifier(aggregation=Masked(k=2))
    assert "Not fitted" in forest._repr_html_()
    page = forest.fit(X, labels(X), party=owners())._repr_html_()
    assert "HorizontalExtraTreesClassifier" in page
    assert "Not fitted" not in page
    assert repr(forest).split() == [
        "HorizontalExtraTreesClassifier(aggregation=Masked(k=2),",
        "n_estimators=6,",
        "random_state=0)",
    ]


def test_what_a_fit_took_is_in_numbers() -> None:
    X = numbers()
    forest = classifier(max_depth=3).fit(X, labels(X), party=owners())
    assert forest.bytes_sent_.keys() == {"bank", "clinic", "shop"}
    log = pd.DataFrame(forest.fit_log_)
    assert log["step"].tolist() == list(range(len(log)))
    assert set(log["level"]) == {0, 1, 2}  # of three levels, however often nodes are asked again
    assert forest.n_exchanges_ >= 2 * len(log)
    assert (log[["open_nodes", "vectors", "n_bytes", "seconds"]] > 0).all(axis=None)
    assert (log["vectors"] <= 2 * log["open_nodes"]).all()  # two of four columns at a node
    assert log["participants"].tolist() == [3.0] * len(log)


def test_two_forests_vote_as_one_of_all_their_trees_if_they_are_averaged() -> None:
    """What stands in for a warm start (docs/decisions/0016)."""
    X = numbers()
    first, second = (
        classifier(n_estimators=n, random_state=n).fit(X, labels(X), party=owners()) for n in (3, 5)
    )
    trees = [*first.to_sklearn().estimators_, *second.to_sklearn().estimators_]
    all_trees = np.mean([tree.predict_proba(X) for tree in trees], axis=0)
    averaged = (3 * first.predict_proba(X) + 5 * second.predict_proba(X)) / 8
    np.testing.assert_allclose(averaged, all_trees, atol=1e-12)


@pytest.mark.parametrize("name", ["warm_start", "oob_score", "early_stopping"])
def test_what_horizontal_forests_do_not_have_is_no_parameter_of_theirs(name: str) -> None:
    for make in (classifier, regressor):
        assert name not in make().get_params()
        assert f"`{name}`" in (type(make()).__doc__ or "")
        with pytest.raises(TypeError, match=name):
            make(**{name: True})

"""Linear models over parties: as good as scikit-learn's, and as easy to use."""

import pickle
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.datasets import load_breast_cancer, load_diabetes
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler

from fedforest.errors import ConfigurationError, DataError
from fedforest.estimators.linear.regressions import (
    VerticalLinearRegression,
    VerticalLogisticRegression,
)


def cancer() -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    X, y = load_breast_cancer(return_X_y=True)
    return X, y


def diabetes() -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    X, y = load_diabetes(return_X_y=True)
    return X, y


def mixed() -> tuple[pd.DataFrame, pd.DataFrame, NDArray[np.str_]]:
    """Two parties' tables with categories and missing values, and labels that depend on both."""
    rng = np.random.default_rng(0)
    size = rng.normal(10.0, 2.0, 400)
    colour = rng.choice(["red", "green", "blue"], 400)
    age = rng.uniform(20, 60, 400)
    odds = (size - 10.0) + 2.0 * (colour == "red") - (age - 40.0) / 20.0
    labels = np.where(odds + rng.logistic(size=400) > 0, "yes", "no")
    size[::10] = np.nan
    return pd.DataFrame({"size": size, "colour": colour}), pd.DataFrame({"age": age}), labels


@pytest.mark.parametrize("parties", [None, 2, 6])
def test_accuracy_is_that_of_scikit_learn_on_standardised_columns(parties: int | None) -> None:
    X, y = cancer()
    X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0)
    ours = VerticalLogisticRegression(parties=parties).fit(X_train, y_train)
    theirs = make_pipeline(StandardScaler(), LogisticRegression(C=1.0)).fit(X_train, y_train)
    assert ours.score(X_test, y_test) == pytest.approx(theirs.score(X_test, y_test), abs=0.005)
    theirs.set_params(logisticregression__tol=1e-8, logisticregression__max_iter=1000)
    exact = theirs.fit(X_train, y_train).predict_proba(X_test)
    np.testing.assert_allclose(ours.predict_proba(X_test), exact, atol=1e-4)


@pytest.mark.parametrize("parties", [None, 2, 4, 12])
@pytest.mark.parametrize("alpha", [0.0, 1.0, 100.0])
def test_predicted_numbers_are_those_of_ridge_on_standardised_columns(
    parties: int | None, alpha: float
) -> None:
    X, y = diabetes()
    ours = VerticalLinearRegression(alpha, parties=parties).fit(X, y)
    theirs = make_pipeline(StandardScaler(), Ridge(alpha)).fit(X, y)
    np.testing.assert_allclose(ours.predict(X), theirs.predict(X), rtol=1e-6)


def test_coefficients_are_in_units_of_the_columns() -> None:
    X, y = cancer()
    model = VerticalLogisticRegression(parties=3).fit(X, y)
    assert model.coef_.shape == (1, 30)
    scores = X @ model.coef_[0] + model.intercept_[0]
    np.testing.assert_allclose(scores, model.decision_function(X), atol=1e-8)


def test_coefficients_are_in_the_order_of_the_columns() -> None:
    X, y = diabetes()
    linear = VerticalLinearRegression(parties={"a": [9, 0], "b": range(1, 9)}).fit(X, y)
    assert linear.coef_.shape == (10,)
    np.testing.assert_allclose(X @ linear.coef_ + linear.intercept_, linear.predict(X))
    assert linear.coef_by_party_["a"] == {"x9": linear.coef_[9], "x0": linear.coef_[0]}


def test_columns_that_no_party_holds_have_no_part_in_it() -> None:
    X, y = diabetes()
    some = VerticalLinearRegression(parties={"a": [2, 3], "b": [8]}).fit(X, y)
    alone = VerticalLinearRegression().fit(X[:, [2, 3, 8]], y)
    np.testing.assert_allclose(some.predict(X), alone.predict(X[:, [2, 3, 8]]))
    assert some.n_features_in_ == 10
    np.testing.assert_allclose(some.coef_[[2, 3, 8]], alone.coef_)
    assert np.count_nonzero(some.coef_) == 3


def test_categories_and_missing_values_are_handled_by_each_party_itself() -> None:
    shop, bank, y = mixed()
    model = VerticalLogisticRegression(tol=1e-8).fit({"shop": shop, "bank": bank}, y)
    encode = make_column_transformer(
        (FunctionTransformer(lambda column: column.fillna(column.mean())), ["size"]),
        (OneHotEncoder(), ["colour"]),
        remainder="passthrough",
    )
    theirs = make_pipeline(encode, StandardScaler(), LogisticRegression(tol=1e-8))
    joined = pd.concat([shop, bank], axis=1)
    theirs.fit(joined, y)
    ours = model.predict_proba({"bank": bank, "shop": shop})
    np.testing.assert_allclose(ours, theirs.predict_proba(joined), atol=1e-5)
    assert model.classes_.tolist() == ["no", "yes"]
    names = ["size", "colour=blue", "colour=green", "colour=red"]
    assert list(model.coef_by_party_["shop"]) == names
    assert model.coef_.shape == (1, 5)
    assert set(model.predict({"shop": shop, "bank": bank})) == {"no", "yes"}


def test_the_label_party_changes_nothing_but_who_tells() -> None:
    shop, bank, y = mixed()
    tables = {"shop": shop, "bank": bank}
    first = VerticalLogisticRegression().fit(tables, y)
    second = VerticalLogisticRegression(label_party="bank").fit(tables, y)
    np.testing.assert_allclose(first.decision_function(tables), second.decision_function(tables))
    assert first.bytes_sent_["shop"] == second.bytes_sent_["bank"]
    assert "'bank'" in str(second.leakage_)


def test_what_training_cost_and_who_learned_what_is_told() -> None:
    shop, bank, y = mixed()
    model = VerticalLogisticRegression().fit({"shop": shop, "bank": bank}, y)
    assert 1 <= model.n_iter_ <= 10
    assert model.n_exchanges_ == 2 * model.n_iter_ + 2
    assert model.bytes_sent_["shop"] > model.bytes_sent_["bank"] > 400 * 8 * model.n_iter_
    assert "class of every row" in str(model.leakage_)
    assert "the one column of 'bank'" in str(model.leakage_)
    assert model.feature_names_in_.tolist() == ["size", "colour", "age"]


def test_the_report_of_a_regression_speaks_of_targets() -> None:
    X, y = diabetes()
    model = VerticalLinearRegression(parties=2).fit(X, y)
    assert "the target of every row" in str(model.leakage_)
    assert "the 5 columns of 'party_0' span" in str(model.leakage_)
    assert "label party" not in str(model.leakage_), "it hears no scores"


@pytest.mark.parametrize("n_jobs", [1, 2, -1])
def test_threads_change_nothing(n_jobs: int) -> None:
    X, y = cancer()
    alone = VerticalLogisticRegression(parties=3).fit(X, y)
    threads = VerticalLogisticRegression(parties=3, n_jobs=n_jobs).fit(X, y)
    assert threads.predict_proba(X).tolist() == alone.predict_proba(X).tolist()


def test_class_weights_are_row_weights_after_standardisation() -> None:
    X, y = cancer()
    X = StandardScaler().fit_transform(X)
    balanced = VerticalLogisticRegression(class_weight="balanced", tol=1e-8).fit(X, y)
    theirs = LogisticRegression(class_weight="balanced", tol=1e-8, max_iter=1000).fit(X, y)
    np.testing.assert_allclose(balanced.predict_proba(X), theirs.predict_proba(X), atol=1e-4)
    weights = dict(enumerate(len(y) / (2 * np.bincount(y))))
    same = VerticalLogisticRegression(class_weight=weights, tol=1e-8).fit(X, y)
    np.testing.assert_allclose(same.coef_, balanced.coef_, rtol=1e-6)


def test_models_are_cloned_stored_and_searched_like_any_other() -> None:
    X, y = cancer()
    model = VerticalLogisticRegression(C=0.5, parties=2).fit(X, y)
    copied = pickle.loads(pickle.dumps(model))
    assert copied.predict_proba(X).tolist() == model.predict_proba(X).tolist()
    assert clone(model).get_params() == model.get_params()
    steps = make_pipeline(StandardScaler(), VerticalLogisticRegression(parties=2))
    search = GridSearchCV(steps, {"verticallogisticregression__C": [1e-4, 1.0]}, cv=2).fit(X, y)
    assert search.best_params_ == {"verticallogisticregression__C": 1.0}


def test_the_form_of_prediction_is_that_of_training() -> None:
    shop, bank, y = mixed()
    model = VerticalLogisticRegression().fit({"shop": shop, "bank": bank}, y)
    with pytest.raises(DataError, match="a mapping with the tables of 'shop', 'bank'"):
        model.predict(shop)
    with pytest.raises(DataError, match="party 'shop': column 'size' was numeric in training"):
        model.predict({"shop": shop.assign(size="large"), "bank": bank})


def test_more_than_two_classes_are_refused() -> None:
    X, _ = diabetes()
    with pytest.raises(DataError, match=r"Only binary classification.* 3 classes"):
        VerticalLogisticRegression().fit(X, np.arange(len(X)) % 3)


def test_one_class_is_refused_and_so_is_one_with_a_weight() -> None:
    X, y = cancer()
    with pytest.raises(DataError, match="Two classes are needed"):
        VerticalLogisticRegression().fit(X, np.ones(len(X), int))
    with pytest.raises(DataError, match="positive weight are of one class"):
        VerticalLogisticRegression().fit(X, y, sample_weight=y)


@pytest.mark.parametrize(
    ("model", "parameter"),
    [
        (VerticalLogisticRegression(C=0.0), "C"),
        (VerticalLogisticRegression(C=-1.0), "C"),
        (VerticalLogisticRegression(C=float("nan")), "C"),
        (VerticalLogisticRegression(C="1"), "C"),  # type: ignore[arg-type]
        (VerticalLogisticRegression(class_weight="heavy"), "class_weight"),  # type: ignore[arg-type]
        (VerticalLogisticRegression(class_weight={7: 1.0}), "class_weight"),
        (VerticalLogisticRegression(class_weight={0: 0.0}), "class_weight"),
        (VerticalLogisticRegression(max_iter=0), "max_iter"),
        (VerticalLogisticRegression(max_iter=1.5), "max_iter"),  # type: ignore[arg-type]
        (VerticalLogisticRegression(tol=-1.0), "tol"),
        (VerticalLogisticRegression(n_jobs=0), "n_jobs"),
        (VerticalLogisticRegression(transport="somewhere"), "transport"),
        (VerticalLogisticRegression(parties=0), "parties"),
        (VerticalLogisticRegression(label_party="nobody"), "label_party"),
        (VerticalLinearRegression(alpha=-1.0), "alpha"),
        (VerticalLinearRegression(alpha=float("inf")), "alpha"),
        (VerticalLinearRegression(tol=float("inf")), "tol"),
    ],
)
def test_a_wrong_parameter_is_refused_by_name(model: Any, parameter: str) -> None:
    X, y = cancer()
    with pytest.raises(ConfigurationError, match=parameter):
        model.fit(X, y)


def test_an_untrained_model_says_so() -> None:
    with pytest.raises(NotFittedError):
        VerticalLinearRegression().predict(np.ones((2, 2)))


def test_training_that_runs_out_of_steps_warns() -> None:
    X, y = cancer()
    with pytest.warns(ConvergenceWarning, match="VerticalLogisticRegression .* 1 steps"):
        VerticalLogisticRegression(max_iter=1).fit(X, y)


def test_every_exchange_can_be_watched(capsys: pytest.CaptureFixture[str]) -> None:
    X, y = diabetes()
    model = VerticalLinearRegression(parties=2, verbose=1).fit(X, y)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == model.n_exchanges_
    assert lines[0].startswith("StandardiseColumns: 2 parties")


def test_numbers_without_a_finite_value_are_refused() -> None:
    X, y = diabetes()
    with pytest.raises(DataError, match="infinity"):
        VerticalLinearRegression().fit(np.where(X > 0.1, np.inf, X), y)
    with pytest.raises(DataError, match="NaN or infinite"):
        VerticalLinearRegression().fit(X, np.full(len(y), np.nan))


def test_labels_in_another_order_than_the_tables_are_refused() -> None:
    shop, bank, y = mixed()
    reversed_labels = pd.Series(y, index=shop.index)[::-1]
    with pytest.raises(DataError, match="index of y holds the rows of X in another order"):
        VerticalLogisticRegression().fit({"shop": shop, "bank": bank}, reversed_labels)


@pytest.mark.parametrize("kind", [VerticalLogisticRegression, VerticalLinearRegression])
def test_a_fitted_model_says_who_held_what_and_what_training_took_as_forests_do(kind: Any) -> None:
    shop, bank, y = mixed()
    model = kind(label_party="bank").fit({"shop": shop, "bank": bank}, y == "yes")
    assert model.parties_ == ("shop", "bank")
    assert model.label_party_ == "bank"
    assert model.columns_by_party_ == {"shop": tuple(shop), "bank": tuple(bank)}
    assert [step.exchange for step in model.fit_log_] == list(range(model.n_exchanges_))
    assert sum(step.n_bytes for step in model.fit_log_) > sum(model.bytes_sent_.values())
    assert all(step.seconds > 0.0 and step.request for step in model.fit_log_)
    assert model.privacy_spent_["label_epsilon"] == np.inf
    assert "Protected: nothing" in str(model.privacy_spent_)


def test_logarithms_of_probabilities_are_exact_where_probabilities_are_zero() -> None:
    shop, bank, y = mixed()
    tables = {"shop": shop, "bank": bank}
    model = VerticalLogisticRegression().fit(tables, y)
    told = model.predict_log_proba(tables)
    np.testing.assert_allclose(np.exp(told), model.predict_proba(tables), rtol=1e-12)
    far = {"shop": shop.assign(size=1e9 * np.sign(shop["size"])), "bank": bank}
    assert np.isfinite(model.predict_log_proba(far)).all()

"""Every wrong parameter is refused before anything is trained, and named."""

from typing import Any

import pytest

from fedforest import RandomizedResponse
from fedforest.errors import ConfigurationError
from tests.estimators.vertical_samples import amounts, classifier, labels, numbers, regressor

WRONG = [
    *[("n_estimators", value) for value in (0, -1, 2.5, "many", None, True)],
    *[("criterion", value) for value in ("squared_error", "mse", None)],
    *[("max_depth", value) for value in (0, 2.5, "deep")],
    *[("min_samples_split", value) for value in (1, 0.0, 1.5, "2")],
    *[("min_samples_leaf", value) for value in (0, 0.0, 1.5, None)],
    *[("min_weight_fraction_leaf", value) for value in (-0.1, 0.6, "0", None, True)],
    *[("min_impurity_decrease", value) for value in (-0.1, "0", None)],
    *[("max_features", value) for value in (0, 5, 1.5, "cube", -1)],
    *[("bootstrap", value) for value in (None, "yes", 1)],
    *[("max_samples", value) for value in (0, 1.5, 151, "all")],
    *[("oob_score", value) for value in (None, "yes", len)],
    *[("class_weight", value) for value in ("heavy", 3, [1, 2])],
    *[("warm_start", value) for value in (None, "yes")],
    *[("random_state", value) for value in (-1, 1.5, "seed", True)],
    *[("n_jobs", value) for value in (0, 1.5, "all")],
    *[("verbose", value) for value in (-1, "loud", None)],
    *[("early_stopping", value) for value in (None, "yes")],
    *[("n_iter_no_change", value) for value in (0, 1.5, None)],
    *[("tol", value) for value in (-1.0, "small", None, float("inf"))],
    *[("feature_sampling", value) for value in ("level", None)],
    *[("max_bins", value) for value in (1, 256, 2.5)],
    *[("voting", value) for value in ("loud", None)],
    *[("labels", value) for value in ("plain", None, 2.0)],
    *[("label_party", value) for value in ("nobody", 0)],
    *[("parties", value) for value in (0, -2, 1.5, "two", {}, {"a": "0"}, {"": [0]}, [[0], [1]])],
    *[("prediction", value) for value in (0, -1, "fast", None, 1.5)],
    *[("transport", value) for value in ("grpc://somewhere", 3)],
]


@pytest.mark.parametrize(("name", "value"), WRONG, ids=lambda value: str(value)[:25])
def test_a_wrong_parameter_is_named(name: str, value: Any) -> None:
    X = numbers()
    with pytest.raises(ConfigurationError, match=name):
        classifier(**{name: value}).fit(X, labels(X))


@pytest.mark.parametrize("epsilon", [0.0, -1.0, float("inf"), float("nan"), "2", None])
def test_an_epsilon_that_is_no_privacy_is_refused(epsilon: Any) -> None:
    X = numbers()
    with pytest.raises(ConfigurationError, match="epsilon must be a positive number"):
        classifier(labels=RandomizedResponse(epsilon)).fit(X, labels(X))


def test_the_weight_of_subsamples_is_refused_with_what_to_do_instead() -> None:
    X = numbers()
    with pytest.raises(ConfigurationError, match=r"'balanced_subsample' is not.*Use 'balanced'"):
        classifier(class_weight="balanced_subsample").fit(X, labels(X))


@pytest.mark.parametrize(
    ("weight", "message"),
    [
        ({"purple": 1.0}, "names 1 class"),
        ({"red": -1.0}, "numbers >= 0"),
        ({"red": "heavy"}, "numbers >= 0"),
        ({"red": float("inf")}, "numbers >= 0"),
    ],
)
def test_class_weights_fit_the_classes_and_errors_show_no_label(
    weight: dict[str, Any], message: str
) -> None:
    X = numbers()
    with pytest.raises(ConfigurationError, match=message) as caught:
        classifier(class_weight=weight).fit(X, labels(X))
    assert not any(word in str(caught.value) for word in ("red", "purple"))


def test_noisy_labels_are_for_classes_only() -> None:
    X = numbers()
    with pytest.raises(ConfigurationError, match="use labels='encoded'"):
        regressor(labels=RandomizedResponse(2.0)).fit(X, amounts(X))


@pytest.mark.parametrize("wish", ["oob_score", "early_stopping"])
def test_out_of_bag_estimates_need_rows_that_trees_leave_out(wish: str) -> None:
    X = numbers()
    with pytest.raises(ConfigurationError, match="needs rows that a tree leaves out"):
        classifier(bootstrap=False, **{wish: True}).fit(X, labels(X))


def test_parameters_are_checked_again_before_predicting() -> None:
    X = numbers()
    forest = classifier().fit(X, labels(X))
    with pytest.raises(ConfigurationError, match="voting"):
        forest.set_params(voting="loud").predict(X)

"""Parameters mean what they mean in scikit-learn, and mistakes are named."""

import math
from typing import Any

import numpy as np
import pytest

from fedforest.errors import ConfigurationError
from fedforest.tree.growth.decisions import NO_DEPTH_LIMIT
from fedforest.tree.growth.parameters import ForestParameters, resolve_max_features
from fedforest.tree.growth.rows import Sampling

MISTAKES: list[tuple[str, Any]] = [
    ("task", "ranking"),
    ("criterion", "squared_error"),
    ("criterion", "logloss"),
    ("feature_sampling", "level"),
    ("n_estimators", 0),
    ("n_estimators", 2.5),
    ("n_estimators", True),
    ("max_depth", 0),
    ("max_depth", 1.5),
    ("min_samples_split", 1),
    ("min_samples_split", 0.0),
    ("min_samples_split", 1.5),
    ("min_samples_split", math.nan),
    ("min_samples_leaf", 0),
    ("min_samples_leaf", -0.1),
    ("min_samples_leaf", "2"),
    ("min_weight_fraction_leaf", -0.01),
    ("min_weight_fraction_leaf", 0.51),
    ("min_weight_fraction_leaf", math.nan),
    ("min_weight_fraction_leaf", True),
    ("min_weight_fraction_leaf", None),
    ("min_weight_fraction_leaf", "0.1"),
    ("min_impurity_decrease", -1e-9),
    ("min_impurity_decrease", math.nan),
    ("min_impurity_decrease", None),
    ("max_bins", 1),
    ("max_bins", 256),
    ("max_bins", 10.0),
    ("max_samples", 0),
    ("max_samples", 1.5),
    ("max_samples", False),
    *[("max_features", value) for value in (0, 1.5, 0.0, "auto", True, -1)],
]


@pytest.mark.parametrize(("name", "value"), MISTAKES)
def test_a_mistake_is_named_with_its_value(name: str, value: Any) -> None:
    with pytest.raises(ConfigurationError, match=f"{name} is {value!r}; it must be ") as caught:
        ForestParameters(**{name: value})
    assert caught.value.key == (name,)


@pytest.mark.parametrize("value", ["no", 2, None])
def test_bootstrap_is_true_or_false(value: Any) -> None:
    with pytest.raises(ConfigurationError, match="bootstrap"):
        ForestParameters(bootstrap=value)


@pytest.mark.parametrize("bootstrap", [True, False])
@pytest.mark.parametrize("max_samples", [0.5, 50])
def test_fewer_rows_are_drawn_with_or_without_replacement(
    bootstrap: bool, max_samples: float
) -> None:
    parameters = ForestParameters(bootstrap=bootstrap, max_samples=max_samples)
    assert parameters.sampling(100) == Sampling(bootstrap, 50)
    assert parameters.draws_rows


@pytest.mark.parametrize("max_samples", [None, 1.0])
def test_without_replacement_all_rows_are_no_sample(max_samples: float | None) -> None:
    assert not ForestParameters(bootstrap=False, max_samples=max_samples).draws_rows
    assert ForestParameters(bootstrap=True, max_samples=max_samples).draws_rows
    assert ForestParameters(bootstrap=False, max_samples=1).draws_rows, "a count: one row"


def test_noise_refuses_rows_that_count_twice() -> None:
    ForestParameters(bootstrap=False, max_samples=0.5).check_noise()
    with pytest.raises(ConfigurationError, match=r"max_samples=0\.632") as caught:
        ForestParameters(bootstrap=True, max_samples=0.5).check_noise()
    assert caught.value.key == ("bootstrap",)


@pytest.mark.parametrize(
    ("max_features", "n_columns", "expected"),
    [
        ("sqrt", 40, 6),
        ("sqrt", 1, 1),
        ("sqrt", 0, 1),
        ("log2", 40, 5),
        ("log2", 1, 1),
        (None, 40, 40),
        (7, 40, 7),
        (np.int64(7), 40, 7),
        (0.5, 41, 20),
        (1.0, 40, 40),
        (0.001, 40, 1),
    ],
)
def test_the_number_of_features_is_counted_as_scikit_learn_does(
    max_features: Any, n_columns: int, expected: int
) -> None:
    assert resolve_max_features(max_features, n_columns) == expected


def test_more_features_than_the_table_has_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="max_features is 41; it must be at most the 40"):
        resolve_max_features(41, 40)


def test_shares_of_rows_are_rounded_up() -> None:
    rules = ForestParameters(min_samples_split=0.05, min_samples_leaf=0.011).growth_rules(100, 9)
    assert (rules.min_rows_split, rules.min_rows_leaf) == (5, 2)
    tiny = ForestParameters(min_samples_split=0.001, min_samples_leaf=0.001).growth_rules(100, 9)
    assert (tiny.min_rows_split, tiny.min_rows_leaf) == (2, 1)


def test_rules_say_what_the_parameters_say() -> None:
    rules = ForestParameters(
        max_depth=4,
        min_weight_fraction_leaf=0.5,
        min_impurity_decrease=0.25,
        max_features=3,
        feature_sampling="tree",
    ).growth_rules(100, 9)
    assert rules.max_depth == 4
    assert rules.min_weight_share == 0.5
    assert rules.min_impurity_decrease == 0.25
    assert rules.features_per_node == 3
    assert rules.sample_per_tree
    assert ForestParameters().growth_rules(100, 9).max_depth == NO_DEPTH_LIMIT


@pytest.mark.parametrize(
    ("max_samples", "expected"), [(None, 100), (30, 30), (0.25, 25), (0.001, 1), (1.0, 100)]
)
def test_the_size_of_a_bootstrap_is_a_count_or_a_share(max_samples: Any, expected: int) -> None:
    parameters = ForestParameters(max_samples=max_samples)
    assert parameters.sampling(100) == Sampling(bootstrap=True, n_draws=expected)


def test_a_bootstrap_larger_than_the_table_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="max_samples is 101; it must be at most the 100"):
        ForestParameters(max_samples=101).sampling(100)


def test_regression_has_its_own_criterion() -> None:
    assert ForestParameters(task="regression", criterion="squared_error").criterion
    with pytest.raises(ConfigurationError, match="criterion is 'gini'"):
        ForestParameters(task="regression")


@pytest.mark.parametrize(
    ("asked", "n_columns", "expected"), [(20, 5, 5), (3, 5, 3), (20, 0, 1), ("sqrt", 5, "sqrt")]
)
def test_a_baseline_is_asked_for_no_more_columns_and_rows_than_it_has(
    asked: int | str, n_columns: int, expected: int | str
) -> None:
    fitted = ForestParameters(max_features=asked, max_samples=100).fitted_to(50, n_columns)
    assert fitted.max_features == expected
    assert fitted.max_samples == 50
    assert ForestParameters(max_samples=0.5).fitted_to(50, 5).max_samples == 0.5

"""What a forest is asked to be, checked once, in numbers the engine uses.

The names and meanings follow scikit-learn; every mistake is a `ConfigurationError` that names the
parameter, what it was, and what it may be.
"""

import math
from dataclasses import dataclass, replace
from numbers import Integral, Real
from typing import TypeGuard

import numpy as np

from fedforest.errors import ConfigurationError
from fedforest.kernels.layout import MAX_BINS
from fedforest.tree.growth import NO_DEPTH_LIMIT, GrowthRules
from fedforest.tree.rows import Sampling

CRITERIA = {"classification": ("gini", "entropy"), "regression": ("squared_error",)}


@dataclass(frozen=True, slots=True)
class ForestParameters:
    """Parameters of one training; `None` means what it means in scikit-learn."""

    task: str = "classification"
    n_estimators: int = 100
    criterion: str = "gini"
    max_depth: int | None = None
    min_samples_split: int | float = 2
    min_samples_leaf: int | float = 1
    min_weight_fraction_leaf: float = 0.0
    min_impurity_decrease: float = 0.0
    max_features: str | int | float | None = "sqrt"
    feature_sampling: str = "node"
    bootstrap: bool = True
    max_samples: int | float | None = None
    max_bins: int = MAX_BINS

    def __post_init__(self) -> None:
        _check_choice("task", self.task, tuple(CRITERIA))
        _check_choice("criterion", self.criterion, CRITERIA[self.task])
        _check_choice("feature_sampling", self.feature_sampling, ("node", "tree"))
        _check_count("n_estimators", self.n_estimators, 1)
        if not isinstance(self.bootstrap, bool | np.bool_):
            raise _mistake("bootstrap", self.bootstrap, "True or False")
        if self.max_depth is not None:
            _check_count("max_depth", self.max_depth, 1)
        _check_count_or_share("min_samples_split", self.min_samples_split, 2)
        _check_count_or_share("min_samples_leaf", self.min_samples_leaf, 1)
        if not _is_real(self.min_weight_fraction_leaf) or not (
            0.0 <= self.min_weight_fraction_leaf <= 0.5
        ):
            raise _mistake(
                "min_weight_fraction_leaf", self.min_weight_fraction_leaf, "a share from 0 to 0.5"
            )
        if not _is_real(self.min_impurity_decrease) or not self.min_impurity_decrease >= 0.0:
            raise _mistake("min_impurity_decrease", self.min_impurity_decrease, "at least 0")
        if not isinstance(self.max_bins, Integral) or not 2 <= self.max_bins <= MAX_BINS:
            raise _mistake("max_bins", self.max_bins, f"a whole number from 2 to {MAX_BINS}")
        if self.max_samples is not None:
            if not self.bootstrap:
                raise ConfigurationError(
                    "max_samples needs bootstrap=True: without it every tree sees all rows."
                )
            _check_count_or_share("max_samples", self.max_samples, 1)

    def fitted_to(self, n_rows: int, n_columns: int) -> "ForestParameters":
        """The same parameters for a smaller table: counts of rows and columns as far as there are.

        For baselines: what was asked of the joined table may be more than a part of it has.
        """
        features, samples = self.max_features, self.max_samples
        if _is_whole(features):
            features = min(features, max(1, n_columns))
        if _is_whole(samples):
            samples = min(samples, n_rows)
        return replace(self, max_features=features, max_samples=samples)

    def growth_rules(self, n_rows: int, n_columns: int) -> GrowthRules:
        """The stopping rules for a table of this size."""
        return GrowthRules(
            max_depth=NO_DEPTH_LIMIT if self.max_depth is None else int(self.max_depth),
            min_rows_split=max(2, _resolve_count(self.min_samples_split, n_rows)),
            min_rows_leaf=max(1, _resolve_count(self.min_samples_leaf, n_rows)),
            min_weight_share=float(self.min_weight_fraction_leaf),
            min_impurity_decrease=float(self.min_impurity_decrease),
            features_per_node=resolve_max_features(self.max_features, n_columns),
            sample_per_tree=self.feature_sampling == "tree",
        )

    def sampling(self, n_rows: int) -> Sampling:
        """How many rows each tree draws from a table of this size."""
        if self.max_samples is None:
            return Sampling(self.bootstrap, n_rows)
        if isinstance(self.max_samples, Integral):
            if self.max_samples > n_rows:
                raise _mistake("max_samples", self.max_samples, f"at most the {n_rows} rows")
            return Sampling(bootstrap=True, n_draws=int(self.max_samples))
        return Sampling(bootstrap=True, n_draws=max(1, round(n_rows * self.max_samples)))


def resolve_max_features(max_features: str | int | float | None, n_columns: int) -> int:
    """Columns a node may use, at least one."""
    if max_features is None:
        return max(1, n_columns)
    if isinstance(max_features, str):
        _check_choice("max_features", max_features, ("sqrt", "log2"))
        root = math.sqrt(n_columns) if max_features == "sqrt" else math.log2(max(1, n_columns))
        return max(1, int(root))
    _check_count_or_share("max_features", max_features, 1)
    if isinstance(max_features, Integral):
        if max_features > n_columns:
            raise _mistake("max_features", max_features, f"at most the {n_columns} columns")
        return int(max_features)
    return max(1, int(max_features * n_columns))


def _resolve_count(value: int | float, n_rows: int) -> int:
    return int(value) if _is_whole(value) else math.ceil(value * n_rows)


def _is_whole(value: object) -> TypeGuard[int]:
    return isinstance(value, Integral) and not isinstance(value, bool)


def _is_real(value: object) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)


def _mistake(name: str, value: object, allowed: str) -> ConfigurationError:
    return ConfigurationError(f"{name} is {value!r}; it must be {allowed}.")


def _check_choice(name: str, value: object, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise _mistake(name, value, "one of " + ", ".join(map(repr, choices)))


def _check_count(name: str, value: object, smallest: int) -> None:
    if not _is_whole(value) or value < smallest:
        raise _mistake(name, value, f"a whole number of at least {smallest}")


def _check_count_or_share(name: str, value: object, smallest: int) -> None:
    if _is_whole(value):
        _check_count(name, value, smallest)
    elif not _is_real(value) or not 0.0 < float(value) <= 1.0:  # type: ignore[arg-type]
        raise _mistake(
            name, value, f"a whole number of at least {smallest} or a share above 0 and up to 1"
        )

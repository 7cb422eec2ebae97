"""The parameters of a forest, checked once, and the numbers that training derives from them.

The names and meanings follow scikit-learn. The limits here are those of the estimators' parameters,
of run files, and of run requests that come over a network.
"""

import math
from dataclasses import dataclass, replace
from numbers import Integral
from typing import Literal

from fedforest.errors import ConfigurationError
from fedforest.kernels.criteria.registry import (
    BY_NAME,
    ClassCriterion,
    Criterion,
    NumberCriterion,
)
from fedforest.kernels.layout import MAX_BINS
from fedforest.limits import (
    NOTHING,
    SWITCH,
    check_fields,
    count_or_fraction,
    is_whole,
    limited,
    number,
    one_of,
    whole,
)
from fedforest.tree.growth.decisions import NO_DEPTH_LIMIT, GrowthRules
from fedforest.tree.growth.rows import Sampling

Task = Literal["classification", "regression"]
FeatureSampling = Literal["node", "tree"]
FeatureCount = Literal["sqrt", "log2"]

CRITERIA = {"classification": one_of(ClassCriterion), "regression": one_of(NumberCriterion)}


@dataclass(frozen=True, slots=True)
class ForestParameters:
    """Parameters of one training; `None` means what it means in scikit-learn."""

    task: str = limited("classification", one_of(Task))
    n_estimators: int = limited(100, whole(1))
    criterion: str = "gini"
    max_depth: int | None = limited(None, NOTHING | whole(1))
    min_samples_split: int | float = limited(2, count_or_fraction(2))
    min_samples_leaf: int | float = limited(1, count_or_fraction(1))
    min_weight_fraction_leaf: float = limited(0.0, number("a fraction from 0 to 0.5", 0.0, 0.5))
    min_impurity_decrease: float = limited(0.0, number("a number of at least 0", 0.0, math.inf))
    max_features: str | int | float | None = limited(
        "sqrt", NOTHING | one_of(FeatureCount) | count_or_fraction(1)
    )
    feature_sampling: str = limited("node", one_of(FeatureSampling))
    bootstrap: bool = limited(True, SWITCH)
    max_samples: int | float | None = limited(None, NOTHING | count_or_fraction(1))
    max_bins: int = limited(MAX_BINS, whole(2, MAX_BINS))

    def __post_init__(self) -> None:
        check_fields(self)
        CRITERIA[self.task].check("criterion", self.criterion)

    @property
    def scored_by(self) -> Criterion:
        """The criterion itself."""
        return BY_NAME[self.criterion]

    @property
    def draws_rows(self) -> bool:
        """Whether trees see a sample of the rows: with replacement, or without, of fewer."""
        is_all = self.max_samples is None or is_all_rows(self.max_samples)
        return self.bootstrap or not is_all

    def check_noise(self) -> None:
        """Refuse noise on sums that must not be negative, or in which a row counts twice."""
        if self.bootstrap:
            raise ConfigurationError(
                "bootstrap=True does not go together with privacy: it draws some rows several "
                "times, and noise covers a label that counts once. Draw rows without replacement: "
                "bootstrap=False, and max_samples=0.632 for as many different ones.",
                key="bootstrap",
            )
        if self.scored_by.scores.from_zero:
            raise ConfigurationError(
                f"criterion={self.criterion!r} does not go together with privacy: noise may make a "
                "sum of targets negative, and such a sum has no score. Train with "
                "criterion='squared_error', or set privacy=None.",
                key="criterion",
            )

    def fitted_to(self, n_rows: int, n_columns: int) -> "ForestParameters":
        """Return the parameters with counts of rows and columns limited to a smaller table.

        For baselines: the counts asked of the joined table may be more than one party has.
        """
        features, samples = self.max_features, self.max_samples
        if is_whole(features):
            features = min(features, max(1, n_columns))
        if is_whole(samples):
            samples = min(samples, n_rows)
        return replace(self, max_features=features, max_samples=samples)

    @property
    def depth_limit(self) -> int:
        """Return the largest depth of a tree; very large if there is no limit."""
        return NO_DEPTH_LIMIT if self.max_depth is None else int(self.max_depth)

    def min_rows_leaf(self, n_rows: int) -> int:
        """Return the least number of rows of a leaf."""
        return max(1, _resolve_count(self.min_samples_leaf, n_rows))

    def growth_rules(self, n_rows: int, n_columns: int) -> GrowthRules:
        """Return the stopping rules for a table of this size."""
        return GrowthRules(
            max_depth=self.depth_limit,
            min_rows_split=max(2, _resolve_count(self.min_samples_split, n_rows)),
            min_rows_leaf=self.min_rows_leaf(n_rows),
            min_weight_share=float(self.min_weight_fraction_leaf),
            min_impurity_decrease=float(self.min_impurity_decrease),
            features_per_node=resolve_max_features(self.max_features, n_columns),
            sample_per_tree=self.feature_sampling == "tree",
        )

    def sampling(self, n_rows: int) -> Sampling:
        """Return how many rows each tree draws from a table of this size."""
        if self.max_samples is None:
            return Sampling(self.bootstrap, n_rows)
        if isinstance(self.max_samples, Integral):
            if self.max_samples > n_rows:
                raise _too_many("max_samples", self.max_samples, f"{n_rows} rows")
            return Sampling(self.bootstrap, int(self.max_samples))
        return Sampling(self.bootstrap, max(1, round(n_rows * self.max_samples)))


def resolve_max_features(max_features: str | int | float | None, n_columns: int) -> int:
    """Return how many columns a node may use, at least one."""
    if max_features is None:
        return max(1, n_columns)
    if isinstance(max_features, str):
        root = math.sqrt(n_columns) if max_features == "sqrt" else math.log2(max(1, n_columns))
        return max(1, int(root))
    if isinstance(max_features, Integral):
        if max_features > n_columns:
            raise _too_many("max_features", max_features, f"{n_columns} columns")
        return int(max_features)
    return max(1, int(max_features * n_columns))


def is_all_rows(max_samples: int | float) -> bool:
    """Return whether this is the fraction 1.0; a count of 1 is one row."""
    return not is_whole(max_samples) and max_samples == 1.0


def _resolve_count(value: int | float, n_rows: int) -> int:
    return int(value) if is_whole(value) else math.ceil(value * n_rows)


def _too_many(name: str, value: object, most: str) -> ConfigurationError:
    return ConfigurationError(f"{name} is {value!r}; it must be at most the {most}.", key=name)

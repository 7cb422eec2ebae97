"""Global differential privacy: each party adds discrete Laplace noise to its own statistics.

The scale is a fraction of integers, rounded up, and draws are exact, so a query never tells more
than the epsilon it is charged with, not even by the bits of its result.
"""

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedforest.errors import ConfigurationError, DataError, PrivacyError
from fedforest.kernels.noise.chacha import open_stream
from fedforest.kernels.noise.discrete_laplace import add_discrete_laplace
from fedforest.limits import is_finite
from fedforest.privacy.noise_settings import NoiseSettings
from fedforest.privacy.queries import Queries

TARGET_BITS = 30  # of a bounded target in fixed point; its rounding drowns in the noise
MAX_SCALE = 2**50
_SCALE_BITS = 25  # a scale is rounded up by less than 2^-24 of itself
_LEAST_SCALE_EXPONENT = -60  # of scales so small that there is hardly ever noise
_LEAST_EXPONENT = -1022  # of a unit: the smallest normal float64


@dataclass(frozen=True, kw_only=True, repr=False)
class GlobalDP(NoiseSettings):
    """Differential privacy by Laplace noise: `privacy=GlobalDP(epsilon=4.0)`.

    Every party adds noise to its counts (or sums of targets) before they leave. A party sees its
    own rows as they are, so people behind the rows must fully trust it. Columns, thresholds and
    branch sizes are not protected.

    Parameters
    ----------
    epsilon : float, optional
        Epsilon of the whole training, divided evenly over candidates × levels × trees; needs a
        finite `max_depth`. Give exactly one of epsilon and epsilon_query.
    epsilon_query : float, optional
        For experts: epsilon of one query, which is the statistics of one candidate split of one
        node. The training costs it once for each candidate, level and tree.
    target_bounds : (float, float), optional
        Lowest and highest target, for regression only. Targets outside are moved to the nearest
        bound; a training in one process warns of it. Declare what is known without looking at the
        data: the bounds are public.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from fedforest import GlobalDP, HorizontalExtraTreesClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> owner = ["north", "south"] * 284 + ["north"]
    >>> forest = HorizontalExtraTreesClassifier(
    ...     n_estimators=5, max_depth=3, privacy=GlobalDP(epsilon=6.0), random_state=0
    ... )
    >>> round(forest.fit(X, y, party=owner).privacy_spent_["label_epsilon"], 6)
    6.0
    """

    epsilon: float | None = None
    epsilon_query: float | None = None
    target_bounds: tuple[float, float] | None = None

    def check(self, *, is_regression: bool = False) -> None:
        """Refuse settings that cannot be used."""
        self._check_one_of("epsilon", "epsilon_query", "of one query")
        for name in ("epsilon", "epsilon_query"):
            self._check_positive(name)
        if self.target_bounds is not None:
            self._check_bounds(self.target_bounds)
        elif is_regression:
            raise self._error(
                "regression needs target_bounds=(lowest, highest): noise must cover how much one "
                "target can matter"
            )

    def _check_bounds(self, bounds: Any) -> None:
        is_pair = isinstance(bounds, (tuple, list)) and len(bounds) == 2
        if not (is_pair and all(is_finite(bound) for bound in bounds) and bounds[0] < bounds[1]):
            raise self._error(
                "target_bounds must be two finite numbers, the lower one first", "target_bounds"
            )

    def check_depth(self, max_depth: int | None) -> None:
        """Refuse to divide epsilon over levels without end."""
        if self.epsilon is not None and max_depth is None:
            raise self._error(
                "epsilon is divided over the levels of the trees, so it needs a max_depth; set "
                "one, or give epsilon_query",
                "epsilon",
            )

    def resolve(self, queries: Queries) -> float:
        """Epsilon of every single query."""
        self.check()
        if self.epsilon_query is not None:
            return float(self.epsilon_query)
        self.check_depth(queries.levels)
        assert self.epsilon is not None
        assert queries.count is not None
        count = max(1, queries.count)
        epsilon = float(self.epsilon) / count
        while epsilon * count > self.epsilon:  # rounded up
            epsilon = math.nextafter(epsilon, 0.0)
        return epsilon


class NoiseScale(NamedTuple):
    """Scale of discrete Laplace noise: numerator * 2^exponent."""

    numerator: int
    exponent: int

    @property
    def value(self) -> float:
        """The scale as a number."""
        return math.ldexp(self.numerator, self.exponent)


def choose_scale(epsilon: float, sensitivity: int) -> NoiseScale:
    """Return a scale of no less than sensitivity / epsilon, and of hardly more."""
    exact = Fraction(sensitivity) / Fraction(epsilon)
    if exact > MAX_SCALE:
        raise ConfigurationError(
            f"epsilon={epsilon:g} per query is too small: the noise would not fit the integers "
            "that carry it. Ask less often or allow a larger epsilon."
        )
    size = exact.numerator.bit_length() - exact.denominator.bit_length()
    exponent = max(size - _SCALE_BITS, _LEAST_SCALE_EXPONENT)
    return NoiseScale(math.ceil(exact / Fraction(2) ** exponent), exponent)


def add_noise(
    plain: NDArray[np.int64], epsilon: float, sensitivity: int, key: bytes
) -> NDArray[np.int64]:
    """Statistics of any shape with discrete Laplace noise on each.

    `sensitivity` is how much all statistics of one query change together, in absolute terms, when
    one label changes. The key is used once; to answer again, send the same answer again.
    """
    if plain.dtype != np.int64:
        raise PrivacyError(f"Noise is added to int64 statistics, not to {plain.dtype}.")
    scale = choose_scale(epsilon, sensitivity)
    flat = np.ascontiguousarray(plain).reshape(-1)
    noisy = np.empty_like(flat)
    numerator = np.uint64(scale.numerator)
    add_discrete_laplace(flat, numerator, scale.exponent, open_stream(key), noisy)
    return noisy.reshape(plain.shape)


@dataclass(frozen=True, slots=True)
class TargetGrid:
    """Bounded targets in fixed point: real target = offset + level * unit.

    It depends on the declared bounds alone, so it is the same at every party and tells nothing.
    """

    low: float
    high: float
    unit: float  # a power of two
    offset: float

    @classmethod
    def of(cls, bounds: tuple[float, float]) -> "TargetGrid":
        """Return the grid of `GlobalDP.target_bounds`."""
        low, high = float(bounds[0]), float(bounds[1])
        half_range = high / 2 - low / 2  # halves first: the whole may exceed the largest float
        exponent = max(math.frexp(half_range)[1] - TARGET_BITS + 1, _LEAST_EXPONENT)
        return cls(low, high, math.ldexp(1.0, exponent), low / 2 + high / 2)

    def levels(self, targets: NDArray[np.float64]) -> NDArray[np.int64]:
        """Targets, those outside moved to the nearest bound, as whole numbers of units."""
        if np.isnan(targets).any():
            raise DataError("A target is missing; remove rows without a target.")
        halves = np.clip(targets, self.low, self.high) / 2 - self.offset / 2
        return np.rint(halves / self.unit * 2).astype(np.int64)

    @property
    def sensitivity(self) -> int:
        """Return how much a sum of levels changes at most when one target changes within bounds."""
        lowest, highest = self.levels(np.array([self.low, self.high]))
        return max(1, int(highest - lowest))

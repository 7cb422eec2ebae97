"""Compute (epsilon, delta) of many discrete Laplace queries, which is tighter than the plain sum.

A query has a privacy loss, one of few multiples of a step, and losses of queries add up. Their
distribution after many queries is computed by Fourier transform within a window that holds all but
a negligible part of it. Neglected and rounded probability counts as a total loss.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

DELTA = 1e-6
# A sum of targets moves by up to 2^30 units; counted in this many steps it can only look worse.
_REGRESSION_STEPS = 16
_MAX_QUERIES = 10_000_000  # beyond, rounding is no longer small beside delta
_NO_GAIN = 50.0  # a query of such an epsilon tells nearly all: nothing is below the sum
_PRECISION = 1e-9  # of epsilon, relative
_OUTSIDE = 1e-14  # probability of losses outside the window, at most
_ROUNDING = 1e-15  # of probabilities, for each draw: high powers are inexact


@dataclass(frozen=True, slots=True)
class ApproximateEpsilon:
    """Epsilon at a small delta; without a number, `note` says why."""

    epsilon: float | None
    delta: float = DELTA
    note: str = ""

    def __str__(self) -> str:
        if self.epsilon is None:
            return f"at delta = {self.delta:g}: not computed, because {self.note}"
        return f"at delta = {self.delta:g}: {self.epsilon:.6g}"


def compose_laplace(
    epsilon_query: float, n_queries: int | None, *, is_regression: bool = False
) -> ApproximateEpsilon:
    """Epsilon at `DELTA` of as many queries; never more than the plain sum.

    A changed label moves two counts by one each, so a class query is two draws of half its epsilon,
    each of which tells either that or its opposite. A changed target moves one sum.
    """
    if n_queries is None:
        return ApproximateEpsilon(None, note="the number of queries is not limited")
    pure = epsilon_query * n_queries
    if n_queries == 0 or epsilon_query > _NO_GAIN:
        return ApproximateEpsilon(pure)
    if n_queries > _MAX_QUERIES:
        return ApproximateEpsilon(None, note=f"there are more than {_MAX_QUERIES:,} queries")
    draws_per_query, n_steps = (1, _REGRESSION_STEPS) if is_regression else (2, 1)
    n_draws = draws_per_query * n_queries
    step = epsilon_query / (draws_per_query * n_steps)
    first, chances = _add_up(_one_draw(step, n_steps), n_draws)
    sums = np.arange(first, first + len(chances), dtype=np.float64)
    losses = step * (2.0 * sums - n_draws * n_steps)
    neglected = _OUTSIDE + _ROUNDING * n_draws
    return ApproximateEpsilon(_find_epsilon(losses, chances, DELTA - neglected, pure))


def _one_draw(step: float, n_steps: int) -> NDArray[np.float64]:
    """Return the probability that one draw tells (2j - n_steps) * step, for j from 0 to n_steps.

    Noise x >= 0 on a sum that moves by `n_steps` tells n_steps - 2x steps, as far as that goes:
    all x <= 0 tell the same, and all x >= n_steps do.
    """
    ratio = math.exp(-step)
    chances: NDArray[np.float64] = np.exp(-step * np.arange(n_steps, -1, -1))
    chances *= -math.expm1(-step)
    chances[0], chances[-1] = math.exp(-step * n_steps), 1.0
    chances /= 1.0 + ratio
    return chances


def _add_up(chances: NDArray[np.float64], n_draws: int) -> tuple[int, NDArray[np.float64]]:
    """(first, chances): how likely the sum of all draws' j is first, first + 1, and so on."""
    n_steps = len(chances) - 1
    mean = n_draws * float(chances @ np.arange(n_steps + 1))
    # Hoeffding: sums lie farther from their mean with a probability of at most _OUTSIDE
    reach = n_steps * math.sqrt(n_draws * math.log(2.0 / _OUTSIDE) / 2.0)
    first = max(0, math.floor(mean - reach))
    last = min(n_draws * n_steps, math.ceil(mean + reach))
    size = 1 << max(last - first, n_steps).bit_length()
    around = np.fft.irfft(np.fft.rfft(chances, size) ** n_draws, size)  # sums modulo size
    return first, around[(first + np.arange(last - first + 1)) % size]


def _find_epsilon(
    losses: NDArray[np.float64], chances: NDArray[np.float64], delta: float, largest: float
) -> float:
    """Return the smallest epsilon of this delta, approached from above; at most `largest`.

    Exponents are at most zero, so nothing overflows, however large the losses are.
    """

    def delta_of(epsilon: float) -> float:
        above = np.searchsorted(losses, epsilon, "right")
        return float(-np.expm1(epsilon - losses[above:]) @ chances[above:])

    if delta_of(0.0) <= delta:
        return 0.0
    low, high = 0.0, largest
    while high - low > _PRECISION * high:
        middle = (low + high) / 2
        if delta_of(middle) <= delta:
            high = middle
        else:
            low = middle
    return high

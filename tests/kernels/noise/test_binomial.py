"""Binomial draws follow scipy's binomial law by every method and at every change of method.

Chi-square tests with fixed keys: under other keys a right sampler would fail one of them about once
in 20,000 runs (fewer than fifty tests at 10^-6 each).
"""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats

from fedforest.kernels.jit import kernel
from fedforest.kernels.noise.binomial import count_ones, draw_binomial, log_ratio
from fedforest.kernels.noise.chacha import open_stream
from tests.strategies import IS_PLAIN_PYTHON

N_DRAWS = 200 if IS_PLAIN_PYTHON else 300_000
FALSE_ALARM = 1e-6
LAWS = [
    *[(n, p) for n in (1, 2, 7, 63, 64) for p in (0.1, 0.5, 0.9, 1 / 3)],  # coin by coin
    *[(65, 0.1), (65, 0.9), (99, 0.1), (1000, 0.003), (10**6, 1e-6), (10**9, 9e-9)],  # inversion
    *[(100, 0.1), (101, 0.9), (65, 0.5), (1000, 0.5), (1000, 0.99)],  # rejection
    *[(50_000, 0.1), (10**6, 0.9), (10**9, 0.3)],
]


@kernel
def draw_all(stream: Any, n: int, p: float, draws: Any) -> None:
    for i in range(draws.shape[0]):
        draws[i] = draw_binomial(stream, n, p)


def draw(n: int, p: float, key: bytes, n_draws: int = N_DRAWS) -> NDArray[np.int64]:
    draws = np.empty(n_draws, np.int64)
    draw_all(open_stream(key), n, p, draws)
    return draws


def chi_square(draws: NDArray[np.int64], law: Any) -> float:
    """How likely such draws are, or worse, under a law; outer cells expect at least ten."""
    least = 10 / len(draws)
    edges = [int(law.ppf(share)) for share in np.linspace(least, 1 - least, 60)]
    edges = sorted({edge for edge in edges if law.cdf(edge) >= least and law.sf(edge) >= least})
    probabilities = np.diff([0.0, *law.cdf(edges), 1.0])
    cells = np.searchsorted(edges, draws)  # cell k: above edge k - 1, up to edge k
    keep = probabilities > 0
    observed = np.bincount(cells, minlength=len(probabilities))
    assert not observed[~keep].any()
    return float(stats.chisquare(observed[keep], probabilities[keep] * len(draws)).pvalue)


@pytest.mark.parametrize(("n", "p"), LAWS)
def test_draws_follow_the_binomial_law(n: int, p: float) -> None:
    draws = draw(n, p, np.array([n, 1e6 * p], "<i8").tobytes() * 2)
    assert draws.min() >= 0
    assert draws.max() <= n
    assert chi_square(draws, stats.binom(n, p)) > FALSE_ALARM


@pytest.mark.skipif(IS_PLAIN_PYTHON, reason="needs more draws than plain Python can make")
@pytest.mark.parametrize(("n", "p"), [(20, 0.1), (99, 0.1), (1000, 0.1), (50_000, 0.9)])
def test_a_probability_that_is_off_by_one_percent_is_noticed(n: int, p: float) -> None:
    assert chi_square(draw(n, 1.01 * p, b"f" * 32), stats.binom(n, p)) < FALSE_ALARM


def test_certain_tosses_need_no_luck() -> None:
    for n in (0, 5, 70, 10**6):
        assert draw(n, 1.0, bytes(32), 3).tolist() == [n] * 3
        assert draw(n, 0.0, bytes(32), 3).tolist() == [0] * 3


@given(st.integers(0, 2**64 - 1))
@settings(max_examples=50)
def test_set_bits_are_counted(word: int) -> None:
    assert int(count_ones(np.uint64(word))) == word.bit_count()


def log_ratio_by_steps(n: int, p: float, k: int, mode: int) -> float:
    """The same from the ratios of neighbours."""
    odds = p / (1 - p)
    low, high = min(k, mode), max(k, mode)
    steps = math.fsum(math.log(odds * (n - j) / (j + 1)) for j in range(low, high))
    return steps if k >= mode else -steps


@pytest.mark.parametrize(("n", "p"), [(100, 0.1), (1000, 0.5), (10**6, 0.1), (10**9, 0.3)])
def test_the_likelihood_of_a_draw_is_right_to_many_digits(n: int, p: float) -> None:
    mode = int((n + 1) * p)
    deviation = int(np.sqrt(n * p * (1 - p)))
    for k in (mode - 3 * deviation, mode - 1, mode, mode + deviation, mode + 5 * deviation):
        expected = log_ratio_by_steps(n, p, k, mode)
        assert log_ratio(n, p, k, mode) == pytest.approx(expected, abs=max(1e-9, 1e-15 * n))

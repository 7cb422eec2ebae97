"""Discrete Laplace draws have exactly the probabilities they are charged for.

Chi-square tests with fixed keys: under other keys a right sampler would fail one of them about once
in 10^5 runs (fewer than ten tests at 10^-6 each).
"""

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from fedforest.kernels.chacha import open_stream
from fedforest.kernels.discrete_laplace import add_discrete_laplace, survives
from tests.strategies import IS_PLAIN_PYTHON

N_DRAWS = 2000 if IS_PLAIN_PYTHON else 400_000
FALSE_ALARM = 1e-6


def draw(scale: int, shift: int, key: bytes, n_draws: int = N_DRAWS) -> NDArray[np.int64]:
    noise = np.empty(n_draws, np.int64)
    zeros = np.zeros(n_draws, np.int64)
    add_discrete_laplace(zeros, np.uint64(scale), np.uint64(shift), open_stream(key), noise)
    return noise


def chi_square(noise: NDArray[np.int64], rate: float) -> float:
    """How likely such noise is, or worse, if P(x) is proportional to exp(-rate |x|)."""
    law = stats.dlaplace(rate)
    reach = int(law.isf(20 / len(noise)))
    inside = np.arange(-reach, reach + 1)
    observed = [
        (noise < -reach).sum(),
        *[(noise == x).sum() for x in inside],
        (noise > reach).sum(),
    ]
    expected = np.array([law.cdf(-reach - 1), *law.pmf(inside), law.sf(reach)]) * len(noise)
    return float(stats.chisquare(observed, expected * (len(noise) / expected.sum())).pvalue)


@pytest.mark.parametrize(
    ("scale", "shift"), [(1, 0), (3, 0), (20, 0), (7, 2), (3, 4), (123_456_789, 25)]
)
def test_draws_have_the_probabilities_of_the_law(scale: int, shift: int) -> None:
    noise = draw(scale, shift, bytes([scale % 251, shift]) * 16)
    assert chi_square(noise, 2**shift / scale) > FALSE_ALARM


@pytest.mark.skipif(IS_PLAIN_PYTHON, reason="needs more draws than plain Python can make")
def test_a_scale_that_is_off_by_two_percent_is_noticed() -> None:
    assert chi_square(draw(20, 0, b"s" * 32), 1.02 / 20) < FALSE_ALARM


def test_a_huge_scale_gives_huge_noise_of_both_signs() -> None:
    noise = draw(2**50, 0, b"h" * 32, 500)
    assert stats.kstest(noise / 2.0**50, "laplace").pvalue > FALSE_ALARM


@pytest.mark.parametrize(
    ("numerator", "denominator"), [(0, 1), (1, 1), (1, 2), (2, 7), (999, 1000)]
)
def test_survival_has_the_probability_of_an_exponential(numerator: int, denominator: int) -> None:
    stream = open_stream(bytes([denominator % 256]) * 32)
    fraction = np.uint64(numerator), np.uint64(denominator)
    n_draws = 2000 if IS_PLAIN_PYTHON else 100_000
    survivors = sum(survives(stream, *fraction) for _ in range(n_draws))
    probability = np.exp(-numerator / denominator)
    assert stats.binomtest(survivors, n_draws, probability).pvalue > FALSE_ALARM


def test_noise_is_added_to_each_value_and_differs_between_them() -> None:
    plain = np.array([-(10**15), 0, 10**15], np.int64)
    noisy, noise = np.empty_like(plain), np.empty_like(plain)
    add_discrete_laplace(plain, np.uint64(10**6), np.uint64(0), open_stream(b"k" * 32), noisy)
    add_discrete_laplace(0 * plain, np.uint64(10**6), np.uint64(0), open_stream(b"k" * 32), noise)
    assert (noisy - plain).tolist() == noise.tolist()
    assert len(set(noise.tolist())) == 3

"""Discrete Laplace draws have exactly the probabilities they are charged for.

Chi-square tests with fixed keys: under other keys a right sampler would fail one of them about once
in 10^5 runs (fewer than ten tests at 10^-6 each).
"""

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from fedforest.kernels.noise.chacha import open_stream
from fedforest.kernels.noise.discrete_laplace import (
    add_discrete_laplace,
    survives_fraction,
    survives_unit,
)
from tests.strategies import IS_PLAIN_PYTHON

N_DRAWS = 300 if IS_PLAIN_PYTHON else 400_000
FALSE_ALARM = 1e-6


def draw(numerator: int, exponent: int, key: bytes, n_draws: int = N_DRAWS) -> NDArray[np.int64]:
    noise = np.empty(n_draws, np.int64)
    zeros = np.zeros(n_draws, np.int64)
    add_discrete_laplace(zeros, np.uint64(numerator), exponent, open_stream(key), noise)
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
    ("numerator", "exponent"),
    [(1, 0), (3, 0), (20, 0), (7, -2), (3, -4), (123_456_789, -25), (3, 2), (1, 4)],
)
def test_draws_have_the_probabilities_of_the_law(numerator: int, exponent: int) -> None:
    noise = draw(numerator, exponent, bytes([numerator % 251, exponent % 251]) * 16)
    assert chi_square(noise, 2.0**-exponent / numerator) > FALSE_ALARM


@pytest.mark.skipif(IS_PLAIN_PYTHON, reason="needs more draws than plain Python can make")
def test_a_scale_that_is_off_by_two_percent_is_noticed() -> None:
    assert chi_square(draw(20, 0, b"s" * 32), 1.02 / 20) < FALSE_ALARM


def test_a_huge_scale_gives_huge_noise_of_both_signs() -> None:
    noise = draw(2**25, 25, b"h" * 32, 500)
    assert stats.kstest(noise / 2.0**50, "laplace").pvalue > FALSE_ALARM
    assert len(np.unique(noise % 2**25)) == 500  # down to the last bits


@pytest.mark.parametrize(
    ("part", "numerator", "low_bits"), [(0, 1, 0), (1, 1, 0), (1, 2, 0), (2, 7, 0), (21, 3, 3)]
)
def test_survival_has_the_probability_of_an_exponential(
    part: int, numerator: int, low_bits: int
) -> None:
    stream = open_stream(bytes([numerator]) * 32)
    n_draws = 500 if IS_PLAIN_PYTHON else 100_000
    numbers = np.array([part, numerator, low_bits], np.uint64)
    survivors = sum(survives_fraction(stream, *numbers) for _ in range(n_draws))
    probability = np.exp(-part / (numerator << low_bits))
    assert stats.binomtest(survivors, n_draws, probability).pvalue > FALSE_ALARM


def test_surviving_a_whole_unit_has_probability_one_over_e() -> None:
    stream = open_stream(b"e" * 32)
    n_draws = 500 if IS_PLAIN_PYTHON else 100_000
    survivors = sum(survives_unit(stream) for _ in range(n_draws))
    assert stats.binomtest(survivors, n_draws, np.exp(-1)).pvalue > FALSE_ALARM


def test_noise_is_added_to_each_value_and_differs_between_them() -> None:
    plain = np.array([-(10**15), 0, 10**15], np.int64)
    noisy, noise = np.empty_like(plain), np.empty_like(plain)
    add_discrete_laplace(plain, np.uint64(10**6), 0, open_stream(b"k" * 32), noisy)
    add_discrete_laplace(0 * plain, np.uint64(10**6), 0, open_stream(b"k" * 32), noise)
    assert (noisy - plain).tolist() == noise.tolist()
    assert len(set(noise.tolist())) == 3

"""How two methods are compared over repetitions."""

import numpy as np
import pytest
from scipy import stats

from fedforest.experiments.statistics import Interval, paired_interval, z_test

RNG = np.random.default_rng(0)
ONE = RNG.normal(0.90, 0.02, 40)
OTHER = ONE + RNG.normal(0.003, 0.01, 40)


def test_the_z_test_is_the_two_sided_one_for_means_with_estimated_spreads() -> None:
    error = np.sqrt(ONE.var(ddof=1) / 40 + OTHER.var(ddof=1) / 40)
    expected = 2 * stats.norm.sf(abs(ONE.mean() - OTHER.mean()) / error)
    assert z_test(ONE, OTHER) == pytest.approx(expected, rel=1e-12)
    assert z_test(OTHER, ONE) == z_test(ONE, OTHER)


def test_the_z_test_of_constant_scores_tells_equal_from_different() -> None:
    assert z_test(np.full(3, 0.9), np.full(3, 0.9)) == 1.0
    assert z_test(np.full(3, 0.9), np.full(3, 0.8)) == 0.0


def test_the_interval_is_students_interval_of_paired_differences() -> None:
    expected = stats.ttest_rel(ONE, OTHER).confidence_interval(0.95)
    interval = paired_interval(ONE, OTHER)
    assert (interval.low, interval.high) == pytest.approx(tuple(expected), rel=1e-12)
    assert interval.mean == pytest.approx((ONE - OTHER).mean(), rel=1e-12)


def test_pairing_is_what_makes_the_interval_narrow() -> None:
    paired, mixed = paired_interval(ONE, OTHER), paired_interval(ONE, RNG.permutation(OTHER))
    assert paired.high - paired.low < 0.7 * (mixed.high - mixed.low)


@pytest.mark.parametrize(
    ("interval", "inside"),
    [
        (Interval(0.0, -0.004, 0.004), True),
        (Interval(0.002, -0.001, 0.006), False),
        (Interval(-0.002, -0.006, 0.001), False),
        (Interval(0.1, 0.09, 0.11), False),
    ],
)
def test_an_interval_is_inside_only_with_both_of_its_ends(interval: Interval, inside: bool) -> None:
    assert interval.lies_within(0.005) is inside
    assert interval.scaled(2.0).lies_within(0.01) is inside

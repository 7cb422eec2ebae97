"""The noise that labels really get, measured. Seeds are fixed.

With other seeds a right mechanism would fail one of these tests about once in 10^5 runs: there are
fewer than 600 comparisons, each at 5.5 standard deviations (one in 5 * 10^7).
"""

import numpy as np
import pytest
from numpy.typing import NDArray

from fedforest.privacy.randomized_response import RandomizedResponse

N_LABELS = 400_000  # of each class
DEVIATIONS = 5.5
SETTINGS = [(0.5, 2), (1.0, 3), (2.0, 2), (2.0, 6), (3.0, 3)]


def answer_rates(response: RandomizedResponse, n_classes: int) -> NDArray[np.float64]:
    """(true class, noisy class): how often the one became the other."""
    rng = np.random.default_rng([n_classes, int(1000 * response.epsilon)])
    rates = np.zeros((n_classes, n_classes))
    for true in range(n_classes):
        noisy = response.draw(np.full(N_LABELS, true), n_classes, rng.bytes)
        rates[true] = np.bincount(noisy, minlength=n_classes) / N_LABELS
    return rates


def assert_private(rates: NDArray[np.float64], epsilon: float) -> None:
    """No answer is more than exp(epsilon) times as likely under one class as under another."""
    n_classes = len(rates)
    variance = (1.0 - rates) / (N_LABELS * rates)  # of the logarithm of a rate
    for one in range(n_classes):
        for other in range(n_classes):
            ratio = np.log(rates[one] / rates[other])
            spread = np.sqrt(variance[one] + variance[other])
            assert (ratio <= epsilon + DEVIATIONS * spread).all()


def assert_as_promised(rates: NDArray[np.float64], epsilon: float) -> None:
    """Every rate is what epsilon says: no more noise than that, either."""
    n_classes = len(rates)
    weights = np.where(np.eye(n_classes, dtype=bool), np.exp(epsilon), 1.0)
    expected = weights / (np.exp(epsilon) + n_classes - 1)
    spread = np.sqrt(expected * (1.0 - expected) / N_LABELS)
    assert (np.abs(rates - expected) <= DEVIATIONS * spread).all()


@pytest.mark.parametrize(("epsilon", "n_classes"), SETTINGS)
def test_measured_likelihood_ratios_stay_within_epsilon(epsilon: float, n_classes: int) -> None:
    rates = answer_rates(RandomizedResponse(epsilon), n_classes)
    assert_private(rates, epsilon)
    assert_as_promised(rates, epsilon)


class Loose(RandomizedResponse):
    """Keeps labels 5% more often than epsilon allows."""

    def keep_probability(self, n_classes: int) -> float:
        return min(1.0, 1.05 * super().keep_probability(n_classes))


class Partial(RandomizedResponse):
    """Says one class 5% less often than the other wrong ones."""

    def draw(self, codes, n_classes, randomness):  # type: ignore[no-untyped-def]
        noisy = super().draw(codes, n_classes, randomness)
        rng = np.random.default_rng(1)
        slips = (noisy == 0) & (codes != 0) & (rng.random(len(codes)) < 0.05)
        return np.where(slips, codes, noisy)


@pytest.mark.parametrize(("epsilon", "n_classes"), SETTINGS)
@pytest.mark.parametrize("faulty", [Loose, Partial])
def test_the_measurement_notices_a_probability_that_is_off_by_five_percent(
    faulty: type[RandomizedResponse], epsilon: float, n_classes: int
) -> None:
    rates = answer_rates(faulty(epsilon), n_classes)
    with pytest.raises(AssertionError):
        assert_private(rates, epsilon)


@pytest.mark.parametrize(("epsilon", "n_classes"), SETTINGS)
def test_corrected_shares_are_right_on_average(epsilon: float, n_classes: int) -> None:
    rng = np.random.default_rng(4)
    response = RandomizedResponse(epsilon)
    uneven = np.arange(1, n_classes + 1) / np.arange(1, n_classes + 1).sum()
    codes = rng.choice(n_classes, N_LABELS, p=uneven)
    truth = np.bincount(codes, minlength=n_classes) / N_LABELS
    noisy = np.bincount(response.draw(codes, n_classes, rng.bytes), minlength=n_classes) / N_LABELS
    keep = response.keep_probability(n_classes)
    spread = 0.5 / np.sqrt(N_LABELS) / (keep - (1.0 - keep) / (n_classes - 1))
    assert (np.abs(response.debias(noisy, n_classes) - truth) <= DEVIATIONS * spread).all()
    assert np.abs(noisy - truth).max() > DEVIATIONS * spread / 2  # noise did change the shares

"""What noisy statistics really tell under global privacy, measured. Seeds are fixed.

With other seeds a right mechanism would fail one of these tests about once in 10^5 runs: there are
fewer than 500 comparisons, each at 5.5 standard deviations (one in 5 * 10^7).
"""

import numpy as np
import pytest
from numpy.typing import NDArray

from fedforest.privacy.global_dp import TargetGrid, add_noise
from fedforest.protocol.horizontal.party.statistics import LABEL_MOVES

N_DRAWS = 1_000_000
DEVIATIONS = 5.5
COUNTS = np.array([5, 3, 9], np.int64)
NEIGHBOUR = np.array([4, 4, 9], np.int64)  # one row has changed its class


def noisy(
    plain: NDArray[np.int64], epsilon: float, sensitivity: int, seed: int
) -> NDArray[np.int64]:
    repeated = np.tile(plain, (N_DRAWS, 1))
    return add_noise(repeated, epsilon, sensitivity, bytes([seed]) * 32)


def log_ratios(
    here: NDArray[np.bool_], there: NDArray[np.bool_]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Logarithms of how much more likely events (columns) are here, and their deviations."""
    rates = np.stack([here.mean(axis=0), there.mean(axis=0)])
    variance = (1.0 - rates) / (N_DRAWS * rates)
    return np.log(rates[0] / rates[1]), np.sqrt(variance.sum(axis=0))


def class_events(counts: NDArray[np.int64]) -> NDArray[np.bool_]:
    """The events that tell most: one count high and the other low; and every value near by."""
    corners = [(counts[:, 0] >= 5 + k) & (counts[:, 1] <= 3 - k) for k in range(3)]
    values = [counts[:, column] == value for column in (0, 1) for value in range(8)]
    return np.stack([*corners, *values], axis=1)


def class_excess(epsilon: float, actual_epsilon: float) -> tuple[float, float]:
    """By how many deviations ratios exceed epsilon at most, and stay below it at best."""
    here = class_events(noisy(COUNTS, actual_epsilon, LABEL_MOVES, 1))
    there = class_events(noisy(NEIGHBOUR, actual_epsilon, LABEL_MOVES, 2))
    ratio, deviation = log_ratios(here, there)
    excess = (np.abs(ratio) - epsilon) / deviation
    return float(excess.max()), float(excess[0])


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 2.5])
def test_a_changed_label_is_told_by_no_more_than_epsilon_and_the_noise_is_no_more_than_needed(
    epsilon: float,
) -> None:
    largest, of_the_corner = class_excess(epsilon, epsilon)
    assert largest < DEVIATIONS
    assert of_the_corner > -DEVIATIONS  # the corner tells exactly epsilon


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [0.5, 1.0, 2.5])
def test_the_measurement_notices_a_scale_that_is_off_by_five_percent(epsilon: float) -> None:
    assert class_excess(epsilon, 1.05 * epsilon)[0] > DEVIATIONS
    assert class_excess(epsilon, 0.95 * epsilon)[1] < -DEVIATIONS


def test_a_sensitivity_of_one_would_tell_twice_as_much_and_is_noticed() -> None:
    assert class_excess(1.0, 2.0)[0] > 20 * DEVIATIONS


def target_excess(epsilon: float, actual_epsilon: float) -> tuple[float, float]:
    """The same for a sum of three targets, one of which moves from one bound to the other."""
    grid = TargetGrid.of((-2.0, 10.0))
    high = grid.levels(np.array([0.0, 3.0, 99.0])).sum(keepdims=True)
    low = grid.levels(np.array([0.0, 3.0, -99.0])).sum(keepdims=True)
    levels = np.linspace(low[0], high[0], 9)[::-1]
    here = noisy(high, actual_epsilon, grid.sensitivity, 3) >= levels
    there = noisy(low, actual_epsilon, grid.sensitivity, 4) >= levels
    ratio, deviation = log_ratios(here, there)
    excess = (np.abs(ratio) - epsilon) / deviation
    return float(excess.max()), float(excess[0])


def test_a_changed_target_is_told_by_no_more_than_epsilon() -> None:
    largest, of_the_highest = target_excess(1.0, 1.0)
    assert largest < DEVIATIONS
    assert of_the_highest > -DEVIATIONS


def test_the_measurement_notices_noise_on_sums_that_is_off_by_five_percent() -> None:
    assert target_excess(1.0, 1.05)[0] > DEVIATIONS
    assert target_excess(1.0, 0.95)[1] < -DEVIATIONS

"""The tighter accountant agrees with sums that can be done by hand, and with dp-accounting."""

import math

import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution
from numpy.typing import NDArray
from scipy import stats

from fedforest.privacy.accounting import DELTA, compose_laplace


def delta_of_coins(epsilon: float, step: float, n_draws: int) -> float:
    """Delta of n draws that each tell `step` or its opposite: a binomial sum."""
    told = np.arange(n_draws + 1)
    losses = step * (2 * told - n_draws)
    told, losses = told[losses > epsilon], losses[losses > epsilon]
    probabilities = stats.binom(n_draws, 1 / (1 + math.exp(-step))).pmf(told)
    return float((probabilities * -np.expm1(epsilon - losses)).sum())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("epsilon_query", "n_queries"),
    [
        *((0.5, 1), (0.1, 20), (0.01, 500), (0.02, 6000), (2.0, 10)),
        *((0.11, 186_000), (0.15, 100_000), (0.1, 190_000)),  # losses around the largest exponent
        *((1.0, 190_000), (10.0, 1000), (49.0, 100_000), (1e-3, 10_000_000)),
    ],
)
def test_class_queries_are_two_coins_each(epsilon_query: float, n_queries: int) -> None:
    found = compose_laplace(epsilon_query, n_queries).epsilon
    assert found is not None
    step, n_draws = epsilon_query / 2, 2 * n_queries
    at_most_pure = min(found, epsilon_query * n_queries)
    assert found == at_most_pure
    assert delta_of_coins(found * (1 + 1e-6), step, n_draws) <= DELTA * (1 + 1e-6)
    if found < epsilon_query * n_queries:
        assert delta_of_coins(found - 1e-3 * found, step, n_draws) > DELTA


@pytest.mark.parametrize(
    ("epsilon_query", "n_queries"),
    [(0.5, 1), (0.1, 20), (0.01, 500), (0.02, 6000), (2.0, 10), (1e-4, 100_000)],
)
def test_class_queries_cost_what_dp_accounting_says_on_their_own_grid(
    epsilon_query: float, n_queries: int
) -> None:
    """Two counts move by one each; its grid of losses is ours, so nothing is rounded."""
    count = epsilon_query / 2
    loss = privacy_loss_distribution.from_discrete_laplace_mechanism(
        count, sensitivity=1, value_discretization_interval=count
    )
    reference = loss.self_compose(2 * n_queries).get_epsilon_for_delta(DELTA)
    found = compose_laplace(epsilon_query, n_queries).epsilon
    assert found is not None
    assert reference * (1 - 1e-9) <= found <= reference * (1 + 2e-5)


def test_many_small_queries_cost_far_less_than_their_sum() -> None:
    found = compose_laplace(0.01, 5000).epsilon
    assert found is not None
    assert found < 0.2 * 50.0


def hockey_sticks(steps: int, epsilons: NDArray[np.float64]) -> NDArray[np.float64]:
    """Delta at each epsilon of one draw of epsilon 1 on a grid of so many steps."""
    x = np.arange(-60 * steps, 61 * steps)
    here = np.exp(-np.abs(x) / steps)
    there = np.exp(-np.abs(x - steps) / steps)
    gains = here[:, None] - np.exp(epsilons) * there[:, None]
    return np.asarray(np.maximum(gains, 0.0).sum(axis=0) / here.sum())


def test_counting_a_moved_sum_in_fewer_steps_can_only_look_worse() -> None:
    epsilons = np.linspace(-1.0, 1.0, 41)
    for coarse, fine in [(1, 2), (2, 16), (16, 32), (16, 640)]:
        assert (hockey_sticks(coarse, epsilons) >= hockey_sticks(fine, epsilons) - 1e-12).all()


@pytest.mark.parametrize(("epsilon_query", "n_queries"), [(0.5, 10), (2**-3, 1000), (2**-6, 6000)])
def test_sums_of_targets_cost_what_dp_accounting_says_in_as_many_steps(
    epsilon_query: float, n_queries: int
) -> None:
    step = epsilon_query / 16  # a power of two: losses hit the grid, or would be rounded upwards
    loss = privacy_loss_distribution.from_discrete_laplace_mechanism(
        step, sensitivity=16, value_discretization_interval=step
    )
    reference = loss.self_compose(n_queries).get_epsilon_for_delta(DELTA)
    found = compose_laplace(epsilon_query, n_queries, is_regression=True).epsilon
    assert found is not None
    assert reference * (1 - 1e-9) <= found <= reference * (1 + 2e-5)


def test_sums_of_targets_cost_less_than_coins_of_the_same_epsilon() -> None:
    sums = compose_laplace(0.1, 1000, is_regression=True).epsilon
    assert sums is not None
    # continuous Laplace noise, by dp-accounting's own grid
    loss = privacy_loss_distribution.from_laplace_mechanism(10.0)
    continuous = loss.self_compose(1000).get_epsilon_for_delta(DELTA)
    assert continuous * 0.999 <= sums <= continuous * 1.01


@pytest.mark.parametrize("is_regression", [False, True])
@pytest.mark.parametrize("epsilon_query", [1e-12, 1e-9, 1e-6, 1e-3, 0.1, 1.0, 10.0, 50.0])
def test_any_noise_and_any_number_of_queries_have_a_number_below_the_sum(
    epsilon_query: float, is_regression: bool
) -> None:
    found = []
    for n_queries in (1, 100, 10_000, 1_000_000, 10_000_000):
        epsilon = compose_laplace(epsilon_query, n_queries, is_regression=is_regression).epsilon
        assert epsilon is not None
        found.append(epsilon)
    assert found == sorted(found)
    assert 0.0 <= found[0] <= epsilon_query
    assert found[-1] <= 10_000_000 * epsilon_query


def test_no_queries_cost_nothing() -> None:
    assert compose_laplace(1.0, 0).epsilon == 0.0


@pytest.mark.parametrize("epsilon_query", [51.0, 1e4])
def test_queries_that_tell_all_cost_their_sum(epsilon_query: float) -> None:
    assert compose_laplace(epsilon_query, 3).epsilon == 3 * epsilon_query


def test_too_many_queries_have_a_reason_instead_of_a_number() -> None:
    excessive = compose_laplace(1e-6, 10**9)
    assert excessive.epsilon is None
    assert "not computed, because" in str(excessive)
    assert "more than 10,000,000 queries" in excessive.note

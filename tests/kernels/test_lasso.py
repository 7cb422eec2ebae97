"""Batched Lasso equals scikit-learn's; projections are the nearest points that add up."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from sklearn.linear_model import Lasso

from fedforest.kernels.lasso import project_onto_totals, solve_lasso
from tests.strategies import IS_PLAIN_PYTHON, SEEDS

N_EXAMPLES = 10 if IS_PLAIN_PYTHON else 60


def solve(
    matrix: NDArray[np.float64], targets: NDArray[np.float64], alphas: NDArray[np.float64]
) -> NDArray[np.float64]:
    solutions = np.full((len(targets), matrix.shape[1]), np.nan)
    thresholds = len(matrix) * alphas
    solve_lasso(matrix.T @ matrix, targets @ matrix, thresholds, 1e-10, solutions)
    return solutions


@given(SEEDS, st.integers(1, 8), st.integers(0, 4), st.floats(0.01, 5.0))
@settings(max_examples=N_EXAMPLES)
def test_the_batch_equals_scikit_learn_one_by_one(
    seed: int, n_columns: int, extra: int, alpha: float
) -> None:
    rng = np.random.default_rng(seed)
    matrix = (rng.random((n_columns + extra, n_columns)) < 0.4) + np.eye(
        n_columns + extra, n_columns
    )
    truth = rng.integers(0, 50, (5, n_columns)) * (rng.random((5, n_columns)) < 0.6)
    targets = truth @ matrix.T + rng.normal(0, 4, (5, n_columns + extra))
    alphas = alpha * rng.random(5) + 0.01
    expected = [
        Lasso(alpha, positive=True, fit_intercept=False, tol=1e-13, max_iter=10**6)
        .fit(matrix, target)
        .coef_
        for target, alpha in zip(targets, alphas, strict=True)
    ]
    assert np.allclose(solve(matrix, targets, alphas), expected, atol=1e-6, rtol=1e-7)


def test_one_bit_per_class_is_solved_by_taking_the_penalty_off() -> None:
    targets = np.array([[5.0, -3.0, 0.25], [0.0, 0.0, -1.0]])
    solved = solve(np.eye(3), targets, np.full(2, 0.5 / 3))
    assert solved == pytest.approx(np.array([[4.5, 0.0, 0.0], [0.0, 0.0, 0.0]]))


def projected(values: list[float], total: float) -> NDArray[np.float64]:
    rows = np.array([values])
    project_onto_totals(rows, np.array([total]))
    return rows.reshape(-1)


def shift_by_bisection(values: list[float], total: float) -> NDArray[np.float64]:
    """The projection by its definition: the shift at which the positive parts add up."""
    low, high = min(values) - total - 1.0, max(values) + 1.0
    for _ in range(200):
        middle = (low + high) / 2
        if sum(max(0.0, value - middle) for value in values) > total:
            low = middle
        else:
            high = middle
    return np.maximum(0.0, np.array(values) - high)


@given(st.lists(st.floats(-1e3, 1e3), min_size=1, max_size=8), st.floats(0.0, 1e3))
@settings(max_examples=N_EXAMPLES)
def test_a_projection_is_non_negative_and_adds_up_and_is_the_nearest(
    values: list[float], total: float
) -> None:
    result = projected(values, total)
    assert (result >= 0).all()
    assert result.sum() == pytest.approx(total, abs=1e-8)
    assert result == pytest.approx(shift_by_bisection(values, total), abs=1e-7)


def test_what_already_adds_up_stays() -> None:
    assert projected([3.0, 0.0, 2.0], 5.0).tolist() == [3.0, 0.0, 2.0]
    assert projected([1.0, 4.0], 0.0).tolist() == [0.0, 0.0]

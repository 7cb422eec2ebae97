"""The Lasso equals scikit-learn's; projections are the nearest points that add up."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from sklearn.linear_model import Lasso

from fedforest.kernels.jit import kernel
from fedforest.kernels.noise.lasso import project_onto_total, solve_apart, solve_lasso
from tests.reference.decoding import shift_by_bisection
from tests.strategies import IS_PLAIN_PYTHON, SEEDS

N_EXAMPLES = 10 if IS_PLAIN_PYTHON else 60


@kernel
def solve_one(gram: Any, slopes: Any, tolerance: float, x: Any) -> None:
    solve_lasso(gram, slopes, tolerance, x)


@kernel
def solve_one_apart(square: float, slopes: Any, x: Any) -> None:
    solve_apart(square, slopes, x)


@kernel
def project_one(x: Any, total: float, room: Any) -> None:
    project_onto_total(x, total, room)


def solve(
    matrix: NDArray[np.float64], targets: NDArray[np.float64], alphas: NDArray[np.float64]
) -> NDArray[np.float64]:
    solutions = np.full((len(targets), matrix.shape[1]), np.nan)
    for x, target, alpha in zip(solutions, targets, alphas, strict=True):
        solve_one(matrix.T @ matrix, target @ matrix - len(matrix) * alpha, 1e-10, x)
    return solutions


@given(SEEDS, st.integers(1, 8), st.integers(0, 4), st.floats(0.01, 5.0))
@settings(max_examples=N_EXAMPLES)
def test_solutions_equal_scikit_learns(seed: int, n_columns: int, extra: int, alpha: float) -> None:
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


@given(SEEDS, st.integers(1, 8), st.integers(1, 4))
@settings(max_examples=N_EXAMPLES)
def test_columns_with_nothing_in_common_are_solved_at_once(
    seed: int, n_columns: int, square: int
) -> None:
    slopes = np.random.default_rng(seed).normal(0, 10, n_columns)
    swept, at_once = np.empty(n_columns), np.empty(n_columns)
    solve_one_apart(float(square), slopes, at_once)
    solve_one(square * np.eye(n_columns), slopes, 1e-10, swept)
    assert at_once == pytest.approx(swept, rel=1e-12)


def projected(values: list[float], total: float) -> NDArray[np.float64]:
    x = np.array(values)
    project_one(x, total, np.empty(len(values)))
    return x


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

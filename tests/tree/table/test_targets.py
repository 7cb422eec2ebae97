"""Labels, targets and weights become integers that neither overflow nor lose what matters."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from fedforest.errors import DataError
from fedforest.kernels.criteria.registry import BY_NAME
from fedforest.kernels.layout import MAX_MULTIPLICITY
from fedforest.tree.table.target_checks import check_weights
from fedforest.tree.table.targets import (
    MAX_CLASSES,
    TARGET_SUM_LIMIT,
    WEIGHT_SUM_LIMIT,
    classification_targets,
    fix_targets,
    fix_weights,
    regression_targets,
    rows_of,
    weight_of,
)

FINITE = st.floats(-1e150, 1e150)


def random_weights(n_rows: int, seed: int = 0) -> NDArray[np.float64]:
    return np.random.default_rng(seed).uniform(0.5, 1.0, n_rows)


@given(st.lists(st.integers(0, 1000), min_size=1).filter(any))
def test_whole_weights_stay_exact(weights: list[int]) -> None:
    fixed, unit = fix_weights(np.array(weights, np.float64))
    assert (fixed * unit).tolist() == weights


@pytest.mark.parametrize("scale", [1e-300, 1e-12, 1e-6, 1e-3, 1.0, 1e3, 1e6, 1e300])
@pytest.mark.parametrize("n_rows", [10, 100_000])
def test_weights_of_any_scale_keep_four_digits(scale: float, n_rows: int) -> None:
    weights = scale * random_weights(n_rows)
    fixed, unit = fix_weights(weights)
    np.testing.assert_allclose(fixed * unit, weights, rtol=1e-4)


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=50).filter(any))
def test_no_sum_of_weights_over_a_bootstrap_leaves_the_exact_range(weights: list[float]) -> None:
    fixed, _ = fix_weights(np.array(weights))
    assert MAX_MULTIPLICITY * sum(fixed.tolist()) <= WEIGHT_SUM_LIMIT


def test_a_weight_stays_zero_only_if_it_was_zero() -> None:
    fixed, _ = fix_weights(np.array([0.0, 1e-200, 1.0, 1e9]))
    assert (fixed > 0).tolist() == [False, True, True, True]


@given(st.lists(FINITE, min_size=1, max_size=50), st.integers(1, 2**20))
def test_targets_keep_their_distances_and_their_sums_do_not_overflow(
    values: list[float], total_weight: int
) -> None:
    largest = max(total_weight, len(values))
    levels, unit, offset = fix_targets(np.array(values), largest)
    assert abs(levels).max() * largest <= TARGET_SUM_LIMIT
    spread = max(values) - min(values)
    np.testing.assert_allclose(
        levels * unit + offset, values, rtol=1e-15, atol=max(spread, 1e-300) * 2.0**-39
    )


@given(FINITE)
def test_a_constant_target_is_kept_exactly(value: float) -> None:
    levels, unit, offset = fix_targets(np.full(3, value), 45)
    assert (offset + levels * unit).tolist() == [value] * 3


def test_equal_targets_have_equal_levels_and_different_ones_differ() -> None:
    values = np.array([0.1, 0.2, 0.1, 0.3, 0.2])
    levels = regression_targets(values).kernel.levels
    assert (levels[:, None] == levels).tolist() == (values[:, None] == values).tolist()


@pytest.mark.parametrize("scale", [1e-9, 1.0, 1e6, 1e12])
def test_weights_of_any_scale_leave_targets_five_digits(scale: float) -> None:
    values = np.random.default_rng(1).standard_normal(1000)
    targets = regression_targets(values, scale * random_weights(1000))
    real = targets.kind.target_offset + targets.kernel.levels * targets.kind.target_unit
    np.testing.assert_allclose(real, values, atol=1e-5 * np.ptp(values))


def test_weighted_targets_are_levels_times_weights() -> None:
    values, weights = np.array([1.0, -2.0, 5.0]), np.array([2.0, 0.0, 0.5])
    targets = regression_targets(values, weights)
    kernel = targets.kernel
    assert (kernel.values == kernel.levels * kernel.weights).all()
    assert targets.allowed.tolist() == [True, False, True]
    assert targets.kind.is_regression
    assert targets.n_rows == 3


@pytest.mark.parametrize(
    ("n_classes", "criterion", "weighted", "search", "sums"),
    [
        (2, "gini", False, "binary", "binary"),
        (2, "gini", True, "moments", "classes"),
        (2, "entropy", False, "classes", "classes"),
        (3, "gini", False, "classes", "classes"),
        (3, "entropy", True, "classes", "classes"),
        (1, "gini", False, "classes", "classes"),
    ],
)
def test_the_narrowest_statistic_that_serves_is_chosen(
    n_classes: int, criterion: str, weighted: bool, search: str, sums: str
) -> None:
    weights = np.array([1.0, 2.0, 3.0]) if weighted else None
    targets = classification_targets(np.zeros(3, int), n_classes, weights, BY_NAME[criterion])
    assert (targets.kind.search, targets.kind.sums) == (search, sums)
    assert not targets.kind.is_regression


def test_rows_and_weight_are_found_in_the_sums_of_a_node() -> None:
    classes = classification_targets(np.array([0, 1, 2]), 3).kind
    sums = np.array([[4, 0, 2, 5]])
    assert (rows_of(sums, classes).tolist(), weight_of(sums, classes).tolist()) == ([5], [6])
    moments = regression_targets(np.array([0.0, 1.0])).kind
    sums = np.array([[9, -3, 5, 1]])
    assert (rows_of(sums, moments).tolist(), weight_of(sums, moments).tolist()) == ([5], [9])


def test_too_many_classes_are_refused() -> None:
    codes = np.arange(MAX_CLASSES + 1)
    with pytest.raises(DataError, match="1001 classes; at most 1000"):
        classification_targets(codes, MAX_CLASSES + 1)
    assert classification_targets(codes[:-1], MAX_CLASSES).kernel.n_classes == MAX_CLASSES


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ([1.0, 2.0], "one weight for each of the 3 rows"),
        ([[1.0], [2.0], [3.0]], "one weight for each of the 3 rows"),
        (1.0, "one weight for each of the 3 rows"),
        ([1.0, np.nan, 1.0], "NaN or infinity"),
        ([1.0, np.inf, 1.0], "NaN or infinity"),
        ([1.0, -2.0, -1.0], "negative in 2 rows"),
        (["many", "few", "none"], "numbers"),
        ([[1.0], [2.0, 3.0], [1.0]], "sample_weight"),
    ],
)
def test_weights_that_mean_nothing_are_refused(weights: object, message: str) -> None:
    with pytest.raises(DataError, match=message):
        check_weights(weights, 3)  # type: ignore[arg-type]


def test_weights_that_are_all_one_are_no_weights() -> None:
    assert check_weights(None, 3) is None
    assert check_weights([1, 1, 1], 3) is None
    assert check_weights([2, 2, 2], 3) is not None


def test_weights_that_are_all_zero_leave_no_rows() -> None:
    with pytest.raises(DataError, match="every sample weight is zero"):
        fix_weights(np.zeros(3))

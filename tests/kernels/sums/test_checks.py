"""Sums that cannot be sums are found, wherever they are."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray

from fedforest.kernels.criteria.gini import Gini
from fedforest.kernels.criteria.squared_error import SquaredError
from fedforest.kernels.cuts.scores import Sides
from fedforest.kernels.layout import Rules
from fedforest.kernels.sums.checks import are_class_weights, lies_between
from fedforest.tree.growth.cut_choice import SideLayout, choose_cuts

SMALL = st.integers(-2, 5)
LIMITS = st.sampled_from([-(2**63), -(2**60), -1, 0, 1, 2**60, 2**63 - 1])


@given(arrays(np.int64, st.integers(0, 40), elements=LIMITS), st.integers(0, 2), st.integers(0, 2))
def test_a_vector_lies_between_its_bounds_or_not(
    values: NDArray[np.int64], low: int, high: int
) -> None:
    assert lies_between(values, -low, high) == all(-low <= v <= high for v in values.tolist())
    assert lies_between(values, -(2**60), 2**60) == all(abs(v) <= 2**60 for v in values.tolist())


@given(arrays(np.int64, st.tuples(st.integers(0, 9), st.just(3)), elements=SMALL), st.booleans())
def test_class_weights_are_not_negative_and_add_up_to_no_more_than_the_limit(
    sides: NDArray[np.int64], rows_apart: bool
) -> None:
    n_classes = 2 if rows_apart else 3
    expected = all(
        min(side) >= 0 and max(side) <= 4 and sum(side[:n_classes]) <= 4 for side in sides.tolist()
    )
    assert are_class_weights(sides, n_classes, 4) == expected


@given(
    arrays(np.int64, (4, 3), elements=st.integers(0, 4)),
    arrays(np.int64, (2, 3), elements=st.integers(2, 5)),
    st.integers(0, 4),
)
def test_no_left_side_is_larger_than_its_node(
    left: NDArray[np.int64], totals: NDArray[np.int64], middle: int
) -> None:
    sides = Sides(np.array([0, middle, 4]), left, totals, 3)
    nodes = np.repeat([0, 1], [middle, 4 - middle])
    fits = left <= totals[nodes]
    by_classes = choose_cuts(SideLayout(3, rows_apart=False), sides, Rules(Gini(), 1))
    assert by_classes.fits.tolist() == [fits[nodes == k].all() for k in range(2)]
    with_rows = choose_cuts(SideLayout(2, rows_apart=True), sides, Rules(Gini(), 1))
    assert with_rows.fits.tolist() == by_classes.fits.tolist()
    by_moments = choose_cuts(SideLayout(0, rows_apart=True), sides, Rules(SquaredError(), 1))
    assert by_moments.fits.tolist() == [fits[nodes == k][:, [0, 2]].all() for k in range(2)]


@pytest.mark.parametrize(("total", "fits"), [(-5, True), (5, True)])
def test_sums_of_targets_may_be_any(total: int, fits: bool) -> None:
    sides = Sides(np.array([0, 1]), np.array([[1, total]]), np.array([[1, 0]]), 2)
    choice = choose_cuts(SideLayout(0, rows_apart=False), sides, Rules(SquaredError(), 1))
    assert choice.fits.tolist() == [fits]

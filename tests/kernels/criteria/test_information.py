"""The logarithm that needs no C library is as good as the one of the C library."""

import math

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from fedforest.kernels.criteria.information import ENTROPY_UNIT, fixed_x_log2_x, log2, x_log2_x

POSITIVE = st.floats(5e-324, 1.7e308)


@given(POSITIVE)
@example(5e-324)
@example(0.7071067811865476)
@example(math.nextafter(1.0, 0.0))
@example(math.nextafter(1.0, 2.0))
@example(3.0)
def test_the_logarithm_is_right_to_three_units_in_the_last_place(x: float) -> None:
    expected = math.log2(x)
    assert abs(log2(x) - expected) <= 3 * math.ulp(expected)


@given(st.integers(-1074, 1023))
def test_the_logarithm_of_a_power_of_two_is_exact(exponent: int) -> None:
    assert log2(math.ldexp(1.0, exponent)) == exponent


@given(st.integers(1, 2**52))
def test_x_log_x_of_a_weight_is_right_to_four_units_in_the_last_place(x: int) -> None:
    expected = x * math.log2(x)
    assert abs(x_log2_x(float(x)) - expected) <= 4 * math.ulp(expected)


@given(st.integers(1, 2**31 - 1))
@example(2**31 - 1)
def test_x_log_x_in_fixed_point_is_the_nearest_unit(x: int) -> None:
    expected = x * math.log2(x) * ENTROPY_UNIT
    fixed = int(fixed_x_log2_x(x))
    assert abs(fixed - expected) <= 0.5 + 4 * math.ulp(expected)
    assert 0 <= fixed < 2**62, "two of them can be added"


def test_nothing_has_no_entropy() -> None:
    assert fixed_x_log2_x(0) == 0
    assert x_log2_x(0.0) == 0.0
    assert x_log2_x(1.0) == 0.0


def test_the_logarithm_ascends() -> None:
    values = np.exp(np.linspace(-5, 5, 2001)).tolist()
    logarithms = [log2(x) for x in values]
    assert logarithms == sorted(logarithms)
    assert logarithms[1000] == pytest.approx(0.0, abs=1e-15)

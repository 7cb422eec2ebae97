"""Sorting float32 by their bits, against sorting by comparing."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from numpy.typing import NDArray

from fedforest.kernels.bins.radix_sort import sort_floats
from tests.strategies import SEEDS


@given(
    arrays.arrays(
        np.float32,
        st.integers(0, 60),
        elements=st.floats(width=32) | st.sampled_from([0.0, -0.0, np.inf, -np.inf, np.nan]),
    )
)
def test_any_numbers_are_in_order_and_what_is_no_number_comes_last(
    values: NDArray[np.float32],
) -> None:
    expected = np.sort(values)
    sort_floats(values)
    np.testing.assert_array_equal(values, expected)


@given(SEEDS, st.sampled_from([1e-42, 1.0, 1e30]))
def test_many_numbers_of_all_sizes_are_in_order(seed: int, size: float) -> None:
    values = (np.random.default_rng(seed).normal(size=500) * size).astype(np.float32)
    expected = np.sort(values)
    sort_floats(values)
    assert values.tobytes() == (expected + np.float32(0)).tobytes()


@pytest.mark.parametrize("bits", [0xFFC00000, 0x7F800001, 0xFFFFFFFF])
def test_whatever_its_bits_are_no_number_comes_last(bits: int) -> None:
    values = np.array([bits, 0xFF800000, 0x7F800000, 0x80000001], np.uint32).view(np.float32)
    sort_floats(values)
    assert values[:3].tolist() == [-np.inf, np.float32(-1e-45), np.inf]
    assert np.isnan(values[3])

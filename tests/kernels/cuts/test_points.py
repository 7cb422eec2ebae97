"""Points inside a party's range and thresholds between points."""

import math

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray

from fedforest.kernels.cuts.draws import draw_thresholds, key_pairs
from fedforest.kernels.cuts.pairs import Pairs
from fedforest.kernels.cuts.points import draw_between, draw_inside, has_infinite, to_unit
from fedforest.kernels.growth.sampling import draw_unit
from fedforest.kernels.jit import kernel
from tests.reference import random_cuts as reference
from tests.strategies import IS_PLAIN_PYTHON

LARGEST = float(np.finfo(np.float32).max)
SMALLEST = float(np.finfo(np.float32).smallest_subnormal)
UNITS = st.floats(0.0, 1.0, exclude_min=True, exclude_max=True)
NUMBERS = st.floats(width=32, allow_nan=False)


@kernel
def draw(low, high, unit):  # type: ignore[no-untyped-def]
    return draw_inside(np.float32(low), np.float32(high), unit)


@kernel
def between(low, high, unit):  # type: ignore[no-untyped-def]
    return draw_between(np.float32(low), np.float32(high), unit)


@kernel
def units_of(words):  # type: ignore[no-untyped-def]
    return [to_unit(word) for word in words]


@given(NUMBERS, NUMBERS, UNITS)
@example(0.0, SMALLEST, 0.5)
@example(-0.0, 2 * SMALLEST, 0.5)
@example(-SMALLEST, 0.0, 0.5)
@example(-SMALLEST, SMALLEST, 0.5)
@example(-math.inf, -LARGEST, 0.5)
@example(LARGEST, math.inf, 0.5)
@example(-math.inf, math.inf, 0.5)
@example(1.0, float(np.nextafter(np.float32(1.0), np.float32(2.0))), 0.9)
@settings(max_examples=100 if IS_PLAIN_PYTHON else 500)
def test_a_point_lies_strictly_inside_the_range_or_there_is_none(
    one: float, other: float, unit: float
) -> None:
    low, high = np.float32(min(one, other)), np.float32(max(one, other))
    if low == high:
        return
    point = draw(low, high, unit)
    expected = reference.draw_point([low, high], unit, 2, is_categorical=False)
    assert np.array_equal(point, expected, equal_nan=True)
    if math.isnan(point):
        assert np.nextafter(low, high) == high
    else:
        assert low < point < high


def test_points_are_spread_evenly_over_the_range() -> None:
    points = [draw(-2.0, 3.0, (i + 0.5) / 1000) for i in range(1000)]
    counts = np.histogram(points, bins=10, range=(-2.0, 3.0))[0]
    assert (np.abs(counts - 100) <= 1).all()


@given(st.integers(0, 5), st.lists(st.integers(0, 4), max_size=20), st.data())
@settings(max_examples=40 if IS_PLAIN_PYTHON else 200)
def test_a_threshold_lies_between_the_points_of_those_that_answered(
    n_parties: int, pairs_of_nodes: list[int], data: st.DataObject
) -> None:
    few = st.sampled_from([np.nan, np.nan, 0.0, 1.0, 1.0000001, -3.5])
    answers = st.one_of(few, st.floats(width=32, allow_infinity=False))
    n_pairs, n_nodes = sum(pairs_of_nodes), len(pairs_of_nodes)
    points = data.draw(arrays(np.float32, (n_parties, n_pairs), elements=answers))
    keys = data.draw(arrays(np.uint64, n_nodes))
    pairs = Pairs(np.cumsum([0, *pairs_of_nodes]), np.arange(n_pairs, dtype=np.int32))
    threshold = np.zeros(n_pairs, np.float32)
    draw_thresholds(points, keys, pairs, threshold, 0, n_nodes)
    for pair, key in enumerate(key_pairs(keys, pairs, np.arange(n_pairs))):
        expected = reference.merge_points(points[:, pair].tolist(), draw_unit(key, np.uint64(0)))
        assert np.array_equal(threshold[pair], expected, equal_nan=True)


@pytest.mark.parametrize("high", [1.0, np.nextafter(np.float32(0), np.float32(1)), LARGEST])
def test_a_threshold_never_reaches_the_highest_point(high: float) -> None:
    for unit in (2.0**-60, 0.5, 1 - 2.0**-53):
        assert 0.0 <= between(0.0, high, unit) < np.float32(high)


def test_one_answer_is_the_threshold_and_none_is_no_threshold() -> None:
    points = np.array([[np.nan, np.nan], [0.25, np.nan]], np.float32)
    threshold, pairs = (
        np.zeros(2, np.float32),
        Pairs(np.array([0, 2]), np.arange(2, dtype=np.int32)),
    )
    draw_thresholds(points, np.ones(1, np.uint64), pairs, threshold, 0, 1)
    assert threshold[0] == 0.25
    assert np.isnan(threshold[1])


@given(arrays(np.float32, st.integers(0, 70), elements=st.floats(width=32)))
def test_an_infinite_value_is_found_wherever_it_is(values: NDArray[np.float32]) -> None:
    assert has_infinite(values) == any(map(math.isinf, values.tolist()))


def test_units_lie_between_zero_and_one_however_extreme_the_word() -> None:
    words = np.array([0, 2**12, 2**63, 2**64 - 1], np.uint64)
    assert units_of(words) == [2.0**-53, 3 * 2.0**-53, 0.5 + 2.0**-53, 1 - 2.0**-53]

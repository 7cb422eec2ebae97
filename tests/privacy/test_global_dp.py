"""GlobalDP: settings that are refused, scales that never fall short, targets kept in bounds."""

import copy
import math
import pickle
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedforest.errors import ConfigurationError, DataError, PrivacyError
from fedforest.privacy.global_dp import (
    MAX_SCALE,
    GlobalDP,
    TargetGrid,
    add_noise,
    choose_scale,
)
from fedforest.privacy.queries import Queries
from fedforest.protocol.horizontal.party.statistics import LABEL_MOVES

KEY = bytes(range(32))
FINITE = st.floats(-1e300, 1e300)


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({}, "needs epsilon, the guarantee of the whole training"),
        ({"epsilon_query": 1.0, "epsilon": 1.0}, "exactly one"),
        ({"epsilon_query": 0.0}, "epsilon_query must be a finite number above zero"),
        ({"epsilon_query": -1}, "epsilon_query must be"),
        ({"epsilon_query": math.inf}, "epsilon_query must be"),
        ({"epsilon_query": math.nan}, "epsilon_query must be"),
        ({"epsilon_query": "1"}, "epsilon_query must be"),
        ({"epsilon_query": True}, "epsilon_query must be"),
        ({"epsilon": 0}, "epsilon must be"),
        ({"epsilon": math.inf}, "epsilon must be"),
        ({"epsilon_query": 1.0, "target_bounds": (1.0, 1.0)}, "lower one first"),
        ({"epsilon_query": 1.0, "target_bounds": (2.0, 1.0)}, "lower one first"),
        ({"epsilon_query": 1.0, "target_bounds": (0.0, math.inf)}, "two finite numbers"),
        ({"epsilon_query": 1.0, "target_bounds": (0.0,)}, "two finite numbers"),
        ({"epsilon_query": 1.0, "target_bounds": 3.0}, "two finite numbers"),
        ({"epsilon_query": 1.0, "target_bounds": ("a", "b")}, "two finite numbers"),
    ],
)
def test_settings_that_cannot_be_used_are_refused(settings: dict[str, Any], reason: str) -> None:
    with pytest.raises(ConfigurationError, match=reason):
        GlobalDP(**settings).check()
    with pytest.raises(ValueError, match=reason):
        GlobalDP(**settings).resolve(Queries(1, 1, 1))


def test_regression_needs_bounds_of_the_target() -> None:
    with pytest.raises(ConfigurationError, match="regression needs target_bounds"):
        GlobalDP(epsilon_query=1.0).check(is_regression=True)
    GlobalDP(epsilon_query=1.0, target_bounds=(0, 5)).check(is_regression=True)


@pytest.mark.parametrize("numbers", [(1.0,), (1.0, 2.0), (None, 8)])
def test_a_number_without_a_name_is_refused(numbers: tuple[Any, ...]) -> None:
    with pytest.raises(ConfigurationError, match=r"GlobalDP\(epsilon=2.0\) guarantees"):
        GlobalDP(*numbers)


def test_settings_are_shown_copied_and_stored_as_they_were_given() -> None:
    settings = GlobalDP(epsilon=2.0, target_bounds=(0.0, 9.0))
    assert repr(settings) == "GlobalDP(epsilon=2.0, target_bounds=(0.0, 9.0))"
    for copied in (copy.deepcopy(settings), pickle.loads(pickle.dumps(settings))):
        assert copied == settings


def test_a_total_without_a_finite_depth_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="needs a max_depth"):
        GlobalDP(epsilon=1.0).resolve(Queries(4, None, 10))
    assert GlobalDP(epsilon_query=0.5).resolve(Queries(4, None, 10)) == 0.5


@given(st.floats(1e-6, 1e6), st.integers(1, 100), st.integers(1, 50), st.integers(1, 1000))
def test_a_total_is_divided_evenly_and_never_exceeded(
    total: float, candidates: int, levels: int, trees: int
) -> None:
    queries = Queries(candidates, levels, trees)
    epsilon = GlobalDP(epsilon=total).resolve(queries)
    assert queries.count == candidates * levels * trees
    assert epsilon * queries.count <= total
    assert epsilon * queries.count == pytest.approx(total)


def test_a_training_that_asks_nothing_spends_at_most_the_total() -> None:
    assert GlobalDP(epsilon=2.0).resolve(Queries(3, 0, 5)) == 2.0


@pytest.mark.parametrize("numbers", [(-1, 1, 1), (1, -1, 1), (1, 1, -1)])
def test_negative_numbers_of_queries_are_refused(numbers: tuple[int, int, int]) -> None:
    with pytest.raises(ConfigurationError, match="negative"):
        Queries(*numbers)


@given(st.floats(1e-5, 1e9), st.integers(1, 2**30))
def test_a_scale_is_never_too_small_and_hardly_too_large(epsilon: float, sensitivity: int) -> None:
    exact = Fraction(sensitivity) / Fraction(epsilon)
    scale = choose_scale(epsilon, sensitivity)
    chosen = scale.numerator * Fraction(2) ** scale.exponent
    assert exact <= chosen <= exact * (1 + Fraction(1, 2**24))
    assert 0 < scale.numerator <= 2**26
    assert chosen <= 2 * MAX_SCALE
    assert scale.value == float(chosen)


def test_an_epsilon_whose_noise_would_not_fit_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="too small"):
        choose_scale(1e-16, 2)


def test_noise_needs_integers() -> None:
    with pytest.raises(PrivacyError, match="int64"):
        add_noise(np.zeros(3), 1.0, 1, KEY)  # type: ignore[arg-type]


def test_noise_keeps_shapes_and_leaves_the_plain_statistics_alone() -> None:
    plain = np.arange(24, dtype=np.int64).reshape(4, 6)[:, ::2]
    noisy = add_noise(plain, 0.1, LABEL_MOVES, KEY)
    assert noisy.shape == (4, 3)
    assert (noisy != plain).any()
    assert plain[1].tolist() == [6, 8, 10]
    assert (add_noise(plain, 0.1, LABEL_MOVES, KEY) == noisy).all()
    assert (add_noise(plain, 0.1, LABEL_MOVES, bytes(32)) != noisy).any()


def test_a_huge_epsilon_adds_nothing() -> None:
    plain = np.arange(1000, dtype=np.int64)
    assert add_noise(plain, 1e4, 2, KEY).tolist() == plain.tolist()


@st.composite
def bounds(draw: st.DrawFn) -> tuple[float, float]:
    low, high = sorted((draw(FINITE), draw(FINITE)))
    return (low, high) if low < high else (low, math.nextafter(low, math.inf))


@given(bounds(), st.lists(st.floats(allow_nan=False), min_size=2, max_size=20))
def test_no_change_of_one_target_moves_a_sum_by_more_than_the_sensitivity(
    limits: tuple[float, float], targets: list[float]
) -> None:
    grid = TargetGrid.of(limits)
    levels = grid.levels(np.array([*targets, *limits]))
    assert levels.max() - levels.min() <= grid.sensitivity <= 2**30
    assert math.frexp(grid.unit)[0] == 0.5  # a power of two


@given(bounds(), st.lists(st.floats(0.0, 1.0), min_size=1, max_size=20))
def test_targets_within_bounds_come_back_to_within_half_a_unit(
    limits: tuple[float, float], shares: list[float]
) -> None:
    grid = TargetGrid.of(limits)
    low, high = limits
    targets = np.array([low * (1 - s) + high * s for s in shares])
    back = grid.offset + grid.levels(targets) * grid.unit
    rounding = 4 * np.spacing(max(abs(low), abs(high)))
    assert (np.abs(back - np.clip(targets, low, high)) <= grid.unit / 2 + rounding).all()


def test_targets_outside_are_moved_to_the_nearest_bound() -> None:
    grid = TargetGrid.of((-1.0, 3.0))
    levels = grid.levels(np.array([-np.inf, -1.0, -5.0, 3.0, 7.0, np.inf]))
    assert levels[:3].tolist() == [levels[0]] * 3
    assert levels[3:].tolist() == [levels[3]] * 3
    assert levels[3] - levels[0] == grid.sensitivity


def test_a_missing_target_is_refused() -> None:
    with pytest.raises(DataError, match="missing"):
        TargetGrid.of((0.0, 1.0)).levels(np.array([0.5, np.nan]))


def test_bounds_as_narrow_as_floats_can_be_still_work() -> None:
    grid = TargetGrid.of((0.0, 5e-324))
    assert grid.sensitivity >= 1
    assert grid.unit > 0

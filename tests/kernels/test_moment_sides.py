"""The sides noted during the search are those that a visit to the rows afterwards finds."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedforest.kernels.layout import VARIANCE, Found, RowOrder, Rules, Targets
from fedforest.kernels.moment_sides import Sides, make_sides, take_known
from fedforest.kernels.moment_split import find_by_moments
from fedforest.kernels.partition import place_bits, sum_left_moments, write_bits
from fedforest.kernels.sorted_columns import LARGEST_SORTED
from tests.kernels.test_split_search import NO_SIDES, NOTHING, Case, cases
from tests.strategies import IS_PLAIN_PYTHON, SEEDS

N_EXAMPLES = 25 if IS_PLAIN_PYTHON else 100


def search(case: Case, order: RowOrder, targets: Targets, sides: Sides) -> Found:
    found, rules = case.nothing_found(), Rules(VARIANCE, case.min_rows_leaf)
    nodes = 0, len(case.nodes)
    find_by_moments(
        case.table.columns(), order, targets, case.bitmap(), rules, found, sides, *nodes
    )
    return found


def order_of(case: Case) -> RowOrder:
    n_rows = case.table.n_rows
    return case.nodes.order(n_rows, np.zeros(n_rows, np.int64))


def draw_targets(seed: int, n_rows: int, n_levels: int, *, weighted: bool) -> Targets:
    rng = np.random.default_rng(seed)
    levels = rng.integers(-n_levels, n_levels, n_rows)
    weights = rng.integers(1, 9, n_rows) if weighted else NOTHING
    return Targets(0, weights, levels * weights if weighted else levels, levels)


@given(cases(), SEEDS, st.sampled_from([1, 2, 1000]), st.booleans())
@settings(max_examples=N_EXAMPLES)
def test_the_bits_and_sums_noted_are_those_of_a_visit_to_the_rows(
    case: Case, seed: int, n_levels: int, weighted: bool
) -> None:
    targets = draw_targets(seed, case.table.n_rows, n_levels, weighted=weighted)
    order = order_of(case)
    sides = make_sides(order.start, order.stop)
    found = search(case, order, targets, sides)
    nodes = np.flatnonzero(found.feature >= 0)
    offsets = place_bits(order.start, order.stop, nodes)
    whole = 0, len(nodes)
    bits = np.zeros(int(offsets[-1]), np.uint8)
    write_bits(case.table.columns(), order, found, nodes, offsets, bits, *whole)
    left = np.zeros((len(nodes), 4), np.int64)
    sum_left_moments(order, targets, nodes, offsets, bits, left, *whole)

    known_bits, known_left = np.full_like(bits, 77), np.full_like(left, 77)
    unknown = take_known(sides, nodes, offsets, known_bits, known_left, *whole)
    for i in unknown:
        assert (known_bits[offsets[i] : offsets[i + 1]] == 77).all()
        known_bits[offsets[i] : offsets[i + 1]] = bits[offsets[i] : offsets[i + 1]]
    assert (known_left[unknown] == 77).all()
    known_left[unknown] = left[unknown]
    np.testing.assert_array_equal(known_bits, bits)
    np.testing.assert_array_equal(known_left, left)


@given(cases(), SEEDS)
@settings(max_examples=N_EXAMPLES)
def test_small_nodes_that_a_numeric_column_splits_are_known_and_no_others(
    case: Case, seed: int
) -> None:
    order = order_of(case)
    sides = make_sides(order.start, order.stop)
    targets = draw_targets(seed, case.table.n_rows, 1000, weighted=False)
    found = search(case, order, targets, sides)
    by_number = (found.feature >= 0) & ~case.table.is_categorical[found.feature]
    is_small = order.stop - order.start <= LARGEST_SORTED
    np.testing.assert_array_equal(sides.is_known, by_number & is_small)


@given(cases(), SEEDS)
@settings(max_examples=N_EXAMPLES // 4)
def test_where_nothing_is_to_be_noted_the_same_splits_are_found(case: Case, seed: int) -> None:
    order = order_of(case)
    targets = draw_targets(seed, case.table.n_rows, 3, weighted=False)
    noting = search(case, order, targets, make_sides(order.start, order.stop))
    for with_sides, without in zip(noting, search(case, order, targets, NO_SIDES), strict=True):
        np.testing.assert_array_equal(with_sides, without)


@pytest.mark.parametrize("part", [(0, 3), (1, 2), (3, 3)])
def test_only_the_nodes_of_the_range_are_taken(part: tuple[int, int]) -> None:
    starts = np.array([0, 9, 20])
    sides = make_sides(starts, starts + 9)
    sides.bits[:] = np.arange(6)
    sides.left[:] = np.arange(12).reshape(3, 4)
    sides.is_known[:] = True
    nodes, offsets = np.arange(3), np.array([0, 2, 4, 6])
    bits = np.full(6, 77, np.uint8)
    left = np.full((3, 4), 77, np.int64)
    assert not len(take_known(sides, nodes, offsets, bits, left, *part))
    inside = np.isin(np.arange(3), np.arange(*part))
    np.testing.assert_array_equal(bits == np.arange(6), np.repeat(inside, 2))
    np.testing.assert_array_equal((left == sides.left).all(axis=1), inside)

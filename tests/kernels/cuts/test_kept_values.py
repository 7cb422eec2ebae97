"""Values gathered once: every pair's, in the order of its node, and their ranges."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedforest.kernels.cuts.kept_values import find_gaps, gather_values, turn_values
from fedforest.kernels.cuts.points import answer_categories, draw_points
from fedforest.kernels.cuts.tiles import gather_tiles, place_in_tile
from tests.level_cases import RawLevel, raw_levels
from tests.reference import random_cuts as reference
from tests.strategies import IS_PLAIN_PYTHON, SEEDS, DrawnNodes

N_EXAMPLES = 25 if IS_PLAIN_PYTHON else 120


@given(raw_levels(), st.sampled_from([np.uint32, np.uint64]), st.booleans())
@settings(max_examples=N_EXAMPLES)
def test_the_values_of_a_pair_are_kept_in_the_order_of_its_rows(
    level: RawLevel, dtype: type, by_row: bool
) -> None:
    order = level.order(dtype=dtype)
    _, kept = level.kept(order, by_row=by_row)
    at = 0
    for node, column in level.pairs:
        expected = level.seen(node, column)
        assert np.array_equal(kept.values[at : at + len(expected)], expected, equal_nan=True)
        at += len(expected)
    assert kept.first[-1] == at


@given(raw_levels(), st.sampled_from([np.uint32, np.uint64]), st.booleans())
@settings(max_examples=N_EXAMPLES)
def test_values_in_tiles_are_those_of_the_row_in_all_pairs_of_the_tile(
    level: RawLevel, dtype: type, by_row: bool
) -> None:
    order = level.order(dtype=dtype)
    pairs, kept = level.kept(order, by_row=by_row, in_tiles=True)
    for pair, (node, column) in enumerate(level.pairs):
        expected = level.seen(node, column)
        slot, n = pair - int(pairs.node_start[node]), len(expected)
        n_pairs = int(pairs.node_start[node + 1] - pairs.node_start[node])
        numbers = map(np.uint64, (slot, n, n_pairs))
        at, width = map(int, place_in_tile(kept.first[node], *numbers))
        seen = kept.values[at : at + n * width : width]
        assert np.array_equal(seen, expected, equal_nan=True)


@given(raw_levels(), st.integers(1, 4), st.integers(0, 4), SEEDS, st.booleans(), st.booleans())
@settings(max_examples=N_EXAMPLES)
def test_points_are_those_of_the_reference_however_the_nodes_are_divided(
    level: RawLevel, least_rows: int, middle: int, seed: int, by_row: bool, in_tiles: bool
) -> None:
    order = level.order()
    pairs, kept = level.room(order, in_tiles=in_tiles)
    gather = gather_tiles if in_tiles else gather_values
    low, high = np.zeros((2, len(pairs.feature)), np.float32)
    middle = min(middle, len(level.nodes))
    for part in ((middle, len(level.nodes)), (0, middle)):
        cells = level.cells(by_row=by_row)
        gather(cells, order, pairs, least_rows, kept, low, high, *part)
    n_pairs = len(pairs.feature)
    words = np.random.default_rng(seed).integers(0, 2**64, (n_pairs, 2), np.uint64)
    units = ((words[:, 0] >> np.uint64(12)) + 0.5) * 2.0**-52
    points = np.zeros(n_pairs, np.float32)
    for part in ((n_pairs // 3, n_pairs), (0, n_pairs // 3)):
        draw_points(low, high, words[slice(*part)], points, *part)
        answer_categories(low, high, pairs.feature, level.is_categorical, points, *part)
    expected = [
        reference.draw_point(
            level.seen(node, column),
            unit,
            least_rows,
            is_categorical=bool(level.is_categorical[column]),
        )
        for (node, column), unit in zip(level.pairs, units.tolist(), strict=True)
    ]
    assert np.array_equal(points, expected, equal_nan=True)


@given(raw_levels())
@settings(max_examples=N_EXAMPLES)
def test_a_column_has_gaps_if_any_value_is_missing(level: RawLevel) -> None:
    gaps = find_gaps(level.values.reshape(-1), np.uint64(level.n_rows), len(level.values))
    assert gaps.tolist() == np.isnan(level.values).any(axis=1).tolist()


@pytest.mark.parametrize("n_rows", [1, 63, 64, 65, 200])
def test_a_table_turned_has_all_values_of_a_row_side_by_side(n_rows: int) -> None:
    by_column = np.arange(3 * n_rows, dtype=np.float32).reshape(3, n_rows)
    turned = np.empty((n_rows, 3), np.float32)
    turn_values(by_column.reshape(-1), np.uint64(n_rows), np.uint64(3), turned.reshape(-1))
    assert np.array_equal(turned, by_column.T)


@pytest.mark.parametrize("least_rows", [2, 3])
def test_one_row_drawn_often_is_still_one_row(least_rows: int) -> None:
    """Two rows with a value, of which one was drawn fifteen times, and one without."""
    values = np.array([1.0, 2.0, np.nan], np.float32)
    level = RawLevel(
        values[None],
        np.zeros(1, np.bool_),
        DrawnNodes([np.arange(3)], [np.array([15, 1, 15])]),
        np.ones((1, 1), np.uint8),
    )
    order = level.order()
    for in_tiles, gather in ((False, gather_values), (True, gather_tiles)):
        pairs, kept = level.room(order, in_tiles=in_tiles)
        low, high = np.zeros((2, 1), np.float32)
        gather(level.cells(), order, pairs, least_rows, kept, low, high, 0, 1)
        assert (low[0] < high[0]) == (least_rows <= 2)

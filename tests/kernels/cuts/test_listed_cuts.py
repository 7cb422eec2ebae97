"""Cuts in a list: their rows and draws per bin, and scores as those that choose the best cut."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedforest.kernels.criteria.registry import BY_NAME
from fedforest.kernels.cuts.listed_cuts import (
    count_cells,
    score_list_by_classes,
    score_list_by_moments,
)
from fedforest.kernels.cuts.scores import Choice, Sides, choose_by_classes
from fedforest.kernels.layout import MISSING_BIN, NO_SPLIT, Columns, RowOrder, Rules
from tests.strategies import SEEDS

N_BINS = 3


@given(SEEDS, st.integers(1, 30))
def test_cells_count_the_rows_and_draws_of_each_bin(seed: int, n_rows: int) -> None:
    rng = np.random.default_rng(seed)
    bins = rng.choice([0, 1, 2, MISSING_BIN], (2, n_rows)).astype(np.uint8)
    times = rng.integers(1, 4, n_rows).astype(np.uint32)
    numeric = np.zeros(2, np.bool_)
    n_bins, nothing = np.full(2, N_BINS, np.int16), np.zeros(0, np.uint8)
    columns = Columns(bins.reshape(-1), np.uint64(n_rows), n_bins, numeric, nothing)
    entries = (times << np.uint32(8)) | np.arange(n_rows, dtype=np.uint32)
    middle = n_rows // 2
    order = RowOrder(entries, np.uint64(8), np.array([0, middle]), np.array([middle, n_rows]))
    counts = np.zeros((2, N_BINS + 1, 2), np.int64)
    count_cells(columns, order, np.array([1, 0], np.int32), counts)
    for pair, (column, rows) in enumerate(((1, slice(0, middle)), (0, slice(middle, n_rows)))):
        for cell, code in enumerate((0, 1, 2, MISSING_BIN)):
            is_there = bins[column, rows] == code
            assert counts[pair, cell].tolist() == [is_there.sum(), times[rows][is_there].sum()]


@pytest.mark.parametrize("criterion", ["gini", "entropy"])
@given(seed=SEEDS)
def test_the_best_of_a_list_by_classes_is_the_cut_that_would_be_chosen(
    criterion: str, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    left = rng.integers(0, 4, (12, 3))
    totals = np.full((2, 4), 6)
    totals[:, 3] = totals[:, :3].sum(axis=1)
    sums = np.column_stack([left, left.sum(axis=1)])
    sides = Sides(np.array([0, 5, 12]), sums, totals, 4)
    rules = Rules(BY_NAME[criterion].scores.formula, 2)
    scores = np.empty(12)
    score_list_by_classes(sides, 3, rules, scores)
    choice = Choice(np.empty(2), np.empty(2, np.int64), *np.empty((2, 2), np.bool_))
    choose_by_classes(sides, 3, rules, choice, 0, 2)
    for node, (first, last) in enumerate(((0, 5), (5, 12))):
        assert scores[first:last].max() == choice.score[node]
        if choice.score[node] > NO_SPLIT:
            assert first + scores[first:last].argmax() == choice.asked[node]


def test_a_cut_by_moments_scores_by_the_criterion_and_not_where_a_side_is_too_small() -> None:
    sums = np.array([[2, 3, 2], [1, 1, 1], [3, 5, 3]])
    sides = Sides(np.array([0, 3]), sums, np.array([[5, 6, 5]]), 3)
    scores = np.empty(3)
    score_list_by_moments(sides, Rules(BY_NAME["squared_error"].scores.formula, 2), scores)
    expected = [(s * 5 - 6 * a) ** 2 / (a * (5 - a)) for a, s in ((2, 3), (3, 5))]
    assert scores.tolist() == [expected[0], NO_SPLIT, expected[1]]

"""Layouts of sides and tables of chosen cuts; scores are tested with the kernels."""

import numpy as np
import pytest

from fedforest.kernels.criteria.gini import Gini
from fedforest.kernels.cuts.pairs import Cuts, Pairs
from fedforest.kernels.cuts.scores import Sides
from fedforest.kernels.layout import Rules
from fedforest.tree.growth.cut_choice import SideLayout, choose_cuts, tabulate_cuts


@pytest.mark.parametrize(
    ("layout", "side", "expected"),
    [
        (SideLayout(3, rows_apart=False), [4, 0, 2], [4, 0, 2, 6]),
        (SideLayout(2, rows_apart=True), [40, 25, 7], [40, 25, 7]),
        (SideLayout(0, rows_apart=False), [5, -30], [5, -30, 5, 0]),
        (SideLayout(0, rows_apart=True), [50, -30, 7], [50, -30, 7, 0]),
    ],
)
def test_a_side_expands_to_what_describes_a_node(
    layout: SideLayout, side: list[int], expected: list[int]
) -> None:
    assert layout.width == len(side)
    assert layout.expand(np.array([side, side])).tolist() == [expected, expected]


def test_chosen_pairs_become_a_table_of_splits() -> None:
    pairs = Pairs(np.array([0, 2, 4]), np.array([1, 5, 0, 5], np.int32))
    cuts = Cuts(
        np.array([0.5, 0.0, np.nan, 0.0], np.float32),
        np.array([1, 0, 0, 1], np.uint8),
        np.array([-1, 0, -1, 1], np.int32),
        np.array([[1, 2, 3, 4], [5, 6, 7, 8]], np.uint64),
    )
    table = tabulate_cuts(pairs, cuts, np.array([0, 3]))
    assert table.feature.tolist() == [1, 5]
    assert table.cut.tolist() == [0.5, 0.0]
    assert table.missing_left.tolist() == [1, 1]
    assert table.left_set.tolist() == [[0, 0, 0, 0], [5, 6, 7, 8]]
    without_sets = cuts._replace(
        set_index=np.full(4, -1, np.int32), left_set=np.zeros((0, 4), np.uint64)
    )
    assert tabulate_cuts(pairs, without_sets, np.array([0])).left_set.shape == (0, 4)


def test_a_node_that_nobody_was_asked_about_has_no_cut() -> None:
    sides = Sides(np.array([0, 0, 1]), np.array([[3, 0]]), np.array([[4, 4, 8], [3, 5, 8]]), 2)
    choice = choose_cuts(SideLayout(2, rows_apart=False), sides, Rules(Gini(), 1))
    assert choice.asked.tolist() == [-1, 0]
    assert choice.score.tolist() == [-np.inf, 8.0]
    assert not choice.gainless.any()

"""Layouts of sides and tables of chosen cuts; scores are tested with the kernels."""

import numpy as np
import pytest

from fedforest.kernels.criteria.gini import Gini
from fedforest.kernels.cuts.scores import Sides
from fedforest.kernels.layout import Rules
from fedforest.tree.growth.cut_choice import SideLayout, choose_cuts


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


def test_a_node_that_nobody_was_asked_about_has_no_cut() -> None:
    sides = Sides(np.array([0, 0, 1]), np.array([[3, 0]]), np.array([[4, 4, 8], [3, 5, 8]]), 2)
    choice = choose_cuts(SideLayout(2, rows_apart=False), sides, Rules(Gini(), 1))
    assert choice.asked.tolist() == [-1, 0]
    assert choice.score.tolist() == [-np.inf, 8.0]
    assert not choice.gainless.any()

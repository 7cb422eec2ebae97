"""Expected sizes of nodes: what must hold for every table, whatever the law of splits says."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedforest.runtime.planning.tree_sizes import (
    BEST_CUTS,
    RANDOM_CUTS,
    GrowthLaw,
    TreeSizes,
    expect_sizes,
)
from fedforest.tree.growth.parameters import ForestParameters

LAWS = [*BEST_CUTS.values(), *RANDOM_CUTS.values()]


def expect(n_rows: int, law: GrowthLaw, n_trees: int = 1, **parameters: object) -> TreeSizes:
    rules = ForestParameters(**parameters).growth_rules(n_rows, 10)  # type: ignore[arg-type]
    return expect_sizes(n_rows, rules, law, n_trees)


@settings(max_examples=30)
@given(
    n_rows=st.integers(1, 10**9),
    law=st.sampled_from(LAWS),
    depth=st.integers(1, 12),
    leaf=st.integers(1, 50),
)
def test_a_level_has_at_most_twice_the_nodes_and_the_rows_of_the_one_before(
    n_rows: int, law: GrowthLaw, depth: int, leaf: int
) -> None:
    sizes = expect(n_rows, law, max_depth=depth, min_samples_leaf=leaf)
    assert sizes.n_levels <= depth
    n_open, rows = sizes.n_open(), sizes.rows_open()
    assert (n_open[1:] <= 2 * n_open[:-1] * (1 + 1e-9)).all()
    assert (rows <= n_rows * (1 + 1e-9)).all()
    assert (np.diff(rows) <= 1e-9 * n_rows).all()


def test_a_pure_split_law_without_doubt_gives_one_level_of_nodes_after_the_root() -> None:
    sizes = expect(1000, GrowthLaw(1.0, 0.0))
    assert sizes.n_open().tolist() == [1.0]


def test_where_every_row_differs_a_tree_has_as_many_leaves_as_rows() -> None:
    sizes = expect(1000, GrowthLaw(2.0, 1.0))
    assert sizes.n_split().sum() == pytest.approx(999, rel=0.02)


def test_trees_are_planned_together_as_one_by_one() -> None:
    one, ten = expect(5000, LAWS[0], max_depth=6), expect(5000, LAWS[0], 10, max_depth=6)
    np.testing.assert_allclose(ten.n_open(), 10 * one.n_open())


def test_leaves_larger_than_the_table_are_never_split() -> None:
    assert expect(10, LAWS[0], min_samples_leaf=6).n_levels <= 1


def test_rows_that_lie_with_different_parties_are_not_cut_apart() -> None:
    rules = ForestParameters().growth_rules(100, 10)
    alone = expect_sizes(100, rules, RANDOM_CUTS["classification"], 1, [100.0])
    apart = expect_sizes(100, rules, RANDOM_CUTS["classification"], 1, [1.0] * 100)
    assert apart.n_split().sum() < 0.8 * alone.n_split().sum()

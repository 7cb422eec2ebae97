"""Importances without the decrease of single splits."""

import numpy as np
import pytest

from fedforest.estimators.pooled import PooledExtraTrees
from fedforest.tree.forest.decreases import spread_decreases
from fedforest.tree.forest.forest import Forest


def grown(task: str = "classification") -> Forest:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 3))
    y = (X[:, 0] + X[:, 1] > 0).astype(int)
    return PooledExtraTrees(task=task, n_estimators=4, max_depth=5).fit(X, y).forest_


@pytest.mark.parametrize("task", ["classification", "regression"])
def test_importances_stay_and_splits_of_one_column_in_a_tree_become_equal(task: str) -> None:
    forest = grown(task)
    spread = spread_decreases(forest)
    np.testing.assert_allclose(spread.importances(), forest.importances(), rtol=1e-12)
    trees = forest.shape.tree_of_node()
    for tree in range(4):
        for column in range(3):
            here = (trees == tree) & (forest.splits.feature == column)
            assert len(set(forest.decrease[here])) > 1
            assert len(set(spread.decrease[here])) == 1


def test_doing_it_twice_changes_nothing_more() -> None:
    once = spread_decreases(grown())
    np.testing.assert_allclose(spread_decreases(once).decrease, once.decrease, rtol=1e-12)


def test_leaves_have_no_decrease_and_a_forest_of_leaves_stays() -> None:
    spread = spread_decreases(grown())
    assert not spread.decrease[spread.splits.feature < 0].any()
    X = np.zeros((5, 2))
    stump = PooledExtraTrees(n_estimators=2).fit(X, np.arange(5)).forest_
    assert spread_decreases(stump).decrease.tolist() == [0.0, 0.0]

"""Small tables, and forests on them that train in no time."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedforest.estimators.pooled import PooledForest

N_ROWS = 120


def classifier(**parameters: Any) -> PooledForest:
    return PooledForest(**{"n_estimators": 5, **parameters})


def regressor(**parameters: Any) -> PooledForest:
    return PooledForest(**{"n_estimators": 5, "task": "regression", **parameters})


def numbers(seed: int = 0) -> NDArray[np.float64]:
    return np.random.default_rng(seed).standard_normal((N_ROWS, 4))


def labels(matrix: NDArray[np.float64]) -> NDArray[np.int64]:
    return (matrix[:, 0] + matrix[:, 1] > 0).astype(np.int64)


def contents(estimator: PooledForest) -> dict[str, list[Any]]:
    """The arrays of a trained forest."""
    forest = estimator.forest_
    shape, splits, leaves = forest.shape, forest.splits, forest.leaves
    return {
        "tree_start": shape.tree_start.tolist(),
        "left_child": shape.left_child.tolist(),
        "feature": splits.feature.tolist(),
        "cut": splits.cut.tolist(),
        "missing_left": splits.missing_left.tolist(),
        "left_set": splits.left_set.tolist(),
        "leaf_label": leaves.label.tolist(),
        "leaf_value": leaves.value.tolist(),
    }

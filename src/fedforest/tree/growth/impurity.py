"""From the scores that order splits to the impurity decrease users know.

Parties compare raw scores, which are the same bits everywhere; the decrease is derived from them
afterwards and orders nothing.
"""

import numpy as np
from numpy.typing import NDArray

from fedforest.kernels.criteria.registry import ByClasses, OfNodes
from fedforest.kernels.sums.nodes import decrease_by_gini, scale_scores, weigh_nodes
from fedforest.tree.table.targets import TargetKind

FEW_CLASSES = 8  # numpy adds up more in another order
BLOCK_NODES = 2048  # nodes whose intermediate results stay in the cache


def impurity_decrease(
    scores: NDArray[np.float64], sums: NDArray[np.int64], kind: TargetKind
) -> NDArray[np.float64]:
    """Return the impurity of nodes minus that of their children, per unit of weight.

    Zero where there is no valid split. For regression the unit is the fixed-point unit to the power
    that the criterion uses: real values may leave the range of floats.
    """
    how = kind.scores
    if not isinstance(how, ByClasses):
        n_weights = 1 if kind.is_regression else kind.n_classes
        factor = 1.0 if kind.is_regression else 2.0
        return scale_scores(scores, sums, n_weights, factor)  # type: ignore[no-any-return]
    if how.is_squares and kind.n_classes < FEW_CLASSES:
        return decrease_by_gini(scores, sums)  # type: ignore[no-any-return]
    decrease = np.empty(len(scores))
    for start in range(0, len(scores), BLOCK_NODES):
        block = slice(start, start + BLOCK_NODES)
        decrease[block] = _decrease_by_classes(scores[block], sums[block], how.of_nodes)
    return decrease


def _decrease_by_classes(
    scores: NDArray[np.float64], sums: NDArray[np.int64], of_nodes: OfNodes
) -> NDArray[np.float64]:
    weight: NDArray[np.float64] = weigh_nodes(sums).astype(np.float64)
    before = of_nodes(sums[:, :-1].astype(np.float64), weight)
    return np.maximum(scores - before, 0.0) / weight

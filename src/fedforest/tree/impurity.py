"""From the scores that order splits to the impurity decrease users know.

Parties compare raw scores, which are the same bits everywhere; the decrease is derived from them
afterwards and orders nothing.
"""

import numpy as np
from numpy.typing import NDArray

from fedforest.kernels.layout import ENTROPY, GINI
from fedforest.kernels.node_sums import decrease_by_gini, scale_scores, weigh_nodes
from fedforest.tree.targets import TargetKind

FEW_CLASSES = 8  # numpy adds up more in another order
BLOCK_NODES = 2048  # nodes whose intermediate results stay in the cache


def impurity_decrease(
    scores: NDArray[np.float64], sums: NDArray[np.int64], kind: TargetKind
) -> NDArray[np.float64]:
    """Impurity of the nodes minus the weighted impurity of their children, per unit of weight.

    Zero where there is no valid split. Variances are in squared fixed-point units: real ones may
    leave the range of floats.
    """
    if kind.search == "classes" and kind.criterion == GINI and kind.n_classes < FEW_CLASSES:
        return decrease_by_gini(scores, sums)  # type: ignore[no-any-return]
    if kind.search in ("binary", "moments"):
        n_weights = 1 if kind.is_regression else kind.n_classes
        factor = 1.0 if kind.is_regression else 2.0
        return scale_scores(scores, sums, n_weights, factor)  # type: ignore[no-any-return]
    decrease = np.empty(len(scores))
    for start in range(0, len(scores), BLOCK_NODES):
        block = slice(start, start + BLOCK_NODES)
        decrease[block] = _decrease_by_classes(scores[block], sums[block], kind)
    return decrease


def _decrease_by_classes(
    scores: NDArray[np.float64], sums: NDArray[np.int64], kind: TargetKind
) -> NDArray[np.float64]:
    weight: NDArray[np.float64] = weigh_nodes(sums).astype(np.float64)
    classes = sums[:, :-1].astype(np.float64)
    if kind.criterion == ENTROPY:
        before = _sum_x_log2_x(classes) - _sum_x_log2_x(weight[:, None])
    else:
        before = (classes * classes).sum(axis=1) / weight
    return np.maximum(scores - before, 0.0) / weight


def _sum_x_log2_x(x: NDArray[np.float64]) -> NDArray[np.float64]:
    return (x * np.log2(np.where(x > 0, x, 1.0))).sum(axis=1)  # type: ignore[no-any-return]

"""From the scores that order splits to the impurity decrease users know.

Parties compare raw scores, which are the same bits everywhere; the decrease is derived from them
afterwards and orders nothing.
"""

import numpy as np
from numpy.typing import NDArray

from fedforest.kernels.layout import ENTROPY
from fedforest.tree.targets import TargetKind, weight_of


def impurity_decrease(
    scores: NDArray[np.float64], sums: NDArray[np.int64], kind: TargetKind
) -> NDArray[np.float64]:
    """Impurity of the nodes minus the weighted impurity of their children, per unit of weight.

    Variances are in squared fixed-point units: real ones may leave the range of floats.
    """
    weight = weight_of(sums, kind).astype(np.float64)
    if kind.is_regression:
        return scores / (weight * weight)
    classes = sums[:, :-1].astype(np.float64)
    if kind.search in ("binary", "moments"):
        return 2.0 * scores / (weight * weight)
    if kind.criterion == ENTROPY:
        before = _sum_x_log2_x(classes) - _sum_x_log2_x(weight[:, None])
    else:
        before = (classes * classes).sum(axis=1) / weight
    return np.maximum(scores - before, 0.0) / weight


def _sum_x_log2_x(x: NDArray[np.float64]) -> NDArray[np.float64]:
    return (x * np.log2(np.where(x > 0, x, 1.0))).sum(axis=1)  # type: ignore[no-any-return]

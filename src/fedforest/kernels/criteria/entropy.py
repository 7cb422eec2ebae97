"""The score of a split into classes by entropy.

With l, r the class weights on either side and |l|, |r| their sums, the score is

    S(l) - s(|l|) + S(r) - s(|r|)        S(x) = sum of s(x), s(x) = x log2 x in fixed point
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedforest.kernels.criteria.information import ENTROPY_UNIT, fixed_x_log2_x, x_log2_x
from fedforest.kernels.jit import embedded, kernel

_TABLE = 1024  # values of s(x) looked up instead of computed


class Entropy(NamedTuple):
    """Shannon information, as kernels are told."""


@kernel
def make_entropy_table():
    """s(x) of small numbers."""
    entropy = np.zeros(_TABLE, np.int64)
    for x in range(_TABLE):
        entropy[x] = fixed_x_log2_x(x)
    return entropy


@embedded
def look_up(x, table):
    """Look up the part of S that one class of weight x adds: s(x)."""
    return table[x] if x < _TABLE else fixed_x_log2_x(x)


@embedded
def score_information(left, right, weight, rest, table):
    """Return the score from exact integers."""
    both = look_up(weight, table) + look_up(rest, table)
    return np.float64(left + right - both) / ENTROPY_UNIT


@embedded
def score_heavy_information(left, right, weight, rest):
    """Score a heavy node in float64."""
    return left - x_log2_x(weight) + (right - x_log2_x(rest))


def information_of_nodes(
    classes: NDArray[np.float64], weight: NDArray[np.float64]
) -> NDArray[np.float64]:
    """The score of nodes that are not divided, from (nodes, classes) weights and their sums."""
    return _sum_x_log2_x(classes) - _sum_x_log2_x(weight[:, None])


def _sum_x_log2_x(x: NDArray[np.float64]) -> NDArray[np.float64]:
    return (x * np.log2(np.where(x > 0, x, 1.0))).sum(axis=1)  # type: ignore[no-any-return]

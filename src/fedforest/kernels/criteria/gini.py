"""The score of a split into classes by gini.

With l, r the class weights on either side and |l|, |r| their sums, the score is

    S(l) / |l| + S(r) / |r|        S(x) = sum of x^2
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedforest.kernels.jit import embedded, kernel


class Gini(NamedTuple):
    """Gini impurity, as kernels are told."""


@embedded
def score_purity(left, weight, right, rest):
    """Return the score from float64: S and weight of the left, then of the right."""
    return left / weight + right / rest


@kernel
def make_no_table():
    """Squares need no table."""
    return np.zeros(0, np.int64)


@embedded
def square(x, _table):
    """Return the part of S that one class of weight x adds."""
    return x * x


@embedded
def score_squared_classes(left, right, weight, rest, _table):
    """Return the score from exact integers."""
    purity = (np.float64(left), np.float64(weight), np.float64(right), np.float64(rest))
    return score_purity(purity[0], purity[1], purity[2], purity[3])


@embedded
def square_heavy(x):
    """Return the part of S that one class adds, in float64."""
    return x * x


@embedded
def score_heavy_squares(left, right, weight, rest):
    """Score a heavy node in float64."""
    return score_purity(left, weight, right, rest)


def purity_of_nodes(
    classes: NDArray[np.float64], weight: NDArray[np.float64]
) -> NDArray[np.float64]:
    """The score of nodes that are not divided, from (nodes, classes) weights and their sums."""
    return (classes * classes).sum(axis=1) / weight  # type: ignore[no-any-return]

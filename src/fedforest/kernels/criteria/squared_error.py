"""The score of a split by least squares.

A side is its weight and the sum of its weighted targets. With a and s on the left of a node of
weight n and sum m, the score

    (s n - m a)^2 / (a (n - a))

orders splits by the decrease of variance (score / n^2) and, for targets 0 and 1, of gini impurity
(2 score / n^2).
"""

from typing import NamedTuple

from fedforest.kernels.jit import embedded


class SquaredError(NamedTuple):
    """Least squares, as kernels are told."""


@embedded
def score_squares(a, s, n, m):
    """Return the score from float64 sums of the left side and of the node; never below zero."""
    numerator = s * n - m * a
    return numerator * numerator / (a * (n - a))

"""The score of a split by the deviance of Poisson: for counts and rates, which are never negative.

Targets are counted from zero. With a and s on the left of a node of weight n and sum m, and b, t on
the right, half the mean deviance of the node falls by the score / n^2, the score being

    n (s ln(s / a) + t ln(t / b) - m ln(m / n))  =  m (a f(x) + b f(y))

where x = s n / (m a) - 1 and y = t n / (m b) - 1 say how far the means of the sides are from that
of the node, and f(x) = (1 + x) ln(1 + x) - x, about x^2 / 2 near zero and never negative. So small
differences of means are not lost among large logarithms. A side whose targets are all zero has no
finite deviance for any other mean: such a cut is not allowed, as in scikit-learn.
"""

from typing import NamedTuple

from fedforest.kernels.criteria.information import x_log2_x
from fedforest.kernels.jit import borrowing, embedded
from fedforest.kernels.layout import NO_SPLIT

_NEAR = 0.25  # below, f is a series without cancellation
_LN_2 = 0.6931471805599453


class Poisson(NamedTuple):
    """The deviance of Poisson, as kernels are told."""


@borrowing
def stray(x):
    """f(x) for x of at least -1: by z = x / (2 + x), whose artanh is half of ln(1 + x)."""
    if abs(x) >= _NEAR:
        return x_log2_x(1.0 + x) * _LN_2 - x
    z = x / (2.0 + x)
    square = z * z
    series = 0.0  # (artanh(z) / z - 1) / z^2
    for k in range(23, 1, -2):
        series = series * square + 1.0 / k
    return 2.0 * square * (1.0 + (square + z) * series) / (1.0 - z)


@embedded
def score_deviance(a, s, n, m):
    """The score from float64 sums of the left side and of the node; NO_SPLIT without a sum."""
    if s <= 0.0 or m - s <= 0.0:
        return NO_SPLIT
    numerator = s * n - m * a
    b = n - a
    return m * (a * stray(numerator / (m * a)) + b * stray(-numerator / (m * b)))

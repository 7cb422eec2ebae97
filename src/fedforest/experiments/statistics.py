"""Comparison of two methods over repetitions: the papers' z-test and the stronger paired interval.

The z-test asks whether two means could be equal, and finds it easy to say yes; the interval says
how far apart they can be. Repetition r of both methods must have used the same rows.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import t as student_t

Scores = NDArray[np.float64]


class Interval(NamedTuple):
    """A mean difference and the ends of its confidence interval."""

    mean: float
    low: float
    high: float

    def lies_within(self, tolerance: float) -> bool:
        """Return whether the whole interval is inside plus or minus the tolerance."""
        return -tolerance <= self.low and self.high <= tolerance

    def scaled(self, factor: float) -> "Interval":
        """Return the interval in another unit."""
        return Interval(*(factor * value for value in self))


def z_test(one: Scores, other: Scores) -> float:
    """Two-sided p-value of equal means, as in Federated Forest, section 5.2."""
    error = math.sqrt(one.var(ddof=1) / len(one) + other.var(ddof=1) / len(other))
    apart = abs(float(one.mean() - other.mean()))
    if error == 0.0:
        return 1.0 if apart == 0.0 else 0.0
    return math.erfc(apart / error / math.sqrt(2.0))


def paired_interval(one: Scores, other: Scores, confidence: float = 0.95) -> Interval:
    """Student's interval of the mean of `one - other`, repetition by repetition."""
    differences = one - other
    n = len(differences)
    mean = float(differences.mean())
    error = float(differences.std(ddof=1)) / math.sqrt(n)
    reach = float(student_t.ppf(0.5 + confidence / 2.0, n - 1)) * error
    return Interval(mean, mean - reach, mean + reach)

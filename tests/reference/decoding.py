"""Counts of classes from noisy sums: scikit-learn's Lasso and a projection by its definition."""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import Lasso

from fedforest.privacy.local_dp import ResponseCode

PENALTY_DEVIATIONS = 0.1


def shift_by_bisection(values: Any, total: float) -> NDArray[np.float64]:
    """The shift at which positive parts add up to the total, taken off."""
    low, high = min(values) - total - 1.0, max(values) + 1.0
    for _ in range(200):
        middle = (low + high) / 2
        if sum(max(0.0, value - middle) for value in values) > total:
            low = middle
        else:
            high = middle
    return np.array([max(0.0, value - high) for value in values])


def estimate_bits(
    code: ResponseCode, bit_sums: NDArray[np.int64], n_rows: int
) -> NDArray[np.float64]:
    """Unbiased numbers of rows whose code word has the bit set; they may be negative."""
    contrast = code.rate_if_set - code.rate_if_clear
    return np.array([(ones - code.rate_if_clear * n_rows) / contrast for ones in bit_sums])


def decode(code: ResponseCode, bit_sums: NDArray[np.int64], n_rows: int) -> NDArray[np.float64]:
    """Non-negative counts that add up to the rows, for one query."""
    rate = code.rate_if_clear
    deviation = math.sqrt(n_rows * rate * (1 - rate)) / (code.rate_if_set - rate)
    alpha = PENALTY_DEVIATIONS * math.sqrt(code.hashes) * deviation / code.bits
    lasso = Lasso(alpha, positive=True, fit_intercept=False, tol=1e-13, max_iter=10**6)
    fit = lasso.fit(code.matrix, estimate_bits(code, bit_sums, n_rows))
    return shift_by_bisection(fit.coef_, n_rows)

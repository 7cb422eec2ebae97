"""The coordinator's side of the search: the space that all directions and the intercept span.

The coordinator knows the scores of a direction, and its products with the same party's other
directions: enough to minimise the objective over all combinations, without a coefficient of any
column.

    row 0     the intercept: every score is one
    row k     the scores of direction k; `owners[k]` is the party that proposed it
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedforest.protocol.linear.directions import MOST_DIRECTIONS
from fedforest.protocol.linear.labels import Fit

INTERCEPT = ""  # owner of row 0; no party has this name
_BLOCK_ROWS = 16_384
_SMALLEST_EIGENVALUE = 1e-13  # fraction of the largest: below it directions are redundant


class SubspaceStep(NamedTuple):
    """A step over all directions, its scores, and its slope at the start."""

    coefficients: NDArray[np.float64]
    scores: NDArray[np.float64]
    slope: float  # of the objective along the step, at its start


class Subspace:
    """Directions of all parties, and the point reached as a combination of them."""

    def __init__(self, n_rows: int, penalty: float) -> None:
        self._penalty = penalty
        self._directions = [np.ones(n_rows)]  # a list, so that adding one copies none
        self._products = np.zeros((1, 1))  # between coefficient vectors; 0 between parties
        self._owners = np.array([INTERCEPT])
        self._point = np.zeros(1)

    @property
    def intercept(self) -> float:
        return float(self._point[0])

    def coefficients_of(self, party: str) -> NDArray[np.float64]:
        """Return the current point in the directions of one party."""
        own: NDArray[np.float64] = self._point[self._owners == party]
        return own

    def scores(self) -> NDArray[np.float64]:
        """Return the score of every row at the current point."""
        return self._combine(self._point)

    def penalty_after(self, step: SubspaceStep, length: float) -> float:
        """Return the penalty after a fraction of a step; a `length` of 0 is the current point."""
        point = self._point + length * step.coefficients
        return float(0.5 * self._penalty * point @ self._products @ point)

    def move(self, step: SubspaceStep, length: float = 1.0) -> None:
        """Move by a fraction of a step."""
        self._point = self._point + length * step.coefficients

    def make_room(self, parties: Sequence[str]) -> None:
        """Merge the two oldest directions of parties that have reached their limit."""
        for party in parties:
            own = np.flatnonzero(self._owners == party)
            if len(own) == MOST_DIRECTIONS:
                self._merge(own)

    def _merge(self, own: NDArray[np.int64]) -> None:
        """Merge a party's first two directions into the first, as the party does."""
        first, second = own[:2]
        coefficients = self._point[own[:2]]
        for matrix in (self._products, self._products.T):
            matrix[first] = coefficients @ matrix[[first, second]]
        self._directions[first] *= coefficients[0]
        self._directions[first] += coefficients[1] * self._directions[second]
        del self._directions[second]
        self._point[first] = 1.0
        self._products = np.delete(np.delete(self._products, second, axis=0), second, axis=1)
        self._owners = np.delete(self._owners, second)
        self._point = np.delete(self._point, second)

    def n_products(self, party: str) -> int:
        """Count the products of a party's next direction with its own, itself included."""
        return int((self._owners == party).sum()) + 1

    def add(self, party: str, scores: NDArray[np.float64], products: NDArray[np.float64]) -> None:
        """Add a direction of a party; the products end with its own square."""
        n_before = len(self._owners)
        row = np.zeros(n_before + 1)
        row[np.flatnonzero(self._owners == party)] = products[:-1]
        row[-1] = products[-1]
        self._products = np.block([[self._products, row[:-1, None]], [row]])
        self._directions.append(scores)
        self._owners = np.append(self._owners, party)
        self._point = np.append(self._point, 0.0)

    def newton_step(self, fit: Fit) -> SubspaceStep:
        """Return the step to the minimum of the quadratic model over all combinations."""
        square = self._penalty * self._products
        slopes = square @ self._point
        for start in range(0, len(fit.residuals), _BLOCK_ROWS):
            rows = slice(start, start + _BLOCK_ROWS)
            block = np.stack([scores[rows] for scores in self._directions])
            slopes += block @ fit.residuals[rows]
            square += (block * fit.curvatures[rows]) @ block.T
        # unit diagonal: late directions are tiny, and must not be taken for noise
        units = np.sqrt(square.diagonal())
        units[units == 0.0] = 1.0
        solution, *_ = np.linalg.lstsq(
            square / np.outer(units, units), slopes / units, rcond=_SMALLEST_EIGENVALUE
        )
        coefficients = -solution / units
        return SubspaceStep(coefficients, self._combine(coefficients), float(slopes @ coefficients))

    def _combine(self, coefficients: NDArray[np.float64]) -> NDArray[np.float64]:
        scores = np.zeros_like(self._directions[0])
        for coefficient, direction in zip(coefficients, self._directions, strict=True):
            scores += coefficient * direction
        return scores

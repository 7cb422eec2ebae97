"""A party's side of the search: its matrix, and the directions it has proposed so far.

A direction is the Newton step of the party's own coefficients with all others held still. Near the
optimum this is the exact step if the parties' columns do not correlate; if they do, the
coordinator corrects it by combining directions.
"""

import numpy as np
from numpy.typing import NDArray

from fedforest.protocol.asking import check
from fedforest.protocol.linear.ranges import calculate, check_numbers

MOST_DIRECTIONS = 32  # kept per party: they cost the coordinator a number per row each
_BLOCK_ROWS = 16_384
_RIDGE = 1e-11  # of the largest curvature: collinear columns without a penalty stay solvable


class Directions:
    """Directions over the terms of one party, and the point that their combination stands for."""

    def __init__(self, matrix: NDArray[np.float64], penalty: float) -> None:
        self._matrix = matrix
        self._penalty = penalty
        self._vectors = np.zeros((matrix.shape[1], 0))
        self._model: _QuadraticModel | None = None

    @property
    def count(self) -> int:
        return self._vectors.shape[1]

    def point(self, coefficients: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the terms' coefficients at a combination of the directions."""
        return self._vectors @ coefficients

    def propose(
        self,
        residuals: NDArray[np.float64],
        coefficients: NDArray[np.float64],
        curvatures: NDArray[np.float64] | None,
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Add a direction; return its scores, and its products with the gradient and directions.

        Curvatures are used from now on; if None, those of the last call are.
        """
        with calculate():
            model = self._model
            if curvatures is not None:
                model = _QuadraticModel(self._matrix, curvatures, self._penalty)
            check(model is not None, "a direction is asked for before curvatures are known")
            assert model is not None  # for the type checker
            gradient = self._matrix.T @ residuals + self._penalty * self.point(coefficients)
            direction = -model.solve(gradient)
            vectors = np.column_stack([self._make_room(coefficients), direction])
            products = np.append(gradient @ direction, vectors.T @ direction)
            scores = self._matrix @ direction
        check_numbers(vectors, products, scores)
        self._model, self._vectors = model, vectors
        return scores, products

    def _make_room(self, coefficients: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the directions; at the limit the first two are merged, as at the coordinator."""
        if self.count < MOST_DIRECTIONS:
            return self._vectors
        merged = self._vectors[:, :2] @ coefficients[:2]
        return np.column_stack([merged, self._vectors[:, 2:]])


class _QuadraticModel:
    """A party's quadratic model of the objective near a point, with the intercept optimised.

    With A the centred matrix, rows scaled by the root of their curvature, it is AᵀA + penalty. The
    smaller of AᵀA and AAᵀ is computed.
    """

    def __init__(
        self, matrix: NDArray[np.float64], curvatures: NDArray[np.float64], penalty: float
    ) -> None:
        total = curvatures.sum()
        n_rows, n_terms = matrix.shape
        centre = matrix.T @ curvatures / total if total > 0.0 else np.zeros(n_terms)
        roots = np.sqrt(curvatures)[:, None]
        self._wide: NDArray[np.float64] | None = None
        if n_terms > n_rows:
            self._wide = roots * (matrix - centre)
            square = self._wide @ self._wide.T
        else:
            square = np.zeros((n_terms, n_terms))
            for start in range(0, n_rows, _BLOCK_ROWS):
                rows = slice(start, start + _BLOCK_ROWS)
                block = roots[rows] * (matrix[rows] - centre)
                square += block.T @ block
        largest = float(square.diagonal().max(initial=0.0))
        self._ridge = max(penalty, _RIDGE * largest) or 1.0
        self._square = square + self._ridge * np.eye(len(square))

    def solve(self, gradient: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the step that brings this gradient to zero."""
        if self._wide is None:
            return np.asarray(np.linalg.solve(self._square, gradient), np.float64)
        # Woodbury: (AᵀA + r)⁻¹ = (1 - Aᵀ(AAᵀ + r)⁻¹A) / r
        inner = np.linalg.solve(self._square, self._wide @ gradient)
        return (gradient - self._wide.T @ inner) / self._ridge

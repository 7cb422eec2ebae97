"""What the label party knows: how well scores fit, for classes and for numbers.

Residuals and curvatures are the first and second derivative of the loss by each row's score. The
sign of a residual is the row's class, and a score less its residual is its target: who sees them
knows the labels.
"""

from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray


class Fit(NamedTuple):
    """The loss of some scores and its derivatives by the score of each row."""

    residuals: NDArray[np.float64]
    curvatures: NDArray[np.float64]
    loss: float


class Labels(Protocol):
    """Labels of the training rows."""

    @property
    def n_rows(self) -> int:
        """How many labels there are."""

    @property
    def row_weights(self) -> NDArray[np.float64]:
        """How much each row counts, whatever its label."""

    def measure(self, scores: NDArray[np.float64]) -> Fit:
        """How well these scores fit."""


@dataclass(frozen=True, slots=True, eq=False)
class BinaryLabels:
    """Two classes under logistic loss; `class_weights` are of the first and the second class."""

    is_second: NDArray[np.bool_]
    row_weights: NDArray[np.float64]
    class_weights: tuple[float, float] = (1.0, 1.0)

    @property
    def n_rows(self) -> int:
        return len(self.is_second)

    def measure(self, scores: NDArray[np.float64]) -> Fit:
        first, second = self.class_weights
        weights = self.row_weights * np.where(self.is_second, second, first)
        margins = np.where(self.is_second, scores, -scores)
        doubts = np.exp(-np.logaddexp(0.0, margins))  # probability of the wrong class
        residuals = weights * np.where(self.is_second, -doubts, doubts)
        curvatures = weights * doubts * (1.0 - doubts)
        return Fit(residuals, curvatures, float(weights @ np.logaddexp(0.0, -margins)))


@dataclass(frozen=True, slots=True, eq=False)
class NumericLabels:
    """Numbers under squared loss."""

    targets: NDArray[np.float64]
    row_weights: NDArray[np.float64]

    @property
    def n_rows(self) -> int:
        return len(self.targets)

    def measure(self, scores: NDArray[np.float64]) -> Fit:
        errors = scores - self.targets
        residuals = self.row_weights * errors
        return Fit(residuals, self.row_weights, float(0.5 * residuals @ errors))

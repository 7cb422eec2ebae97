"""The labels of the label party, and the fit of scores to them, for classes and numbers.

Residuals and curvatures are the first and second derivative of the loss by each row's score. The
sign of a residual is the row's class, and a score less its residual is its target: a party that
sees residuals knows the labels.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Real
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from fedforest.errors import ConfigurationError, DataError


class Fit(NamedTuple):
    """The loss of some scores and its derivatives by the score of each row."""

    residuals: NDArray[np.float64]
    curvatures: NDArray[np.float64]
    loss: float


class Labels(Protocol):
    """Labels of the training rows."""

    @property
    def n_rows(self) -> int:
        """Return the number of labels."""

    @property
    def row_weights(self) -> NDArray[np.float64]:
        """The weight of each row, without class weights."""

    def measure(self, scores: NDArray[np.float64]) -> Fit:
        """Return the loss of these scores and its derivatives."""


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


def class_probabilities(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return (rows, 2): the probabilities of the first and the second class."""
    return np.exp(-np.logaddexp(0.0, np.column_stack([scores, -scores])))


def tell_two_classes(
    labels: NDArray[Any], row_weights: NDArray[np.float64], class_weight: Any
) -> tuple[BinaryLabels, NDArray[Any]]:
    """Return labels of two classes, and the classes; `class_weight` is as in scikit-learn."""
    check_some_weight(row_weights)
    classes, codes = np.unique(labels, return_inverse=True)
    if len(classes) > 2:
        raise DataError.of("target.two_classes", n_classes=len(classes))
    totals = np.bincount(codes, row_weights, minlength=2).astype(np.float64)
    if not (totals > 0.0).all():
        raise DataError.stating(
            "Two classes are needed, but all rows with a positive weight are of one class."
        )
    class_weights = _weigh_classes(class_weight, classes, totals)
    return BinaryLabels(codes == 1, row_weights, class_weights), classes


def check_some_weight(row_weights: NDArray[np.float64]) -> None:
    """Refuse weights that are all zero."""
    if not row_weights.any():
        raise DataError.stating(
            "sample_weight is zero in all rows; there is nothing to learn from."
        )


def _weigh_classes(
    class_weight: Any, classes: NDArray[Any], totals: NDArray[np.float64]
) -> tuple[float, float]:
    """Return the weights of the first and the second class."""
    if class_weight is None:
        return 1.0, 1.0
    if not isinstance(class_weight, Mapping):  # balanced
        first, second = totals.sum() / (2.0 * totals)
        return float(first), float(second)
    known = classes.tolist()
    unknown = [label for label in class_weight if label not in known]
    if unknown:
        raise ConfigurationError.of("target.unknown_classes", n_unknown=len(unknown))
    first, second = (class_weight.get(label, 1.0) for label in known)
    if not all(_is_weight(weight) for weight in (first, second)):
        raise ConfigurationError.stating("class_weight holds something that is no positive weight.")
    return float(first), float(second)


def _is_weight(value: Any) -> bool:
    is_number = isinstance(value, Real) and not isinstance(value, bool)
    return is_number and 0.0 < value < np.inf

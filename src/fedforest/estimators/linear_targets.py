"""Targets of linear models as users give them: two classes with their weights, or numbers."""

from collections.abc import Mapping
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.multiclass import type_of_target
from sklearn.utils.validation import column_or_1d

from fedforest.errors import ConfigurationError, DataError
from fedforest.protocol.linear.labels import BinaryLabels, NumericLabels
from fedforest.tree.target_checks import check_labels, check_regression_target


def read_classes(
    y: ArrayLike, row_weights: NDArray[np.float64], class_weight: Any
) -> tuple[BinaryLabels, NDArray[Any]]:
    """Labels of two classes, and the classes; `class_weight` is as in scikit-learn."""
    _check_some_weight(row_weights)
    labels = check_labels(_as_vector(y), len(row_weights))
    kind = type_of_target(labels, input_name="y")
    if kind in ("continuous", "unknown"):
        raise DataError(
            f"Unknown label type: {kind}. Classes are expected; for numbers use "
            "VerticalLinearRegression."
        )
    classes, codes = np.unique(labels, return_inverse=True)
    if len(classes) > 2:
        raise DataError(
            f"Only binary classification is supported. The type of the target is {kind}: it has "
            f"{len(classes)} classes."
        )
    totals = np.bincount(codes, row_weights, minlength=2).astype(np.float64)
    if not (totals > 0.0).all():
        raise DataError(
            "Two classes are needed, but all rows with a positive weight are of one class."
        )
    class_weights = _weigh_classes(class_weight, classes, totals)
    return BinaryLabels(codes == 1, row_weights, class_weights), classes


def read_numbers(y: ArrayLike, row_weights: NDArray[np.float64]) -> NumericLabels:
    """A finite number for each row."""
    _check_some_weight(row_weights)
    return NumericLabels(check_regression_target(_as_vector(y), len(row_weights)), row_weights)


def is_number(value: object) -> bool:
    """Whether a parameter is a real number; booleans are not."""
    return isinstance(value, Real) and not isinstance(value, bool)


def _weigh_classes(
    class_weight: Any, classes: NDArray[Any], totals: NDArray[np.float64]
) -> tuple[float, float]:
    """The weights of the first and the second class."""
    if class_weight is None:
        return 1.0, 1.0
    if not isinstance(class_weight, Mapping):  # balanced
        first, second = totals.sum() / (2.0 * totals)
        return float(first), float(second)
    known = classes.tolist()
    unknown = [label for label in class_weight if label not in known]
    if unknown:
        raise ConfigurationError(
            f"class_weight names {len(unknown)} class(es) that the labels do not have."
        )
    first, second = (class_weight.get(label, 1.0) for label in known)
    if not all(is_number(weight) and 0.0 < weight < np.inf for weight in (first, second)):
        raise ConfigurationError("class_weight holds something that is no positive weight.")
    return float(first), float(second)


def _check_some_weight(weights: NDArray[np.float64]) -> None:
    if not weights.any():
        raise DataError("sample_weight is zero in all rows; there is nothing to learn from.")


def _as_vector(y: ArrayLike) -> Any:
    """A column of labels as a vector, with scikit-learn's warning; other shapes stay."""
    if y is None:
        raise DataError("Training requires y to be passed, but the target y is None.")
    shape: tuple[int, ...] = getattr(y, "shape", ())
    return column_or_1d(y, warn=True) if len(shape) == 2 and shape[1] == 1 else y

"""Targets of linear models as users give them: two classes with their weights, or numbers."""

from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.multiclass import type_of_target
from sklearn.utils.validation import column_or_1d

from fedforest.errors import DataError
from fedforest.protocol.linear.labels import (
    BinaryLabels,
    NumericLabels,
    check_some_weight,
    tell_two_classes,
)
from fedforest.tree.target_checks import check_labels, check_regression_target


def read_classes(
    y: ArrayLike, row_weights: NDArray[np.float64], class_weight: Any
) -> tuple[BinaryLabels, NDArray[Any]]:
    """Labels of two classes, and the classes; `class_weight` is as in scikit-learn."""
    labels = check_labels(_as_vector(y), len(row_weights))
    kind = type_of_target(labels, input_name="y")
    if kind in ("continuous", "unknown"):
        raise DataError(
            f"Unknown label type: {kind}. Classes are expected; for numbers use "
            "VerticalLinearRegression."
        )
    n_classes = len(np.unique(labels))
    if n_classes > 2:
        raise DataError(
            f"Only binary classification is supported. The type of the target is {kind}: it has "
            f"{n_classes} classes."
        )
    return tell_two_classes(labels, row_weights, class_weight)


def read_numbers(y: ArrayLike, row_weights: NDArray[np.float64]) -> NumericLabels:
    """A finite number for each row."""
    check_some_weight(row_weights)
    return NumericLabels(check_regression_target(_as_vector(y), len(row_weights)), row_weights)


def is_number(value: object) -> bool:
    """Whether a parameter is a real number; booleans are not."""
    return isinstance(value, Real) and not isinstance(value, bool)


def _as_vector(y: ArrayLike) -> Any:
    """A column of labels as a vector, with scikit-learn's warning; other shapes stay."""
    if y is None:
        raise DataError("Training requires y to be passed, but the target y is None.")
    shape: tuple[int, ...] = getattr(y, "shape", ())
    return column_or_1d(y, warn=True) if len(shape) == 2 and shape[1] == 1 else y

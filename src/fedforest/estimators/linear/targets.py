"""Targets of linear models as users give them: two classes with their weights, or numbers."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.multiclass import type_of_target

from fedforest.errors import DataError
from fedforest.estimators.inputs.target_vector import as_vector
from fedforest.protocol.linear.labels import (
    BinaryLabels,
    NumericLabels,
    check_some_weight,
    tell_two_classes,
)
from fedforest.tree.table.target_checks import check_labels, check_regression_target


def read_classes(
    y: ArrayLike, row_weights: NDArray[np.float64], class_weight: Any
) -> tuple[BinaryLabels, NDArray[Any]]:
    """Labels of two classes, and the classes; `class_weight` is as in scikit-learn."""
    labels = check_labels(as_vector(y, "Training"), len(row_weights))
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
    """Return a finite number for each row."""
    check_some_weight(row_weights)
    return NumericLabels(
        check_regression_target(as_vector(y, "Training"), len(row_weights)), row_weights
    )

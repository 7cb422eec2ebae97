"""The target as users give it: a vector, a column, a series; refused with scikit-learn's words."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import column_or_1d

from fedforest.errors import DataError
from fedforest.estimators.validation import check_labels


def as_vector(y: ArrayLike | None, who: str) -> Any:
    """A column of labels as a vector, with scikit-learn's warning; other shapes stay."""
    if y is None:
        raise DataError(f"{who} requires y to be passed, but the target y is None")
    try:
        labels = np.asarray(y)
    except ValueError:  # ragged: refused with the other shapes
        return y
    return column_or_1d(labels, warn=True) if labels.shape[1:] == (1,) else labels


def check_class_labels(y: ArrayLike, n_rows: int) -> NDArray[Any]:
    """One class label for each row: text, whole numbers or booleans.

    As scikit-learn decides it, but for each party alone: it warns of nothing where few rows have
    many classes, because other parties may have more of them.
    """
    labels = check_labels(y, n_rows)
    if labels.dtype.kind == "f" and (labels != np.floor(labels)).any():
        raise _unknown_type("continuous")
    if labels.dtype.kind == "O" and not all(isinstance(label, str) for label in labels.tolist()):
        raise _unknown_type("unknown")
    return labels


def _unknown_type(kind: str) -> DataError:
    return DataError(
        f"Unknown label type: {kind}. Class labels are text, whole numbers or booleans, not "
        "stored as objects; for quantities train a regressor instead."
    )

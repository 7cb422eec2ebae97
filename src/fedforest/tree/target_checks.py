"""Labels, targets and weights as they come from users and files: one for each row, or refused.

What is wrong is told by counts; a message never quotes a label.
"""

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedforest.errors import DataError


def check_labels(y: ArrayLike, n_rows: int) -> NDArray[Any]:
    """One label for each row, none missing, all of one kind that can be ordered."""
    labels = _as_row_array(y, n_rows, "label")
    if labels.dtype.kind == "c":
        raise DataError("The target is complex; class labels are text, whole numbers or booleans.")
    if labels.dtype.kind == "f" and np.isinf(labels).any():
        raise DataError("The target contains infinity; class labels must be finite.")
    missing = count_missing(labels)
    if missing:
        raise DataError(f"The target is missing in {missing} rows; drop them first.")
    if labels.dtype.kind == "O":
        kinds = {_kind_of(label) for label in labels.tolist()}
        if len(kinds) > 1:
            raise DataError(
                "The target mixes labels of different types "
                f"({', '.join(sorted(kinds))}); make them all one type."
            )
    return labels


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


def check_regression_target(y: ArrayLike, n_rows: int) -> NDArray[np.float64]:
    """One finite number for each row."""
    raw = _as_row_array(y, n_rows, "number")
    if raw.dtype.kind == "c":
        raise DataError("The regression target is complex; it must be real numbers.")
    try:
        values = raw.astype(np.float64)
    except (TypeError, ValueError):
        raise DataError("The regression target is not numeric.") from None
    bad = int((~np.isfinite(values)).sum())
    if bad:
        raise DataError(f"The target is NaN or infinite in {bad} rows; drop or mend them first.")
    return values


def check_weights(weights: ArrayLike | None, n_rows: int) -> NDArray[np.float64] | None:
    """Sample weights as float64, or None where all are one; refused where they mean nothing."""
    if weights is None:
        return None
    raw = _as_row_array(weights, n_rows, "weight", "sample_weight")
    if raw.dtype.kind == "c":
        raise DataError("sample_weight is complex; weights are real numbers.")
    try:
        checked = raw.astype(np.float64)
    except (TypeError, ValueError):
        raise DataError("sample_weight holds something other than numbers.") from None
    if not np.isfinite(checked).all():
        raise DataError("sample_weight contains NaN or infinity; every weight must be finite.")
    if (checked < 0).any():
        raise DataError(f"sample_weight is negative in {int((checked < 0).sum())} rows.")
    return None if bool((checked == 1.0).all()) else checked


def _as_row_array(
    data: ArrayLike, n_rows: int, what: str, name: str = "The target"
) -> NDArray[Any]:
    try:
        array = np.asarray(data)
    except ValueError:
        raise DataError(f"{name} is ragged; expected one {what} for each row.") from None
    if array.shape != (n_rows,):
        raise DataError(
            f"{name} has shape {array.shape}; expected one {what} for each of the {n_rows} rows."
        )
    return array


def count_missing(labels: NDArray[Any]) -> int:
    """How many are NaN, None or pandas' NA."""
    if labels.dtype.kind == "f":
        return int(np.isnan(labels).sum())
    if labels.dtype.kind == "O":
        return sum(_is_missing(label) for label in labels.tolist())
    return 0


def _is_missing(label: object) -> bool:
    # pandas' NA and NaT are recognised by name: pandas need not be installed
    if label is None or type(label).__name__ in ("NAType", "NaTType"):
        return True
    return isinstance(label, float) and math.isnan(label)


def _kind_of(label: object) -> str:
    """Text, number, or the type's own name: labels of one kind can be ordered."""
    if isinstance(label, str):
        return "text"
    return "number" if isinstance(label, (bool, int, float, np.number)) else type(label).__name__

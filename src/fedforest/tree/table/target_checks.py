"""Labels, targets and weights as they come from users and files: one for each row, or refused.

Error messages give counts and never quote a label.
"""

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedforest.errors import ConfigurationError, DataError
from fedforest.tree.table.data_frames import read_vector


def check_labels(y: ArrayLike, n_rows: int) -> NDArray[Any]:
    """Require one label for each row, none missing, all of one kind that can be ordered."""
    labels = _as_row_array(y, n_rows, "label")
    if labels.dtype.kind == "c":
        raise DataError.stating(
            "The target is complex; class labels are text, whole numbers or booleans."
        )
    if labels.dtype.kind == "f" and np.isinf(labels).any():
        raise DataError.stating("The target contains infinity; class labels must be finite.")
    missing = count_missing(labels)
    if missing:
        raise DataError.of("target.missing", n_rows=missing)
    if labels.dtype.kind == "O":
        kinds = {_kind_of(label) for label in labels.tolist()}
        if len(kinds) > 1:
            raise DataError.of("target.mixed", kinds=", ".join(sorted(kinds)))
    return labels


def check_class_labels(y: ArrayLike, n_rows: int) -> NDArray[Any]:
    """Require one class label for each row: text, whole numbers or booleans.

    The rules are those of scikit-learn, applied to each party alone; there is no warning where few
    rows have many classes, because other parties may have more of them.
    """
    labels = check_labels(y, n_rows)
    if labels.dtype.kind == "f" and (labels != np.floor(labels)).any():
        raise _unknown_type("continuous")
    if labels.dtype.kind == "O" and not all(isinstance(label, str) for label in labels.tolist()):
        raise _unknown_type("unknown")
    return labels


def _unknown_type(kind: str) -> DataError:
    return DataError.of("target.unknown_type", kinds=kind)


def check_regression_target(y: ArrayLike, n_rows: int) -> NDArray[np.float64]:
    """Require one finite number for each row."""
    raw = _as_row_array(y, n_rows, "number")
    if raw.dtype.kind == "c":
        raise DataError.stating("The regression target is complex; it must be real numbers.")
    try:
        values = raw.astype(np.float64)
    except (TypeError, ValueError):
        raise DataError.stating("The regression target is not numeric.") from None
    bad = int((~np.isfinite(values)).sum())
    if bad:
        raise DataError.of("target.not_finite", n_rows=bad)
    return values


def check_from_zero(
    values: NDArray[np.float64], weights: NDArray[np.float64] | None, criterion: str
) -> None:
    """Refuse targets for a criterion that counts from zero: one below zero, or all zero."""
    check_not_below_zero(values, criterion)
    if not (values if weights is None else values * (weights > 0)).any():
        raise none_above_zero(criterion)


def check_not_below_zero(values: NDArray[np.float64], criterion: str) -> None:
    """Refuse targets below zero."""
    if (values < 0.0).any():
        raise ConfigurationError.stating(
            "criterion='{criterion}' needs targets of at least 0, and some are negative; mend "
            "them, or train with criterion='squared_error'.",
            criterion=criterion,
        )


def none_above_zero(criterion: str) -> ConfigurationError:
    """Return the error for targets that are all zero."""
    return ConfigurationError.stating(
        "criterion='{criterion}' needs a target above 0 in a row that has weight, and all are "
        "zero: there is nothing to tell apart.",
        criterion=criterion,
    )


def check_weights(weights: ArrayLike | None, n_rows: int) -> NDArray[np.float64] | None:
    """Return sample weights as float64, or None where all are one; refuse invalid ones."""
    if weights is None:
        return None
    raw = _as_row_array(weights, n_rows, "weight", "sample_weight")
    if raw.dtype.kind == "c":
        raise DataError.stating("sample_weight is complex; weights are real numbers.")
    try:
        checked = raw.astype(np.float64)
    except (TypeError, ValueError):
        raise DataError.stating("sample_weight holds something other than numbers.") from None
    if not np.isfinite(checked).all():
        raise DataError.stating(
            "sample_weight contains NaN or infinity; every weight must be finite."
        )
    if (checked < 0).any():
        raise DataError.of("weights.negative", n_rows=int((checked < 0).sum()))
    return None if bool((checked == 1.0).all()) else checked


def _as_row_array(
    data: ArrayLike, n_rows: int, what: str, name: str = "The target"
) -> NDArray[Any]:
    array = read_vector(data, name)
    if array.shape != (n_rows,):
        raise DataError(
            f"{name} has shape {array.shape}; expected one {what} for each of the {n_rows} rows."
        )
    return array


def count_missing(labels: NDArray[Any]) -> int:
    """Count the labels that are NaN, None or pandas' NA."""
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
    """Name the kind of a label: text, number or its type; one kind can be ordered."""
    if isinstance(label, str):
        return "text"
    return "number" if isinstance(label, (bool, int, float, np.number)) else type(label).__name__

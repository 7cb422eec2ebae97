"""The quality of predictions: the usual figures, as scikit-learn defines them, in numpy alone.

A score that is undefined for the given rows, such as the area under a curve where only one class
occurs, is left out. All classes that training did not see count as one further class, which is
never predicted.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

CLASS_SCORES = ("accuracy", "balanced_accuracy", "f1", "auc", "log_loss")
NUMBER_SCORES = ("rmse", "mae", "r2")
_SMALLEST = float(np.finfo(np.float64).eps)  # probability, as scikit-learn clips it


@dataclass(frozen=True, slots=True, eq=False)
class Judgement:
    """Scores of some rows by name, those that are defined."""

    n_rows: int
    values: Mapping[str, float]
    confusion: NDArray[np.int64] | None = None  # true classes by predicted ones


def score_classes(codes: NDArray[np.int64], votes: NDArray[np.float64]) -> Judgement:
    """Score (rows, classes) votes for rows of these classes; -1 is a class unknown to the model."""
    n_known = votes.shape[1]
    n_classes = n_known + bool((codes < 0).any())
    true = np.where(codes < 0, n_known, codes)
    confusion = np.zeros((n_classes, n_classes), np.int64)
    np.add.at(confusion, (true, votes.argmax(axis=1)), 1)
    values = {**score_confusion(confusion), "log_loss": _log_loss(codes, votes)}
    area = _area_of_classes(true, votes)
    if area is not None:
        values["auc"] = area
    return Judgement(len(codes), values, confusion)


def score_numbers(targets: NDArray[np.float64], predictions: NDArray[np.float64]) -> Judgement:
    """Score one predicted number for each row."""
    errors = predictions - targets
    spread = float(np.square(targets - targets.mean()).sum())
    values = {
        "rmse": float(np.sqrt(np.square(errors).mean())),
        "mae": float(np.abs(errors).mean()),
    }
    if spread:
        values["r2"] = 1.0 - float(np.square(errors).sum()) / spread
    return Judgement(len(targets), values)


def score_confusion(confusion: NDArray[np.int64]) -> dict[str, float]:
    """Return the scores that need only the confusion matrix (true by predicted classes).

    F1 is that of the second class where there are two, otherwise the mean over classes.
    """
    right = np.diag(confusion).astype(np.float64)
    true, predicted = confusion.sum(axis=1), confusion.sum(axis=0)
    occurs = true > 0
    f1 = _divide(2.0 * right, true + predicted)[occurs | (predicted > 0)]
    if len(confusion) == 2:
        f1 = _divide(2.0 * right, true + predicted)[1:]
    return {
        "accuracy": float(right.sum() / confusion.sum()),
        "balanced_accuracy": float((right[occurs] / true[occurs]).mean()),
        "f1": float(f1.mean()),
    }


def _area_of_classes(true: NDArray[np.int64], votes: NDArray[np.float64]) -> float | None:
    """Return the area under the ROC curve, of the second class or as the mean over all classes."""
    if votes.shape[1] == 2 and true.max(initial=0) < 2:
        return _area(true == 1, votes[:, 1])
    areas = [_area(true == code, votes[:, code]) for code in range(votes.shape[1])]
    known = [area for area in areas if area is not None]
    return float(np.mean(known)) if known and len(known) == len(areas) else None


def _area(is_positive: NDArray[np.bool_], votes: NDArray[np.float64]) -> float | None:
    """Return the fraction of (positive, negative) row pairs that votes rank right; ties are half.

    By ranks, as Mann and Whitney's U.
    """
    n_positive = int(is_positive.sum())
    n_negative = len(is_positive) - n_positive
    if not n_positive or not n_negative:
        return None
    _, place, count = np.unique(votes, return_inverse=True, return_counts=True)
    rank = np.cumsum(count) - (count - 1) / 2.0
    u = rank[place][is_positive].sum() - n_positive * (n_positive + 1) / 2.0
    return float(u / (n_positive * n_negative))


def _log_loss(codes: NDArray[np.int64], votes: NDArray[np.float64]) -> float:
    known = np.maximum(codes, 0)
    chance = np.where(codes < 0, 0.0, votes[np.arange(len(codes)), known])
    total = np.maximum(votes.sum(axis=1), _SMALLEST)
    clipped = np.clip(chance / total, _SMALLEST, 1.0 - _SMALLEST)
    return float(-np.log(clipped).mean())


def _divide(numerator: NDArray[np.float64], divisor: NDArray[np.int64]) -> NDArray[np.float64]:
    """Divide, with zero where the divisor is zero."""
    return np.divide(numerator, divisor, out=np.zeros(len(numerator)), where=divisor > 0)

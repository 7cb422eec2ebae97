"""The target as users give it: a vector, a column, a series; refused with scikit-learn's words."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import column_or_1d

from fedforest.errors import DataError


def as_vector(y: ArrayLike | None, who: str) -> Any:
    """A column of labels as a vector, with scikit-learn's warning; other shapes stay."""
    if y is None:
        raise DataError(f"{who} requires y to be passed, but the target y is None")
    try:
        labels = np.asarray(y)
    except ValueError:  # ragged: refused with the other shapes
        return y
    return column_or_1d(labels, warn=True) if labels.shape[1:] == (1,) else labels

"""The target as users give it: a vector, a column, a series; refused with scikit-learn's words."""

from typing import Any

from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import column_or_1d

from fedforest.errors import DataError
from fedforest.tree.table.data_frames import read_vector


def as_vector(y: ArrayLike | None, who: str) -> NDArray[Any]:
    """Return a column of labels as a vector, with scikit-learn's warning; other shapes stay."""
    if y is None:
        raise DataError(f"{who} requires y to be passed, but the target y is None")
    labels = read_vector(y, "The target")
    return column_or_1d(labels, warn=True) if labels.shape[1:] == (1,) else labels

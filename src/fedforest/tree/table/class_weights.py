"""Class weights given as a mapping from class to weight."""

from collections.abc import Mapping
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedforest.errors import ConfigurationError


def weigh_classes(weight: Any, classes: NDArray[Any]) -> Any:
    """Return the weight of each class from a mapping; return a word or None unchanged."""
    if not isinstance(weight, Mapping):
        return weight
    known = set(classes.tolist())
    n_unknown = sum(label not in known for label in weight)
    if n_unknown:
        raise ConfigurationError.of("target.unknown_classes", n_unknown=n_unknown)
    weights = np.ones(len(classes))
    for number, label in enumerate(classes.tolist()):
        of_class = weight.get(label, 1.0)
        if not isinstance(of_class, Real) or not 0.0 <= float(of_class) < np.inf:
            raise ConfigurationError.stating(
                "class_weight holds something that is no weight; weights are numbers >= 0."
            )
        weights[number] = float(of_class)
    return weights


def keep_weights(weight: Any, everybody: NDArray[Any], labels: NDArray[Any]) -> Any:
    """Return a mapping without the classes that these labels lack and the whole table has.

    A class that the whole table lacks is refused, whichever rows the labels are of. A word or None
    is returned unchanged.
    """
    if not isinstance(weight, Mapping):
        return weight
    weigh_classes(weight, everybody)
    present = set(np.unique(labels).tolist())
    return {label: of_class for label, of_class in weight.items() if label in present}

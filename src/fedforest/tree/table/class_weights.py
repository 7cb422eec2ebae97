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

"""How much each class weighs, where a mapping from class to weight says it."""

from collections.abc import Mapping
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedforest.errors import ConfigurationError


def weigh_classes(weight: Any, classes: NDArray[Any]) -> Any:
    """The weight of each class where a mapping says it; a word, or None, stays what it is."""
    if not isinstance(weight, Mapping):
        return weight
    known = set(classes.tolist())
    n_unknown = sum(label not in known for label in weight)
    if n_unknown:
        raise ConfigurationError(
            f"class_weight names {n_unknown} class(es) that the labels do not have."
        )
    weights = np.ones(len(classes))
    for number, label in enumerate(classes.tolist()):
        of_class = weight.get(label, 1.0)
        if not isinstance(of_class, Real) or not 0.0 <= float(of_class) < np.inf:
            raise ConfigurationError(
                "class_weight holds something that is no weight; weights are numbers >= 0."
            )
        weights[number] = float(of_class)
    return weights

"""`class_weight` as users give it: nothing, "balanced", or a mapping from class to weight."""

from collections.abc import Mapping
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedforest.errors import ConfigurationError
from fedforest.estimators.validation import check_choice


def check_class_weight(weight: Any) -> None:
    """Refuse what cannot weigh classes; which classes there are is not known yet."""
    if isinstance(weight, str) and weight == "balanced_subsample":
        raise ConfigurationError(
            "class_weight='balanced_subsample' is not supported: weights are fixed once for all "
            "trees. Use 'balanced', or a mapping from class to weight."
        )
    if weight is not None and not isinstance(weight, Mapping):
        check_choice("class_weight", weight, ("balanced",), ", a mapping or None")


def weigh_classes(weight: Any, classes: NDArray[Any]) -> NDArray[np.float64] | str | None:
    """The weight of each class where a mapping says it; a word, or None, stays what it is."""
    if not isinstance(weight, Mapping):
        return weight  # type: ignore[no-any-return] # None or "balanced"
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

"""`class_weight` as users give it: nothing, "balanced", or a mapping from class to weight."""

from collections.abc import Mapping
from typing import Any

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

"""The parameters of a forest's estimator, checked; those of its trees in the engine's form."""

from dataclasses import fields
from typing import Any

from fedforest.errors import ConfigurationError
from fedforest.estimators.inputs.declarations import check_parameters, read_parameters
from fedforest.tree.growth.parameters import ForestParameters


def tree_parameters(estimator: Any) -> dict[str, Any]:
    """Return the values of the estimator's parameters that are about its trees."""
    known = read_parameters(type(estimator))
    names = [part.name for part in fields(ForestParameters) if part.name in known]
    return {name: getattr(estimator, name) for name in names}


def read_forest_parameters(estimator: Any, task: str) -> ForestParameters:
    """Check each parameter of an estimator by itself; raises `ConfigurationError`."""
    parameters = ForestParameters(task=task, **tree_parameters(estimator))
    _refuse_subsample_weights(getattr(estimator, "class_weight", None))
    check_parameters(estimator)
    return parameters


def _refuse_subsample_weights(weight: Any) -> None:
    """Say what there is instead of a word that scikit-learn's forests know."""
    if isinstance(weight, str) and weight == "balanced_subsample":
        raise ConfigurationError(
            "class_weight='balanced_subsample' is not supported: weights are fixed once for all "
            "trees. Use 'balanced', or a mapping from class to weight.",
            key="class_weight",
        )

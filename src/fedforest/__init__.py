"""Tree ensembles over data that may not be pooled.

Public names load on first use, so `import fedforest` costs milliseconds: neither numpy nor numba
nor scikit-learn is imported until a name that needs it is touched.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from fedforest.release import __version__

if TYPE_CHECKING:
    from fedforest.errors import FederationError, NoiseExceedsSignalWarning
    from fedforest.estimators.horizontal.forests import (
        HorizontalExtraTreesClassifier,
        HorizontalExtraTreesRegressor,
    )
    from fedforest.estimators.linear.regressions import (
        VerticalLinearRegression,
        VerticalLogisticRegression,
    )
    from fedforest.estimators.planning import plan
    from fedforest.estimators.vertical.forests import (
        VerticalForestClassifier,
        VerticalForestRegressor,
    )
    from fedforest.privacy.encrypted_labels import Encrypted
    from fedforest.privacy.global_dp import GlobalDP
    from fedforest.privacy.local_dp import LocalDP
    from fedforest.privacy.randomized_response import RandomizedResponse
    from fedforest.protocol.aggregation.options import Masked, Ring, Shamir

__all__ = [
    "Encrypted",
    "FederationError",
    "GlobalDP",
    "HorizontalExtraTreesClassifier",
    "HorizontalExtraTreesRegressor",
    "LocalDP",
    "Masked",
    "NoiseExceedsSignalWarning",
    "RandomizedResponse",
    "Ring",
    "Shamir",
    "VerticalForestClassifier",
    "VerticalForestRegressor",
    "VerticalLinearRegression",
    "VerticalLogisticRegression",
    "__version__",
    "plan",
]

_HOME_OF_NAME = {
    "Encrypted": "fedforest.privacy.encrypted_labels",
    "FederationError": "fedforest.errors",
    "GlobalDP": "fedforest.privacy.global_dp",
    "HorizontalExtraTreesClassifier": "fedforest.estimators.horizontal.forests",
    "HorizontalExtraTreesRegressor": "fedforest.estimators.horizontal.forests",
    "LocalDP": "fedforest.privacy.local_dp",
    "Masked": "fedforest.protocol.aggregation.options",
    "NoiseExceedsSignalWarning": "fedforest.errors",
    "RandomizedResponse": "fedforest.privacy.randomized_response",
    "Ring": "fedforest.protocol.aggregation.options",
    "Shamir": "fedforest.protocol.aggregation.options",
    "VerticalForestClassifier": "fedforest.estimators.vertical.forests",
    "VerticalForestRegressor": "fedforest.estimators.vertical.forests",
    "VerticalLinearRegression": "fedforest.estimators.linear.regressions",
    "VerticalLogisticRegression": "fedforest.estimators.linear.regressions",
    "plan": "fedforest.estimators.planning",
}


def __getattr__(name: str) -> object:
    if name not in _HOME_OF_NAME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(import_module(_HOME_OF_NAME[name]), name)
    globals()[name] = value  # the next access is an ordinary one
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})

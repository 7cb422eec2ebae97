"""Attributes that a training sets; a model read from a file says why it has none of them."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

OF_TRAINING = (
    *("leakage_", "privacy_spent_", "fit_log_", "n_exchanges_", "bytes_sent_"),
    *("n_steps_", "n_extra_steps_", "n_iter_"),
    *("oob_score_", "oob_curve_", "oob_decision_function_", "oob_prediction_"),
)


class KnowsItsTraining:
    """For estimators: a missing attribute of training is explained, not only missed."""

    if not TYPE_CHECKING:  # to a type checker every attribute would be there

        def __getattr__(self, name: str) -> Any:
            problem = f"{type(self).__name__!r} object has no attribute {name!r}"
            is_restored = "_model" in vars(self) and "leakage_" not in vars(self)
            if name in OF_TRAINING and is_restored:
                problem += (
                    ": the model was read from a file, and files tell nothing of the training. "
                    "Ask whoever trained it"
                )
            raise AttributeError(problem, name=name, obj=self)


def replace_fitted(estimator: object, attributes: Mapping[str, Any]) -> None:
    """Forget what earlier fits set, and set these attributes, all at once."""
    for name in [name for name in vars(estimator) if name.endswith("_")]:
        delattr(estimator, name)
    for name, value in attributes.items():
        setattr(estimator, name, value)

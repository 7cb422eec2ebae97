"""The parameters of a vertical forest, checked once; each mistake names the parameter."""

from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

import numpy as np

from fedforest.errors import ConfigurationError
from fedforest.estimators.class_weights import check_class_weight
from fedforest.estimators.validation import check_choice, check_transport, check_verbose
from fedforest.privacy.encrypted_labels import Encrypted
from fedforest.privacy.randomized_response import RandomizedResponse
from fedforest.protocol.vertical.order import EarlyStopping
from fedforest.tree.parameters import ForestParameters

_FOREST_PARAMETERS = (
    "n_estimators",
    "criterion",
    "max_depth",
    "min_samples_split",
    "min_samples_leaf",
    "min_weight_fraction_leaf",
    "min_impurity_decrease",
    "max_features",
    "feature_sampling",
    "bootstrap",
    "max_samples",
    "max_bins",
)
ONE_ROUND = 2**31 - 1  # more levels than any tree has


@dataclass(frozen=True, slots=True)
class VerticalOptions:
    """Parameters in the form that the protocol uses."""

    parameters: ForestParameters
    hard_votes: bool
    response: RandomizedResponse | None
    early_stopping: EarlyStopping | None
    lookahead: int | None  # None: to be chosen
    classical: bool
    class_weight: Any

    @property
    def label_epsilon(self) -> float:
        """What one release of the labels spends; infinite where they are not noisy."""
        return np.inf if self.response is None else float(self.response.epsilon)


def read_options(estimator: Any, task: str) -> VerticalOptions:
    """Check all parameters of an estimator; raises `ConfigurationError`."""
    values = {name: getattr(estimator, name) for name in _FOREST_PARAMETERS}
    parameters = ForestParameters(task=task, **values)
    voting = getattr(estimator, "voting", "soft")
    check_choice("voting", voting, ("soft", "hard"))
    check_class_weight(getattr(estimator, "class_weight", None))
    _check_switches(estimator)
    check_transport(estimator.transport)
    lookahead, classical = _read_prediction(estimator.prediction)
    return VerticalOptions(
        parameters,
        voting == "hard",
        _read_labels(estimator.labels, task),
        _read_early_stopping(estimator),
        lookahead,
        classical,
        getattr(estimator, "class_weight", None),
    )


def _check_switches(estimator: Any) -> None:
    for name in ("oob_score", "warm_start", "early_stopping"):
        value = getattr(estimator, name)
        if not isinstance(value, bool | np.bool_):
            raise ConfigurationError(f"{name} is {value!r}; it must be True or False.")
    check_verbose(estimator.verbose)
    if (estimator.oob_score or estimator.early_stopping) and not estimator.bootstrap:
        raise ConfigurationError(
            "Out of bag estimation (oob_score, early_stopping) needs bootstrap=True: without it "
            "no tree leaves a row out."
        )


def _read_labels(labels: Any, task: str) -> RandomizedResponse | None:
    if isinstance(labels, RandomizedResponse):
        labels.check()
        if task == "regression":
            raise ConfigurationError(
                "labels=RandomizedResponse(...) protects class labels; a regression target is a "
                "number, so use labels='encoded'."
            )
        return labels
    if isinstance(labels, Encrypted):
        labels.refuse()
    if not (isinstance(labels, str) and labels == "encoded"):
        raise ConfigurationError(
            f"labels is {labels!r}; it must be 'encoded' or RandomizedResponse(epsilon=...)."
        )
    return None


def _read_early_stopping(estimator: Any) -> EarlyStopping | None:
    patience, tolerance = estimator.n_iter_no_change, estimator.tol
    is_whole = isinstance(patience, Integral) and not isinstance(patience, bool)
    if not is_whole or patience < 1:
        raise ConfigurationError(
            f"n_iter_no_change is {patience!r}; it must be a whole number of at least 1."
        )
    is_number = isinstance(tolerance, Real) and not isinstance(tolerance, bool)
    if not is_number or not 0.0 <= float(tolerance) < np.inf:
        raise ConfigurationError(f"tol is {tolerance!r}; it must be a number of at least 0.")
    return EarlyStopping(int(patience), float(tolerance)) if estimator.early_stopping else None


def _read_prediction(prediction: Any) -> tuple[int | None, bool]:
    if isinstance(prediction, Integral) and not isinstance(prediction, bool):
        if prediction < 1:
            raise ConfigurationError(f"prediction is {prediction}; a lookahead is at least 1.")
        return min(int(prediction), ONE_ROUND), False
    check_choice("prediction", prediction, ("auto", "one_round", "classical"), " or a lookahead")
    lookahead = {"auto": None, "one_round": ONE_ROUND, "classical": 1}[prediction]
    return lookahead, prediction == "classical"

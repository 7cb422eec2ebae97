"""The parameters of a vertical forest, checked once; each mistake names the parameter."""

from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedforest.errors import ConfigurationError
from fedforest.privacy.randomized_response import RandomizedResponse
from fedforest.protocol.vertical.order import EarlyStopping
from fedforest.tree.parameters import ForestParameters

_FOREST_PARAMETERS = (
    "n_estimators",
    "criterion",
    "max_depth",
    "min_samples_split",
    "min_samples_leaf",
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

    def weigh_classes(self, classes: NDArray[Any]) -> NDArray[np.float64] | str | None:
        """The weight of each class, as a mapping or a word said it."""
        if not isinstance(self.class_weight, Mapping):
            return self.class_weight  # type: ignore[no-any-return] # checked below
        known = set(classes.tolist())
        n_unknown = sum(label not in known for label in self.class_weight)
        if n_unknown:
            raise ConfigurationError(
                f"class_weight names {n_unknown} class(es) that the labels do not have."
            )
        weights = np.ones(len(classes))
        for number, label in enumerate(classes.tolist()):
            weight = self.class_weight.get(label, 1.0)
            if not isinstance(weight, Real) or not 0.0 <= float(weight) < np.inf:
                raise ConfigurationError(
                    "class_weight holds something that is no weight; weights are numbers >= 0."
                )
            weights[number] = float(weight)
        return weights


def read_options(estimator: Any, task: str) -> VerticalOptions:
    """Check all parameters of an estimator; raises `ConfigurationError`."""
    values = {name: getattr(estimator, name) for name in _FOREST_PARAMETERS}
    parameters = ForestParameters(task=task, **values)
    voting = getattr(estimator, "voting", "soft")
    _check_choice("voting", voting, ("soft", "hard"))
    _check_switches(estimator)
    if estimator.transport is not None:
        raise ConfigurationError(
            "transport must be None: this release trains with parties in this process."
        )
    lookahead, classical = _read_prediction(estimator.prediction)
    return VerticalOptions(
        parameters,
        voting == "hard",
        _read_labels(estimator.labels, task),
        _read_early_stopping(estimator),
        lookahead,
        classical,
        _read_class_weight(getattr(estimator, "class_weight", None)),
    )


def _check_switches(estimator: Any) -> None:
    for name in ("oob_score", "warm_start", "early_stopping"):
        value = getattr(estimator, name)
        if not isinstance(value, bool | np.bool_):
            raise ConfigurationError(f"{name} is {value!r}; it must be True or False.")
    if not isinstance(estimator.verbose, Integral) or estimator.verbose < 0:
        raise ConfigurationError(
            f"verbose is {estimator.verbose!r}; it must be 0 for silence or 1 for a progress bar."
        )
    if (estimator.oob_score or estimator.early_stopping) and not estimator.bootstrap:
        raise ConfigurationError(
            "Out of bag estimation (oob_score, early_stopping) needs bootstrap=True: without it "
            "no tree leaves a row out."
        )


def _read_class_weight(weight: Any) -> Any:
    if isinstance(weight, str) and weight == "balanced_subsample":
        raise ConfigurationError(
            "class_weight='balanced_subsample' is not supported: weights are fixed once for all "
            "trees. Use 'balanced', or a mapping from class to weight."
        )
    if weight is not None and not isinstance(weight, Mapping):
        _check_choice("class_weight", weight, ("balanced",), ", a mapping or None")
    return weight


def _read_labels(labels: Any, task: str) -> RandomizedResponse | None:
    if isinstance(labels, RandomizedResponse):
        labels.check()
        if task == "regression":
            raise ConfigurationError(
                "labels=RandomizedResponse(...) protects class labels; a regression target is a "
                "number, so use labels='encoded'."
            )
        return labels
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
    _check_choice("prediction", prediction, ("auto", "one_round", "classical"), " or a lookahead")
    lookahead = {"auto": None, "one_round": ONE_ROUND, "classical": 1}[prediction]
    return lookahead, prediction == "classical"


def _check_choice(name: str, value: Any, choices: tuple[str, ...], more: str = "") -> None:
    if not (isinstance(value, str) and value in choices):
        allowed = ", ".join(map(repr, choices))
        raise ConfigurationError(f"{name} is {value!r}; it must be one of {allowed}{more}.")

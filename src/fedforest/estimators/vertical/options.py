"""The parameters of a vertical forest in the form that its protocol uses.

Training checks all of them, prediction only those that it uses. This module checks combinations of
parameters; the table of parameters checks each one alone.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from fedforest.errors import ConfigurationError
from fedforest.estimators.inputs.declarations import check_parameters
from fedforest.estimators.inputs.forest_parameters import read_forest_parameters
from fedforest.limits import is_whole
from fedforest.privacy.encrypted_labels import Encrypted
from fedforest.privacy.randomized_response import RandomizedResponse
from fedforest.protocol.vertical.order import EarlyStopping
from fedforest.runtime.compute.clusters import read_compute
from fedforest.tree.growth.parameters import ForestParameters

ONE_ROUND = 2**31 - 1  # more levels than any tree has


@dataclass(frozen=True, slots=True)
class VerticalOptions:
    """The settings of a training."""

    parameters: ForestParameters
    hard_votes: bool
    response: RandomizedResponse | None
    early_stopping: EarlyStopping | None
    class_weight: Any
    encrypts_labels: bool = False
    compute: str | None = None

    @property
    def label_epsilon(self) -> float:
        """Return the epsilon of one release of the labels; infinite where they are not noisy."""
        return np.inf if self.response is None else float(self.response.epsilon)


@dataclass(frozen=True, slots=True)
class PredictionOptions:
    """The settings of a prediction."""

    hard_votes: bool
    lookahead: int | None  # None: to be chosen
    classical: bool


def read_options(estimator: Any, task: str) -> VerticalOptions:
    """Check all parameters of an estimator; raises `ConfigurationError`."""
    parameters = read_forest_parameters(estimator, task)
    _check_out_of_bag(estimator, parameters)
    _check_compute(estimator)
    return VerticalOptions(
        parameters,
        getattr(estimator, "voting", "soft") == "hard",
        _read_response(estimator.labels, task),
        _read_early_stopping(estimator),
        getattr(estimator, "class_weight", None),
        isinstance(estimator.labels, Encrypted),
        estimator.compute,
    )


def read_prediction(estimator: Any) -> PredictionOptions:
    """Check what prediction uses, and nothing of what training did."""
    check_parameters(estimator, "voting", "prediction")
    hard_votes = getattr(estimator, "voting", "soft") == "hard"
    pace = estimator.prediction
    if is_whole(pace):
        return PredictionOptions(hard_votes, min(int(pace), ONE_ROUND), classical=False)
    lookahead = {"auto": None, "one_round": ONE_ROUND, "classical": 1}[pace]
    return PredictionOptions(hard_votes, lookahead, pace == "classical")


def _check_compute(estimator: Any) -> None:
    """Refuse a cluster where rows are not in this process, or labels are encrypted."""
    if estimator.compute is None:
        return
    read_compute(estimator.compute)
    if estimator.transport is not None:
        raise ConfigurationError(
            "compute is for parties in this process, and transport names others: leave "
            "compute=None and start the parties with `fedforest party start --compute`",
            key="compute",
        )
    if isinstance(estimator.labels, Encrypted):
        raise ConfigurationError(
            "labels=Encrypted() is not there for rows on a cluster: ciphertexts are added up in "
            "the party's own process. Leave compute=None, or set labels='encoded'.",
            key="compute",
        )


def _check_out_of_bag(estimator: Any, parameters: ForestParameters) -> None:
    if (estimator.oob_score or estimator.early_stopping) and not parameters.draws_rows:
        raise ConfigurationError(
            "Out of bag estimation (oob_score, early_stopping) needs rows that a tree leaves out: "
            "set bootstrap=True, or max_samples below 1.0.",
            key="oob_score" if estimator.oob_score else "early_stopping",
        )


def _read_response(labels: Any, task: str) -> RandomizedResponse | None:
    if not isinstance(labels, RandomizedResponse):
        return None
    labels.check()
    if task == "regression":
        raise ConfigurationError(
            "labels=RandomizedResponse(...) protects class labels; a regression target is a "
            "number, so use labels='encoded'.",
            key="labels",
        )
    return labels


def _read_early_stopping(estimator: Any) -> EarlyStopping | None:
    if not estimator.early_stopping:
        return None
    return EarlyStopping(int(estimator.n_iter_no_change), float(estimator.tol))

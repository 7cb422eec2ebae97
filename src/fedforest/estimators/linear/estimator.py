"""The base of both linear models over parties: training, prediction, stored attributes.

Parties live in this process, where their messages are those of a network, or in a federation.
"""

import warnings
from abc import abstractmethod
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from fedforest.estimators.inputs.declarations import check_parameters
from fedforest.estimators.inputs.parameters import LinearParameters
from fedforest.estimators.linear.federation import FederatedLinearModel, LinearTrainingThere
from fedforest.estimators.linear.training import LinearModel, LinearTrainingHere
from fedforest.estimators.progress.fit_log import describe_exchanges
from fedforest.estimators.progress.training_attributes import replace_fitted
from fedforest.protocol.linear.labels import Labels
from fedforest.runtime.driver import Exchange, ExchangeLog
from fedforest.runtime.messages.orders import TrainLinear
from fedforest.runtime.messages.results import LinearResult
from fedforest.runtime.trainings.base import Circumstances
from fedforest.runtime.trainings.linear import LINEAR


class VerticalLinearModel(LinearParameters, BaseEstimator):  # type: ignore[misc] # scikit-learn ships no types
    """Training and prediction, whatever the labels are."""

    _is_regression: bool
    _model: LinearModel | FederatedLinearModel

    def fit(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Train over the columns of all parties.

        Parameters
        ----------
        X : mapping of party to table, or one table
            Tables are arrays, data frames, arrow tables or mappings of columns; all parties' rows
            are the same, in the same order. One table is divided as `parties` says.
        y : array of shape (n_rows,)
            The labels, which `label_party` owns, in the order of the rows: a series whose index
            holds the rows of a data frame in another order is refused.
        sample_weight : array of shape (n_rows,), optional
            Weights of rows; every party learns them.

        With a `transport`, `X` names the data set of each party, `y` and `sample_weight` name
        columns of the label party's.
        """
        check_parameters(self)
        begin: Any = LinearTrainingHere if self.transport is None else LinearTrainingThere
        training = begin(self, (X, y, sample_weight))
        log = ExchangeLog(observers=[_show] if self.verbose else [])
        result, model, learned = training.train(log)
        if not result.has_converged:
            self._warn_of(result.n_iter)
        how = Circumstances(in_federation=self.transport is not None)
        reports = LINEAR.reports(training.order, result, how)
        coefficients = model.coefficients()
        fitted = {
            "_model": model,
            **learned,
            **model.describe(),
            **({} if coefficients is None else self._name_coefficients(*coefficients)),
            **_describe_training(training.order, result, log),
            "leakage_": reports.leakage,
            "privacy_spent_": reports.privacy_spent,
        }
        replace_fitted(self, fitted)
        return self

    @abstractmethod
    def _penalty(self) -> float:
        """The L2 penalty, as scikit-learn's Ridge counts it."""

    @abstractmethod
    def _read_target(
        self, y: ArrayLike, weights: NDArray[np.float64]
    ) -> tuple[Labels, dict[str, Any]]:
        """The labels for the protocol, and attributes to set once training has succeeded."""

    @abstractmethod
    def _name_coefficients(self, slopes: NDArray[np.float64], intercept: float) -> dict[str, Any]:
        """The attributes that scikit-learn has for them."""

    def _warn_of(self, n_iter: int) -> None:
        warnings.warn(
            f"{type(self).__name__} did not converge in {n_iter} steps; raise max_iter or tol",
            ConvergenceWarning,
            stacklevel=3,
        )

    def _scores(self, X: Any) -> NDArray[np.float64]:
        check_is_fitted(self, "_model")
        return self._model.scores(X, self.n_jobs)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.string = True
        tags.input_tags.categorical = True
        return tags


def _describe_training(
    order: TrainLinear, result: LinearResult, log: ExchangeLog
) -> dict[str, Any]:
    """Attributes that say with whom a model was trained and what it took."""
    parties, sent = tuple(result.columns_per_party), log.bytes_by_party
    return {
        "parties_": parties,
        "label_party_": order.label_party,
        "n_iter_": result.n_iter,
        "n_exchanges_": len(log.exchanges),
        "bytes_sent_": {party: sent.get(party, 0) for party in parties},
        "fit_log_": describe_exchanges(log),
    }


def _show(exchange: Exchange) -> None:
    print(  # noqa: T201 - what verbose is for
        f"{exchange.request}: {exchange.n_parties} parties, {exchange.n_bytes} bytes, "
        f"{exchange.seconds:.3f} s"
    )

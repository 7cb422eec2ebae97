"""What both linear models over parties do: training, prediction, what is kept.

Parties live in this process, where their messages are those of a network, or in a federation.
"""

import warnings
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Integral
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from fedforest.errors import ConfigurationError
from fedforest.estimators import federated_linear
from fedforest.estimators.federated_linear import FederatedLinearModel
from fedforest.estimators.fit_log import describe_exchanges
from fedforest.estimators.linear_targets import is_number
from fedforest.estimators.party_tables import (
    Division,
    check_row_order,
    choose_label_party,
    read_source,
)
from fedforest.estimators.validation import count_workers
from fedforest.protocol.linear.coordinator import LinearOrder, LinearTrained, predict, train
from fedforest.protocol.linear.labels import Labels
from fedforest.protocol.linear.messages import REQUESTS
from fedforest.protocol.linear.party import LinearParty, LinearShare
from fedforest.runtime.driver import Exchange, ExchangeLog, run
from fedforest.runtime.federation import connect, start_workers
from fedforest.runtime.linear_leakage import describe_linear_spending, report_linear_training
from fedforest.tree.table import Table
from fedforest.tree.target_checks import check_weights

# In a federation coefficients stay with their parties, and names of columns as well.
_ONLY_IN_ONE_PROCESS = (
    *("coef_", "intercept_", "coef_by_party_", "columns_by_party_", "feature_names_in_"),
)


@dataclass(frozen=True, slots=True, eq=False)
class LinearModel:
    """What all roles keep of a trained model; in one process they are kept side by side."""

    trained: LinearTrained  # the coordinator's
    shares: Mapping[str, LinearShare]
    division: Division


class VerticalLinearModel(BaseEstimator):  # type: ignore[misc] # scikit-learn ships no types
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
        self._check_parameters()
        if self.transport is not None:
            return self._fit_in_federation(X, y, sample_weight)
        source = read_source(X)
        check_row_order(X, y=y, sample_weight=sample_weight)
        division = Division.of(source, self.parties)
        tables = division.split(source)
        n_rows = next(iter(tables.values())).n_rows
        weights = check_weights(sample_weight, n_rows)
        labels, learned = self._read_target(y, np.ones(n_rows) if weights is None else weights)
        order = LinearOrder(
            division.parties,
            choose_label_party(self.label_party, division),
            self._penalty(),
            self._is_regression,
            int(self.max_iter),
            float(self.tol),
            is_weighted=weights is not None,
        )
        log = ExchangeLog(observers=[_show] if self.verbose else [])
        trained, shares = self._train(order, tables, labels, log)
        self._model = LinearModel(trained, shares, division)
        for name, value in learned.items():
            setattr(self, name, value)
        self._keep(order, log)
        return self

    def _fit_in_federation(self, X: Any, y: Any, sample_weight: Any) -> Self:
        log = ExchangeLog(observers=[_show] if self.verbose else [])
        model, result, learned = federated_linear.fit(
            self, self._penalty(), (X, y, sample_weight), log
        )
        if not result.has_converged:
            self._warn_of(result.n_iter)
        for name in _ONLY_IN_ONE_PROCESS:
            self.__dict__.pop(name, None)
        self._model = model
        for name, value in learned.items():
            setattr(self, name, value)
        return self

    @abstractmethod
    def _penalty(self) -> float:
        """The L2 penalty, as scikit-learn's Ridge counts it."""

    @abstractmethod
    def _read_target(
        self, y: ArrayLike, weights: NDArray[np.float64]
    ) -> tuple[Labels, dict[str, Any]]:
        """The labels for the protocol, and attributes to set once training has succeeded."""

    def _check_parameters(self) -> None:
        whole = isinstance(self.max_iter, Integral) and not isinstance(self.max_iter, bool)
        if not whole or self.max_iter < 1:
            raise mistake("max_iter", self.max_iter, "a whole number of at least 1")
        if not is_number(self.tol) or not 0.0 <= self.tol < np.inf:
            raise mistake("tol", self.tol, "a number of at least 0")

    def _train(
        self,
        order: LinearOrder,
        tables: Mapping[str, Table],
        labels: Labels,
        log: ExchangeLog,
    ) -> tuple[LinearTrained, dict[str, LinearShare]]:
        parties = {
            party: LinearParty(table, labels=labels if party == order.label_party else None)
            for party, table in tables.items()
        }
        with start_workers(count_workers(self.n_jobs)) as workers:
            trained = run(train(order), connect(parties, REQUESTS, workers), log)
        if not trained.has_converged:
            self._warn_of(trained.n_iter)
        return trained, {party: parties[party].share() for party in trained.holders}

    def _warn_of(self, n_iter: int) -> None:
        warnings.warn(
            f"{type(self).__name__} did not converge in {n_iter} steps; raise max_iter or tol",
            ConvergenceWarning,
            stacklevel=4,
        )

    @property
    def _here(self) -> LinearModel:
        """The model whose roles are all in this process."""
        assert isinstance(self._model, LinearModel)
        return self._model

    def _keep(self, order: LinearOrder, log: ExchangeLog) -> None:
        """Set the attributes a user reads after training."""
        division, shares = self._here.division, self._here.shares
        self.n_features_in_ = division.n_features
        if division.feature_names is not None:
            self.feature_names_in_ = np.array(division.feature_names, dtype=object)
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_
        self.coef_by_party_ = {
            party: dict(zip(share.design.term_names, share.slopes().tolist(), strict=True))
            for party, share in shares.items()
        }
        self.parties_ = division.parties
        self.label_party_ = order.label_party
        self.columns_by_party_ = division.columns_by_party
        self.n_iter_ = self._here.trained.n_iter
        self.n_exchanges_ = len(log.exchanges)
        self.bytes_sent_ = {party: log.bytes_by_party.get(party, 0) for party in division.parties}
        self.fit_log_ = describe_exchanges(log)
        self.privacy_spent_ = describe_linear_spending(is_regression=self._is_regression)
        self.leakage_ = report_linear_training(
            {party: len(names) for party, names in self.columns_by_party_.items()},
            order.label_party,
            self.n_iter_,
            is_regression=self._is_regression,
        )

    def _slopes(self) -> NDArray[np.float64]:
        """Coefficients in units of the input's columns, in their order, if each has just one."""
        division, shares = self._here.division, self._here.shares
        slopes = {party: np.zeros(0) for party in division.parties}
        slopes.update({party: share.slopes() for party, share in shares.items()})
        if any(any(share.design.is_categorical) for share in shares.values()):
            return np.concatenate([slopes[party] for party in division.parties])
        return division.join(slopes)

    def _intercept(self) -> float:
        """The score of a row whose columns are all zero."""
        offsets = sum(share.offset() for share in self._here.shares.values())
        return self._here.trained.intercept + offsets

    def _scores(self, X: Any) -> NDArray[np.float64]:
        check_is_fitted(self, "_model")
        if isinstance(self._model, FederatedLinearModel):
            return self._model.scores(X)
        trained, shares = self._here.trained, self._here.shares
        tables = self._here.division.split(X)
        parties = {
            party: LinearParty(tables[party], share=shares[party]) for party in trained.holders
        }
        with start_workers(count_workers(self.n_jobs)) as workers:
            asking = predict(trained.holders, trained.intercept)
            return run(asking, connect(parties, REQUESTS, workers))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.string = True
        tags.input_tags.categorical = True
        return tags


def _show(exchange: Exchange) -> None:
    print(  # noqa: T201 - what verbose is for
        f"{exchange.request}: {exchange.n_parties} parties, {exchange.n_bytes} bytes, "
        f"{exchange.seconds:.3f} s"
    )


def mistake(name: str, value: object, allowed: str) -> ConfigurationError:
    """A parameter that cannot be, said so that it can be mended."""
    return ConfigurationError(f"{name} is {value!r}; it must be {allowed}.")

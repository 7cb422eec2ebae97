"""Logistic and linear regression over columns that several parties hold: the papers' F-LR.

What both do is in `_VerticalLinearModel`; the public classes add labels or targets. Parties live in
this process; their messages are those of a network.
"""

import warnings
from abc import abstractmethod
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from numbers import Integral
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from fedforest.errors import ConfigurationError
from fedforest.estimators.linear_targets import is_number, read_classes, read_numbers
from fedforest.estimators.party_tables import Division, choose_label_party, read_source
from fedforest.estimators.validation import check_weights, count_workers
from fedforest.protocol.linear.coordinator import LinearOrder, LinearTrained, predict, train
from fedforest.protocol.linear.labels import Labels
from fedforest.protocol.linear.messages import REQUESTS
from fedforest.protocol.linear.party import LinearParty, LinearShare
from fedforest.runtime.driver import Exchange, ExchangeLog, run
from fedforest.runtime.endpoint import make_endpoint
from fedforest.runtime.linear_leakage import report_linear_training
from fedforest.transport.in_process import InProcess
from fedforest.tree.table import Table


@dataclass(frozen=True, slots=True, eq=False)
class LinearModel:
    """What all roles keep of a trained model; in one process they are kept side by side."""

    trained: LinearTrained  # the coordinator's
    shares: Mapping[str, LinearShare]
    division: Division


class _VerticalLinearModel(BaseEstimator):  # type: ignore[misc] # scikit-learn ships no types
    """Training and prediction, whatever the labels are."""

    _is_regression: bool

    def fit(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Train over the columns of all parties.

        Parameters
        ----------
        X : mapping of party to table, or one table
            Tables are arrays, data frames, arrow tables or mappings of columns; all parties' rows
            are the same, in the same order. One table is divided as `parties` says.
        y : array of shape (n_rows,)
            The labels, which `label_party` owns.
        sample_weight : array of shape (n_rows,), optional
            Weights of rows; every party learns them.
        """
        self._check_parameters()
        source = read_source(X)
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
            raise _mistake("max_iter", self.max_iter, "a whole number of at least 1")
        if not is_number(self.tol) or not 0.0 <= self.tol < np.inf:
            raise _mistake("tol", self.tol, "a number of at least 0")
        if self.transport is not None:
            raise _mistake("transport", self.transport, "None: parties live in this process")

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
        with _connect(parties, count_workers(self.n_jobs)) as transport:
            trained = run(train(order), transport, log)
        if not trained.has_converged:
            warnings.warn(
                f"{type(self).__name__} did not converge in {trained.n_iter} steps; raise "
                "max_iter or tol",
                ConvergenceWarning,
                stacklevel=3,
            )
        return trained, {party: parties[party].share() for party in trained.holders}

    def _keep(self, order: LinearOrder, log: ExchangeLog) -> None:
        """Set the attributes a user reads after training."""
        division, shares = self._model.division, self._model.shares
        self.n_features_in_ = division.n_features
        if division.feature_names is not None:
            self.feature_names_in_ = np.array(division.feature_names, dtype=object)
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_
        self.coef_by_party_ = {
            party: dict(zip(share.design.term_names, share.slopes().tolist(), strict=True))
            for party, share in shares.items()
        }
        self.n_iter_ = self._model.trained.n_iter
        self.n_exchanges_ = len(log.exchanges)
        self.bytes_sent_ = {party: log.bytes_by_party.get(party, 0) for party in division.parties}
        columns = division.columns_by_party
        self.leakage_ = report_linear_training(
            {party: len(names) for party, names in columns.items()},
            order.label_party,
            self.n_iter_,
            is_regression=self._is_regression,
        )

    def _slopes(self) -> NDArray[np.float64]:
        """Coefficients in units of the input's columns, in their order, if each has just one."""
        division, shares = self._model.division, self._model.shares
        slopes = {party: np.zeros(0) for party in division.parties}
        slopes.update({party: share.slopes() for party, share in shares.items()})
        if any(any(share.design.is_categorical) for share in shares.values()):
            return np.concatenate([slopes[party] for party in division.parties])
        return division.join(slopes)

    def _intercept(self) -> float:
        """The score of a row whose columns are all zero."""
        offsets = sum(share.offset() for share in self._model.shares.values())
        return self._model.trained.intercept + offsets

    def _scores(self, X: Any) -> NDArray[np.float64]:
        check_is_fitted(self, "_model")
        trained, shares = self._model.trained, self._model.shares
        tables = self._model.division.split(X)
        parties = {
            party: LinearParty(tables[party], share=shares[party]) for party in trained.holders
        }
        with _connect(parties, count_workers(self.n_jobs)) as transport:
            return run(predict(trained.holders, trained.intercept), transport)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.string = True
        tags.input_tags.categorical = True
        return tags


class VerticalLogisticRegression(ClassifierMixin, _VerticalLinearModel):  # type: ignore[misc] # scikit-learn ships no types
    """Logistic regression for two classes over columns that several parties hold.

    Every party standardises its own columns and keeps their coefficients; partial scores leave it,
    and residuals leave the label party. Their signs are the classes, so all parties learn every
    label: a baseline, to be compared with `VerticalForestClassifier`. The model is the one that
    scikit-learn's LogisticRegression finds on the standardised columns of the joined table.

    Missing numbers are taken as the mean of their column. Categorical columns become one indicator
    for each of their 50 most frequent categories.

    Parameters
    ----------
    C : float, default=1.0
        Inverse of the L2 penalty on the coefficients of standardised columns, as in scikit-learn.
    max_iter : int, default=100
        Most steps; each costs two exchanges, or more where a step must be shortened.
    tol : float, default=1e-4
        Stop when what is left would change log-odds by this much, as the root mean square over
        rows weighted by their curvature.
    class_weight : "balanced" or mapping of class to weight, optional
        As in scikit-learn.
    parties : None, int or mapping of party to columns, optional
        How one table is divided; not used when `fit` gets a mapping of tables.
    label_party : str, optional
        Who owns `y`; the first party by default.
    transport : None
        Parties live in this process.
    n_jobs : int, optional
        Threads on which parties answer; -1 for all cores.
    verbose : int, default=0
        Above 0, write a line for each exchange.

    Attributes
    ----------
    classes_ : array of the two classes
    coef_ : array of shape (1, n_features)
        Coefficients in units of the input's columns, in its order. With categorical columns: of all
        terms, party by party, in the order of `coef_by_party_`.
    intercept_ : array of shape (1,)
    coef_by_party_ : dict
        What each party keeps: coefficients by name of column, or `column=category`.
    n_features_in_, feature_names_in_
        As in scikit-learn; names exist where all columns have one and all differ.
    n_iter_ : int
        Steps of training.
    n_exchanges_ : int
        Requests with their replies.
    bytes_sent_ : dict
        Bytes that left each party in training.
    leakage_ : str
        Who learned what, in plain words.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from fedforest.estimators.linear import VerticalLogisticRegression
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> tables = {"bank": X[:, :15], "shop": X[:, 15:]}
    >>> model = VerticalLogisticRegression().fit(tables, y)
    >>> bool(model.score(tables, y) > 0.98)
    True
    """

    _is_regression = False

    def __init__(  # noqa: PLR0913 - scikit-learn's parameters and ours, by name only
        self,
        C: float = 1.0,  # noqa: N803 - scikit-learn's name
        *,
        max_iter: int = 100,
        tol: float = 1e-4,
        class_weight: Any = None,
        parties: Any = None,
        label_party: str | None = None,
        transport: Any = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.C = C
        self.max_iter = max_iter
        self.tol = tol
        self.class_weight = class_weight
        self.parties = parties
        self.label_party = label_party
        self.transport = transport
        self.n_jobs = n_jobs
        self.verbose = verbose

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if not is_number(self.C) or not self.C > 0.0 or np.isinf(1.0 / self.C):
            raise _mistake("C", self.C, "a positive number")
        weight = self.class_weight
        if weight is not None and not isinstance(weight, Mapping) and weight != "balanced":
            raise _mistake("class_weight", weight, "None, 'balanced' or a mapping")

    def _penalty(self) -> float:
        return 1.0 / float(self.C)

    def _read_target(
        self, y: ArrayLike, weights: NDArray[np.float64]
    ) -> tuple[Labels, dict[str, Any]]:
        labels, classes = read_classes(y, weights, self.class_weight)
        return labels, {"classes_": classes}

    def _keep(self, order: LinearOrder, log: ExchangeLog) -> None:
        super()._keep(order, log)
        self.coef_ = self._slopes()[None, :]
        self.intercept_ = np.array([self._intercept()])

    def decision_function(self, X: Any) -> NDArray[np.float64]:
        """The log-odds of the second class, for each row."""
        return self._scores(X)

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """(rows, 2): the probability of each class."""
        scores = self._scores(X)
        return np.exp(-np.logaddexp(0.0, np.column_stack([scores, -scores])))

    def predict(self, X: Any) -> NDArray[Any]:
        """The more likely class of each row."""
        is_second = self._scores(X) > 0.0
        return self.classes_[is_second.astype(np.intp)]  # type: ignore[no-any-return]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags


class VerticalLinearRegression(RegressorMixin, _VerticalLinearModel):  # type: ignore[misc] # scikit-learn ships no types
    """Linear regression with an L2 penalty over columns that several parties hold.

    The model is the one that scikit-learn's Ridge finds on the standardised columns of the joined
    table. Everything else, also about what becomes known, is as in `VerticalLogisticRegression`;
    residuals give away the target of every row.

    Parameters
    ----------
    alpha : float, default=1.0
        L2 penalty on the coefficients of standardised columns, as in scikit-learn; 0 for none.
    max_iter : int, default=100
        Most steps; each costs one exchange.
    tol : float, default=1e-8
        Stop when what is left would change predictions by this much of the target's standard
        deviation, as the root mean square over rows.
    parties, label_party, transport, n_jobs, verbose
        As in `VerticalLogisticRegression`.

    Attributes
    ----------
    coef_ : array of shape (n_features,)
        Coefficients in units of the input's columns, in its order. With categorical columns: of all
        terms, party by party, in the order of `coef_by_party_`.
    intercept_ : float
    coef_by_party_, n_features_in_, feature_names_in_, n_iter_, n_exchanges_, bytes_sent_, leakage_
        As in `VerticalLogisticRegression`.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from fedforest.estimators.linear import VerticalLinearRegression
    >>> X, y = load_diabetes(return_X_y=True)
    >>> VerticalLinearRegression(parties=2).fit(X, y).predict(X).shape
    (442,)
    """

    _is_regression = True

    def __init__(  # noqa: PLR0913 - scikit-learn's parameters and ours, by name only
        self,
        alpha: float = 1.0,
        *,
        max_iter: int = 100,
        tol: float = 1e-8,
        parties: Any = None,
        label_party: str | None = None,
        transport: Any = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.alpha = alpha
        self.max_iter = max_iter
        self.tol = tol
        self.parties = parties
        self.label_party = label_party
        self.transport = transport
        self.n_jobs = n_jobs
        self.verbose = verbose

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if not is_number(self.alpha) or not 0.0 <= self.alpha < np.inf:
            raise _mistake("alpha", self.alpha, "a number of at least 0")

    def _penalty(self) -> float:
        return float(self.alpha)

    def _read_target(
        self, y: ArrayLike, weights: NDArray[np.float64]
    ) -> tuple[Labels, dict[str, Any]]:
        return read_numbers(y, weights), {}

    def _keep(self, order: LinearOrder, log: ExchangeLog) -> None:
        super()._keep(order, log)
        self.coef_ = self._slopes()
        self.intercept_ = self._intercept()

    def predict(self, X: Any) -> NDArray[np.float64]:
        """The predicted number of each row."""
        return self._scores(X)


@contextmanager
def _connect(parties: Mapping[str, LinearParty], n_jobs: int) -> Iterator[InProcess]:
    """A transport to parties in this process."""
    endpoints = {party: make_endpoint(handler, REQUESTS) for party, handler in parties.items()}
    if n_jobs == 1:
        yield InProcess(endpoints)
        return
    with ThreadPoolExecutor(n_jobs, thread_name_prefix="fedforest") as executor:
        yield InProcess(endpoints, executor)


def _show(exchange: Exchange) -> None:
    print(  # noqa: T201 - what verbose is for
        f"{exchange.request}: {exchange.n_parties} parties, {exchange.n_bytes} bytes, "
        f"{exchange.seconds:.3f} s"
    )


def _mistake(name: str, value: object, allowed: str) -> ConfigurationError:
    return ConfigurationError(f"{name} is {value!r}; it must be {allowed}.")

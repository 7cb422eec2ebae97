"""Logistic and linear regression over columns that several parties hold: the papers' F-LR.

What both do is in `linear_model`; the public classes add labels or targets.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassifierMixin, RegressorMixin

from fedforest.estimators.linear_model import VerticalLinearModel, mistake
from fedforest.estimators.linear_targets import is_number, read_classes, read_numbers
from fedforest.protocol.linear.coordinator import LinearOrder
from fedforest.protocol.linear.labels import Labels, class_probabilities
from fedforest.runtime.driver import ExchangeLog


class VerticalLogisticRegression(ClassifierMixin, VerticalLinearModel):  # type: ignore[misc] # scikit-learn ships no types
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
    transport : str, optional
        None: parties live in this process. Otherwise a federation of processes: a profile's name
        or folder, or the coordinator's address. `X` then names the data set of each party and `y`
        the column of the label, and coefficients stay with the parties: there is no `coef_`,
        `intercept_` or `coef_by_party_`.
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
    leakage_ : LeakageReport
        Who learned what, in plain words.
    privacy_spent_ : dict
        That nothing protects labels, in the form of the forests' own.
    fit_log_ : list of LinearStep
        Request, parties, bytes and seconds of every exchange; ready for a data frame.
    parties_, label_party_, columns_by_party_
        Who took part, who owned labels, who held what; with a `transport` names of columns stay
        with their parties.
    model_id_ : str
        With a `transport`: under which id the roles keep their shares.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from fedforest import VerticalLogisticRegression
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
            raise mistake("C", self.C, "a positive number")
        weight = self.class_weight
        if weight is not None and not isinstance(weight, Mapping) and weight != "balanced":
            raise mistake("class_weight", weight, "None, 'balanced' or a mapping")

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
        return class_probabilities(self._scores(X))

    def predict_log_proba(self, X: Any) -> NDArray[np.float64]:
        """(rows, 2): the logarithm of the probability of each class."""
        scores = self._scores(X)
        return -np.logaddexp(0.0, np.column_stack([scores, -scores]))

    def predict(self, X: Any) -> NDArray[Any]:
        """The more likely class of each row."""
        is_second = self._scores(X) > 0.0
        return self.classes_[is_second.astype(np.intp)]  # type: ignore[no-any-return]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags


class VerticalLinearRegression(RegressorMixin, VerticalLinearModel):  # type: ignore[misc] # scikit-learn ships no types
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
    coef_by_party_, n_features_in_, feature_names_in_, n_iter_, n_exchanges_, bytes_sent_, \
leakage_, privacy_spent_, fit_log_, parties_, label_party_, columns_by_party_
        As in `VerticalLogisticRegression`.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from fedforest import VerticalLinearRegression
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
            raise mistake("alpha", self.alpha, "a number of at least 0")

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

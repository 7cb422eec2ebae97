"""Logistic and linear regression over columns that several parties hold: the papers' F-LR.

What both do is in `linear_model`; the public classes add labels or targets.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassifierMixin, RegressorMixin

from fedforest.estimators.inputs.declarations import document_parameters
from fedforest.estimators.inputs.parameters import LogisticParameters, RidgeParameters
from fedforest.estimators.linear.estimator import VerticalLinearModel
from fedforest.estimators.linear.targets import read_classes, read_numbers
from fedforest.protocol.linear.labels import Labels, class_probabilities


@document_parameters
@dataclass(eq=False, repr=False, kw_only=True)
class VerticalLogisticRegression(ClassifierMixin, LogisticParameters, VerticalLinearModel):  # type: ignore[misc] # scikit-learn ships no types
    """Logistic regression for two classes over columns that several parties hold.

    Every party standardises its own columns and keeps their coefficients; partial scores leave it,
    and residuals leave the label party. Their signs are the classes, so all parties learn every
    label: a baseline, to be compared with `VerticalForestClassifier`. The model is the one that
    scikit-learn's LogisticRegression finds on the standardised columns of the joined table.

    Missing numbers are taken as the mean of their column. Categorical columns become one indicator
    for each of their 50 most frequent categories.

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

    def _penalty(self) -> float:
        return 1.0 / float(self.C)

    def _read_target(
        self, y: ArrayLike, weights: NDArray[np.float64]
    ) -> tuple[Labels, dict[str, Any]]:
        labels, classes = read_classes(y, weights, self.class_weight)
        return labels, {"classes_": classes}

    def _name_coefficients(self, slopes: NDArray[np.float64], intercept: float) -> dict[str, Any]:
        return {"coef_": slopes[None, :], "intercept_": np.array([intercept])}

    def decision_function(self, X: Any) -> NDArray[np.float64]:
        """Return the log-odds of the second class, for each row."""
        return self._scores(X)

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Return (rows, 2): the probability of each class."""
        return class_probabilities(self._scores(X))

    def predict_log_proba(self, X: Any) -> NDArray[np.float64]:
        """Return (rows, 2): the logarithm of the probability of each class."""
        scores = self._scores(X)
        return -np.logaddexp(0.0, np.column_stack([scores, -scores]))

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the more likely class of each row."""
        is_second = self._scores(X) > 0.0
        return self.classes_[is_second.astype(np.intp)]  # type: ignore[no-any-return]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags


@document_parameters
@dataclass(eq=False, repr=False, kw_only=True)
class VerticalLinearRegression(RegressorMixin, RidgeParameters, VerticalLinearModel):  # type: ignore[misc] # scikit-learn ships no types
    """Linear regression with an L2 penalty over columns that several parties hold.

    The model is the one that scikit-learn's Ridge finds on the standardised columns of the joined
    table. Everything else, also about what becomes known, is as in `VerticalLogisticRegression`;
    residuals give away the target of every row.

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

    def _penalty(self) -> float:
        return float(self.alpha)

    def _read_target(
        self, y: ArrayLike, weights: NDArray[np.float64]
    ) -> tuple[Labels, dict[str, Any]]:
        return read_numbers(y, weights), {}

    def _name_coefficients(self, slopes: NDArray[np.float64], intercept: float) -> dict[str, Any]:
        return {"coef_": slopes, "intercept_": intercept}

    def predict(self, X: Any) -> NDArray[np.float64]:
        """Return the predicted number of each row."""
        return self._scores(X)

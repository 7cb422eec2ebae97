"""Predictions from the votes of trees: classes with their probabilities, or numbers."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin, RegressorMixin


class ClassVotes(ClassifierMixin):  # type: ignore[misc] # scikit-learn ships no types
    """The predictions of a forest whose `_votes` gives (rows, classes), mean votes of all trees."""

    classes_: NDArray[Any]

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Return the probability of each class.

        Parameters
        ----------
        X : table, or mapping of party to table
            With the columns of training: as in `fit` where parties hold columns, one table where
            they hold rows.

        Returns
        -------
        array of shape (n_rows, n_classes)
            In the order of `classes_`: mean class shares over all trees (`voting="soft"`), or the
            share of trees that vote for the class (`voting="hard"`).
        """
        return self._votes(X)  # type: ignore[no-any-return]

    def predict_log_proba(self, X: Any) -> NDArray[np.float64]:
        """Return the logarithm of `predict_proba`; minus infinity where a class is impossible.

        Parameters
        ----------
        X : table, or mapping of party to table
            As in `predict_proba`.
        """
        with np.errstate(divide="ignore"):
            return np.log(self._votes(X))  # type: ignore[no-any-return]

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the most likely class of each row; of equally likely ones the first in `classes_`.

        Parameters
        ----------
        X : table, or mapping of party to table
            As in `predict_proba`.
        """
        votes = self._votes(X)
        return self.classes_[votes.argmax(axis=1)]  # type: ignore[no-any-return]


class NumberVotes(RegressorMixin):  # type: ignore[misc] # scikit-learn ships no types
    """The predictions of a forest whose `_votes` gives (rows, 1), the mean of all trees."""

    def predict(self, X: Any) -> NDArray[np.float64]:
        """Return the mean of the trees for each row.

        Parameters
        ----------
        X : table, or mapping of party to table
            With the columns of training: as in `fit` where parties hold columns, one table where
            they hold rows.
        """
        return self._votes(X)[:, 0]  # type: ignore[no-any-return]

"""Federated Forest for classes and for numbers: parties hold different columns of the same rows."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.multiclass import check_classification_targets

from fedforest.errors import DataError
from fedforest.estimators.inputs.declarations import document_parameters
from fedforest.estimators.inputs.parameters import ClassParameters, VerticalNumberParameters
from fedforest.estimators.inputs.target_vector import as_vector
from fedforest.estimators.vertical.estimator import VerticalForest
from fedforest.estimators.vertical.options import VerticalOptions
from fedforest.estimators.votes import ClassVotes, NumberVotes
from fedforest.protocol.vertical.labels import LabelSource, TargetValues, number_classes
from fedforest.tree.table.target_checks import check_labels, check_regression_target


@document_parameters
@dataclass(eq=False, repr=False, kw_only=True)
class VerticalForestClassifier(ClassVotes, ClassParameters, VerticalForest):  # type: ignore[misc] # scikit-learn ships no types
    """A random forest for classes over columns that several parties hold.

    Parties find splits among their own columns; only gains, packed bits and sums of encoded labels
    leave them. The forest is, bit for bit, the one that the joined table would give.

    Attributes
    ----------
    classes_, n_classes_ : array of class labels, and their number
    parties_, label_party_, columns_by_party_ : who took part, who owned labels, who held what
    n_features_in_, feature_names_in_, feature_importances_ : as in scikit-learn
    n_trees_ : int
        Trees of the forest.
    oob_score_, oob_decision_function_, oob_curve_ : out-of-bag estimates
        The curve has one score after each tree.
    leakage_ : LeakageReport
        Who learned what; print it.
    privacy_spent_ : dict
        "label_epsilon", what it protects, and what nothing protects; print it.
    fit_log_ : list of FitStep
        Trees, level, open nodes, bytes and seconds of every step; ready for a data frame.
    n_exchanges_, bytes_sent_ : what training took; bytes by party
    n_steps_, n_extra_steps_ : tuples of int
        Of each batch of trees that grew together: steps of two exchanges, and how many of them
        were there only because all candidate columns of a node had one value and others were drawn.

    After a warm start, `fit_log_`, `n_exchanges_`, `bytes_sent_` and the numbers of steps are those
    of the last fit; `privacy_spent_` adds up all fits. A model read by `from_partial_forests` has
    none of what tells of its training.

    Examples
    --------
    Two parties hold different columns about the same rows:

    >>> from sklearn.datasets import load_breast_cancer
    >>> from fedforest import RandomizedResponse, VerticalForestClassifier
    >>> X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    >>> tables = {"bank": X.iloc[:, :15], "shop": X.iloc[:, 15:]}
    >>> forest = VerticalForestClassifier(n_estimators=20, oob_score=True, random_state=0)
    >>> forest = forest.fit(tables, y)
    >>> forest.score(tables, y) > 0.95, forest.oob_score_ > 0.9
    (True, True)

    The same forest from one table that is divided evenly, as model selection needs it:

    >>> divided = VerticalForestClassifier(n_estimators=20, parties=2, random_state=0).fit(X, y)
    >>> bool((divided.predict(X) == forest.predict(tables)).all())
    True

    Labels under randomized response, and what that protects:

    >>> noisy = VerticalForestClassifier(n_estimators=5, labels=RandomizedResponse(epsilon=2.0))
    >>> noisy.fit(tables, y).privacy_spent_["label_epsilon"]
    2.0

    Each role stores its partial forest; together they are the forest again:

    >>> files = forest.to_partial_forests()
    >>> sorted(files)
    ['bank', 'coordinator', 'shop']
    >>> again = VerticalForestClassifier.from_partial_forests(files)
    >>> bool((again.predict(tables) == forest.predict(tables)).all())
    True
    """

    _task = "classification"

    def _read_target(
        self,
        y: ArrayLike,
        weights: NDArray[np.float64] | None,
        n_rows: int,
        options: VerticalOptions,
        goes_on: bool,
    ) -> tuple[LabelSource, dict[str, Any]]:
        labels = check_labels(as_vector(y, type(self).__name__), n_rows)
        is_plain = labels.dtype.kind in "biuSU"  # whole numbers and text are always classes
        if not is_plain:
            _check_classes(labels)
        known = self.classes_ if goes_on else None
        source, classes = number_classes(labels, weights, options.class_weight, known)
        if is_plain and 2 * len(classes) > n_rows:
            _check_classes(labels)  # warns of so many; to ask in vain costs as much as a level
        return source, {"classes_": classes, "n_classes_": len(classes)}

    def _name_votes(self, votes: NDArray[np.float64]) -> dict[str, Any]:
        return {"oob_decision_function_": votes}


def _check_classes(labels: NDArray[Any]) -> None:
    """Raise what scikit-learn says against labels, as an error of ours."""
    try:
        check_classification_targets(labels)
    except ValueError as error:
        raise DataError(str(error)) from None


@document_parameters
@dataclass(eq=False, repr=False, kw_only=True)
class VerticalForestRegressor(NumberVotes, VerticalNumberParameters, VerticalForest):  # type: ignore[misc] # scikit-learn ships no types
    """A random forest for numbers over columns that several parties hold.

    Attributes
    ----------
    oob_prediction_ : array of shape (n_rows,)
        What trees that left the row out say, with `oob_score=True`.
    oob_score_, oob_curve_ : out-of-bag R^2, and after each tree
    parties_, label_party_, columns_by_party_, n_features_in_, feature_names_in_, \
feature_importances_, n_trees_, leakage_, privacy_spent_, fit_log_, n_exchanges_, bytes_sent_, \
n_steps_, n_extra_steps_
        As in `VerticalForestClassifier`.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from fedforest import VerticalForestRegressor
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
    >>> tables = {"clinic": X[["age", "sex", "bmi", "bp"]], "laboratory": X.loc[:, "s1":]}
    >>> forest = VerticalForestRegressor(n_estimators=20, random_state=0).fit(tables, y)
    >>> forest.predict(tables).shape
    (442,)
    >>> best = forest.feature_importances_.argmax()
    >>> forest.feature_names_in_[best] in ("bmi", "s5")
    True
    """

    _task = "regression"

    def _read_target(
        self,
        y: ArrayLike,
        weights: NDArray[np.float64] | None,
        n_rows: int,
        options: VerticalOptions,  # noqa: ARG002 - classes only
        goes_on: bool,  # noqa: ARG002 - classes only
    ) -> tuple[LabelSource, dict[str, Any]]:
        values = check_regression_target(as_vector(y, type(self).__name__), n_rows)
        return TargetValues(values, weights), {}

    def _name_votes(self, votes: NDArray[np.float64]) -> dict[str, Any]:
        return {"oob_prediction_": votes[:, 0]}

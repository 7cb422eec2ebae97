"""Federated Forest for classes and for numbers: parties hold different columns of the same rows."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.utils.multiclass import check_classification_targets

from fedforest.errors import DataError
from fedforest.estimators.target_vector import as_vector
from fedforest.estimators.vertical_forest import VerticalForest
from fedforest.estimators.vertical_options import VerticalOptions
from fedforest.kernels.layout import MAX_BINS
from fedforest.protocol.vertical.labels import ClassLabels, LabelSource, TargetValues
from fedforest.tree.class_weights import weigh_classes
from fedforest.tree.target_checks import check_labels, check_regression_target


class VerticalForestClassifier(ClassifierMixin, VerticalForest):  # type: ignore[misc] # scikit-learn ships no types
    """A random forest for classes over columns that several parties hold.

    Parties find splits among their own columns; only gains, packed bits and sums of encoded labels
    leave them. The forest is, bit for bit, the one that the joined table would give.

    Parameters
    ----------
    n_estimators : int, default=100
        Trees; the maximum with early stopping.
    criterion : {"gini", "entropy"}, default="gini"
        How splits are scored.
    max_depth : int, optional
        Levels of splits; trees are grown out by default.
    min_samples_split, min_samples_leaf : int or float, default=2 and 1
        Rows a node needs to be split, and that each side keeps; a float is a share of all rows.
        Leaves of 5 rows and more protect rows better.
    min_weight_fraction_leaf : float, default=0.0
        Share of the weight of its tree that a leaf must have, from 0 to 0.5: rows count by
        `sample_weight` and `class_weight`, and as often as the tree drew them.
    min_impurity_decrease : float, default=0.0
        Splits that gain less are not made.
    max_features : {"sqrt", "log2"}, int, float or None, default="sqrt"
        Columns, of all parties together, that a node may choose from.
    bootstrap : bool, default=True
        Draw the rows of each tree with replacement; else every tree sees all rows.
    max_samples : int or float, optional
        Rows that each tree draws; as many as there are by default.
    oob_score : bool, default=False
        Let rows vote on trees that left them out: `oob_score_`, `oob_decision_function_`.
    class_weight : mapping of class to weight, or "balanced", optional
        Weights of classes; "balanced" makes them weigh the same.
    warm_start : bool, default=False
        Keep the trees of the last fit and grow further ones.
    random_state : int or RandomState, optional
        Seed of rows and columns drawn. The noise of `RandomizedResponse` is never seeded.
    n_jobs : int, optional
        Threads that parties share; -1 for all cores.
    verbose : int, default=0
        1 shows a progress bar.
    early_stopping : bool, default=False
        Stop when the out-of-bag score has not risen by `tol` for `n_iter_no_change` trees.
    n_iter_no_change : int, default=10
        Trees without progress before training stops early.
    tol : float, default=1e-4
        What counts as progress.
    feature_sampling : {"node", "tree"}, default="node"
        Draw the candidate columns anew at every node, or once per tree as the paper does.
    max_bins : int, default=255
        Bins of a numeric column.
    voting : {"soft", "hard"}, default="soft"
        Average class shares, or count each tree's majority as the papers do.
    labels : "encoded" or RandomizedResponse, default="encoded"
        How labels are protected when they leave the label party.
    label_party : str, optional
        Who owns `y`; the first party by default.
    parties : None, int or mapping of party to columns, optional
        How one table is divided: not at all, evenly among so many, or by names or positions of
        columns. Not used when `fit` gets a mapping of tables.
    prediction : {"auto", "one_round", "classical"} or int, default="auto"
        Levels that one exchange settles; "one_round" settles all at once.
    transport : str, optional
        A profile's name or folder, or the coordinator's address, to train in a live federation:
        `fit` then takes a mapping of party to data set for X, and the label's column for y. None:
        parties live in this process.

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
    of the last fit; `privacy_spent_` adds up all fits. A model read by `from_shares` has none of
    what tells of its training.

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

    Each role stores its own share; together they are the forest again:

    >>> shares = forest.to_shares()
    >>> sorted(shares)
    ['bank', 'coordinator', 'shop']
    >>> again = VerticalForestClassifier.from_shares(shares)
    >>> bool((again.predict(tables) == forest.predict(tables)).all())
    True
    """

    _task = "classification"

    def __init__(  # noqa: PLR0913 - scikit-learn's parameters and ours, by name only
        self,
        n_estimators: int = 100,
        *,
        criterion: str = "gini",
        max_depth: int | None = None,
        min_samples_split: int | float = 2,
        min_samples_leaf: int | float = 1,
        min_weight_fraction_leaf: float = 0.0,
        min_impurity_decrease: float = 0.0,
        max_features: str | int | float | None = "sqrt",
        bootstrap: bool = True,
        max_samples: int | float | None = None,
        oob_score: bool = False,
        class_weight: Any = None,
        warm_start: bool = False,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: int = 0,
        early_stopping: bool = False,
        n_iter_no_change: int = 10,
        tol: float = 1e-4,
        feature_sampling: str = "node",
        max_bins: int = MAX_BINS,
        voting: str = "soft",
        labels: Any = "encoded",
        label_party: str | None = None,
        parties: Any = None,
        prediction: str | int = "auto",
        transport: Any = None,
    ) -> None:
        self.n_estimators = n_estimators
        self.criterion = criterion
        self.max_depth = max_depth
        self.min_samples_split = min_samples_split
        self.min_samples_leaf = min_samples_leaf
        self.min_weight_fraction_leaf = min_weight_fraction_leaf
        self.min_impurity_decrease = min_impurity_decrease
        self.max_features = max_features
        self.bootstrap = bootstrap
        self.max_samples = max_samples
        self.oob_score = oob_score
        self.class_weight = class_weight
        self.warm_start = warm_start
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.early_stopping = early_stopping
        self.n_iter_no_change = n_iter_no_change
        self.tol = tol
        self.feature_sampling = feature_sampling
        self.max_bins = max_bins
        self.voting = voting
        self.labels = labels
        self.label_party = label_party
        self.parties = parties
        self.prediction = prediction
        self.transport = transport

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
        classes, codes = np.unique(labels, return_inverse=True)
        if is_plain and 2 * len(classes) > n_rows:
            _check_classes(labels)  # warns of so many; to ask in vain costs as much as a level
        if goes_on:
            if not set(classes.tolist()) <= set(self.classes_.tolist()):
                raise DataError(
                    "A warm start cannot learn classes that earlier fits did not have. Set "
                    "warm_start=False to start anew."
                )
            classes, codes = self.classes_, np.searchsorted(self.classes_, labels)
        class_weights = weigh_classes(options.class_weight, classes)
        source = ClassLabels(codes, len(classes), weights, class_weights)
        return source, {"classes_": classes, "n_classes_": len(classes)}

    def _name_votes(self, votes: NDArray[np.float64]) -> dict[str, Any]:
        return {"oob_decision_function_": votes}

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """How likely each class is.

        Parameters
        ----------
        X : mapping of party to table, or one table
            As in `fit`.

        Returns
        -------
        array of shape (n_rows, n_classes)
            In the order of `classes_`: mean class shares over all trees (`voting="soft"`), or the
            share of trees that vote for the class (`voting="hard"`).
        """
        return self._votes(X)

    def predict_log_proba(self, X: Any) -> NDArray[np.float64]:
        """The logarithm of `predict_proba`; minus infinity where a class is impossible.

        Parameters
        ----------
        X : mapping of party to table, or one table
            As in `fit`.
        """
        with np.errstate(divide="ignore"):
            return np.log(self._votes(X))

    def predict(self, X: Any) -> NDArray[Any]:
        """The most likely class of each row; of equally likely ones the first in `classes_`.

        Parameters
        ----------
        X : mapping of party to table, or one table
            As in `fit`.
        """
        votes = self._votes(X)
        return self.classes_[votes.argmax(axis=1)]  # type: ignore[no-any-return]


def _check_classes(labels: NDArray[Any]) -> None:
    """Raise what scikit-learn says against labels, as an error of ours."""
    try:
        check_classification_targets(labels)
    except ValueError as error:
        raise DataError(str(error)) from None


class VerticalForestRegressor(RegressorMixin, VerticalForest):  # type: ignore[misc] # scikit-learn ships no types
    """A random forest for numbers over columns that several parties hold.

    Parameters
    ----------
    criterion : {"squared_error"}, default="squared_error"
        How splits are scored.
    max_features : {"sqrt", "log2"}, int, float or None, default=1.0
        Columns, of all parties together, that a node may choose from.
    labels : "encoded"
        Parties get targets in an unknown unit, counted from an unknown origin.
    n_estimators, max_depth, min_samples_split, min_samples_leaf, min_weight_fraction_leaf, \
min_impurity_decrease, bootstrap, max_samples, oob_score, warm_start, random_state, n_jobs, \
verbose, early_stopping, n_iter_no_change, tol, feature_sampling, max_bins, label_party, parties, \
prediction, transport
        As in `VerticalForestClassifier`.

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

    def __init__(  # noqa: PLR0913 - scikit-learn's parameters and ours, by name only
        self,
        n_estimators: int = 100,
        *,
        criterion: str = "squared_error",
        max_depth: int | None = None,
        min_samples_split: int | float = 2,
        min_samples_leaf: int | float = 1,
        min_weight_fraction_leaf: float = 0.0,
        min_impurity_decrease: float = 0.0,
        max_features: str | int | float | None = 1.0,
        bootstrap: bool = True,
        max_samples: int | float | None = None,
        oob_score: bool = False,
        warm_start: bool = False,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: int = 0,
        early_stopping: bool = False,
        n_iter_no_change: int = 10,
        tol: float = 1e-4,
        feature_sampling: str = "node",
        max_bins: int = MAX_BINS,
        labels: Any = "encoded",
        label_party: str | None = None,
        parties: Any = None,
        prediction: str | int = "auto",
        transport: Any = None,
    ) -> None:
        self.n_estimators = n_estimators
        self.criterion = criterion
        self.max_depth = max_depth
        self.min_samples_split = min_samples_split
        self.min_samples_leaf = min_samples_leaf
        self.min_weight_fraction_leaf = min_weight_fraction_leaf
        self.min_impurity_decrease = min_impurity_decrease
        self.max_features = max_features
        self.bootstrap = bootstrap
        self.max_samples = max_samples
        self.oob_score = oob_score
        self.warm_start = warm_start
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.early_stopping = early_stopping
        self.n_iter_no_change = n_iter_no_change
        self.tol = tol
        self.feature_sampling = feature_sampling
        self.max_bins = max_bins
        self.labels = labels
        self.label_party = label_party
        self.parties = parties
        self.prediction = prediction
        self.transport = transport

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

    def predict(self, X: Any) -> NDArray[np.float64]:
        """The mean of the trees for each row.

        Parameters
        ----------
        X : mapping of party to table, or one table
            As in `fit`.
        """
        return self._votes(X)[:, 0]

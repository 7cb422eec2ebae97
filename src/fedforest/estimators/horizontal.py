"""Federated Extra-Trees for classes and for numbers: parties hold different rows, same columns."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin, RegressorMixin

from fedforest.estimators.horizontal_forest import HorizontalForest


class HorizontalExtraTreesClassifier(ClassifierMixin, HorizontalForest):  # type: ignore[misc] # scikit-learn ships no types
    """Extremely randomized trees for classes over rows that several parties hold.

    Parties propose random thresholds inside their own ranges and answer with class counts on each
    side, protected as `aggregation` and `privacy` say. Every party ends up with the complete model
    and predicts without anybody else.

    There is no `oob_score` and no `early_stopping`: trees see all rows by default, and a score on
    true labels would be one more release. There is no `warm_start` either; forests of two fits vote
    as one if their `predict_proba` is averaged (docs/decisions/0016).

    Parameters
    ----------
    n_estimators : int, default=100
        Trees.
    criterion : {"gini", "entropy"}, default="gini"
        How splits are scored.
    max_depth : int, optional
        Levels of splits; trees are grown out by default.
    min_samples_split, min_samples_leaf : int or float, default=2 and 1
        Rows of all parties that a node needs to be split, and that each side keeps; a float is a
        share of all rows. Leaves of 5 rows and more protect rows better.
    min_weight_fraction_leaf : float, default=0.0
        Share of the weight of its tree that a leaf must have, from 0 to 0.5: rows count by
        `sample_weight` and `class_weight`, and as often as the tree drew them; under `privacy`,
        by noisy sums.
    min_impurity_decrease : float, default=0.0
        Splits that gain less are not made.
    max_features : {"sqrt", "log2"}, int, float or None, default="sqrt"
        Columns that a node may choose from.
    bootstrap : bool, default=False
        Let each tree draw rows, at every party by itself: with replacement, or without under
        `privacy`. By default every tree sees all rows.
    max_samples : int or float, optional
        Rows that each tree draws, of all parties together or as a share of each party's rows; with
        `bootstrap` only.
    class_weight : mapping of class to weight, or "balanced", optional
        Weights of classes; "balanced" makes them weigh the same, and tells how many rows each has.
    random_state : int or RandomState, optional
        Seed of everything drawn, the parties' own points, masks and noise included, so that a
        simulation can be repeated. None draws these from the system's entropy, as every real party
        does.
    n_jobs : int, optional
        Threads that parties share; -1 for all cores.
    verbose : int, default=0
        1 shows a progress bar.
    feature_sampling : {"node", "tree"}, default="node"
        Draw the candidate columns anew at every node, or once per tree.
    voting : {"soft", "hard"}, default="soft"
        Average class shares, or count each tree's majority as the papers do.
    privacy : None, LocalDP or GlobalDP, default=None
        Noise on labels before they are counted, or on counts before they leave a party.
    aggregation : "plain", Masked, Ring or Shamir, default="plain"
        How counts of parties are added up: as they are, or so that only their sum is seen. The
        forest is the same.
    participation : float, default=1.0
        Share of the parties that take part. Where they differ from tree to tree, they are drawn in
        blocks of `min_participants` that stay together, so that differences between trees expose
        blocks, not parties. Only after a party was lost, each leaves out a secret part of its rows
        from the trees that follow.
    participation_scope : {"tree", "step", "run"}, default="tree"
        How long the parties that take part stay the same. "step", the paper's way, exposes single
        parties by differences of sums; see `leakage_`.
    min_participants : int, optional
        Parties with rows that must take part in every sum; with fewer, also after a party was lost,
        training ends with an error. By default 2 where `aggregation` protects sums, otherwise 1.
    transport : str, optional
        A profile's name or folder, or the coordinator's address, to train in a live federation:
        `fit` then takes a mapping of party to data set for X, and the label's column for y. None:
        parties live in this process.

    Attributes
    ----------
    classes_, n_classes_ : array of class labels, and their number
    parties_ : tuple of str
        Who took part.
    n_features_in_, feature_names_in_, feature_importances_ : as in scikit-learn
    n_trees_ : int
        Trees of the forest.
    leakage_ : LeakageReport
        Who learned what; print it.
    privacy_spent_ : dict
        "label_epsilon" and how it comes about, what it protects, and what nothing protects; print
        it.
    fit_log_ : list of CountedStep
        Trees, level, open nodes, sums and who took part in them, bytes and seconds of every step;
        ready for a data frame.
    n_exchanges_, bytes_sent_ : what training took; bytes by party

    Examples
    --------
    Three hospitals hold different patients with the same columns; here one table stands for them:

    >>> import numpy as np
    >>> from sklearn.datasets import load_breast_cancer
    >>> from fedforest import HorizontalExtraTreesClassifier, Masked
    >>> X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    >>> hospital = np.array(["north", "south", "west"])[np.arange(len(X)) % 3]
    >>> forest = HorizontalExtraTreesClassifier(
    ...     n_estimators=20, min_samples_leaf=5, aggregation=Masked(), random_state=0
    ... )
    >>> forest = forest.fit(X, y, party=hospital)
    >>> forest.score(X, y) > 0.9, forest.parties_
    (True, ('north', 'south', 'west'))

    Or a table and labels from each party; prediction is the same, without any party:

    >>> tables = {name: X[hospital == name] for name in forest.parties_}
    >>> labels = {name: y[hospital == name] for name in forest.parties_}
    >>> again = HorizontalExtraTreesClassifier(n_estimators=20, min_samples_leaf=5, random_state=0)
    >>> bool((again.fit(tables, labels).predict(X) == forest.predict(X)).all())
    True

    Noise on labels, and what it protects:

    >>> from fedforest import GlobalDP
    >>> noisy = HorizontalExtraTreesClassifier(
    ...     n_estimators=5, max_depth=3, privacy=GlobalDP(epsilon_total=50.0), random_state=0
    ... )
    >>> round(noisy.fit(tables, labels).privacy_spent_["label_epsilon"], 6)
    50.0

    The forest as scikit-learn's own, for SHAP, ONNX and others:

    >>> ensemble = forest.to_sklearn()
    >>> type(ensemble).__name__, bool((ensemble.predict(X) == forest.predict(X)).all())
    ('ExtraTreesClassifier', True)
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
        bootstrap: bool = False,
        max_samples: int | float | None = None,
        class_weight: Any = None,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: int = 0,
        feature_sampling: str = "node",
        voting: str = "soft",
        privacy: Any = None,
        aggregation: Any = "plain",
        participation: float = 1.0,
        participation_scope: str = "tree",
        min_participants: int | None = None,
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
        self.class_weight = class_weight
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.feature_sampling = feature_sampling
        self.voting = voting
        self.privacy = privacy
        self.aggregation = aggregation
        self.participation = participation
        self.participation_scope = participation_scope
        self.min_participants = min_participants
        self.transport = transport

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """How likely each class is.

        Parameters
        ----------
        X : one table
            With the columns of training.

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
        X : one table
            With the columns of training.
        """
        with np.errstate(divide="ignore"):
            return np.log(self._votes(X))

    def predict(self, X: Any) -> NDArray[Any]:
        """The most likely class of each row; of equally likely ones the first in `classes_`.

        Parameters
        ----------
        X : one table
            With the columns of training.
        """
        votes = self._votes(X)
        return self.classes_[votes.argmax(axis=1)]  # type: ignore[no-any-return]


class HorizontalExtraTreesRegressor(RegressorMixin, HorizontalForest):  # type: ignore[misc] # scikit-learn ships no types
    """Extremely randomized trees for numbers over rows that several parties hold.

    As for classes, there is no `oob_score`, `early_stopping` or `warm_start`.

    Parameters
    ----------
    criterion : {"squared_error"}, default="squared_error"
        How splits are scored.
    max_features : {"sqrt", "log2"}, int, float or None, default=1.0
        Columns that a node may choose from.
    privacy : None or GlobalDP, default=None
        Noise on sums of targets before they leave a party; needs declared `target_bounds`.
    n_estimators, max_depth, min_samples_split, min_samples_leaf, min_weight_fraction_leaf, \
min_impurity_decrease, bootstrap, max_samples, random_state, n_jobs, verbose, feature_sampling, \
aggregation, participation, participation_scope, min_participants, transport
        As in `HorizontalExtraTreesClassifier`.

    Attributes
    ----------
    parties_, n_features_in_, feature_names_in_, feature_importances_, n_trees_, leakage_, \
privacy_spent_, fit_log_, n_exchanges_, bytes_sent_
        As in `HorizontalExtraTreesClassifier`.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from fedforest import HorizontalExtraTreesRegressor
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
    >>> tables, targets = {"a": X[:200], "b": X[200:]}, {"a": y[:200], "b": y[200:]}
    >>> forest = HorizontalExtraTreesRegressor(n_estimators=20, min_samples_leaf=5, random_state=0)
    >>> forest.fit(tables, targets).predict(X).shape
    (442,)
    >>> best = forest.feature_importances_.argmax()
    >>> forest.feature_names_in_[best] in ("bmi", "s5")
    True

    Every party keeps the same file and predicts with it:

    >>> copy = HorizontalExtraTreesRegressor.from_bytes(forest.to_bytes())
    >>> bool((copy.predict(X) == forest.predict(X)).all())
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
        bootstrap: bool = False,
        max_samples: int | float | None = None,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: int = 0,
        feature_sampling: str = "node",
        privacy: Any = None,
        aggregation: Any = "plain",
        participation: float = 1.0,
        participation_scope: str = "tree",
        min_participants: int | None = None,
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
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.feature_sampling = feature_sampling
        self.privacy = privacy
        self.aggregation = aggregation
        self.participation = participation
        self.participation_scope = participation_scope
        self.min_participants = min_participants
        self.transport = transport

    def predict(self, X: Any) -> NDArray[np.float64]:
        """The mean of the trees for each row.

        Parameters
        ----------
        X : one table
            With the columns of training.
        """
        return self._votes(X)[:, 0]

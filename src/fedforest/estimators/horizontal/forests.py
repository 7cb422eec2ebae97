"""Federated Extra-Trees for classes and for numbers: parties hold different rows, same columns."""

from dataclasses import dataclass

from fedforest.estimators.horizontal.estimator import HorizontalForest
from fedforest.estimators.inputs.declarations import document_parameters
from fedforest.estimators.inputs.parameters import (
    HorizontalClassParameters,
    HorizontalNumberParameters,
)
from fedforest.estimators.votes import ClassVotes, NumberVotes


@document_parameters
@dataclass(eq=False, repr=False, kw_only=True)
class HorizontalExtraTreesClassifier(ClassVotes, HorizontalClassParameters, HorizontalForest):  # type: ignore[misc] # scikit-learn ships no types
    """Extremely randomized trees for classes over rows that several parties hold.

    Parties propose random thresholds inside their own ranges and answer with class counts on each
    side, protected as `aggregation` and `privacy` say. Every party ends up with the complete model
    and predicts without anybody else.

    There is no `oob_score` and no `early_stopping`: trees see all rows by default, and a score on
    true labels would be one more release. There is no `warm_start` either; forests of two fits vote
    as one if their `predict_proba` is averaged (docs/decisions/0016).

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
    ...     n_estimators=5, max_depth=3, privacy=GlobalDP(epsilon=50.0), random_state=0
    ... )
    >>> round(noisy.fit(tables, labels).privacy_spent_["label_epsilon"], 6)
    50.0

    The forest as scikit-learn's own, for SHAP, ONNX and others:

    >>> ensemble = forest.to_sklearn()
    >>> type(ensemble).__name__, bool((ensemble.predict(X) == forest.predict(X)).all())
    ('ExtraTreesClassifier', True)
    """

    _task = "classification"


@document_parameters
@dataclass(eq=False, repr=False, kw_only=True)
class HorizontalExtraTreesRegressor(NumberVotes, HorizontalNumberParameters, HorizontalForest):  # type: ignore[misc] # scikit-learn ships no types
    """Extremely randomized trees for numbers over rows that several parties hold.

    As for classes, there is no `oob_score`, `early_stopping` or `warm_start`.

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

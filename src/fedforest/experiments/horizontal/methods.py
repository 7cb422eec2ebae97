"""The methods of the horizontal experiments: each one trains on a deal of rows and is scored.

Measured: accuracy, F1 and AUC on rows held out, seconds, and for federated forests what training
exchanged and what its privacy cost.
"""

import gc
import math
import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import ExtraTreesClassifier
from sklearn.metrics import f1_score, roc_auc_score

import fedforest
from fedforest.experiments.experiment import Measured
from fedforest.experiments.horizontal.deals import Deal, codes_of

Method: TypeAlias = Callable[[Deal], Measured]


@dataclass(frozen=True, slots=True)
class ForestSize:
    """The parameters that scikit-learn and we share, under scikit-learn's names."""

    n_estimators: int
    max_depth: int | None = None
    min_samples_leaf: int = 1
    max_features: str | int = "sqrt"
    criterion: str = "gini"

    def tell(self) -> str:
        depth = "grown out" if self.max_depth is None else f"depth {self.max_depth}"
        return (
            f"{self.n_estimators} trees, {depth}, at least {self.min_samples_leaf} row(s) in a "
            f"leaf, {self.max_features} of the columns at a node, {self.criterion}, no bootstrap, "
            "soft votes"
        )


def locally(cap: float) -> Any:
    """Local noise under which the permanent answers of a row never tell more than `cap`."""
    return fedforest.LocalDP(epsilon=cap)


def globally(epsilon_query: float) -> Any:
    """Laplace noise at each party, by the epsilon of one query."""
    return fedforest.GlobalDP(epsilon_query=epsilon_query)


def pooled(size: ForestSize, n_jobs: int) -> Method:
    """Return scikit-learn's extra-trees on the rows of all parties."""

    def train(deal: Deal) -> Measured:
        forest = ExtraTreesClassifier(**asdict(size), random_state=deal.seed, n_jobs=n_jobs)
        X, y = codes_of(deal, deal.train), deal.data.y[deal.train]
        measured = _timed(lambda: forest.fit(X, y))
        return measured | _score(deal, forest, codes_of(deal, deal.test))

    return train


def alone(size: ForestSize, n_jobs: int) -> Method:
    """Return scikit-learn's extra-trees on the rows of the first party."""
    train_pooled = pooled(size, n_jobs)
    return lambda deal: train_pooled(deal.keep(1))


def federated(size: ForestSize, **options: Any) -> Method:
    """Federated Extra-Trees of this size."""

    def train(deal: Deal) -> Measured:
        forest = fedforest.HorizontalExtraTreesClassifier(
            **asdict(size), **options, random_state=deal.seed
        )
        X, y = deal.data.rows(deal.train), deal.data.y[deal.train]
        with warnings.catch_warnings():  # that noise exceeds signal is what curves show
            warnings.simplefilter("ignore", fedforest.NoiseExceedsSignalWarning)
            measured = _timed(lambda: forest.fit(X, y, party=deal.owner))
        measured |= _score(deal, forest, deal.data.rows(deal.test))
        return measured | _describe_exchanges(forest) | _describe_spending(forest)

    return train


def _timed(work: Callable[[], object]) -> Measured:
    """Seconds of the work; garbage of earlier work is collected before."""
    gc.collect()
    wall, cpu = time.perf_counter(), time.process_time()
    work()
    return {"wall": time.perf_counter() - wall, "cpu": time.process_time() - cpu}


def _score(deal: Deal, forest: Any, X: Any) -> Measured:
    """Accuracy; of two classes F1 of the larger, as Table 2 of the paper must mean, and AUC."""
    y = deal.data.y
    truth = y[deal.test]
    votes = forest.predict_proba(X)
    predicted = forest.classes_[votes.argmax(axis=1)]
    accuracy = float(np.mean(predicted == truth))
    if deal.data.n_classes > 2:
        macro = float(f1_score(truth, predicted, average="macro", zero_division=0.0))
        return {"score": accuracy, "f1": accuracy, "f1_macro": macro}
    larger = larger_class(y)
    return {
        "score": accuracy,
        "f1": float(f1_score(truth, predicted, pos_label=larger, zero_division=0.0)),
        "auc": float(roc_auc_score(truth == forest.classes_[1], votes[:, 1])),
    }


def larger_class(y: NDArray[Any]) -> Any:
    """Return the class that most rows have."""
    classes, counts = np.unique(y, return_counts=True)
    return classes[np.argmax(counts)]


def _describe_exchanges(forest: Any) -> Measured:
    """Describe the exchanges; `aggregated` counts (node, candidate) vectors, party by party."""
    return {
        "exchanges": forest.n_exchanges_,
        "bytes": sum(step.n_bytes for step in forest.fit_log_),
        "vectors": sum(step.vectors for step in forest.fit_log_),
        "aggregated": sum(step.vectors * step.participants for step in forest.fit_log_),
    }


def _describe_spending(forest: Any) -> Measured:
    """Epsilons, where there is noise; what is not limited is left out."""
    names = (
        "label_epsilon",
        "epsilon_query",
        "epsilon_composed",
        "epsilon_cap",
        "epsilon_approximate",
    )
    spent: Mapping[str, Any] = forest.privacy_spent_
    return {name: spent[name] for name in names if math.isfinite(spent.get(name) or math.inf)}

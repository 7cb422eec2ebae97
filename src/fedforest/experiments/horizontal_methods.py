"""The methods of the horizontal experiments: what each one trains on a deal of rows.

A method returns what was measured: the score on rows held out, seconds, and for federated ones
what training exchanged and what its privacy cost.
"""

import gc
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, TypeAlias

import numpy as np
from sklearn.ensemble import ExtraTreesClassifier

import fedforest
from fedforest.experiments.horizontal_tasks import Deal

# Method -> its name in the paper.
METHODS = {"alone": "ET, one party", "pooled": "ET", "federated": "FET"}
SHARES = (0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
SCOPES = ("tree", "step")
FULL = "full"  # participation of all parties, whatever the scope

Measured: TypeAlias = dict[str, float]
Method: TypeAlias = Callable[[Deal], Measured]


@dataclass(frozen=True, slots=True)
class ForestSize:
    """The parameters that scikit-learn and we share, under scikit-learn's names."""

    n_estimators: int
    max_depth: int | None = None
    min_samples_leaf: int = 1
    max_features: str = "sqrt"
    criterion: str = "gini"


@dataclass(frozen=True, slots=True)
class Noise:
    """A way to protect labels by noise, along an epsilon of its own kind."""

    name: str
    epsilons: tuple[float, ...]
    protect: Callable[[float], Any]

    def method(self, epsilon: float) -> str:
        return f"{self.name} {epsilon:g}"

    @property
    def reference(self) -> str:
        """Name the method of the same forest without noise."""
        return f"{self.name} none"


# By the cap of the permanent response, the epsilon of a query, and that of the whole training.
LOCAL = Noise(
    "local",
    (0.5, 1.0, 2.0, 4.0, 6.0, 8.0),
    lambda cap: fedforest.LocalDP(epsilon=cap),
)
QUERY = Noise(
    "query",
    (0.03, 0.1, 0.3, 1.0, 3.0, 10.0),
    lambda epsilon: fedforest.GlobalDP(epsilon_query=epsilon),
)
TOTAL = Noise(
    "total",
    (1.0, 3.0, 10.0, 30.0, 100.0, 300.0),
    lambda epsilon: fedforest.GlobalDP(epsilon=epsilon),
)


def share_name(scope: str, share: float) -> str:
    return FULL if share == 1.0 else f"{scope} {share:g}"


def compared_methods(size: ForestSize, n_jobs: int) -> dict[str, Method]:
    """scikit-learn's extra-trees on one party's rows and on all rows, and ours over the parties."""

    def alone(deal: Deal) -> Measured:
        return _train_sklearn(deal, deal.train[deal.owner == 0], size, n_jobs)

    def pooled(deal: Deal) -> Measured:
        return _train_sklearn(deal, deal.train, size, n_jobs)

    return {"alone": alone, "pooled": pooled, "federated": federated(size, n_jobs=n_jobs)}


def noisy_methods(noise: Noise, size: ForestSize, n_jobs: int) -> dict[str, Method]:
    """Return a forest without noise, and with it along epsilon."""
    methods = {noise.reference: federated(size, n_jobs=n_jobs)}
    for epsilon in noise.epsilons:
        privacy = noise.protect(epsilon)
        methods[noise.method(epsilon)] = federated(size, n_jobs=n_jobs, privacy=privacy)
    return methods


def participation_methods(size: ForestSize) -> dict[str, Method]:
    """Masked sums over a random share of the parties; one thread, so that seconds compare."""
    return {
        share_name(scope, share): federated(
            size,
            n_jobs=1,
            aggregation=fedforest.Masked(),
            participation=share,
            participation_scope=scope,
        )
        for scope in SCOPES
        for share in SHARES
    }


def federated(size: ForestSize, **options: Any) -> Method:
    """Federated Extra-Trees of this size."""

    def train(deal: Deal) -> Measured:
        forest = fedforest.HorizontalExtraTreesClassifier(
            **asdict(size), **options, random_state=deal.seed
        )
        X, y = deal.take(deal.train), deal.data.y[deal.train]
        measured = _timed(lambda: forest.fit(X, y, party=deal.owner))
        measured["score"] = _accuracy(deal, forest.predict(deal.take(deal.test)))
        return measured | _describe_exchanges(forest) | _describe_spending(forest)

    return train


def _train_sklearn(deal: Deal, rows: Any, size: ForestSize, n_jobs: int) -> Measured:
    forest = ExtraTreesClassifier(**asdict(size), random_state=deal.seed, n_jobs=n_jobs)
    X, y = deal.data.codes[rows], deal.data.y[rows]
    measured = _timed(lambda: forest.fit(X, y))
    measured["score"] = _accuracy(deal, forest.predict(deal.data.codes[deal.test]))
    return measured


def _timed(work: Callable[[], object]) -> Measured:
    """Seconds of the work; garbage of earlier work is collected before."""
    gc.collect()
    wall, cpu = time.perf_counter(), time.process_time()
    work()
    return {"wall": time.perf_counter() - wall, "cpu": time.process_time() - cpu}


def _accuracy(deal: Deal, predicted: Any) -> float:
    return float(np.mean(predicted == deal.data.y[deal.test]))


def _describe_exchanges(forest: Any) -> Measured:
    """Describe the exchanges; `aggregated` counts (node, candidate) vectors, party by party."""
    return {
        "exchanges": forest.n_exchanges_,
        "bytes": sum(step.n_bytes for step in forest.fit_log_),
        "aggregated": sum(step.vectors * step.participants for step in forest.fit_log_),
    }


def _describe_spending(forest: Any) -> Measured:
    """Epsilons, where there is noise; what is not limited is left out."""
    names = ("epsilon_query", "epsilon_composed", "epsilon_cap", "epsilon_approximate")
    spent: Mapping[str, Any] = forest.privacy_spent_
    return {name: spent[name] for name in names if math.isfinite(spent.get(name) or math.inf)}

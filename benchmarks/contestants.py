"""The forests that are compared, each behind the same `fit` and `predict`.

Everybody gets the same threads, trees, depth and columns per node. Where a library cannot do what
scikit-learn does, it gets the nearest setting, and `note` says which. Libraries are imported when
they are used: an absent one is left out with a reason, and importing ours can be timed.
"""

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from benchmarks.tasks import ForestSettings

N_THREADS = 2
LIGHTGBM_MOST_LEAVES = 131_072


class Forest(Protocol):
    """The part of scikit-learn's interface that is measured."""

    def fit(self, X: Any, y: Any) -> object: ...

    def predict(self, X: Any) -> NDArray[Any]: ...


@dataclass(frozen=True)
class Contestant:
    """A library's forest; `family` says which forests are the same algorithm."""

    name: str
    family: str
    library: str
    build: Callable[[ForestSettings, int], Forest]
    note: str


OURS = "fedforest"
FEDERATED = "fedforest, two parties"
OURS_EXTRA = "fedforest extra-trees"
SKLEARN = "scikit-learn"
SKLEARN_EXTRA = "scikit-learn extra-trees"
ROWS_PLAIN = "fedforest, plain"
ROWS_MASKED = "fedforest, masked"
ROWS_RING = "fedforest, ring"
ROWS_SHAMIR = "fedforest, Shamir"
ROWS_LOCAL = "fedforest, LocalDP"
ROWS_GLOBAL = "fedforest, GlobalDP"
ENGINE = "fedforest.estimators.pooled"


def _engine_forest(class_name: str, settings: ForestSettings, seed: int, **more: Any) -> Forest:
    forest: Forest = getattr(import_module(ENGINE), class_name)(
        task=settings.task,
        n_estimators=settings.n_trees,
        max_depth=settings.max_depth,
        max_features=settings.max_features,
        random_state=seed,
        n_jobs=N_THREADS,
        **more,
    )
    return forest


def federated_forest(settings: ForestSettings, seed: int, n_parties: int) -> Any:
    """Federated Forest over as many parties, who hold consecutive columns."""
    face = "Regressor" if settings.task == "regression" else "Classifier"
    return getattr(import_module("fedforest"), f"VerticalForest{face}")(
        n_estimators=settings.n_trees,
        max_depth=settings.max_depth,
        max_features=settings.max_features,
        parties=n_parties,
        random_state=seed,
        n_jobs=N_THREADS,
    )


class RowFederation:
    """Federated Extra-Trees over parties with equal shares of the rows, one after the other."""

    def __init__(
        self, settings: ForestSettings, seed: int, n_parties: int = 2, **protection: Any
    ) -> None:
        face = "Regressor" if settings.task == "regression" else "Classifier"
        self.n_parties = n_parties
        self.forest = getattr(import_module("fedforest"), f"HorizontalExtraTrees{face}")(
            n_estimators=settings.n_trees,
            max_depth=settings.max_depth,
            max_features=settings.max_features,
            random_state=seed,
            n_jobs=N_THREADS,
            **protection,
        )

    def fit(self, X: Any, y: Any) -> "RowFederation":
        self.forest.fit(X, y, party=np.arange(len(X)) * self.n_parties // len(X))
        return self

    def predict(self, X: Any) -> NDArray[Any]:
        predicted: NDArray[Any] = self.forest.predict(X)
        return predicted


def _sklearn_forest(class_name: str, settings: ForestSettings, seed: int) -> Forest:
    face = "Regressor" if settings.task == "regression" else "Classifier"
    forest: Forest = getattr(import_module("sklearn.ensemble"), class_name + face)(
        n_estimators=settings.n_trees,
        max_depth=settings.max_depth,
        max_features=settings.max_features,
        random_state=seed,
        n_jobs=N_THREADS,
    )
    return forest


def _columns_per_node(settings: ForestSettings, n_columns: int) -> float:
    """Share of columns a node may use; a trifle more, so that rounding down keeps the number."""
    share = settings.max_features
    count = int(np.sqrt(n_columns)) if isinstance(share, str) else int(share * n_columns)
    return min(1.0, max(1, count) / n_columns + 1e-6)


class XGBoostForest:
    """XGBoost's random forest: one boosting round of parallel trees with full steps."""

    def __init__(self, settings: ForestSettings, seed: int) -> None:
        self.settings = settings
        self.seed = seed

    def parameters(self, n_columns: int, n_classes: int) -> dict[str, Any]:
        objectives = {"binary": "binary:logistic", "multiclass": "multi:softprob"}
        parameters: dict[str, Any] = {
            "objective": objectives.get(self.settings.kind, "reg:squarederror"),
            "num_parallel_tree": self.settings.n_trees,
            "max_depth": self.settings.max_depth or 0,
            "learning_rate": 1.0,
            "subsample": 0.63,
            "colsample_bynode": _columns_per_node(self.settings, n_columns),
            "tree_method": "hist",
            "max_bin": 255,
            "min_child_weight": 0.0,
            "reg_lambda": 0.0,
            "nthread": N_THREADS,
            "seed": self.seed,
        }
        if self.settings.kind == "multiclass":
            parameters["num_class"] = n_classes
        return parameters

    def fit(self, X: Any, y: Any) -> "XGBoostForest":
        self._xgboost = import_module("xgboost")
        table = self._xgboost.QuantileDMatrix(X, y, max_bin=255, nthread=N_THREADS)
        parameters = self.parameters(X.shape[1], len(np.unique(y)))
        self._booster = self._xgboost.train(parameters, table, num_boost_round=1)
        return self

    def predict(self, X: Any) -> NDArray[Any]:
        return _decide(self._booster.inplace_predict(X), self.settings.kind)


class LightGBMForest:
    """LightGBM's `boosting=rf`."""

    def __init__(self, settings: ForestSettings, seed: int) -> None:
        self.settings = settings
        self.seed = seed

    def parameters(self, n_rows: int, n_columns: int, n_classes: int) -> dict[str, Any]:
        depth = self.settings.max_depth
        leaves = min(n_rows, LIGHTGBM_MOST_LEAVES) if depth is None else 2**depth
        parameters: dict[str, Any] = {
            "objective": self.settings.kind,
            "boosting": "rf",
            "max_depth": -1 if depth is None else depth,
            "num_leaves": leaves,
            "bagging_fraction": 0.632,
            "bagging_freq": 1,
            "feature_fraction_bynode": _columns_per_node(self.settings, n_columns),
            "max_bin": 255,
            "min_data_in_leaf": 1,
            "min_sum_hessian_in_leaf": 0.0,
            # One histogram for every allowed leaf would be 20 GB where trees are grown out.
            "histogram_pool_size": 1024,
            "num_threads": N_THREADS,
            "seed": self.seed,
            "verbosity": -1,
        }
        if self.settings.kind == "multiclass":
            parameters["num_class"] = n_classes
        return parameters

    def fit(self, X: Any, y: Any) -> "LightGBMForest":
        lightgbm = import_module("lightgbm")
        parameters = self.parameters(X.shape[0], X.shape[1], len(np.unique(y)))
        self._booster = lightgbm.train(parameters, lightgbm.Dataset(X, y), self.settings.n_trees)
        return self

    def predict(self, X: Any) -> NDArray[Any]:
        return _decide(self._booster.predict(X, num_threads=N_THREADS), self.settings.kind)


def _decide(outputs: NDArray[Any], kind: str) -> NDArray[Any]:
    """Classes from probabilities; a regression output is the answer already."""
    if kind == "binary":
        return (outputs > 0.5).astype(np.int64)
    return outputs.argmax(axis=1) if kind == "multiclass" else outputs


CONTESTANTS = (
    Contestant(
        OURS,
        "random forest",
        ENGINE,
        lambda settings, seed: _engine_forest("PooledForest", settings, seed),
        "binning is part of its time",
    ),
    Contestant(
        SKLEARN,
        "random forest",
        "sklearn.ensemble",
        lambda settings, seed: _sklearn_forest("RandomForest", settings, seed),
        "defaults",
    ),
    Contestant(
        OURS_EXTRA,
        "extra-trees",
        ENGINE,
        lambda settings, seed: _engine_forest("PooledExtraTrees", settings, seed, bootstrap=False),
        "thresholds on raw values, no bootstrap, as in scikit-learn",
    ),
    Contestant(
        SKLEARN_EXTRA,
        "extra-trees",
        "sklearn.ensemble",
        lambda settings, seed: _sklearn_forest("ExtraTrees", settings, seed),
        "defaults",
    ),
    Contestant(
        "XGBoost",
        "rival",
        "xgboost",
        XGBoostForest,
        "one round of parallel trees, learning_rate 1, subsample 0.63 without replacement, "
        "255 bins, reg_lambda and min_child_weight 0; max_depth 0 (no limit) where grown out; "
        "one tree per class where there are ten; building its table is part of its time",
    ),
    Contestant(
        "LightGBM",
        "rival",
        "lightgbm",
        LightGBMForest,
        "boosting rf, bagging 0.632 without replacement, 255 bins, one row may be a leaf; grows "
        "leaf by leaf to 2^depth leaves within the depth; grown out means as many leaves as rows, "
        f"at most its limit of {LIGHTGBM_MOST_LEAVES:,}; histograms pooled in 1 GiB; one tree per "
        "class where there are ten; building its table is part of its time",
    ),
)
# Measured by its own run: its parties live in one process and exchange the messages of a network.
FEDERATION = Contestant(
    FEDERATED,
    "random forest",
    "fedforest.estimators.vertical.forests",
    lambda settings, seed: federated_forest(settings, seed, 2),
    "two parties, each with half of the columns, in one process; every message is encoded, "
    "carried and decoded as on a network; binning is part of its time",
)


def _row_contestant(name: str, note: str, protect: Callable[[Any], dict[str, Any]]) -> Contestant:
    """Rows halved between two parties; `protect` makes options of what the package offers."""

    def build(settings: ForestSettings, seed: int) -> Forest:
        return RowFederation(settings, seed, **protect(import_module("fedforest")))

    return Contestant(name, "extra-trees", "fedforest.estimators.horizontal.forests", build, note)


ROW_FEDERATIONS = (
    _row_contestant(
        ROWS_PLAIN,
        "Federated Extra-Trees: two parties, each with half of the rows, in one process; every "
        "message is encoded, carried and decoded as on a network; sums travel as they are",
        lambda _: {},
    ),
    _row_contestant(
        ROWS_MASKED,
        "the same with masks that cancel in the sum, agreeing on keys included",
        lambda ours: {"aggregation": ours.Masked()},
    ),
    _row_contestant(
        ROWS_RING,
        "the same with a running total that goes from party to party, encrypted between them",
        lambda ours: {"aggregation": ours.Ring()},
    ),
    _row_contestant(
        ROWS_SHAMIR,
        "the same with shares of Shamir's scheme, threshold 3: both parties and the coordinator",
        lambda ours: {"aggregation": ours.Shamir(threshold=3)},
    ),
    _row_contestant(
        ROWS_LOCAL,
        "the same with local differential privacy of labels, at its default probabilities",
        lambda ours: {"privacy": ours.LocalDP(keep=0.9)},
    ),
    _row_contestant(
        ROWS_GLOBAL,
        "the same with Laplace noise at each party, epsilon 1 for every query",
        lambda ours: {"privacy": ours.GlobalDP(epsilon_query=1.0)},
    ),
)
BY_NAME = {
    contestant.name: contestant for contestant in (*CONTESTANTS, FEDERATION, *ROW_FEDERATIONS)
}


def reason_absent(contestant: Contestant) -> str | None:
    """Why this one cannot take part here; None when it can."""
    try:
        import_module(contestant.library)
    except (ImportError, OSError) as error:  # OSError: installed without the OpenMP it needs
        return f"{contestant.library} cannot be imported ({type(error).__name__})"
    if contestant.family == "extra-trees" and not hasattr(
        import_module(ENGINE), "PooledExtraTrees"
    ):
        return "the engine has no extremely randomized trees to compare yet"
    return None

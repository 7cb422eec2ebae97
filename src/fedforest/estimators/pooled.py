"""A forest on one table: the engine without federation, and the yardstick for it.

Internal: the public estimators with one party give the same forest. It exists so that the engine can
be measured, and compared, on its own.
"""

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedforest.errors import ConfigurationError, DataError
from fedforest.tree.bins import Bins, fit_bins
from fedforest.tree.forest import Forest, ForestWalker, concatenate_forests
from fedforest.tree.grow import GrowthPlan, Progress, batches, grow_batch
from fedforest.tree.left_out import OutOfBagVotes
from fedforest.tree.parameters import ForestParameters
from fedforest.tree.search import make_columns
from fedforest.tree.seeds import derive_seed
from fedforest.tree.table import read_table
from fedforest.tree.targets import (
    TrainingTargets,
    check_weights,
    classification_targets,
    regression_targets,
)
from fedforest.tree.workers import Workers

LARGEST_SEED = 2**63


class PooledForest:
    """A random forest on one table, with scikit-learn's parameter names.

    `progress` is called with a `Progress` at every level.
    """

    def __init__(
        self,
        *,
        n_jobs: int | None = None,
        random_state: int = 0,
        oob_score: bool = False,
        progress: Callable[[Progress], None] | None = None,
        batch_bytes: int | None = None,
        **parameters: Any,
    ) -> None:
        if parameters.get("task") == "regression":
            parameters.setdefault("criterion", "squared_error")
        self.parameters = ForestParameters(**parameters)
        self.n_jobs = count_workers(n_jobs)
        self.random_state = check_seed(random_state)
        self.oob_score = oob_score
        self.progress = progress
        self.batch_bytes = batch_bytes

    def fit(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> "PooledForest":
        """Train; `X` is an array, a DataFrame or a mapping of columns."""
        table = read_table(X)
        targets = self._read_targets(y, check_weights(sample_weight, table.n_rows), table.n_rows)
        with ThreadPoolExecutor(max(1, self.n_jobs - 1)) as executor:
            workers = Workers(executor, self.n_jobs)
            seed = derive_seed(self.random_state, "bins")
            self.bins_ = fit_bins(
                table, seed=seed, max_bins=self.parameters.max_bins, executor=executor
            )
            binned = self.bins_.transform(table, executor)
            columns = make_columns(binned, self.bins_.n_bins, self.bins_.is_categorical)
            self.forest_ = self._grow(columns, targets, workers)
        self._walker = ForestWalker(self.forest_)
        return self

    def _grow(self, columns: Any, targets: TrainingTargets, workers: Workers) -> Forest:
        total = self.parameters.n_estimators
        plan = GrowthPlan(
            self.parameters.growth_rules(targets.n_rows, len(columns.n_bins)),
            self.parameters.sampling(targets.n_rows),
            self.random_state,
            with_left_out=self.oob_score,
        )
        if self.batch_bytes is not None:
            plan = replace(plan, batch_bytes=self.batch_bytes)
        votes = OutOfBagVotes(targets.n_rows, targets.kernel.n_classes)
        forests = []
        for trees in batches(plan, targets, 0, total):
            report = self._reporter(trees.start, total)
            batch = grow_batch(columns, targets, plan, trees, workers, report)
            forests.append(batch.forest)
            if batch.left_out_leaves is not None:
                for tree in range(len(trees)):
                    votes.add(batch.forest, batch.left_out_leaves, tree)
        if self.oob_score:
            self.oob_decision_function_ = votes.means()
        if self.progress:
            self.progress(Progress(total, total, 0, 0))
        return concatenate_forests(forests)

    def _reporter(self, done: int, total: int) -> Callable[[int, int], None]:
        def report(level: int, open_nodes: int) -> None:
            if self.progress:
                self.progress(Progress(done, total, level, open_nodes))

        return report

    def _read_targets(
        self, y: ArrayLike, weights: NDArray[np.float64] | None, n_rows: int
    ) -> TrainingTargets:
        if self.parameters.task == "regression":
            return regression_targets(check_regression_target(y, n_rows), weights)
        labels = check_labels(y, n_rows)
        self.classes_, codes = np.unique(labels, return_inverse=True)
        return classification_targets(
            codes, len(self.classes_), weights, self.parameters.criterion
        )

    def _votes(self, X: Any) -> NDArray[np.float64]:
        table = read_table(X)
        with ThreadPoolExecutor(max(1, self.n_jobs - 1)) as executor:
            workers = Workers(executor, self.n_jobs)
            votes = self._walker.votes(self.bins_.transform(table, executor), workers)
        return votes / self.forest_.shape.n_trees  # type: ignore[no-any-return]

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Mean class shares over all trees."""
        if self.parameters.task == "regression":
            raise ConfigurationError("A regression forest has no class probabilities.")
        return self._votes(X)

    def predict(self, X: Any) -> NDArray[Any]:
        """Most likely class (ties: the first), or the mean of the trees."""
        votes = self._votes(X)
        if self.parameters.task == "regression":
            return votes[:, 0]
        return self.classes_[votes.argmax(axis=1)]  # type: ignore[no-any-return]

    def apply(self, X: Any) -> NDArray[np.int64]:
        """(rows, trees): the leaf each row reaches in each tree."""
        table = read_table(X)
        with ThreadPoolExecutor(max(1, self.n_jobs - 1)) as executor:
            workers = Workers(executor, self.n_jobs)
            return self._walker.apply(self.bins_.transform(table, executor), workers)


def count_workers(n_jobs: int | None) -> int:
    """Threads to use: None means one, -1 all cores, as in scikit-learn."""
    if n_jobs is None:
        return 1
    cores = os.cpu_count() or 1
    if n_jobs == 0:
        raise ConfigurationError("n_jobs is 0; it must be positive, or -1 for all cores.")
    return n_jobs if n_jobs > 0 else max(1, cores + 1 + n_jobs)


def check_seed(random_state: int) -> int:
    """A root seed: a whole number that is not negative."""
    if not isinstance(random_state, (int, np.integer)) or not 0 <= random_state < LARGEST_SEED:
        raise ConfigurationError(
            f"random_state is {random_state!r}; it must be a whole number from 0 to 2^63 - 1."
        )
    return int(random_state)


def check_labels(y: ArrayLike, n_rows: int) -> NDArray[Any]:
    """One label for each row, none missing."""
    labels = np.asarray(y)
    if labels.shape != (n_rows,):
        raise DataError(
            f"The target has shape {labels.shape}; expected one label for each of {n_rows} rows."
        )
    missing = labels != labels if labels.dtype.kind == "f" else np.equal(labels, None)
    if labels.dtype.kind == "f" and np.isinf(labels).any():
        raise DataError("The target contains infinity; class labels must be finite.")
    if np.any(missing):
        raise DataError(f"The target is missing in {int(np.sum(missing))} rows; drop them first.")
    return labels


def check_regression_target(y: ArrayLike, n_rows: int) -> NDArray[np.float64]:
    """One finite number for each row."""
    try:
        values = np.asarray(y, np.float64)
    except (TypeError, ValueError):
        raise DataError("The regression target is not numeric.") from None
    if values.shape != (n_rows,):
        raise DataError(
            f"The target has shape {values.shape}; expected one number for each of {n_rows} rows."
        )
    bad = int((~np.isfinite(values)).sum())
    if bad:
        raise DataError(f"The target is NaN or infinite in {bad} rows; drop or mend them first.")
    return values

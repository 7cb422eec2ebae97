"""A forest on one table: the engine without federation, and the yardstick for it.

Internal: the public estimators with one party give the same forest. It exists so that the engine
can be measured, and compared, on its own.
"""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, fields, replace
from numbers import Integral
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedforest.errors import (
    ConfigurationError,
    DamagedModelError,
    DataError,
    FederationError,
    ModelFileError,
)
from fedforest.estimators.inputs.parameters import SEED
from fedforest.estimators.inputs.validation import count_workers
from fedforest.estimators.progress.trees import TreeProgress
from fedforest.kernels.layout import Columns
from fedforest.kernels.splits.random import Values
from fedforest.protocol.vertical.labels import draw_codes
from fedforest.tree.canonical_json import JsonValue
from fedforest.tree.files.forests import StoredForest, decode_forest, encode_forest
from fedforest.tree.forest.forest import Forest, ForestWalker, concatenate_forests
from fedforest.tree.growth.left_out_rows import OutOfBagTally
from fedforest.tree.growth.level_loop import GrownBatch, GrowthPlan, GrowthProgress, batches
from fedforest.tree.growth.parameters import ForestParameters
from fedforest.tree.growth.seeds import derive_seed
from fedforest.tree.growth.side_by_side import grow_side_by_side
from fedforest.tree.growth.split_search import keep_by_row, make_columns
from fedforest.tree.table.bins import fit_bins, fit_categories
from fedforest.tree.table.frames import Table, read_table
from fedforest.tree.table.target_checks import check_labels, check_regression_target, check_weights
from fedforest.tree.table.targets import (
    TrainingTargets,
    classification_targets,
    regression_targets,
)
from fedforest.tree.workers import Workers


class PooledForest:
    """A random forest on one table, with scikit-learn's parameter names.

    `progress` is called with a `GrowthProgress` at every level, by any thread, one at a time.
    """

    def __init__(
        self,
        *,
        n_jobs: int | None = None,
        random_state: int = 0,
        oob_score: bool = False,
        progress: Callable[[GrowthProgress], None] | None = None,
        batch_bytes: int | None = None,
        **parameters: Any,
    ) -> None:
        if parameters.get("task") == "regression":
            parameters.setdefault("criterion", "squared_error")
        self.parameters = ForestParameters(**parameters)
        self.n_jobs = count_workers(n_jobs)
        SEED.check("random_state", random_state)
        self.random_state = int(random_state)
        self.oob_score = oob_score
        self.progress = progress
        self.batch_bytes = batch_bytes

    def fit(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Train; `X` is an array, a DataFrame or a mapping of columns."""
        table = read_table(X)
        if table.n_rows == 0:
            raise DataError("The table has no rows; there is nothing to learn from.")
        targets = self._read_targets(y, check_weights(sample_weight, table.n_rows), table.n_rows)
        with self._workers() as workers:
            columns = self._prepare(table, targets, workers)
            self.forest_ = self._grow(columns, targets, workers)
            self._walker = ForestWalker(self.forest_, workers)
        return self

    def _prepare(
        self, table: Table, targets: TrainingTargets, workers: Workers
    ) -> Columns | Values:
        """Learn how columns are represented and represent the training table."""
        seed = derive_seed(self.random_state, "bins")
        self.bins_ = fit_bins(table, seed=seed, max_bins=self.parameters.max_bins, workers=workers)
        binned = self.bins_.transform(table, workers)
        columns = make_columns(binned, self.bins_.n_bins, self.bins_.is_categorical)
        return keep_by_row(columns, targets, workers)

    def _represent(self, table: Table, workers: Workers) -> NDArray[Any]:
        """Return a table to predict, in the representation of training."""
        return self.bins_.transform(table, workers)

    @contextmanager
    def _workers(self) -> Iterator[Workers]:
        with ThreadPoolExecutor(max(1, self.n_jobs - 1)) as executor:
            yield Workers(executor, self.n_jobs)

    def _grow(
        self, columns: Columns | Values, targets: TrainingTargets, workers: Workers
    ) -> Forest:
        total = self.parameters.n_estimators
        plan = GrowthPlan(
            self.parameters.growth_rules(targets.n_rows, len(columns.is_categorical)),
            self.parameters.sampling(targets.n_rows),
            self.random_state,
            with_left_out=self.oob_score,
        )
        if self.batch_bytes is not None:
            plan = replace(plan, batch_bytes=self.batch_bytes)
        votes = OutOfBagTally(targets.n_rows, targets.kind.n_classes)
        progress = TreeProgress(total, self.progress)
        forests = []
        for trees in batches(plan, targets.n_rows, targets.kind.n_classes, 0, total):
            for grown in grow_side_by_side(columns, targets, plan, trees, workers, progress.hear):
                forests.append(grown.forest)
                _let_left_out_vote(grown, votes)
        if self.oob_score:
            self.oob_decision_function_ = votes.means()
        return concatenate_forests(forests)

    def _read_targets(
        self, y: ArrayLike, weights: NDArray[np.float64] | None, n_rows: int
    ) -> TrainingTargets:
        if self.parameters.task == "regression":
            values = check_regression_target(y, n_rows)
            return regression_targets(values, weights, self.parameters.scored_by)
        labels = check_labels(y, n_rows)
        self.classes_, codes = np.unique(labels, return_inverse=True)
        n_classes = len(self.classes_)
        # codes as a federated run gives them out: the same seed must give the same forest
        code_of_class = draw_codes(self.random_state, n_classes)
        encoded = np.array(code_of_class)[codes]
        targets = classification_targets(encoded, n_classes, weights, self.parameters.scored_by)
        return replace(targets, kind=targets.kind.with_codes(code_of_class))

    def _check_trained(self, what: str) -> None:
        if not hasattr(self, "forest_"):
            raise FederationError(f"The forest is not trained yet; call fit before {what}.")

    def _votes(self, X: Any) -> NDArray[np.float64]:
        self._check_trained("predicting")
        table = read_table(X)
        with self._workers() as workers:
            votes = self._walker.votes(self._represent(table, workers), workers)
        votes /= self.forest_.shape.n_trees
        return votes

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
        """Return (rows, trees): the leaf each row reaches in each tree."""
        self._check_trained("apply")
        table = read_table(X)
        with self._workers() as workers:
            return self._walker.apply(self._represent(table, workers), workers)

    def to_bytes(self) -> bytes:
        """Return the trained forest as a model file.

        The file holds neither the seed, from which a reader could tell which rows each tree drew,
        nor the votes of out-of-bag rows.
        """
        self._check_trained("to_bytes")
        about = {"estimator": type(self).__name__, "parameters": _describe(self.parameters)}
        return encode_forest(self.forest_, self.bins_, getattr(self, "classes_", None), about)

    @classmethod
    def from_bytes(cls, data: bytes, *, n_jobs: int | None = None) -> Self:
        """Return a forest that predicts exactly as the one `to_bytes` was called on."""
        stored = decode_forest(data)
        if stored.metadata.get("estimator") != cls.__name__:
            raise ModelFileError(
                f"The file does not hold a {cls.__name__}; load it with the class that stored it."
            )
        parameters = _read_parameters(stored)
        forest = cls(n_jobs=n_jobs, **asdict(parameters))
        forest._check_cuts(stored.forest)
        forest.forest_, forest.bins_ = stored.forest, stored.bins
        if stored.classes is not None:
            forest.classes_ = stored.classes
        forest._walker = ForestWalker(forest.forest_)
        return forest

    def _check_cuts(self, forest: Forest) -> None:
        """Cuts are bins; thresholds would be compared with values that are not there."""
        if forest.splits.cut.dtype != np.uint8:
            raise _damaged("its cuts are not bins")


class PooledExtraTrees(PooledForest):
    """Extremely randomized trees on one table: random thresholds on raw values.

    As in scikit-learn every tree sees all rows unless `bootstrap=True`.
    """

    def __init__(self, *, bootstrap: bool = False, **parameters: Any) -> None:
        super().__init__(bootstrap=bootstrap, **parameters)

    def _prepare(
        self, table: Table, _targets: TrainingTargets, workers: Workers
    ) -> Columns | Values:
        self.bins_ = fit_categories(table)
        values = self.bins_.raw_values(table, workers)
        return Values(values.reshape(-1), np.uint64(table.n_rows), self.bins_.is_categorical)

    def _represent(self, table: Table, workers: Workers) -> NDArray[Any]:
        return self.bins_.raw_values(table, workers)

    def _check_cuts(self, forest: Forest) -> None:
        """Cuts are thresholds on raw values, unless there is no split at all."""
        if forest.splits.cut.dtype != np.float32 and (forest.splits.feature >= 0).any():
            raise _damaged("its cuts are not thresholds")

    def _read_targets(
        self, y: ArrayLike, weights: NDArray[np.float64] | None, n_rows: int
    ) -> TrainingTargets:
        targets = super()._read_targets(y, weights, n_rows)
        # random splits are scored by class sums whatever the number of classes
        if targets.kind.is_regression:
            return targets
        return replace(targets, kind=replace(targets.kind, search="classes"))


def _let_left_out_vote(grown: GrownBatch, votes: OutOfBagTally) -> None:
    if grown.left_out_leaves is not None:
        for tree in range(len(grown.left_out_leaves)):
            votes.add(grown.forest.shape, grown.forest.leaves, grown.left_out_leaves, tree)


def _describe(parameters: ForestParameters) -> JsonValue:
    return {name: _plain(value) for name, value in asdict(parameters).items()}


def _plain(value: Any) -> JsonValue:
    """Return a parameter in one of JSON's types; numpy's numbers count as numbers."""
    if value is None or isinstance(value, str | bool):
        return value
    if isinstance(value, np.generic):
        return value.item()  # type: ignore[no-any-return]
    return int(value) if isinstance(value, Integral) else float(value)


def _read_parameters(stored: StoredForest) -> ForestParameters:
    """Return the parameters of a stored forest, if they can be those of this forest."""
    values = stored.metadata.get("parameters")
    names = {field.name for field in fields(ForestParameters)}
    given = values.keys() if isinstance(values, dict) else set()
    if not isinstance(values, dict) or given != names:
        raise _damaged("its parameters are incomplete")
    try:
        parameters = ForestParameters(**values)
    except ConfigurationError:
        raise _damaged("its parameters cannot be") from None
    n_classes = stored.forest.n_classes
    if (parameters.task == "regression") != (n_classes == 0):
        raise _damaged("its leaves are of another task")
    if (stored.classes is None) != (n_classes == 0):
        raise _damaged("its class labels are missing")
    if parameters.n_estimators != stored.forest.shape.n_trees:
        raise _damaged("it has another number of trees")
    return parameters


def _damaged(reason: str) -> DamagedModelError:
    return DamagedModelError(f"The stored forest is damaged: {reason}; get a fresh copy.")

"""Random vertical trainings: a table, a division of its columns, and everything else that counts.

A case can be trained over its parties and, on the joined table, by the engine alone.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray
from sklearn.utils.class_weight import compute_sample_weight

from fedforest.estimators.pooled import PooledForest
from fedforest.estimators.vertical.forests import VerticalForestClassifier, VerticalForestRegressor
from fedforest.tree.files.forests import encode_forest
from fedforest.tree.forest.forest import Forest
from fedforest.tree.table.bins import Bins
from fedforest.tree.table.frames import Table, read_table
from tests.strategies import SEEDS, numeric_columns, sample_weights

Vertical = VerticalForestClassifier | VerticalForestRegressor
LARGE = 2**28  # bytes: all trees in one batch


@dataclass(frozen=True, eq=False)
class VerticalCase:
    """One training; `shares` are the numbers of columns that the parties hold, in order."""

    columns: dict[str, NDArray[Any]]
    y: NDArray[Any]
    weights: NDArray[np.float64] | None
    parameters: dict[str, Any]
    shares: tuple[int, ...]
    label_party: int = 0
    batch_bytes: int = LARGE
    n_jobs: int = 1
    seed: int = 0
    class_weight: dict[int, float] | str | None = None

    @property
    def is_regression(self) -> bool:
        return self.y.dtype.kind == "f"

    @property
    def table(self) -> Table:
        return read_table(self.columns)

    @property
    def parties(self) -> dict[str, list[int]]:
        cuts = np.cumsum([0, *self.shares]).tolist()
        return {f"p{k}": list(range(*bounds)) for k, bounds in enumerate(pairwise(cuts))}

    def vertical(self, **settings: Any) -> Vertical:
        """The forest over all parties."""
        kind = VerticalForestRegressor if self.is_regression else VerticalForestClassifier
        if self.class_weight is not None:
            settings = {"class_weight": self.class_weight, **settings}
        estimator = kind(
            **self.parameters,
            random_state=self.seed,
            n_jobs=self.n_jobs,
            parties=self.parties,
            label_party=f"p{self.label_party}",
            **settings,
        )
        estimator._batch_bytes = self.batch_bytes
        return estimator.fit(self.table, self.y, self.weights)

    def pooled(self) -> PooledForest:
        """The forest on the joined table, which knows weights of rows only."""
        task = "regression" if self.is_regression else "classification"
        forest = PooledForest(random_state=self.seed, task=task, **self.parameters)
        weights = self.weights
        if self.class_weight is not None:
            rows = np.ones(len(self.y)) if weights is None else weights
            weights = rows * compute_sample_weight(self.class_weight, self.y)
        return forest.fit(self.columns, self.y, weights)

    def other_rows(self) -> dict[str, NDArray[Any]]:
        """Rows to predict that nobody trained on: columns shuffled apart, with gaps and news."""
        rng = np.random.default_rng(self.seed)
        return {name: _disturb(column, rng) for name, column in self.columns.items()}


def whole_forest(estimator: Vertical) -> Forest:
    """The union of all shares."""
    return estimator.union(dict.fromkeys(estimator._model.shares, True))


def whole_file(estimator: Vertical) -> bytes:
    """The union of all shares as a file."""
    shares = estimator._model.shares.values()
    bins = Bins.concatenate([share.bins for share in shares])
    return encode_forest(whole_forest(estimator), bins)


@st.composite
def vertical_cases(draw: st.DrawFn, max_rows: int = 1500) -> VerticalCase:
    """Any table and division."""
    sizes = [size for size in (2, 9, 40, 130, 300, 1500) if size <= max_rows]
    n_rows = draw(st.sampled_from(sizes), label="rows")
    n_columns = draw(st.integers(1, 12), label="columns")
    columns = {f"c{k}": draw(table_columns(n_rows)) for k in range(n_columns)}
    rng = np.random.default_rng(draw(SEEDS, label="label seed"))
    n_classes = draw(st.sampled_from([0, 2, 2, 3, 4, 5, 6, 9]), label="classes")
    shares = draw(column_shares(n_columns), label="shares")
    target, weights = (
        make_target(list(columns.values()), n_classes, rng),
        draw(sample_weights(n_rows)),
    )
    parameters = draw(forest_parameters(is_regression=n_classes == 0))
    if parameters["criterion"] == "poisson":  # some are zero, and one with weight is not
        target = np.maximum(target, 0.0)
        target[0 if weights is None else int(np.argmax(weights))] = 1.0
    return VerticalCase(
        columns,
        target,
        weights,
        parameters,
        shares,
        draw(st.integers(0, len(shares) - 1), label="label party"),
        draw(st.sampled_from([1, 30 * n_rows, LARGE]), label="batch bytes"),
        draw(st.sampled_from([1, 2, 3]), label="threads"),
        draw(st.integers(0, 2**63 - 1), label="seed"),
    )


@st.composite
def small_cases(draw: st.DrawFn) -> VerticalCase:
    """Numbers and words with gaps and ties, any task, one to six parties."""
    n_rows = draw(st.sampled_from([2, 9, 40, 130]), label="rows")
    columns = {f"c{k}": draw(table_columns(n_rows)) for k in range(draw(st.integers(1, 6)))}
    n_classes = draw(st.sampled_from([0, 2, 2, 3, 5, 9]), label="classes")
    rng = np.random.default_rng(draw(SEEDS, label="label seed"))
    target = make_target(list(columns.values()), n_classes, rng)
    if n_classes:
        target = np.unique(target, return_inverse=True)[1]
    parameters = draw(forest_parameters(is_regression=n_classes == 0))
    parameters["max_bins"] = draw(st.sampled_from([16, 5]), label="bins")
    if parameters["criterion"] == "poisson":
        target = np.maximum(target, 0.0)
        target[0] = 1.0
    n_cuts = draw(st.integers(0, 5), label="further parties")
    cuts = [draw(st.integers(0, len(columns))) for _ in range(n_cuts)]
    shares = tuple(last - first for first, last in pairwise([0, *sorted(cuts), len(columns)]))
    label_party = draw(st.integers(0, len(shares) - 1), label="label party")
    batch_bytes = draw(st.sampled_from([1, 30 * n_rows, LARGE]), label="batch bytes")
    seed = draw(st.integers(0, 2**63 - 1), label="seed")
    case = VerticalCase(
        columns, target, None, parameters, shares, label_party, batch_bytes, seed=seed
    )
    weights = None
    if draw(st.booleans(), label="weights"):
        weights = rng.choice([draw(st.sampled_from([0.0, 0.1])), 1.0, 2.5], n_rows)
        weights[0] = 1.0
    is_balanced = n_classes > 0 and draw(st.booleans(), label="class weights")
    return replace(case, weights=weights, class_weight="balanced" if is_balanced else None)


@st.composite
def class_weighted_cases(draw: st.DrawFn, max_rows: int = 1500) -> VerticalCase:
    """Any table and division, and perhaps classes that differ in weight."""
    case = draw(vertical_cases(max_rows))
    how = draw(st.sampled_from(["none", "balanced", "given"]), label="class weights")
    if case.is_regression or how == "none":
        return case
    if how == "balanced":
        return replace(case, class_weight="balanced")
    weight = st.sampled_from([0.1, 1.0, 3.0, 7.5])
    some = draw(st.lists(st.sampled_from(np.unique(case.y).tolist()), unique=True))
    return replace(case, class_weight={label: draw(weight) for label in some})


@st.composite
def table_columns(draw: st.DrawFn, n_rows: int) -> NDArray[Any]:
    """Numbers of any kind, or words, with gaps."""
    if draw(st.sampled_from(["numbers", "numbers", "words"])) == "numbers":
        return draw(numeric_columns(n_rows))
    rng = np.random.default_rng(draw(SEEDS, label="word seed"))
    n_words = draw(st.sampled_from([1, 2, 5, 300]), label="words")
    words = np.array([f"word {k}" for k in range(n_words)], object)
    gaps = rng.random(n_rows) < draw(st.sampled_from([0, 0.2]), label="gaps")
    return np.where(gaps, None, rng.choice(words, n_rows))  # type: ignore[call-overload, no-any-return]


@st.composite
def column_shares(draw: st.DrawFn, n_columns: int) -> tuple[int, ...]:
    """How 1 to 10 parties divide the columns; some may get none."""
    n_parties = draw(st.integers(1, 10))
    cuts = draw(st.lists(st.integers(0, n_columns), min_size=n_parties - 1, max_size=n_parties - 1))
    bounds = [0, *sorted(cuts), n_columns]
    return tuple(last - first for first, last in pairwise(bounds))


@st.composite
def forest_parameters(draw: st.DrawFn, *, is_regression: bool) -> dict[str, Any]:
    """Parameters that estimators and the pooled forest share."""
    bootstrap = draw(st.booleans(), label="bootstrap")
    max_samples = draw(st.sampled_from([None, 0.4]), label="draws")
    leaves_out = bootstrap or max_samples is not None
    parameters = {
        "n_estimators": draw(st.integers(1, 5), label="trees"),
        "max_depth": draw(st.sampled_from([None, None, 1, 2, 4]), label="depth"),
        "min_samples_split": draw(st.sampled_from([2, 2, 7]), label="rows to split"),
        "min_samples_leaf": draw(st.sampled_from([1, 1, 3, 0.05]), label="rows in leaves"),
        "min_weight_fraction_leaf": draw(
            st.sampled_from([0.0, 0.0, 0.0, 0.03, 0.2]), label="weight of leaves"
        ),
        "min_impurity_decrease": draw(st.sampled_from([0.0, 0.0, 0.01]), label="decrease"),
        "max_features": draw(st.sampled_from(["sqrt", None, 1, 0.5]), label="candidates"),
        "feature_sampling": draw(st.sampled_from(["node", "node", "tree"]), label="sampling"),
        "max_bins": draw(st.sampled_from([255, 255, 5]), label="bins"),
        "bootstrap": bootstrap,
        "max_samples": max_samples,
        "oob_score": leaves_out and draw(st.booleans(), label="out of bag"),
    }
    if is_regression:
        parameters["criterion"] = draw(
            st.sampled_from(["squared_error", "poisson"]), label="criterion"
        )
    else:
        parameters["criterion"] = draw(
            st.sampled_from(["gini", "entropy", "log_loss"]), label="criterion"
        )
    return parameters


def sample_case(**changes: Any) -> VerticalCase:
    """A fixed case of three parties with numeric and categorical splits, gaps and three classes."""
    rng = np.random.default_rng(7)
    n_rows = 150
    columns: dict[str, Any] = {f"c{k}": rng.standard_normal(n_rows) for k in range(6)}
    columns["c1"][rng.random(n_rows) < 0.2] = np.nan
    columns["c4"] = rng.choice(np.array(["red", "green", "blue", "grey"], object), n_rows)
    y = np.digitize(columns["c0"] + columns["c2"] + (columns["c4"] == "red"), [-0.5, 0.7])
    values: dict[str, Any] = {
        "columns": columns,
        "y": y,
        "weights": None,
        "parameters": {"n_estimators": 4},
        "shares": (2, 1, 3),
        "label_party": 1,
    }
    return VerticalCase(**{**values, **changes})


def make_target(
    columns: Sequence[NDArray[Any]], n_classes: int, rng: np.random.Generator
) -> NDArray[Any]:
    """Classes or numbers that follow the ranks of one column, more or less."""
    followed = columns[int(rng.integers(len(columns)))]
    _, ranks = np.unique(followed.astype(str), return_inverse=True)
    n_rows = len(followed)
    if n_classes == 0:
        values: NDArray[np.float64] = ranks / n_rows
        values += float(rng.choice([0.0, 0.3])) * rng.standard_normal(n_rows)
        return values
    noise = rng.random(n_rows) < rng.choice([0.1, 0.4, 1.0])
    codes: NDArray[np.int64] = ranks % n_classes
    codes[noise] = rng.integers(0, n_classes, int(noise.sum()))
    return codes


def _disturb(column: NDArray[Any], rng: np.random.Generator) -> NDArray[Any]:
    shuffled = rng.permutation(column)
    is_text = column.dtype.kind == "O"
    shuffled[rng.random(len(column)) < 0.1] = None if is_text else np.nan
    if is_text:
        shuffled[rng.random(len(column)) < 0.1] = "never seen"
    return shuffled

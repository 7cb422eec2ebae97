"""Small forests grown by the engine on random tables, for tests of what is done with forests."""

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

from fedforest.kernels.prediction.walk import Leaves
from fedforest.tree.forest.forest import Forest, Shape, Splits
from fedforest.tree.growth.decisions import NO_DEPTH_LIMIT, GrowthRules
from fedforest.tree.growth.level_loop import GrowthPlan, grow_batch
from fedforest.tree.growth.rows import Sampling
from fedforest.tree.growth.split_search import make_columns
from fedforest.tree.table.bins import Bins, fit_bins
from fedforest.tree.table.frames import read_table
from fedforest.tree.table.targets import TrainingTargets, classification_targets, regression_targets
from fedforest.tree.workers import Workers
from tests.strategies import SEEDS


@dataclass(frozen=True, eq=False)
class GrownForest:
    """A forest, the bins of its columns, and the binned table it was grown on."""

    forest: Forest
    bins: Bins
    binned: NDArray[np.uint8]


def arrays_of(model: Any) -> dict[str, NDArray[Any]]:
    """The arrays of a forest, or of any share of one, by name."""
    parts = {"": model, "shape.": model.shape}
    for name in ("splits", "leaves"):
        if hasattr(model, name):
            parts[f"{name}."] = getattr(model, name)
    return {
        prefix + name: getattr(part, name)
        for prefix, part in parts.items()
        for name in (getattr(part, "_fields", None) or part.__slots__)
        if isinstance(getattr(part, name), np.ndarray)
    }


def assert_same_arrays(one: Any, other: Any) -> None:
    """Equal in every byte, type and shape included."""
    ours, theirs = arrays_of(one), arrays_of(other)
    assert ours.keys() == theirs.keys()
    for name, array in ours.items():
        assert array.dtype == theirs[name].dtype, name
        assert array.shape == theirs[name].shape, name
        assert array.tobytes() == theirs[name].tobytes(), name


@dataclass(frozen=True, eq=False)
class ForestCase:
    """Everything that decides which forest grows; growing is left to the test: it may compile."""

    columns: list[NDArray[Any]]
    targets: TrainingTargets
    rules: GrowthRules
    n_trees: int

    def grow(self) -> GrownForest:
        """Bin the columns and grow the trees."""
        named = {f"column {place}": column for place, column in enumerate(self.columns)}
        n_rows = self.targets.n_rows
        table = read_table(named or np.zeros((n_rows, 0)))
        bins = fit_bins(table, seed=0)
        binned = bins.transform(table)
        columns = make_columns(binned, bins.n_bins, bins.is_categorical)
        plan = GrowthPlan(self.rules, Sampling(bootstrap=True, n_draws=n_rows), seed=5)
        batch = grow_batch(columns, self.targets, plan, range(self.n_trees), Workers())
        return GrownForest(batch.forest, bins, binned)


@st.composite
def forest_cases(draw: st.DrawFn) -> ForestCase:
    """Numbers, text, gaps; one class or more, or a regression target; leaves at any depth."""
    rng = np.random.default_rng(draw(SEEDS, label="table seed"))
    n_rows = draw(st.sampled_from([1, 2, 9, 40, 150]), label="rows")
    n_columns = draw(st.integers(0, 7), label="columns")
    kinds = [draw(st.sampled_from(["few", "fine", "text"])) for _ in range(n_columns)]
    n_classes = draw(st.sampled_from([0, 1, 2, 3, 7]), label="classes")
    rules = GrowthRules(
        max_depth=draw(st.sampled_from([0, 1, 3, NO_DEPTH_LIMIT]), label="depth"),
        features_per_node=draw(st.integers(1, max(1, n_columns)), label="candidates"),
    )
    columns = [_make_column(kind, n_rows, rng) for kind in kinds]
    targets = _make_targets(n_classes, n_rows, rng)
    return ForestCase(columns, targets, rules, draw(st.integers(1, 4), label="trees"))


@cache
def sample_forest(task: str = "classes") -> GrownForest:
    """A fixed forest of several trees with numeric and categorical splits and gaps."""
    rng = np.random.default_rng(3)
    columns = [_make_column(kind, 120, rng) for kind in ("fine", "text", "few", "text")]
    targets = _make_targets(0 if task == "regression" else 3, 120, rng)
    return ForestCase(columns, targets, GrowthRules(features_per_node=2), 3).grow()


def renumber(forest: Forest, *, by_level: bool) -> Forest:
    """The same trees with other numbers: level by level, or all below a right child first."""
    shape, starts = forest.shape, forest.shape.tree_start[:-1]
    numbered = [_renumber(shape.children_of(tree), by_level) for tree in range(shape.n_trees)]
    old = np.concatenate([tree[0] + start for tree, start in zip(numbered, starts, strict=True)])
    splits, leaves = forest.splits, forest.leaves
    set_index = splits.set_index[old]
    by_set = set_index[set_index >= 0]
    set_index[set_index >= 0] = np.arange(len(by_set))
    n_entries = np.diff(leaves.start)[old]
    start = np.append(0, np.cumsum(n_entries))
    entry = np.arange(start[-1]) + np.repeat(leaves.start[old] - start[:-1], n_entries)
    label = leaves.label[entry] if len(leaves.label) else leaves.label
    return Forest(
        Shape(shape.tree_start, np.concatenate([children for _, children in numbered])),
        Splits(
            splits.feature[old],
            splits.cut[old],
            splits.missing_left[old],
            set_index,
            splits.left_set[by_set],
        ),
        Leaves(start, label, leaves.value[entry]),
        forest.decrease[old],
        forest.n_classes,
        forest.n_features,
    )


def _renumber(
    left_child: NDArray[np.int32], by_level: bool
) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """(nodes in their new order, left children by new numbers) of one tree."""
    order, children, waiting = [0], np.full(len(left_child), -1, np.int32), [0]
    while waiting:
        number = waiting.pop(0 if by_level else -1)
        left = int(left_child[order[number]])
        if left >= 0:
            children[number] = len(order)
            waiting += [len(order), len(order) + 1]
            order += [left, left + 1]
    return np.array(order), children


def _make_column(kind: str, n_rows: int, rng: np.random.Generator) -> NDArray[Any]:
    is_missing = rng.random(n_rows) < rng.choice([0, 0, 0.2, 1], p=[0.4, 0.3, 0.2, 0.1])
    if kind == "text":
        words = rng.choice(np.array(["red", "green", "blue", "grey", "black"], object), n_rows)
        return np.where(is_missing, None, words)  # type: ignore[call-overload, no-any-return]
    values = rng.integers(0, 4, n_rows) if kind == "few" else rng.standard_normal(n_rows)
    return np.where(is_missing, np.nan, values)


def _make_targets(n_classes: int, n_rows: int, rng: np.random.Generator) -> TrainingTargets:
    if n_classes == 0:
        return regression_targets(rng.standard_normal(n_rows))
    return classification_targets(rng.integers(0, n_classes, n_rows), n_classes)

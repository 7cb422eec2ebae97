"""Bytes of each level of a training beside the least that the protocol must say.

Per open node and party: a gain of 8 bytes and a bitmap of the party's candidate columns. Per row
that moves to a child, and party: one bit, either told by the party that split or passed on to it.
Children at the depth limit are leaves, and nobody is passed bits of their rows; counts of two
classes even take the place of those that the coordinator is told, and are not in the formula.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.contestants import federated_forest
from benchmarks.tasks import SEED, ForestSettings, make_split
from fedforest.kernels.growth.sampling import count_draws
from fedforest.tree.forest.forest import LEAF
from fedforest.tree.growth.seeds import derive_seeds

GAIN_BYTES = 8


@dataclass(frozen=True)
class TrafficTask:
    """A training whose bytes are counted."""

    n_rows: int
    n_columns: int
    n_parties: int
    n_trees: int
    max_depth: int | None
    n_classes: int = 2  # 0: numbers
    weighted: bool = False

    @property
    def title(self) -> str:
        grown = "grown out" if self.max_depth is None else f"depth {self.max_depth}"
        labels = f"{self.n_classes} classes" if self.n_classes else "numbers"
        labels = f"weighted {labels}" if self.weighted else labels
        said = "" if self.is_plain else f"{labels}, "
        return f"{self.n_parties} parties, {self.n_columns} columns, {said}{grown}"

    @property
    def is_plain(self) -> bool:
        """Two classes without weights, as in the other benchmarks."""
        return self.n_classes == 2 and not self.weighted


TRAFFIC_TASKS = (
    TrafficTask(100_000, 40, 2, 20, 6),
    TrafficTask(100_000, 40, 2, 20, 10),
    TrafficTask(100_000, 40, 2, 20, None),
    TrafficTask(100_000, 40, 5, 20, 10),
    TrafficTask(100_000, 40, 2, 20, 10, n_classes=0),
    TrafficTask(100_000, 40, 2, 20, None, n_classes=0),
    TrafficTask(100_000, 40, 2, 20, None, n_classes=0, weighted=True),
    TrafficTask(100_000, 40, 2, 20, None, n_classes=6, weighted=True),
    TrafficTask(100_000, 40, 2, 20, None, n_classes=20),
)


def make_labels(task: TrafficTask) -> tuple[NDArray[Any], NDArray[Any], NDArray[np.float64] | None]:
    """Rows to train on, their labels and weights; more than two classes are equal parts of numbers.

    Weights are uniform between a half and three halves.
    """
    split = make_split(
        "binary" if task.n_classes == 2 else "regression", task.n_rows, task.n_columns
    )
    X, y = split.X_train, split.y_train
    if task.n_classes > 2:
        y = np.searchsorted(np.quantile(y, np.arange(1, task.n_classes) / task.n_classes), y)
    weights = np.random.default_rng(SEED).uniform(0.5, 1.5, len(y)) if task.weighted else None
    return X, y, weights


def measure_traffic(task: TrafficTask) -> dict[str, Any]:
    """Measured and least bytes, level by level."""
    X, y, weights = make_labels(task)
    kind = "multiclass" if task.n_classes else "regression"
    settings = ForestSettings(kind, task.n_trees, task.max_depth)
    forest = federated_forest(settings, SEED, task.n_parties).fit(X, y, weights)
    if any(forest.n_extra_steps_):
        # A node that is tried again with further columns is one step, and no level, later.
        return {"title": task.title, "reason": "some nodes needed a second step"}
    n_levels = 1 + max(step.level for step in forest.fit_log_)
    open_nodes, measured = np.zeros(n_levels, np.int64), np.zeros(n_levels, np.int64)
    for step in forest.fit_log_:
        open_nodes[step.level] += step.open_nodes
        measured[step.level] += step.n_bytes
    moved = moved_rows(forest, X, n_levels)
    if task.is_plain and task.max_depth is not None and n_levels == task.max_depth:
        moved[-1] = 0  # children at the greatest depth are leaves: no row needs to move
    per_node = [
        GAIN_BYTES + -(-len(columns) // 8)
        for columns in np.array_split(np.arange(task.n_columns), task.n_parties)
    ]
    # Who split tells at once; the others hear of it with the next level's question.
    passed_on = (task.n_parties - 1) * np.concatenate([[0], moved[:-1]])
    least = open_nodes * sum(per_node) + (moved + passed_on) / 8
    return {
        "title": task.title,
        "open_nodes": open_nodes.tolist(),
        "moved_rows": moved.tolist(),
        "measured_bytes": measured.tolist(),
        "least_bytes": least.tolist(),
    }


def moved_rows(forest: Any, X: NDArray[Any], n_levels: int) -> NDArray[np.int64]:
    """Rows in nodes that were split, by level, over all trees; drawn twice, a row is one row."""
    shape = forest.union(dict.fromkeys(forest.bytes_sent_, True)).shape
    leaf_of = forest.apply(X)
    seeds = derive_seeds(SEED, "rows", 0, shape.n_trees)
    moved = np.zeros(n_levels, np.int64)
    drawn = np.empty(len(X), np.uint8)
    for tree in range(shape.n_trees):
        count_draws(seeds[tree], len(X), drawn)
        children = shape.left_child[shape.tree_start[tree] : shape.tree_start[tree + 1]]
        n_rows = np.bincount(leaf_of[drawn > 0, tree], minlength=len(children))
        depth = np.zeros(len(children), np.int64)
        inner = np.flatnonzero(children != LEAF)
        for node in inner:  # children have larger numbers than their parent
            depth[children[node] : children[node] + 2] = depth[node] + 1
        for node in inner[::-1]:
            n_rows[node] = n_rows[children[node]] + n_rows[children[node] + 1]
        np.add.at(moved, depth[inner], n_rows[inner])
    return moved

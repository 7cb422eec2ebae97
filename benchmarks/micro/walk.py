"""Prediction beside scikit-learn, and what of it is walking: `python benchmarks/micro/walk.py`.

Forests of every kind and depth are trained once, then asked about the same 20,000 rows, ours and
scikit-learn's in turn; the least of many tries counts, because other work on the machine only ever
adds to a time. Kernels are compiled before the first try.
"""

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # run as a script

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from benchmarks.contestants import BY_NAME, N_THREADS, OURS, SKLEARN
from benchmarks.measure import Cost, interleave, timed
from benchmarks.tasks import SEED, ForestSettings, make_split
from fedforest.estimators.pooled import PooledForest
from fedforest.tree.table.frames import read_table
from fedforest.tree.workers import ALONE

KINDS = ("binary", "multiclass", "regression")
LARGE, SMALL = 80_000, 4_000  # rows to train on
N_ASKED = 20_000
WALKING = "walking alone, one thread"
HEADINGS = ("forest", "ours, ms", "scikit-learn, ms", "times as fast", "by CPU", "ns per step")


class Question(NamedTuple):
    """A forest to be asked, and how many rows it is trained on."""

    forest: ForestSettings
    n_rows: int

    @property
    def title(self) -> str:
        depth = self.forest.max_depth
        grown = "grown out" if depth is None else f"depth {depth}"
        return f"{self.forest.kind}, {self.forest.n_trees} trees, {self.n_rows:,} rows, {grown}"


def questions(kinds: Sequence[str]) -> list[Question]:
    """Every kind at three depths, and many grown-out trees of few rows."""
    return [
        Question(ForestSettings(kind, n_trees, depth), n_rows)
        for kind in kinds
        for n_trees, depth, n_rows in (
            (20, 6, LARGE),
            (20, 10, LARGE),
            (20, None, LARGE),
            (100, None, SMALL),
        )
    ]


def count_steps(forest: PooledForest, rows: NDArray[Any]) -> int:
    """Steps that all rows take in all trees."""
    shape = forest.forest_.shape
    reached = forest.apply(rows)
    n_steps = 0
    for tree in range(shape.n_trees):
        children = shape.children_of(tree)
        level = np.zeros(len(children), np.int64)
        for node in np.flatnonzero(children >= 0).tolist():
            level[children[node] : children[node] + 2] = level[node] + 1
        n_steps += int(level[reached[:, tree]].sum())
    return n_steps


def least(costs: Sequence[Cost]) -> Cost:
    """The least wall time and the least CPU time."""
    return Cost(min(cost.wall for cost in costs), min(cost.cpu for cost in costs))


def ask(question: Question, repeats: int) -> tuple[str, ...]:
    """Train, predict in turn, and write down one line of the table."""
    split = make_split(question.forest.kind, LARGE + N_ASKED)
    X, y = split.X_train[: question.n_rows], split.y_train[: question.n_rows]
    rows = split.X_test
    ours, rival = (BY_NAME[name].build(question.forest, SEED) for name in (OURS, SKLEARN))
    assert isinstance(ours, PooledForest)
    ours.fit(X, y)
    rival.fit(X, y)
    bins, walker = ours.bins_.transform(read_table(rows)), ours._walker
    work: dict[str, Callable[[], object]] = {
        OURS: lambda: ours.predict(rows),
        SKLEARN: lambda: rival.predict(rows),
        WALKING: lambda: walker.votes(bins, ALONE),
    }
    for first in work.values():
        first()
    costs: dict[str, list[Cost]] = {name: [] for name in work}
    for _, name in interleave(list(work), repeats):
        costs[name].append(timed(work[name])[1])
    our, their, walking = (least(costs[name]) for name in work)
    return (
        question.title,
        f"{our.wall * 1e3:.1f}",
        f"{their.wall * 1e3:.1f}",
        f"{their.wall / our.wall:.1f}",
        f"{their.cpu / our.cpu:.1f}",
        f"{walking.cpu / count_steps(ours, rows) * 1e9:.2f}",
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description="Time prediction beside scikit-learn (some minutes)."
    )
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=KINDS)
    parser.add_argument("--repeats", type=int, default=15)
    arguments = parser.parse_args()
    table = Table(*HEADINGS, title=f"{N_ASKED:,} rows, {N_THREADS} threads; steps: {WALKING}")
    for question in questions(arguments.kinds):
        table.add_row(*ask(question, arguments.repeats))
    Console(width=120).print(table)


if __name__ == "__main__":
    main()

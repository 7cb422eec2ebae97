"""Forests over parties beside the fastest libraries that have all rows: the raised targets.

    python benchmarks/comparisons/forest_rivals.py [--tasks NAME ...] [--repeats N] [--quick]

Everybody gets the same synthetic table, trees, depth and two threads; parties share one process.
Prints seconds on the clock and of the processor, and how many times faster ours is. A library that
is not installed is left out and named. On a busy machine only processor time means much.
"""

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # run as a script

from rich.console import Console
from rich.table import Table

from benchmarks.contestants import (
    BY_NAME,
    N_THREADS,
    SKLEARN,
    SKLEARN_EXTRA,
    Forest,
    RowFederation,
    federated_forest,
)
from benchmarks.measure import interleave, timed
from benchmarks.tasks import QUICK_ROWS, QUICK_TREES, SEED, ForestSettings, Split, make_split
from benchmarks.trial import accuracy

COLUMNS, ROWS = "fedforest, 2 parties by columns", "fedforest, 2 parties by rows"
INTELEX, INTELEX_EXTRA = "scikit-learn-intelex", "scikit-learn-intelex extra-trees"
YDF = "ydf"
N_PARTIES = 2
WARM_UP_ROWS, WARM_UP_TREES = 2_000, 2
SLOW_SECONDS = 60.0  # a training that takes longer is not repeated

Build = Callable[[ForestSettings], Any]


@dataclass(frozen=True)
class RivalTask:
    """One training; `targets` say how many times faster than a library ours should be."""

    name: str
    ours: str
    rivals: tuple[str, ...]
    n_rows: int
    max_depth: int | None
    targets: Mapping[str, float]
    repeats: int = 3


LIBRARIES = (INTELEX, SKLEARN, YDF, "XGBoost", "LightGBM")
EXTRA = (SKLEARN_EXTRA, INTELEX_EXTRA)
TASKS = (
    RivalTask("columns-depth-6", COLUMNS, LIBRARIES, 100_000, 6, {INTELEX: 5.0}),
    RivalTask("columns-depth-10", COLUMNS, LIBRARIES, 100_000, 10, {INTELEX: 4.0}),
    RivalTask("columns-grown-out", COLUMNS, LIBRARIES, 100_000, None, {INTELEX: 3.0}),
    RivalTask("rows-depth-6", ROWS, EXTRA, 100_000, 6, {SKLEARN_EXTRA: 5.0}),
    RivalTask("rows-grown-out", ROWS, EXTRA, 100_000, None, {SKLEARN_EXTRA: 3.0}),
    RivalTask("rows-1m-depth-10", ROWS, EXTRA, 1_000_000, 10, {INTELEX_EXTRA: 3.0}, repeats=2),
)


class YdfForest:
    """Yggdrasil's random forest, with scikit-learn's defaults where it has others."""

    def __init__(self, settings: ForestSettings) -> None:
        self._settings = settings

    def fit(self, X: Any, y: Any) -> "YdfForest":
        depth = self._settings.max_depth
        learner = import_module("ydf").RandomForestLearner(
            label="label",
            num_trees=self._settings.n_trees,
            max_depth=-1 if depth is None else depth + 1,  # it counts levels of nodes
            min_examples=1,
            winner_take_all=False,
            compute_oob_performances=False,
            num_threads=N_THREADS,
            random_seed=SEED,
        )
        self._model = learner.train({"x": X, "label": y}, verbose=0)
        return self

    def predict(self, X: Any) -> Any:
        return self._model.predict({"x": X}) > 0.5


def _build_intelex(class_name: str) -> Build:
    def build(settings: ForestSettings) -> Forest:
        forest: Forest = getattr(import_module("sklearnex.ensemble"), class_name)(
            n_estimators=settings.n_trees,
            max_depth=settings.max_depth,
            max_features=settings.max_features,
            random_state=SEED,
            n_jobs=N_THREADS,
        )
        return forest

    return build


def _build_listed(name: str) -> Build:
    return lambda settings: BY_NAME[name].build(settings, SEED)


BUILD: dict[str, Build] = {
    COLUMNS: lambda settings: federated_forest(settings, SEED, N_PARTIES),
    ROWS: lambda settings: RowFederation(settings, SEED, N_PARTIES),
    INTELEX: _build_intelex("RandomForestClassifier"),
    INTELEX_EXTRA: _build_intelex("ExtraTreesClassifier"),
    YDF: YdfForest,
    **{name: _build_listed(name) for name in (SKLEARN, SKLEARN_EXTRA, "XGBoost", "LightGBM")},
}


def warm_up(names: Sequence[str], settings: ForestSettings, split: Split) -> dict[str, str]:
    """Let everybody compile and load; return who cannot take part, and why."""
    few = ForestSettings(settings.kind, WARM_UP_TREES, settings.max_depth)
    absent = {}
    for name in names:
        try:
            BUILD[name](few).fit(split.X_train[:WARM_UP_ROWS], split.y_train[:WARM_UP_ROWS])
        except ImportError as error:
            absent[name] = f"{error.name or 'a library'} cannot be imported"
    return absent


def measure(task: RivalTask, console: Console, *, quick: bool, repeats: int | None) -> None:
    """Train everybody in rotating order and print the table of the task."""
    n_rows, n_trees = (QUICK_ROWS, QUICK_TREES) if quick else (task.n_rows, 20)
    settings = ForestSettings("binary", n_trees, task.max_depth)
    split = make_split("binary", n_rows)
    names = [task.ours, *task.rivals]
    absent = warm_up(names, settings, split)
    costs: dict[str, list[Any]] = {name: [] for name in names if name not in absent}
    scores: dict[str, float] = {}
    for _, name in interleave(list(costs), 1 if quick else (repeats or task.repeats)):
        if max((cost.wall for cost in costs[name]), default=0.0) > SLOW_SECONDS:
            continue
        forest = BUILD[name](settings)
        _, cost = timed(partial(forest.fit, split.X_train, split.y_train))
        costs[name].append(cost)
        scores[name] = accuracy(split.y_test, forest.predict(split.X_test))
    console.print(_tabulate(task, n_rows, n_trees, costs, scores))
    for name, reason in absent.items():
        console.print(f"{name}: not run, {reason}", highlight=False)


def _tabulate(
    task: RivalTask,
    n_rows: int,
    n_trees: int,
    costs: Mapping[str, Sequence[Any]],
    scores: Mapping[str, float],
) -> Table:
    table = Table(title=f"{task.name}: {n_rows:,} rows, {n_trees} trees")
    for column in ("library", "clock", "processor", "ours faster", "less processor", "target"):
        table.add_column(column)
    table.add_column("accuracy")
    best = {
        name: (min(cost.wall for cost in own), min(cost.cpu for cost in own))
        for name, own in costs.items()
    }
    wall, cpu = best[task.ours]
    for name, (other_wall, other_cpu) in best.items():
        target = task.targets.get(name)
        verdict = "" if target is None else f"{target:.1f}x"
        if target is not None and n_rows == task.n_rows:  # not of a quick run
            verdict += " reached" if other_wall / wall >= target else " missed"
        ratios = f"{other_wall / wall:.1f}x", f"{other_cpu / cpu:.1f}x"
        seconds = f"{other_wall:.3f} s", f"{other_cpu:.3f} s"
        table.add_row(name, *seconds, *ratios, verdict, f"{scores[name]:.4f}")
    return table


def main(arguments: Sequence[str]) -> None:
    """Measure the chosen tasks, one table each."""
    parser = argparse.ArgumentParser(description=__doc__)
    names = [task.name for task in TASKS]
    parser.add_argument("--tasks", nargs="+", metavar="NAME", choices=names, default=names)
    parser.add_argument("--repeats", type=int, metavar="N", help="at most so many repeats")
    parser.add_argument("--quick", action="store_true", help="shrink every task: does it work?")
    chosen = parser.parse_args(arguments)
    console = Console(width=120)
    for task in TASKS:
        if task.name in chosen.tasks:
            measure(task, console, quick=chosen.quick, repeats=chosen.repeats)


if __name__ == "__main__":
    main(sys.argv[1:])

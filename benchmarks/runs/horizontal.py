"""Federated Extra-Trees beside scikit-learn, XGBoost's federation, and its own protections.

Judges the targets for speed and accuracy, measures how training grows, and writes
`horizontal.json`, its figure and RESULTS.md. Parties live in one process: what a network adds is
seen from the exchanges and bytes.
"""

import sys
from collections.abc import Container, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # run as a script, by `make bench`

from rich.console import Console

from benchmarks.comparisons import xgboost_federated
from benchmarks.contestants import (
    BY_NAME,
    N_THREADS,
    ROW_FEDERATIONS,
    ROWS_PLAIN,
    SKLEARN_EXTRA,
    RowFederation,
)
from benchmarks.measure import interleave
from benchmarks.publishing import Run
from benchmarks.runs.horizontal_figure import draw
from benchmarks.runs.horizontal_growth import SERIES, measure_growth, measure_traffic, shrink
from benchmarks.tasks import SEED, ForestSettings, SpeedTask, make_split
from benchmarks.trial import Record, Trial, accuracy
from fedforest.experiments.environment import describe_environment

# `target`: how many times scikit-learn's speed is aimed at.
SPEED_TASKS = (
    SpeedTask("depth-6", 100_000, ForestSettings("binary", 20, 6), 4.0),
    SpeedTask("grown-out", 100_000, ForestSettings("binary", 20, None), 2.5),
)
PROTECTED = {f"protected-{task.name}": task for task in SPEED_TASKS}
XGBOOST = "xgboost-federated"
GROWTH = {f"training-by-{name}": name for name in SERIES}
TASK_NAMES = (*(task.name for task in SPEED_TASKS), *PROTECTED, XGBOOST, *GROWTH)

# Seconds are the best of a task's repeats; accuracy differs between seeds and needs more of them.
N_SEEDS = 15
GROWTH_REPEATS = 3
WARM_UP_ROWS = 2_000


class HorizontalBenchmark:
    """One run: the console it talks to and the result it fills."""

    def __init__(self, console: Console, *, quick: bool, most_repeats: int | None) -> None:
        self.console = console
        self.quick = quick
        self.most_repeats = 1 if quick else most_repeats
        names = (*(contestant.name for contestant in ROW_FEDERATIONS), SKLEARN_EXTRA)
        self.result: dict[str, Any] = {
            "run": "horizontal",
            "environment": describe_environment(),
            "settings": {"seed": SEED, "threads": N_THREADS, "quick": quick},
            "contestants": {name: BY_NAME[name].note for name in names},
            "speed": [],
            "protected": [],
            "xgboost": None,
            "growth": {},
            "skipped": {},
        }

    def measure_speed(self, task: SpeedTask) -> None:
        """Two parties in turns with scikit-learn's extra-trees on all rows."""
        task = self._sized(task)
        trial = self._trial(task, [ROWS_PLAIN])
        fits = self._in_turns(task.name, trial, (ROWS_PLAIN, SKLEARN_EXTRA), N_SEEDS)
        facts = {"name": task.name, "title": task.title, "target": task.target}
        self.result["speed"].append({**facts, "timed_repeats": task.repeats, "fits": fits})

    def measure_protections(self, task: SpeedTask) -> None:
        """Every protection in turns with sums that travel as they are."""
        task = self._sized(task)
        names = [contestant.name for contestant in ROW_FEDERATIONS]
        trial = self._trial(task, names)
        fits = self._in_turns(f"protected {task.name}", trial, names, task.repeats)
        traffic = {name: self._traffic(trial, name) for name in names}
        facts = {"name": task.name, "title": task.title}
        self.result["protected"].append({**facts, "fits": fits, "traffic": traffic})

    def _sized(self, task: SpeedTask) -> SpeedTask:
        return task.shrunk() if self.quick else task

    def _trial(self, task: SpeedTask, names: Sequence[str]) -> Trial:
        forest, split = task.forest, make_split(task.forest.kind, task.n_rows)
        for name in names:
            warm = BY_NAME[name].build(forest, SEED)
            warm.fit(split.X_train[:WARM_UP_ROWS], split.y_train[:WARM_UP_ROWS])
            warm.predict(split.X_test[:WARM_UP_ROWS])
        return Trial(forest, split, accuracy)

    def _traffic(self, trial: Trial, name: str) -> dict[str, int]:
        """What travels in one training more."""
        forest = BY_NAME[name].build(trial.forest, SEED)
        assert isinstance(forest, RowFederation)
        return measure_traffic(forest.fit(trial.split.X_train, trial.split.y_train))

    def _in_turns(
        self, title: str, trial: Trial, names: Sequence[str], repeats: int
    ) -> dict[str, Any]:
        """Everybody once per repeat, with the repeat's seed, who is first in rotation."""
        repeats = min(repeats, self.most_repeats or repeats)
        records = {name: Record() for name in names}
        for repeat, name in interleave(list(names), repeats):
            progress = f"{title}: repeat {repeat + 1} of {repeats}, {name}"
            with self.console.status(progress):
                wall = trial.run(name, SEED + repeat, records[name])
            self.console.print(f"{progress}: {wall:.3f} s", highlight=False)
        return {name: asdict(record) for name, record in records.items()}

    def measure_xgboost(self) -> None:
        """XGBoost's federation on loopback, and ours just before and after it."""
        task = self._sized(SPEED_TASKS[0])
        trial = self._trial(task, [ROWS_PLAIN])
        before = self._in_turns(XGBOOST, trial, (ROWS_PLAIN,), task.repeats)
        with self.console.status(f"{XGBOOST}: server and two parties in a namespace"):
            repeats = min(task.repeats, self.most_repeats or task.repeats)
            theirs = xgboost_federated.measure(trial.split, trial.forest, repeats, divided="rows")
        after = self._in_turns(XGBOOST, trial, (ROWS_PLAIN,), task.repeats)
        if "reason" in theirs:
            self.result["skipped"][XGBOOST] = theirs["reason"]
            self.console.print(f"{XGBOOST}: not run, {theirs['reason']}", highlight=False)
            return
        ours = {key: before[ROWS_PLAIN][key] + after[ROWS_PLAIN][key] for key in before[ROWS_PLAIN]}
        self.result["xgboost"] = {"title": task.title, "ours": ours, "theirs": theirs}

    def measure_growth(self, series: str) -> None:
        quantity, scenes = SERIES[series]
        repeats = min(GROWTH_REPEATS, self.most_repeats or GROWTH_REPEATS)
        points = []
        for scene in shrink(scenes) if self.quick else scenes:
            points.append(measure_growth(scene, repeats))
            walls = {mode: min(cost["wall"]) for mode, cost in points[-1]["modes"].items()}
            told = ", ".join(f"{mode} {wall:.4f} s" for mode, wall in walls.items())
            line = f"training by {series}: {getattr(scene, quantity)}: {told}"
            self.console.print(line, highlight=False)
        self.result["growth"][series] = {"quantity": quantity, "points": points}


def measure_all(benchmark: HorizontalBenchmark, names: Container[str]) -> Iterator[None]:
    """Measure the named tasks, in the order in which they are listed, pausing after each."""
    for task in SPEED_TASKS:
        if task.name in names:
            benchmark.measure_speed(task)
            yield
    for name, task in PROTECTED.items():
        if name in names:
            benchmark.measure_protections(task)
            yield
    if XGBOOST in names:
        benchmark.measure_xgboost()
        yield
    for name, series in GROWTH.items():
        if name in names:
            benchmark.measure_growth(series)
            yield


RUN = Run(
    "Federated Extra-Trees beside scikit-learn, XGBoost's federation and its own "
    "protections. Takes about ten minutes on two idle cores; on a busy machine the numbers "
    "mean little.",
    TASK_NAMES,
    HorizontalBenchmark,
    measure_all,
    draw,
)

if __name__ == "__main__":
    RUN.main(sys.argv[1:])

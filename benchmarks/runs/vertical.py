"""Federated Forest beside the engine on pooled columns, scikit-learn and XGBoost's federation.

Judges the targets for speed, prediction and bytes, measures how all three grow, and writes
`vertical.json`, its figures and RESULTS.md. Parties live in one process: what a network adds is
seen from the exchanges and bytes.
"""

import sys
from collections.abc import Container, Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # run as a script, by `make bench`

from rich.console import Console

from benchmarks.comparisons import xgboost_federated
from benchmarks.contestants import BY_NAME, FEDERATED, N_THREADS, OURS, SKLEARN
from benchmarks.measure import interleave
from benchmarks.publishing import Run
from benchmarks.runs.vertical_figure import draw
from benchmarks.runs.vertical_growth import (
    CLASSICAL_ROWS,
    PREDICTION_SERIES,
    TRAINING_SERIES,
    Scene,
    measure_prediction,
    measure_training,
    shrink,
)
from benchmarks.runs.vertical_traffic import TRAFFIC_TASKS, TrafficTask, measure_traffic
from benchmarks.tasks import (
    QUICK_ROWS,
    QUICK_TREES,
    SEED,
    ForestSettings,
    SpeedTask,
    make_split,
)
from benchmarks.trial import PREDICTION_ROWS, Record, Trial, accuracy
from fedforest.experiments.environment import describe_environment

# `target`: how many times scikit-learn's speed is aimed at.
SPEED_TASKS = (
    SpeedTask("depth-6", 100_000, ForestSettings("binary", 20, 6), 25.0),
    SpeedTask("depth-10", 100_000, ForestSettings("binary", 20, 10), 25.0),
    SpeedTask("grown-out", 100_000, ForestSettings("binary", 20, None), 11.0),
)
XGBOOST = "xgboost-federated"
TRAFFIC = "bytes-per-level"
GROWTH = {f"training-by-{name}": name for name in TRAINING_SERIES}
PREDICTION = {f"prediction-by-{name}": name for name in PREDICTION_SERIES}
TASK_NAMES = (*(task.name for task in SPEED_TASKS), XGBOOST, TRAFFIC, *GROWTH, *PREDICTION)

N_PAIRS = 15
GROWTH_REPEATS = 3
WARM_UP_ROWS = 2_000


class VerticalBenchmark:
    """One run: the console it talks to and the result it fills."""

    def __init__(self, console: Console, *, quick: bool, most_repeats: int | None) -> None:
        self.console = console
        self.quick = quick
        self.most_repeats = 1 if quick else most_repeats
        self.result: dict[str, Any] = {
            "run": "vertical",
            "environment": describe_environment(),
            "settings": {
                "seed": SEED,
                "threads": N_THREADS,
                "quick": quick,
                "prediction_rows": PREDICTION_ROWS,
                "classical_rows": CLASSICAL_ROWS,
            },
            "contestants": {name: BY_NAME[name].note for name in (FEDERATED, OURS, SKLEARN)},
            "speed": [],
            "xgboost": None,
            "traffic": [],
            "growth": {},
            "prediction": {},
            "skipped": {},
        }

    def measure_speed(self, task: SpeedTask) -> None:
        """Ours over two parties in turns with ours on one table, then with scikit-learn."""
        task = task.shrunk() if self.quick else task
        trial = self._trial(task)
        pairs = self._in_turns(task.name, trial, (FEDERATED, OURS), N_PAIRS)
        fits = self._in_turns(task.name, trial, (FEDERATED, SKLEARN), task.repeats)
        self.result["speed"].append(
            {
                "name": task.name,
                "title": task.title,
                "target": task.target,
                "pairs": pairs,
                "fits": fits,
            }
        )

    def _trial(self, task: SpeedTask) -> Trial:
        forest, split = task.forest, make_split(task.forest.kind, task.n_rows)
        for name in (FEDERATED, OURS):
            warm = BY_NAME[name].build(forest, SEED)
            warm.fit(split.X_train[:WARM_UP_ROWS], split.y_train[:WARM_UP_ROWS])
            warm.predict(split.X_test[:WARM_UP_ROWS])
        return Trial(forest, split, accuracy)

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
        task = SPEED_TASKS[0].shrunk() if self.quick else SPEED_TASKS[0]
        trial = self._trial(task)
        before = self._in_turns(XGBOOST, trial, (FEDERATED,), task.repeats)
        with self.console.status(f"{XGBOOST}: server and two parties in a namespace"):
            repeats = min(task.repeats, self.most_repeats or task.repeats)
            theirs = xgboost_federated.measure(trial.split, trial.forest, repeats)
        after = self._in_turns(XGBOOST, trial, (FEDERATED,), task.repeats)
        if "reason" in theirs:
            self.result["skipped"][XGBOOST] = theirs["reason"]
            self.console.print(f"{XGBOOST}: not run, {theirs['reason']}", highlight=False)
            return
        ours = {key: before[FEDERATED][key] + after[FEDERATED][key] for key in before[FEDERATED]}
        self.result["xgboost"] = {"title": task.title, "ours": ours, "theirs": theirs}

    def measure_traffic(self, task: TrafficTask) -> None:
        if self.quick:
            depth = None if task.max_depth is None else 4
            task = replace(task, n_rows=QUICK_ROWS, n_trees=QUICK_TREES, max_depth=depth)
        with self.console.status(f"{TRAFFIC}: {task.title}"):
            traffic = measure_traffic(task)
        if "reason" in traffic:
            self.result["skipped"][f"{TRAFFIC}, {task.title}"] = traffic["reason"]
        else:
            self.result["traffic"].append(traffic)

    def measure_growth(self, series: str) -> None:
        quantity, scenes = TRAINING_SERIES[series]
        repeats = min(GROWTH_REPEATS, self.most_repeats or GROWTH_REPEATS)
        points = []
        for scene in self._scenes(scenes):
            points.append(measure_training(scene, repeats))
            self._tell(f"training by {series}", scene, quantity, points[-1]["wall"])
        self.result["growth"][series] = {"quantity": quantity, "points": points}

    def measure_prediction(self, series: str) -> None:
        quantity, scenes = PREDICTION_SERIES[series]
        points = []
        for scene in self._scenes(scenes):
            points.append(measure_prediction(scene))
            wall = points[-1]["modes"]["auto"]["wall"]
            self._tell(f"prediction by {series}", scene, quantity, wall)
        self.result["prediction"][series] = {"quantity": quantity, "points": points}

    def _scenes(self, scenes: Sequence[Scene]) -> Sequence[Scene]:
        return shrink(scenes) if self.quick else scenes

    def _tell(self, title: str, scene: Scene, quantity: str, wall: Sequence[float]) -> None:
        line = f"{title}: {getattr(scene, quantity)}: {min(wall):.4f} s"
        self.console.print(line, highlight=False)


def measure_all(benchmark: VerticalBenchmark, names: Container[str]) -> Iterator[None]:
    """Measure the named tasks, in the order in which they are listed, pausing after each."""
    for task in SPEED_TASKS:
        if task.name in names:
            benchmark.measure_speed(task)
            yield
    if XGBOOST in names:
        benchmark.measure_xgboost()
        yield
    if TRAFFIC in names:
        for traffic_task in TRAFFIC_TASKS:
            benchmark.measure_traffic(traffic_task)
            yield
    for name, series in GROWTH.items():
        if name in names:
            benchmark.measure_growth(series)
            yield
    for name, series in PREDICTION.items():
        if name in names:
            benchmark.measure_prediction(series)
            yield


RUN = Run(
    "Federated Forest beside pooled training, scikit-learn and XGBoost's "
    "federation. Takes about ten minutes on two idle cores; on a busy machine the numbers "
    "mean little.",
    TASK_NAMES,
    VerticalBenchmark,
    measure_all,
    draw,
)

if __name__ == "__main__":
    RUN.main(sys.argv[1:])

"""The engine on one table beside other libraries: how fast, how good, how much memory.

Trains the same forests with ours, scikit-learn, XGBoost and LightGBM, judges the targets, and
writes `pooled.json`, `pooled.png` and RESULTS.md. See `--help` for how long it takes. Federation is
not measured here.
"""

import sys
import tempfile
from collections.abc import Container, Iterator, Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # run as a script, by `make bench`

import numpy as np
from rich.console import Console

from benchmarks.contestants import (
    BY_NAME,
    CONTESTANTS,
    N_THREADS,
    OURS,
    SKLEARN,
    reason_absent,
)
from benchmarks.measure import interleave, run_fresh
from benchmarks.publishing import Run
from benchmarks.runs.pooled_figure import draw
from benchmarks.tasks import (
    REAL_TASKS,
    SEED,
    SPEED_TASKS,
    ForestSettings,
    RealTask,
    SpeedTask,
    Split,
    as_codes,
    make_split,
    read_real,
)
from benchmarks.trial import PREDICTION_ROWS, Record, Trial, accuracy, r_squared, rmse
from fedforest.experiments.environment import describe_environment

START_UP = "start-up"
FRESH = "benchmarks.fresh_process"
WARM_UP_ROWS = 2_000
TASK_NAMES = (
    START_UP,
    *(task.name for task in SPEED_TASKS),
    *(task.name for task in REAL_TASKS),
)
SLOW_SECONDS = 10.0
SLOW_REPEATS = 1


class PooledBenchmark:
    """One run: the console it talks to and the result it fills."""

    def __init__(self, console: Console, *, quick: bool, most_repeats: int | None) -> None:
        self.console = console
        self.quick = quick
        self.most_repeats = 1 if quick else most_repeats
        absent = {c.name: reason for c in CONTESTANTS if (reason := reason_absent(c))}
        self.present = [c.name for c in CONTESTANTS if c.name not in absent]
        self.result: dict[str, Any] = {
            "run": "pooled",
            "environment": describe_environment(),
            "settings": {
                "seed": SEED,
                "threads": N_THREADS,
                "quick": quick,
                "prediction_rows": PREDICTION_ROWS,
                "slow_seconds": SLOW_SECONDS,
            },
            "contestants": {name: BY_NAME[name].note for name in self.present},
            "absent": absent,
            "speed": [],
            "start_up": {},
            "real": [],
            "skipped": {},
        }

    def measure_speed(self, task: SpeedTask) -> None:
        """Time everybody on one task, then measure their memory, and keep both."""
        task = task.shrunk() if self.quick else task
        split = make_split(task.forest.kind, task.n_rows)
        fits = self._time_fits(task, split)
        peaks = self._measure_peaks(task, split)
        self.result["speed"].append(
            {
                "name": task.name,
                "title": task.title,
                "n_rows": task.n_rows,
                **asdict(task.forest),
                "target": task.target,
                "table_bytes": split.X_train.nbytes,
                "fits": fits,
                "memory": peaks,
            }
        )

    def _contestants(self, task: SpeedTask) -> list[str]:
        """Who takes part: rivals without a target stay away from what takes them minutes."""
        if self.quick or not task.takes_rivals_minutes:
            return self.present
        self.result["skipped"][f"{task.name}, XGBoost and LightGBM"] = "minutes for one fit"
        return [name for name in self.present if BY_NAME[name].family != "rival"]

    def _time_fits(self, task: SpeedTask, split: Split) -> dict[str, Any]:
        warm_up = replace(task.forest, n_trees=2)
        names = self._contestants(task)
        for name in names:
            forest = BY_NAME[name].build(warm_up, SEED)
            forest.fit(split.X_train[:WARM_UP_ROWS], split.y_train[:WARM_UP_ROWS])
            forest.predict(split.X_test[:WARM_UP_ROWS])
        measure = r_squared if task.forest.task == "regression" else accuracy
        trial = Trial(task.forest, split, measure)
        return self._repeat(task.title, dict.fromkeys(names, trial), task.repeats)

    def _repeat(self, title: str, trials: Mapping[str, Trial], repeats: int) -> dict[str, Any]:
        """Run every contestant's trial in rotating order; repeat r is trained with seed r."""
        repeats = min(repeats, self.most_repeats or repeats)
        records = {name: Record() for name in trials}
        for repeat, name in interleave(list(trials), repeats):
            if is_slow_rival(name, records[name]):
                continue
            progress = f"{title}: repeat {repeat + 1} of {repeats}, {name}"
            with self.console.status(progress):
                wall = trials[name].run(name, SEED + repeat, records[name])
            self.console.print(f"{progress}: {wall:.3f} s", highlight=False)
        return {name: asdict(record) for name, record in records.items()}

    def _measure_peaks(self, task: SpeedTask, split: Split) -> dict[str, Any]:
        names = [OURS] if self.quick else self._contestants(task)
        with tempfile.TemporaryDirectory() as folder:
            np.save(Path(folder) / "X.npy", split.X_train)
            np.save(Path(folder) / "y.npy", split.y_train)
            return {name: self._measure_peak(name, task, folder) for name in names}

    def _measure_peak(self, name: str, task: SpeedTask, folder: str) -> dict[str, Any]:
        with self.console.status(f"{task.title}: peak memory, {name}"):
            request = {"contestant": name, "settings": asdict(task.forest), "folder": folder}
            return run_fresh(FRESH, {"question": "peak_of_fit", **request})

    def measure_start_up(self) -> None:
        """First fit of a process that compiles every kernel, and of one that finds them."""
        if self.quick:
            self.result["skipped"][START_UP] = "a quick run compiles nothing on purpose"
            return
        for kind in ("binary", "multiclass", "regression"):
            request = {"question": "first_fit", "settings": asdict(ForestSettings(kind, 10, 6))}
            with tempfile.TemporaryDirectory() as cache:
                cache_there = {"FEDFOREST_CACHE": cache}
                with self.console.status(f"start-up, {kind}: compiling the kernels"):
                    cold = run_fresh(FRESH, request, cache_there)
                warm = run_fresh(FRESH, request, cache_there)
            self.result["start_up"][kind] = {"cold": cold, "warm": warm}
            self.console.print(f"start-up, {kind}: compiled in {cold['first_fit']:.1f} s")

    def measure_real(self, task: RealTask) -> None:
        """Score of ours and of scikit-learn's forest on a real table, where there is one."""
        split = "a quick run leaves real tables out" if self.quick else read_real(task.file)
        if isinstance(split, str):
            self.result["skipped"][task.name] = split
            self.console.print(f"{task.name}: not run, {split}")
            return
        measure = rmse if task.forest.task == "regression" else accuracy
        tables = {OURS: split, SKLEARN: as_codes(split)}
        trials = {name: Trial(task.forest, table, measure) for name, table in tables.items()}
        fits = self._repeat(task.name, trials, task.n_seeds)
        self.result["real"].append({**_describe_real(task, split), "fits": fits})


def is_slow_rival(name: str, record: Record) -> bool:
    """Whether a rival without a target has taken long enough: five such fits tell no more."""
    is_slow = len(record.wall) >= SLOW_REPEATS and min(record.wall) > SLOW_SECONDS
    return is_slow and BY_NAME[name].family == "rival"


def _describe_real(task: RealTask, split: Split) -> dict[str, Any]:
    features = task.forest.max_features
    share = features if isinstance(features, str) else f"{features:.2f} of the columns"
    return {
        "name": task.name,
        "measure": "RMSE" if task.forest.task == "regression" else "accuracy",
        "tolerance": task.tolerance,
        "n_rows": len(split.y_train) + len(split.y_test),
        "n_columns": split.X_train.shape[1],
        "setting": f"{task.forest.n_trees} trees grown out, {share}",
    }


def measure_all(benchmark: PooledBenchmark, names: Container[str]) -> Iterator[None]:
    """Measure the named tasks, in the order in which they are listed, pausing after each."""
    if START_UP in names:
        benchmark.measure_start_up()
        yield
    for task in SPEED_TASKS:
        if task.name in names:
            benchmark.measure_speed(task)
            yield
    make_split.cache_clear()
    for real in REAL_TASKS:
        if real.name in names:
            benchmark.measure_real(real)
            yield


def draw_speed(result: dict[str, Any], path: Path) -> None:
    """The figure, where there is anything to draw."""
    if result["speed"]:
        draw(result, path)


RUN = Run(
    "The engine on one table beside scikit-learn, XGBoost and LightGBM. Takes "
    "about half an hour on two idle cores; on a busy machine the numbers mean little.",
    TASK_NAMES,
    PooledBenchmark,
    measure_all,
    draw_speed,
)

if __name__ == "__main__":
    RUN.main(sys.argv[1:])

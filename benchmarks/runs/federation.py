"""A live federation, coordinator and two parties in processes of their own over mutual TLS.

Judges its targets for speed beside scikit-learn, XGBoost's federation and the same training in one
process, on a slow line, in prediction, and over many trainings. Writes `federation.json`, its
figure and RESULTS.md. Seconds are those of the user, from the order to the result: reading tables
from files is done before, binning them is not.
"""

import sys
import tempfile
from collections.abc import Container, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # run as a script, by `make bench`

from rich.console import Console

from benchmarks import network_floor
from benchmarks.comparisons import xgboost_federated
from benchmarks.contestants import BY_NAME, FEDERATED, N_THREADS, SKLEARN
from benchmarks.live_federation import divide_columns
from benchmarks.measure import interleave, timed
from benchmarks.publishing import Run
from benchmarks.runs.federation_figure import draw
from benchmarks.runs.federation_findings import LIVE
from benchmarks.runs.federation_serving import (
    BATCHES,
    N_CALLERS,
    N_SOAK_RUNS,
    measure_alone,
    measure_serving,
    soak,
)
from benchmarks.runs.federation_training import Training, find_phases, predict, train
from benchmarks.tasks import SEED, ForestSettings, SpeedTask, Split, make_split
from benchmarks.trial import accuracy
from fedforest.experiments.environment import describe_environment
from fedforest.experiments.live.federation import THREADS_PER_PARTY, LiveFederation
from fedforest.experiments.live.line import Line
from fedforest.runtime.client.connection import Federation

# `target`: how many times scikit-learn's speed is aimed at.
SPEED_TASKS = (
    SpeedTask("depth-6", 100_000, ForestSettings("binary", 20, 6), 10.0),
    SpeedTask("depth-10", 100_000, ForestSettings("binary", 20, 10), 10.0),
    SpeedTask("grown-out", 100_000, ForestSettings("binary", 20, None), 6.0),
)
XGBOOST, SMALL, SHAPED, SERVING, SOAK = (
    *("xgboost-federated", "small-data", "slow-line", "prediction", "soak"),
)
TASK_NAMES = (*(task.name for task in SPEED_TASKS), XGBOOST, SMALL, SHAPED, SERVING, SOAK)
SMALL_TASK = SpeedTask(SMALL, 5_000, ForestSettings("binary", 100, 8), 0.0, repeats=15)
SLOW_LINE = Line(round_trip_seconds=0.05, bytes_per_second=100e6 / 8)
SHAPED_REPEATS = 3
FLOOR_REPEATS = 5
ALONE_CALLS = 10


class FederationBenchmark:
    """One run: the console it talks to and the result it fills."""

    def __init__(self, console: Console, *, quick: bool, most_repeats: int | None) -> None:
        self.console = console
        self.quick = quick
        self.most_repeats = 1 if quick else most_repeats
        self.result: dict[str, Any] = {
            "run": "federation",
            "environment": describe_environment(),
            "settings": {
                "seed": SEED,
                "threads": N_THREADS,
                "threads_per_party": THREADS_PER_PARTY,
                "callers": N_CALLERS,
                "quick": quick,
            },
            "contestants": {name: BY_NAME[name].note for name in (FEDERATED, SKLEARN)},
            "speed": [],
            "xgboost": None,
            "small": None,
            "shaped": [],
            "serving": [],
            "soak": [],
            "skipped": {},
        }

    def measure_speed(self, task: SpeedTask) -> None:
        """A live federation in turns with scikit-learn, and where its best training's time went."""
        task = self._fit(task)
        split = make_split(task.forest.kind, task.n_rows)
        ours: dict[str, list[float]] = {"wall": [], "score": []}
        theirs: dict[str, list[float]] = {"wall": [], "score": []}
        trainings = []
        with self._federation(split, task.forest) as (federation, client):
            for repeat, name in interleave([LIVE, SKLEARN], self._repeats(task.repeats)):
                seed = SEED + repeat
                if name == LIVE:
                    training = train(client, task.forest, seed)
                    votes = predict(client, training.model)
                    trainings.append(training)
                    _note(ours, training.wall, accuracy(split.y_test, votes.argmax(axis=1)))
                else:
                    forest = BY_NAME[SKLEARN].build(task.forest, seed)
                    _, cost = timed(lambda: forest.fit(split.X_train, split.y_train))  # noqa: B023 - at once
                    _note(theirs, cost.wall, accuracy(split.y_test, forest.predict(split.X_test)))
                self._tell(
                    f"{task.name}: repeat {repeat + 1}, {name}", (ours, theirs)[name != LIVE]
                )
            best = min(trainings, key=lambda training: training.wall)
            phases = find_phases(federation, best)
        floors = {
            name: min(network_floor.measure(best.steps, work, self._repeats(FLOOR_REPEATS)))
            for name, work in (("network", phases.work), ("idle", network_floor.idle(best.steps)))
        }
        self.result["speed"].append(
            {
                "name": task.name,
                "title": task.title,
                "target": task.target,
                "ours": ours,
                "theirs": theirs,
                "exchanges": len(best.steps),
                "phases": {"wall": best.wall, **floors, **phases.seconds},
            }
        )

    def measure_xgboost(self) -> None:
        """XGBoost's federation on loopback, without TLS, and ours just before and after it."""
        task = self._fit(SPEED_TASKS[0])
        split, repeats = make_split(task.forest.kind, task.n_rows), self._repeats(task.repeats)
        with self._federation(split, task.forest) as (_, client):
            walls = [train(client, task.forest, SEED + k).wall for k in range(repeats)]
            with self.console.status(f"{XGBOOST}: server and two parties in a namespace"):
                theirs = xgboost_federated.measure(split, task.forest, repeats)
            walls += [train(client, task.forest, SEED + k).wall for k in range(repeats)]
        if "reason" in theirs:
            self.result["skipped"][XGBOOST] = theirs["reason"]
            self.console.print(f"{XGBOOST}: not run, {theirs['reason']}", highlight=False)
            return
        self.result["xgboost"] = {"title": task.title, "ours": {"wall": walls}, "theirs": theirs}

    def measure_small(self) -> None:
        """A live federation in turns with the same training in one process."""
        task = self._fit(SMALL_TASK)
        split = make_split(task.forest.kind, task.n_rows)
        walls: dict[str, list[float]] = {LIVE: [], FEDERATED: []}
        BY_NAME[FEDERATED].build(task.forest, SEED).fit(split.X_train, split.y_train)
        with self._federation(split, task.forest) as (_, client):
            for repeat, name in interleave(list(walls), self._repeats(task.repeats)):
                if name == LIVE:
                    walls[name].append(train(client, task.forest, SEED + repeat).wall)
                    continue
                forest = BY_NAME[name].build(task.forest, SEED + repeat)
                _, cost = timed(lambda: forest.fit(split.X_train, split.y_train))  # noqa: B023 - at once
                walls[name].append(cost.wall)
        self.result["small"] = {"title": task.title, "wall": walls}

    def measure_shaped(self, task: SpeedTask) -> None:
        """The same training on loopback and over a slow line, one after the other."""
        task = self._fit(task)
        split = make_split(task.forest.kind, task.n_rows)
        trainings: dict[str, list[Training]] = {"loopback": [], "line": []}
        with ExitStack() as stack:
            clients = {
                name: stack.enter_context(self._federation(split, task.forest, line))[1]
                for name, line in (("loopback", None), ("line", SLOW_LINE))
            }
            for repeat, name in interleave(list(clients), self._repeats(SHAPED_REPEATS)):
                trainings[name].append(train(clients[name], task.forest, SEED + repeat))
        shaped = min(trainings["line"], key=lambda training: training.wall)
        self.result["shaped"].append(
            {
                "title": task.title,
                "line": SLOW_LINE._asdict(),
                "exchanges": len(shaped.steps) + 2,  # the run's beginning and its end
                "bytes": shaped.n_bytes,
                "wall": {name: [t.wall for t in some] for name, some in trainings.items()},
            }
        )

    def measure_serving(self) -> None:
        """Predictions of a forest of depth 10: by 8 callers at once, and of the whole test set."""
        task = self._fit(SPEED_TASKS[1])
        split = make_split(task.forest.kind, task.n_rows)
        with self._federation(split, task.forest) as (_, client):
            model = train(client, task.forest, SEED).model
            for n_rows, n_calls in BATCHES.items():
                n_calls = self._repeats(n_calls) * (2 if self.quick else 1)  # noqa: PLW2901 - fewer
                measured = measure_serving(client, model, min(n_rows, len(split.y_test)), n_calls)
                self.result["serving"].append({"callers": N_CALLERS, **measured})
            measured = measure_alone(client, model, self._repeats(ALONE_CALLS))
            self.result["serving"].append({"callers": 1, **measured})

    def measure_soak(self) -> None:
        """Many small trainings in the same processes."""
        n_runs = 4 if self.quick else N_SOAK_RUNS
        with self._federation(make_split("binary", 2_000), SPEED_TASKS[0].forest) as live:
            self.result["soak"] = soak(
                *live, n_runs, lambda n: self.console.print(f"{SOAK}: {n} runs", highlight=False)
            )

    @contextmanager
    def _federation(
        self, split: Split, forest: ForestSettings, line: Line | None = None
    ) -> Iterator[tuple[LiveFederation, Federation]]:
        """Connected and warm: it has read its tables and loaded its kernels."""
        with (
            tempfile.TemporaryDirectory() as folder,
            LiveFederation(Path(folder), divide_columns(split), line) as federation,
            federation.connect() as client,
        ):
            with self.console.status("a federation warms up"):
                predict(client, train(client, forest, SEED).model)
            yield federation, client

    def _fit(self, task: SpeedTask) -> SpeedTask:
        return task.shrunk() if self.quick else task

    def _repeats(self, repeats: int) -> int:
        return min(repeats, self.most_repeats or repeats)

    def _tell(self, title: str, costs: dict[str, list[float]]) -> None:
        self.console.print(f"{title}: {costs['wall'][-1]:.3f} s", highlight=False)


def _note(costs: dict[str, list[float]], wall: float, score: float) -> None:
    costs["wall"].append(wall)
    costs["score"].append(score)


def measure_all(benchmark: FederationBenchmark, names: Container[str]) -> Iterator[None]:
    """Measure the named tasks, in the order in which they are listed, pausing after each."""
    for task in SPEED_TASKS:
        if task.name in names:
            benchmark.measure_speed(task)
            yield
    for name, measure in (
        (XGBOOST, benchmark.measure_xgboost),
        (SMALL, benchmark.measure_small),
    ):
        if name in names:
            measure()
            yield
    if SHAPED in names:
        for task in SPEED_TASKS[:2]:
            benchmark.measure_shaped(task)
            yield
    for name, measure in ((SERVING, benchmark.measure_serving), (SOAK, benchmark.measure_soak)):
        if name in names:
            measure()
            yield


RUN = Run(
    "A live federation beside scikit-learn, XGBoost's federation and one process. "
    "Takes about six minutes on two idle cores; on a busy machine the numbers mean little.",
    TASK_NAMES,
    FederationBenchmark,
    measure_all,
    draw,
)

if __name__ == "__main__":
    RUN.main(sys.argv[1:])

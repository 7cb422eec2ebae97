"""How far it goes: rows, columns, classes, trees, parties, runs at once, and a slow line.

Live federations are coordinator and parties in processes of their own over mutual TLS, which read
Parquet; tables are made in pieces in a temporary folder and deleted. `--tasks` takes one at a time:
`rows-vertical` goes to 50,000,000 rows and needs 5 GB of disk. Writes `scale.json`, its figure and
RESULTS.md.
"""

import sys
import time
from collections.abc import Callable, Container, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # run as a script

import numpy as np
from rich.console import Console
from sklearn.ensemble import RandomForestClassifier

from benchmarks import scale_federations as federations
from benchmarks.measure import interleave, timed
from benchmarks.publishing import Run
from benchmarks.runs.scale_figure import draw
from benchmarks.scale_plans import SHAPES, plan_shape
from benchmarks.tasks import SEED
from fedforest import HorizontalExtraTreesClassifier, Masked, VerticalForestClassifier
from fedforest.experiments.environment import describe_environment
from fedforest.experiments.live.line import Line
from fedforest.runtime.messages.orders import TrainVertical
from fedforest.tree.growth.parameters import ForestParameters

VERTICAL_ROWS = (100_000, 1_000_000, 10_000_000, 50_000_000)
HORIZONTAL_ROWS = (100_000, 1_000_000, 10_000_000)
N_HORIZONTAL = 10  # parties
N_HORIZONTAL_COLUMNS = 20
LARGE = ForestParameters(n_estimators=10, max_depth=8)
LARGE_EXTRA = ForestParameters(n_estimators=10, max_depth=8, bootstrap=False)
MEMORY_LIMIT = 'memory_limit = "2 GB"'  # of each party, for tables of more than half a gigabyte
BEYOND_ROWS, BEYOND_LIMIT = 15_000_000, 'memory_limit = "200 MB"'  # 600 MB at each party
WIDE = (801, 20_531)
N_CLASSES, N_TREES, N_PARTIES = (10, 100, 1_000), (100, 1_000), (2, 10, 50)
SLOW_LINE = Line(round_trip_seconds=0.05, bytes_per_second=100e6 / 8)
SLOW = ForestParameters(n_estimators=100, max_depth=10)
SLOW_ROWS = 100_000
QUICK_ROWS = 20_000
TASKS = (
    *("rows-vertical", "rows-horizontal", "beyond-memory", "wide", "classes", "trees"),
    *("parties", "slow-line", "two-runs", "plans"),
)


class ScaleBenchmark:
    """One run: the console it talks to and the result it fills."""

    def __init__(self, console: Console, *, quick: bool, most_repeats: int | None) -> None:
        self.console, self.quick = console, quick
        self.repeats = 1 if quick else most_repeats or 3
        self.result: dict[str, Any] = {
            "run": "scale",
            "environment": describe_environment(),
            "settings": {"seed": SEED, "quick": quick},
            **{name.replace("-", "_"): [] for name in TASKS},
        }

    def rows_vertical(self) -> None:
        """Two parties of ten columns each, 10 trees of depth 8."""
        for n_rows in self._sizes(VERTICAL_ROWS):
            with federations.vertical(n_rows, settings=(MEMORY_LIMIT,)) as (federation, client):
                order = federations.order_vertical(federations.PAIR, LARGE)
                self._note("rows_vertical", federations.measure(federation, client, order), n_rows)

    def rows_horizontal(self) -> None:
        """Ten parties of as many rows each, 10 trees of depth 8."""
        for n_rows in self._sizes(HORIZONTAL_ROWS):
            sizes = n_rows, N_HORIZONTAL, N_HORIZONTAL_COLUMNS
            with federations.horizontal(*sizes) as (federation, client):
                order = federations.order_horizontal(N_HORIZONTAL, LARGE_EXTRA)
                measured = federations.measure(federation, client, order)
                self._note("rows_horizontal", measured, n_rows)

    def beyond_memory(self) -> None:
        """Train on a table three times as large as the parties' limit, and in memory."""
        n_rows = QUICK_ROWS if self.quick else BEYOND_ROWS
        for settings in ((), (BEYOND_LIMIT,)):
            with federations.vertical(n_rows, settings=settings) as (federation, client):
                order = federations.order_vertical(federations.PAIR, LARGE)
                measured = federations.measure(federation, client, order)
                measured["votes"] = federations.digest_votes(client, measured["model"])
                self._note("beyond_memory", measured, n_rows, limit=" ".join(settings))

    def wide(self) -> None:
        """Few rows and very many columns, beside scikit-learn on the joined table."""
        n_rows, n_columns = (80, 400) if self.quick else WIDE
        X, y = _make_table(n_rows, n_columns, 2)
        contestants = {
            "fedforest": VerticalForestClassifier(parties=2, random_state=SEED, n_jobs=2),
            "scikit-learn": RandomForestClassifier(random_state=SEED, n_jobs=2),
        }
        contestants["fedforest"].fit(X[:, :50], y)  # compiles what is not compiled yet
        for _, name in interleave(list(contestants), self.repeats):
            _, cost = timed(lambda: contestants[name].fit(X, y))  # noqa: B023 - at once
            self._note("wide", {"wall": cost.wall, "cpu": cost.cpu}, n_rows, contestant=name)

    def classes(self) -> None:
        """More and more classes; rows, columns and depth stay the same."""
        for n_classes in N_CLASSES[:1] if self.quick else N_CLASSES:
            X, y = _make_table(QUICK_ROWS, 20, n_classes)
            self._fit("classes", VerticalForestClassifier(10, max_depth=10, parties=2), X, y)
            self.result["classes"][-1]["classes"] = n_classes

    def trees(self) -> None:
        """More and more trees."""
        X, y = _make_table(QUICK_ROWS // 2, 20, 2)
        for n_trees in (10,) if self.quick else N_TREES:
            self._fit("trees", VerticalForestClassifier(n_trees, max_depth=8, parties=2), X, y)
            self.result["trees"][-1]["trees"] = n_trees

    def parties(self) -> None:
        """More and more parties over the same rows; horizontal sums plain and masked."""
        X, y = _make_table(QUICK_ROWS, 50, 2)
        for n_parties in N_PARTIES[:1] if self.quick else N_PARTIES:
            party = np.arange(len(X)) % n_parties
            vertical = VerticalForestClassifier(max_depth=10, parties=n_parties)
            rivals: dict[str, tuple[Any, dict[str, Any]]] = {"vertical": (vertical, {})}
            plain = HorizontalExtraTreesClassifier(max_depth=10)
            masked = HorizontalExtraTreesClassifier(max_depth=10, aggregation=Masked())
            rivals["horizontal, plain"] = plain, {"party": party}
            rivals["horizontal, masked"] = masked, {"party": party}
            for kind, (forest, more) in rivals.items():
                self._fit("parties", forest, X, y, **more)
                self.result["parties"][-1].update(parties=n_parties, kind=kind)

    def slow_line(self) -> None:
        """100 trees of depth 10 over 100,000 × 40, without a line and behind a slow one."""
        n_rows = QUICK_ROWS if self.quick else SLOW_ROWS
        for name, line in (("none", None), ("slow", SLOW_LINE)):
            with federations.vertical(n_rows, n_columns=20, line=line) as (federation, client):
                order = federations.order_vertical(federations.PAIR, SLOW)
                federations.train(client, order)
                for _ in range(self.repeats):
                    measured = federations.measure(federation, client, order)
                    planned = federations.load_plan(client, measured["model"])
                    self._note("slow_line", measured, n_rows, line=name, planned=planned)

    def two_runs(self) -> None:
        """Two runs of different parties, one after the other and at once."""
        pairs = federations.PAIR, ("clinic", "lab")
        n_rows = QUICK_ROWS if self.quick else 1_000_000
        with federations.vertical(n_rows, pairs=pairs) as (live, client):
            orders = [federations.order_vertical(pair, LARGE) for pair in pairs]
            for _ in range(self.repeats):
                each = [federations.train(client, order)[0] for order in orders]
                measured = {"each": each, "together": _train_at_once(live, orders)}
                self._note("two_runs", measured, n_rows)

    def plans(self) -> None:
        """The plan of six shapes beside what they take, in one process on one thread."""
        for shape in SHAPES:
            self._note("plans", plan_shape(shape, quick=self.quick), shape.n_rows, name=shape.name)

    def _fit(self, task: str, forest: Any, X: Any, y: Any, **more: Any) -> None:
        forest.set_params(random_state=SEED, n_jobs=2)
        walls, cpus = [], []
        for _ in range(self.repeats):
            _, cost = timed(lambda: forest.fit(X, y, **more))
            walls.append(cost.wall)
            cpus.append(cost.cpu)
        self._note(task, {"wall": min(walls), "cpu": min(cpus)}, len(X))

    def _note(self, task: str, measured: dict[str, Any], n_rows: int, **more: Any) -> None:
        self.result[task].append({"rows": n_rows, **more, **measured})
        told = {name: value for name, value in measured.items() if name in {"wall", "cpu", "each"}}
        self.console.print(f"{task}: {n_rows:,} rows {more or ''} {told}", highlight=False)

    def _sizes(self, sizes: tuple[int, ...]) -> tuple[int, ...]:
        return (QUICK_ROWS,) if self.quick else sizes


def _make_table(n_rows: int, n_columns: int, n_classes: int) -> tuple[Any, Any]:
    rng = np.random.default_rng(SEED)
    X = rng.standard_normal((n_rows, n_columns), np.float32)
    score = X[:, :5].sum(axis=1) + rng.standard_normal(n_rows)
    edges = np.quantile(score, np.arange(1, n_classes) / n_classes)
    return X, np.searchsorted(edges, score)


def _train_at_once(live: Any, orders: list[TrainVertical]) -> float:
    """Train several orders at the same time, each by a connection of its own; the seconds."""

    def train(order: TrainVertical) -> None:
        with live.connect() as client:
            federations.train(client, order)

    started = time.perf_counter()
    with ThreadPoolExecutor(len(orders)) as executor:
        list(executor.map(train, orders))
    return time.perf_counter() - started


def measure_all(benchmark: ScaleBenchmark, names: Container[str]) -> Iterator[None]:
    """Measure the named tasks, in the order in which they are listed, pausing after each."""
    for name in TASKS:
        if name in names:
            measure: Callable[[], None] = getattr(benchmark, name.replace("-", "_"))
            measure()
            yield


RUN = Run(
    "Rows, columns, classes, trees, parties, runs at once and a slow line. "
    "Takes about 25 minutes on two idle cores, 12 of them for 50 million rows, and 5 GB of disk.",
    TASKS,
    ScaleBenchmark,
    measure_all,
    draw,
)

if __name__ == "__main__":
    RUN.main(sys.argv[1:])

"""Every table of the data folder at default settings: 100 trees, grown out.

Everybody keeps the library's defaults, with two threads. Writes `real_tables.json` and RESULTS.md.
Parties live in one process except where the column says TLS.
"""

import sys
import tempfile
from collections.abc import Callable, Container, Iterator
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # run as a script, by `make bench`

import numpy as np
from rich.console import Console

from benchmarks.contestants import N_THREADS
from benchmarks.live_federation import divide_columns
from benchmarks.measure import interleave, timed
from benchmarks.publishing import Run
from benchmarks.real_tables import TABLES, SpeedTable, as_numbers, has_text
from benchmarks.runs.federation_training import train
from benchmarks.runs.real_tables_findings import (
    INTELEX,
    NATIVE,
    ROWS_FOUR,
    ROWS_MASKED,
    ROWS_NATIVE,
    ROWS_ONE,
    SKLEARN,
    SKLEARN_EXTRA,
    TLS,
    VERTICAL_ONE,
    VERTICAL_TWO,
)
from benchmarks.tasks import SEED, ForestSettings, Split
from benchmarks.trial import accuracy, r_squared
from fedforest.experiments.environment import describe_environment
from fedforest.experiments.live.federation import LiveFederation

TASK_NAMES = tuple(table.name for table in TABLES)
N_TREES, QUICK_TREES = 100, 4
N_PARTIES = 4
SLOW_SECONDS = 20.0  # a training that takes longer is not repeated
MOST_TLS_ROWS = 30_000
WARM_UP_ROWS, WARM_UP_TREES = 200, 2


@dataclass(frozen=True)
class Rival:
    """A forest at default settings; `reads_text` where it gets text columns as they are."""

    name: str
    module: str
    class_name: str
    options: Callable[[], dict[str, Any]] = dict
    n_parties: int = 0  # who divide the rows
    reads_text: bool = False

    def reason_absent(self) -> str | None:
        """Why it cannot take part here; None when it can."""
        try:
            import_module(self.module)
        except ImportError as error:
            return f"{self.module} cannot be imported ({type(error).__name__})"
        return None

    def fit(self, table: SpeedTable, split: Split, n_trees: int, seed: int) -> Any:
        """Train; rows are dealt to parties in equal, consecutive parts."""
        face = self.class_name + ("Regressor" if table.is_regression else "Classifier")
        forest = getattr(import_module(self.module), face)(
            n_estimators=n_trees, random_state=seed, n_jobs=N_THREADS, **self.options()
        )
        if not self.n_parties:
            return forest.fit(split.X_train, split.y_train)
        owner = np.arange(len(split.y_train)) * self.n_parties // len(split.y_train)
        return forest.fit(split.X_train, split.y_train, party=owner)


def _masked() -> dict[str, Any]:
    return {"aggregation": import_module("fedforest").Masked()}


VERTICAL, HORIZONTAL = "VerticalForest", "HorizontalExtraTrees"
RIVALS = (
    Rival(VERTICAL_ONE, "fedforest", VERTICAL),
    Rival(VERTICAL_TWO, "fedforest", VERTICAL, lambda: {"parties": 2}),
    Rival(NATIVE, "fedforest", VERTICAL, lambda: {"parties": 2}, reads_text=True),
    Rival(SKLEARN, "sklearn.ensemble", "RandomForest"),
    Rival(INTELEX, "sklearnex.ensemble", "RandomForest"),
    Rival(ROWS_ONE, "fedforest", HORIZONTAL, n_parties=1),
    Rival(ROWS_FOUR, "fedforest", HORIZONTAL, n_parties=N_PARTIES),
    Rival(ROWS_MASKED, "fedforest", HORIZONTAL, _masked, n_parties=N_PARTIES),
    Rival(ROWS_NATIVE, "fedforest", HORIZONTAL, _masked, n_parties=N_PARTIES, reads_text=True),
    Rival(SKLEARN_EXTRA, "sklearn.ensemble", "ExtraTrees"),
)


class RealTablesBenchmark:
    """One run: the console it talks to and the result it fills."""

    def __init__(self, console: Console, *, quick: bool, most_repeats: int | None) -> None:
        self.console = console
        self.quick = quick
        self.most_repeats = 1 if quick else most_repeats
        self.absent = {r.name: why for r in RIVALS if (why := r.reason_absent()) is not None}
        self.result: dict[str, Any] = {
            "run": "real_tables",
            "environment": describe_environment(),
            "settings": {"seed": SEED, "threads": N_THREADS, "quick": quick},
            "absent": self.absent,
            "tables": [],
            "skipped": {},
        }

    def measure(self, table: SpeedTable) -> None:
        """Everybody in turns on one table, then the live federation."""
        split = table.load(quick=self.quick)
        if isinstance(split, str):
            self.result["skipped"][table.name] = split
            self.console.print(f"{table.name}: not run, {split}", highlight=False)
            return
        numbers = as_numbers(split)
        rivals = {
            rival.name: (rival, split if rival.reads_text else numbers)
            for rival in RIVALS
            if rival.name not in self.absent and (has_text(split) or not rival.reads_text)
        }
        entry: dict[str, Any] = {
            "name": table.name,
            "is_made": table.is_made,
            "n_rows": len(split.y_train),
            "n_columns": split.X_train.shape[1],
            "n_classes": 0 if table.is_regression else len(np.unique(split.y_train)),
            "fits": self._take_turns(table, rivals),
        }
        if len(split.y_train) <= MOST_TLS_ROWS:
            entry["fits"][TLS] = self._train_live(table, numbers)
        self.result["tables"].append(entry)

    def _repeats(self, table: SpeedTable) -> int:
        return min(table.repeats, self.most_repeats or table.repeats)

    def _n_trees(self) -> int:
        return QUICK_TREES if self.quick else N_TREES

    def _take_turns(
        self, table: SpeedTable, rivals: dict[str, tuple[Rival, Split]]
    ) -> dict[str, Any]:
        for rival, split in rivals.values():  # whatever is compiled or loaded once
            few = Split(*(part[:WARM_UP_ROWS] for part in split))
            rival.fit(table, few, WARM_UP_TREES, SEED).predict(few.X_test)
        keys = ("wall", "cpu", "predict", "predict_cpu", "score")
        fits: dict[str, Any] = {name: {key: [] for key in keys} for name in rivals}
        for repeat, name in interleave(list(rivals), self._repeats(table)):
            if max(fits[name]["wall"], default=0.0) > SLOW_SECONDS:
                continue
            wall = self._note(table, *rivals[name], SEED + repeat, fits[name])
            line = f"{table.name}: repeat {repeat + 1}, {name}: {wall:.3f} s"
            self.console.print(line, highlight=False)
        return fits

    def _note(
        self, table: SpeedTable, rival: Rival, split: Split, seed: int, fits: dict[str, list[float]]
    ) -> float:
        forest, cost = timed(lambda: rival.fit(table, split, self._n_trees(), seed))
        forest.predict(split.X_test)  # some expand their model when they are first asked
        predicted, answer = timed(lambda: forest.predict(split.X_test))
        measure = r_squared if table.is_regression else accuracy
        fits["wall"].append(cost.wall)
        fits["cpu"].append(cost.cpu)
        fits["predict"].append(answer.wall)
        fits["predict_cpu"].append(answer.cpu)
        fits["score"].append(measure(split.y_test, predicted))
        return cost.wall

    def _train_live(self, table: SpeedTable, numbers: Split) -> dict[str, list[float]]:
        """Seconds of trainings by two parties in processes of their own, over mutual TLS."""
        features: str | float = 1.0 if table.is_regression else "sqrt"
        kind = "regression" if table.is_regression else "multiclass"
        settings = ForestSettings(kind, self._n_trees(), None, features)
        measured: dict[str, list[float]] = {"wall": [], "cpu": []}
        with (
            tempfile.TemporaryDirectory() as folder,
            LiveFederation(Path(folder), divide_columns(numbers)) as federation,
            federation.connect() as client,
        ):
            train(client, settings, SEED)
            for seed in range(SEED, SEED + self._repeats(table)):
                before = _used(federation)
                measured["wall"].append(train(client, settings, seed).wall)
                measured["cpu"].append(_used(federation) - before)
        line = f"{table.name}: {TLS}: {min(measured['wall']):.3f} s"
        self.console.print(line, highlight=False)
        return measured


def _used(federation: LiveFederation) -> float:
    """Seconds of processor that all roles have used so far."""
    return sum(role.footprint().processor_seconds for role in federation.roles)


def measure_all(benchmark: RealTablesBenchmark, names: Container[str]) -> Iterator[None]:
    """Measure the named tables, in the order in which they are listed, pausing after each."""
    for table in TABLES:
        if table.name in names:
            benchmark.measure(table)
            yield
        else:
            benchmark.result["skipped"][table.name] = "not chosen in this run"


def draw_nothing(result: dict[str, Any], path: Path) -> None:
    """No figure: the tables say it."""


RUN = Run(
    "Every table of the data folder at default settings, beside scikit-learn and "
    "scikit-learn-intelex. Takes about half an hour on two idle cores; on a busy machine the "
    "numbers mean little.",
    TASK_NAMES,
    RealTablesBenchmark,
    measure_all,
    draw_nothing,
)

if __name__ == "__main__":
    RUN.main(sys.argv[1:])

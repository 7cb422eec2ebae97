"""What `versions.py` times, in a process that imports one checkout of fedforest.

Run as `python -P benchmarks/version_tasks.py` with PYTHONPATH=<checkout>/src: orders as JSON on the
lines of its input, one answer on the output for each. Tables and settings come from beside this
file, so that all checkouts get the same; estimators are public names; a live federation is set up
by the checkout's own `benchmarks/live_federation.py`.
"""

import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # run as a script

import numpy as np

import fedforest
from benchmarks.checkout import import_own, read_commit
from benchmarks.contestants import N_THREADS
from benchmarks.measure import timed
from benchmarks.tasks import QUICK_ROWS, QUICK_TREES, SEED, Split, make_split, read_real

N_ROWS, N_TREES = 100_000, 20  # 80,000 to train on
N_TEXT_COLUMNS, N_CATEGORIES = 20, 12
REAL_TABLE = "letter"
DEPTHS: Mapping[str, int | None] = {"depth 6": 6, "depth 10": 10, "grown out": None}
LEAST_SECONDS = 0.3  # what takes less is done several times


class Work(NamedTuple):
    """What is done once or several times, and the processes beside this one that do it."""

    do: Callable[[], object]
    processes: tuple[int, ...] = ()


class TaskAbsent(Exception):  # noqa: N818 - not an error: the others are measured
    """Something that the task needs is not on this machine."""


OpenTask = Callable[[bool], Any]  # whether it is to be quick -> a context with the work


def make_forest(system: str, split: Split, *, quick: bool, **parameters: Any) -> Any:
    """An estimator of the system for two parties, and a function that trains it."""
    defaults: dict[str, Any] = {"random_state": SEED, "n_jobs": N_THREADS}
    defaults |= {"n_estimators": QUICK_TREES} if quick else {}
    if system == "vertical":
        forest = fedforest.VerticalForestClassifier(**{"parties": 2} | parameters | defaults)
        return forest, partial(forest.fit, split.X_train, split.y_train)
    owner = np.arange(len(split.X_train)) % 2
    forest = fedforest.HorizontalExtraTreesClassifier(**parameters | defaults)
    return forest, partial(forest.fit, split.X_train, split.y_train, party=owner)


def synthetic(*, quick: bool) -> Split:
    """Two classes, 40 columns."""
    return make_split("binary", QUICK_ROWS if quick else N_ROWS)


def with_text(split: Split) -> Split:
    """The same rows as a data frame in which half of the columns are text."""
    import pandas as pd  # noqa: PLC0415  needed here only

    def frame(X: Any) -> Any:
        table = pd.DataFrame(X, columns=[f"x{column}" for column in range(X.shape[1])])
        for name in table.columns[:N_TEXT_COLUMNS]:
            place = np.digitize(table[name], np.linspace(-3.0, 3.0, N_CATEGORIES - 1))
            table[name] = np.array([f"category {k}" for k in range(N_CATEGORIES)])[place]
        return table

    return split._replace(X_train=frame(split.X_train), X_test=frame(split.X_test))


@contextmanager
def train_synthetic(
    quick: bool, *, system: str, max_depth: int | None, **protection: Any
) -> Iterator[Work]:
    """Training in this process."""
    split = synthetic(quick=quick)
    options = {"n_estimators": N_TREES, "max_depth": max_depth, **protection}
    yield Work(make_forest(system, split, quick=quick, **options)[1])


@contextmanager
def train_masked(quick: bool) -> Iterator[Work]:
    with train_synthetic(
        quick, system="horizontal", max_depth=10, aggregation=fedforest.Masked()
    ) as work:
        yield work


@contextmanager
def train_real(quick: bool, *, system: str) -> Iterator[Work]:
    """Training on a table that people know, with the estimator's defaults."""
    split = read_real(REAL_TABLE)
    if isinstance(split, str):
        raise TaskAbsent(split)
    yield Work(make_forest(system, split, quick=quick)[1])


@contextmanager
def predict_here(quick: bool, *, system: str, has_text: bool) -> Iterator[Work]:
    """Prediction of the test rows in this process."""
    split = synthetic(quick=quick)
    split = with_text(split) if has_text else split
    forest, fit = make_forest(system, split, quick=quick, n_estimators=N_TREES, max_depth=10)
    fit()
    yield Work(partial(forest.predict_proba, split.X_test))


@contextmanager
def live(quick: bool, *, system: str, predicts: bool = False) -> Iterator[Work]:
    """Training or prediction of depth 10 in a federation of processes, over mutual TLS."""
    federations = import_own("benchmarks.live_federation")
    split = synthetic(quick=quick)
    divide = federations.divide_columns if system == "vertical" else divide_rows
    with (
        tempfile.TemporaryDirectory() as folder,
        federations.LiveFederation(Path(folder), divide(split)) as federation,
    ):
        kind = "VerticalForest" if system == "vertical" else "HorizontalExtraTrees"
        forest = getattr(fedforest, f"{kind}Classifier")(
            n_estimators=QUICK_TREES if quick else N_TREES,
            max_depth=10,
            random_state=SEED,
            transport=str(Path(folder) / "user"),
        )
        training, testing = (dict.fromkeys(federation.parties, n) for n in ("training", "testing"))
        fit = partial(forest.fit, training, "label")
        if predicts:
            fit()
        do = partial(forest.predict_proba, testing) if predicts else fit
        yield Work(do, tuple(role.process.pid for role in federation.roles))


def divide_rows(split: Split) -> dict[str, Any]:
    """Every second row at each of two parties, with its label."""
    import pyarrow  # noqa: PLC0415  as the federation itself

    names = [f"column_{number}" for number in range(split.X_train.shape[1])]
    return {
        party: {
            "training": pyarrow.table(
                [*split.X_train[place::2].T, split.y_train[place::2]], [*names, "label"]
            )
        }
        for place, party in enumerate(("bank", "shop"))
    }


def _list_tasks() -> Iterator[tuple[str, OpenTask]]:
    for system in ("vertical", "horizontal"):
        for depth, max_depth in DEPTHS.items():
            train = partial(train_synthetic, system=system, max_depth=max_depth)
            yield f"{system} training, {depth}", train
        yield f"{system} training, {REAL_TABLE}", partial(train_real, system=system)
        for columns in ("numbers", "text"):
            predict = partial(predict_here, system=system, has_text=columns == "text")
            yield f"{system} prediction, {columns}", predict
    yield "horizontal training, masked", train_masked
    yield "vertical training, TLS", partial(live, system="vertical")
    yield "horizontal training, TLS", partial(live, system="horizontal")
    yield "vertical prediction, TLS", partial(live, system="vertical", predicts=True)


TASKS: Mapping[str, OpenTask] = dict(_list_tasks())


def measure(work: Work, *, quick: bool) -> dict[str, float]:
    """Seconds of one doing, on the clock and of processor over all processes."""
    before = _cpu_seconds(work.processes)
    begin, n_done, wall, cpu = time.perf_counter(), 0, 0.0, 0.0
    while n_done == 0 or (not quick and time.perf_counter() - begin < LEAST_SECONDS):
        _, cost = timed(work.do)
        wall, cpu, n_done = wall + cost.wall, cpu + cost.cpu, n_done + 1
    cpu += _cpu_seconds(work.processes) - before
    return {"wall": wall / n_done, "cpu": cpu / n_done}


def _cpu_seconds(processes: tuple[int, ...]) -> float:
    """Of processes that run beside this one, as Linux tells it."""
    ticks = 0
    for process in processes:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
        ticks += int(fields[11]) + int(fields[12])  # utime and stime
    return ticks / os.sysconf("SC_CLK_TCK")


def serve() -> None:
    """Carry out orders until the input ends: "open" a task, "measure" it as often as wanted."""
    answers, sys.stdout = sys.stdout, sys.stderr  # nothing but answers goes to the output
    opened = ExitStack()
    work: Work | None = None
    with opened:
        for line in sys.stdin:
            order = json.loads(line)
            answer: dict[str, Any]
            if order["do"] == "measure":
                assert work is not None
                answer = measure(work, quick=order["quick"])
            else:
                opened.close()
                try:
                    work = opened.enter_context(TASKS[order["task"]](order["quick"]))
                    work.do()  # loads kernels, or compiles them
                    answer = {"commit": read_commit()}
                except TaskAbsent as error:
                    answer = {"reason": str(error)}
            print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    serve()

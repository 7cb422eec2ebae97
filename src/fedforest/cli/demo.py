"""`fedforest demo`: the pooled forest on two tables, beside scikit-learn's random forest.

One table, no parties: this shows the engine every federated forest will stand on. Training is
timed after a one-tree warm-up on the same table, so compiling kernels is not part of the seconds.
"""

from __future__ import annotations

import os
from contextlib import contextmanager
from time import perf_counter
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, Protocol

import typer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray
    from rich.console import Console

    from fedforest.estimators.pooled import PooledForest
    from fedforest.tree.grow import Progress

_CLOSING_LINE = (
    "One table, one machine: this is the engine alone. A demo with a coordinator and three "
    "parties, each in its own process, replaces it soon."
)


class Table(NamedTuple):
    """A named table, already divided into rows to train on and rows to score on."""

    name: str
    X_train: NDArray[Any]
    X_test: NDArray[Any]
    y_train: NDArray[Any]
    y_test: NDArray[Any]


class Result(NamedTuple):
    """What one classifier reached on one table."""

    accuracy: float
    seconds: float


class Classifier(Protocol):
    """The part of scikit-learn's interface that the demo uses."""

    def fit(self, X: NDArray[Any], y: NDArray[Any]) -> object: ...

    def predict(self, X: NDArray[Any]) -> NDArray[Any]: ...


def demo(
    rows: Annotated[int, typer.Option(min=100, help="Rows of the synthetic table.")] = 20_000,
    trees: Annotated[int, typer.Option(help="Trees of each forest.")] = 100,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the data and the forests.")] = 0,
) -> None:
    """Train the pooled forest on built-in data, beside scikit-learn.

    Example: fedforest demo --rows 50000 --trees 200
    """
    from rich.console import Console
    from rich.table import Table as Report

    console = Console()
    report = Report("Table", "Forest", "Accuracy", "Training", title=f"{trees} trees, seed {seed}")
    for table in _load_tables(rows, seed):
        ours = _train_ours(table, trees, seed, console)
        theirs = _measure(_scikit_learn_forest(trees, seed), table)
        shape = f"{len(table.y_train):,} × {table.X_train.shape[1]}"
        report.add_row(table.name, "fedforest, pooled", *_cells(ours))
        report.add_row(f"{shape} to train on", "scikit-learn", *_cells(theirs), end_section=True)
    console.print(report)
    console.print(_CLOSING_LINE)


def _load_tables(rows: int, seed: int) -> Iterator[Table]:
    from sklearn.datasets import load_breast_cancer, make_classification
    from sklearn.model_selection import train_test_split

    sources = {
        "breast cancer": load_breast_cancer(return_X_y=True),
        "synthetic": make_classification(
            n_samples=rows, n_features=40, n_informative=12, flip_y=0.05, random_state=seed
        ),
    }
    for name, (X, y) in sources.items():
        yield Table(name, *train_test_split(X, y, test_size=0.3, stratify=y, random_state=seed))


def _train_ours(table: Table, trees: int, seed: int, console: Console) -> Result:
    with console.status(f"{table.name}: preparing the kernels (compiled once per machine)"):
        _pooled_forest(1, seed).fit(table.X_train, table.y_train)
    with _training_bar(table.name, trees, console) as show_progress:
        return _measure(_pooled_forest(trees, seed, show_progress), table)


@contextmanager
def _training_bar(name: str, trees: int, console: Console) -> Iterator[Callable[[Progress], None]]:
    """Show a bar and yield the callback that moves it: all trees grow together, level by level."""
    from rich import progress as bars

    columns = (
        bars.TextColumn("{task.description}"),
        bars.BarColumn(),
        bars.TextColumn("{task.completed}/{task.total} trees"),
        bars.TextColumn("level {task.fields[level]}, {task.fields[open_nodes]:,} open nodes"),
        bars.TimeElapsedColumn(),
    )
    with bars.Progress(*columns, console=console) as bar:
        task = bar.add_task(name, total=trees, level=0, open_nodes=0)

        def show(state: Progress) -> None:
            bar.update(
                task, completed=state.trees_done, level=state.level, open_nodes=state.open_nodes
            )

        yield show


def _pooled_forest(
    trees: int, seed: int, progress: Callable[[Progress], None] | None = None
) -> PooledForest:
    from fedforest.estimators.pooled import PooledForest

    return PooledForest(
        task="classification",
        n_estimators=trees,
        random_state=seed,
        n_jobs=_n_threads(),
        progress=progress,
    )


def _scikit_learn_forest(trees: int, seed: int) -> Classifier:
    from sklearn.ensemble import RandomForestClassifier

    forest: Classifier = RandomForestClassifier(
        n_estimators=trees, random_state=seed, n_jobs=_n_threads()
    )
    return forest


def _n_threads() -> int:
    return os.cpu_count() or 1


def _measure(classifier: Classifier, table: Table) -> Result:
    started = perf_counter()
    classifier.fit(table.X_train, table.y_train)
    seconds = perf_counter() - started
    accuracy = float((classifier.predict(table.X_test) == table.y_test).mean())
    return Result(accuracy, seconds)


def _cells(result: Result) -> tuple[str, str]:
    return f"{result.accuracy:.4f}", f"{result.seconds:.3f} s"

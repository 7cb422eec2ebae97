"""Is the federated forest as good as the forest on pooled columns? The papers' Tables 3 and 4.

Two parties hold random halves of the columns, drawn anew for every repetition; a fifth of the rows
is held out. Beside the federated forest: scikit-learn's forest on all columns (NonFF) and on one
party's (RF1, RF2), and federated linear models (F-LR). Scores already in the output folder are
kept, so a run that was stopped goes on, and a method that is added later joins the others.
"""

import argparse
import sys
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import train_test_split

import fedforest
from fedforest.experiments.accuracy_figure import draw
from fedforest.experiments.accuracy_findings import METHODS, find, write_page
from fedforest.experiments.accuracy_record import AccuracyRecord, DataSetRecord, Settings
from fedforest.experiments.command import carry_out, parse_with_folder, progress_bar
from fedforest.experiments.data_sets import PaperDataSet, read_data_set
from fedforest.experiments.result_file import Result

PARTIES = ("party_1", "party_2")
N_THREADS = 2


@dataclass(frozen=True, slots=True)
class AccuracyTask:
    """A data set of the papers, how forests see it, and how close to pooled they must come.

    `tolerance` bounds the paired interval: accuracy, or a share of the pooled RMSE.
    """

    name: str
    task: str
    tolerance: float
    max_features: str | float


# Regression forests try a third of the columns at a node (Breiman); scikit-learn's own default of
# all columns gives bagged trees, not a random forest.
TASKS = {
    task.name: task
    for task in (
        AccuracyTask("ionosphere", "classification", 0.012, "sqrt"),
        AccuracyTask("spambase", "classification", 0.005, "sqrt"),
        AccuracyTask("parkinson", "classification", 0.012, "sqrt"),
        AccuracyTask("waveform", "classification", 0.005, "sqrt"),
        AccuracyTask("superconduct", "regression", 0.01, 1 / 3),
    )
}


class Repetition(NamedTuple):
    """One division of rows and columns; every method gets the same one and the same seed."""

    task: str
    train: dict[str, NDArray[Any]]
    test: dict[str, NDArray[Any]]
    y_train: NDArray[Any]
    y_test: NDArray[Any]
    seed: int


def divide(data: PaperDataSet, settings: Settings, repetition: int) -> Repetition:
    """Hold rows out and deal the columns to two parties, by the seed and the repetition alone."""
    rng = np.random.default_rng((settings.seed, repetition))
    rows_seed, forest_seed = (int(seed) for seed in rng.integers(2**31, size=2))
    halves = np.array_split(rng.permutation(data.X.shape[1]), 2)
    X_train, X_test, y_train, y_test = train_test_split(
        data.X, data.y, test_size=settings.test_share, random_state=rows_seed
    )
    train, test = (
        {party: X[:, half] for party, half in zip(PARTIES, halves, strict=True)}
        for X in (X_train, X_test)
    )
    return Repetition(data.task, train, test, y_train, y_test, forest_seed)


class Estimator(NamedTuple):
    """An estimator still to be built, and how it sees the parties' tables."""

    build: Callable[..., Any]
    view: Callable[[dict[str, NDArray[Any]]], Any]


def pooled(tables: dict[str, NDArray[Any]]) -> NDArray[Any]:
    """Return all columns in one table, which no party may have."""
    return np.hstack(list(tables.values()))


def _estimator(method: str, data: PaperDataSet) -> Estimator | str:
    """Return the estimator of a method; or the reason why it cannot take part."""
    is_class = data.task == "classification"
    if method == "federated":
        name = "VerticalForestClassifier" if is_class else "VerticalForestRegressor"
        return Estimator(getattr(fedforest, name), dict)
    if method == "linear":
        return _linear_estimator(data)
    forest = RandomForestClassifier if is_class else RandomForestRegressor
    if method == "pooled":
        return Estimator(forest, pooled)
    return Estimator(forest, lambda tables: tables[method])


def _linear_estimator(data: PaperDataSet) -> Estimator | str:
    name = "VerticalLinearRegression"
    if data.task == "classification":
        name = "VerticalLogisticRegression"
        if len(np.unique(data.y)) > 2:
            return "it tells two classes apart, here as in the papers"
    build = getattr(fedforest, name, None)
    return Estimator(build, dict) if build else f"this release has no {name}"


def _score(estimator: Estimator, repetition: Repetition, parameters: dict[str, Any]) -> float:
    """Accuracy, or the root of the mean squared error, on the rows held out."""
    model = estimator.build(**parameters)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # a baseline may stop at its limit
        model.fit(estimator.view(repetition.train), repetition.y_train)
    predicted = model.predict(estimator.view(repetition.test))
    if repetition.task == "regression":
        return float(np.sqrt(np.mean((predicted - repetition.y_test) ** 2)))
    return float(np.mean(predicted == repetition.y_test))


class AccuracyExperiment:
    """One run: what it is to do, the record it fills, and the console it talks to."""

    def __init__(self, record: AccuracyRecord, console: Console, *, repetitions: int) -> None:
        self.record = record
        self.console = console
        self.repetitions = repetitions

    def measure(self, task: AccuracyTask, data: PaperDataSet, methods: Sequence[str]) -> None:
        """Score the methods on one data set where a score is missing; keeps each at once."""
        n_rows, n_columns = data.X.shape
        entry = self.record.entry(
            DataSetRecord(
                task.name, task.task, n_rows, n_columns, task.tolerance, task.max_features
            )
        )
        estimators = self._estimators(data, methods)
        missing = {method: self.repetitions - len(entry.scores_of(method)) for method in estimators}
        total = sum(max(0, count) for count in missing.values())
        with progress_bar(self.console) as progress:
            bar = progress.add_task(task.name, total=total)
            for number in range(self.repetitions):
                todo = [name for name in estimators if len(entry.scores_of(name)) == number]
                if not todo:
                    continue
                repetition = divide(data, self.record.settings, number)
                for method in todo:
                    parameters = self._parameters(method, task, repetition.seed)
                    score = _score(estimators[method], repetition, parameters)
                    self.record.add(entry, method, score)
                    progress.advance(bar)
        self.console.print(f"{task.name}: {total} scores added", highlight=False)

    def _estimators(self, data: PaperDataSet, methods: Sequence[str]) -> dict[str, Estimator]:
        found = {}
        for method in methods:
            estimator = _estimator(method, data)
            if isinstance(estimator, str):
                reason = f"{data.name}: {METHODS[method]} is left out, {estimator}"
                self.console.print(reason, highlight=False)
            else:
                found[method] = estimator
        return found

    def _parameters(self, method: str, task: AccuracyTask, seed: int) -> dict[str, Any]:
        """Forests: the same parameters for everybody; what is not named is the default of both."""
        if method == "linear":
            return {}
        return {
            "n_estimators": self.record.settings.n_trees,
            "max_features": task.max_features,
            "random_state": seed,
            "n_jobs": N_THREADS,
        }


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m fedforest.experiments.accuracy",
        description="Federated forest beside the forest on pooled columns. All five data sets "
        "with 40 repetitions take about an hour on two cores.",
    )
    parser.add_argument(
        "--datasets", nargs="+", metavar="NAME", choices=list(TASKS), default=list(TASKS)
    )
    parser.add_argument("--methods", nargs="+", choices=list(METHODS), default=list(METHODS))
    parser.add_argument("--repetitions", type=int, metavar="N", default=40)
    parser.add_argument("--trees", type=int, metavar="N", default=100)
    parser.add_argument("--seed", type=int, metavar="N", default=0)
    return parse_with_folder(parser, arguments)


def run(chosen: argparse.Namespace, console: Console) -> AccuracyRecord:
    """Measure what was chosen, data set by data set."""
    record = AccuracyRecord.open(chosen.output, Settings(chosen.seed, chosen.trees))
    if chosen.again:
        record.forget(chosen.datasets, chosen.methods)
    experiment = AccuracyExperiment(record, console, repetitions=chosen.repetitions)
    for name in chosen.datasets:
        task = TASKS[name]
        experiment.measure(task, read_data_set(name, task.task), chosen.methods)
    return record


def main(arguments: Sequence[str]) -> None:
    chosen = parse(arguments)

    def publish(result: Result) -> None:
        if chosen.output:
            draw(result, chosen.output / "accuracy.png")
            write_page(result, chosen.output / "accuracy.md")

    carry_out("accuracy", lambda console: run(chosen, console).as_result(), find, publish)


if __name__ == "__main__":
    main(sys.argv[1:])

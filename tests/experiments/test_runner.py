"""What is missing is measured, cell by cell, and nothing twice."""

import time
from collections.abc import Iterator
from pathlib import Path

from rich.console import Console

from fedforest.experiments.experiment import Cell, Experiment, Measured, Report, Setting
from fedforest.experiments.figures import new_figure
from fedforest.experiments.runner import measure

QUIET = Console(quiet=True)


def experiment(called: list[tuple[str, int]], repetitions: int = 3) -> Experiment:
    def train(method: str, repetition: int) -> Measured:
        called.append((method, repetition))
        return {"score": float(repetition)}

    def cells(_: Setting) -> Iterator[Cell]:
        for method in ("one", "two"):
            yield Cell("data", method, "", repetitions, lambda n, m=method: train(m, n))  # type: ignore[misc] # mypy knows no type for the default

    return Experiment(
        "trial", "", "", (), cells, lambda _: Report([], []), lambda _: new_figure(1)[0], ""
    )


def test_cells_of_a_group_take_turns_and_begin_in_turn() -> None:
    called: list[tuple[str, int]] = []
    measure(experiment(called), Setting(), None, QUIET)
    assert called == [("one", 0), ("two", 0), ("two", 1), ("one", 1), ("one", 2), ("two", 2)]


def test_a_second_run_measures_what_the_first_did_not(tmp_path: Path) -> None:
    called: list[tuple[str, int]] = []
    measure(experiment(called, 1), Setting(), tmp_path, QUIET)
    called.clear()
    record = measure(experiment(called, 2), Setting(), tmp_path, QUIET)
    assert sorted(called) == [("one", 1), ("two", 1)]
    assert record.values("data", "one").tolist() == [0.0, 1.0]
    called.clear()
    measure(experiment(called, 2), Setting(again=True), tmp_path, QUIET)
    assert len(called) == 4


def test_no_repetition_begins_past_the_deadline() -> None:
    called: list[tuple[str, int]] = []
    measure(experiment(called), Setting(deadline=time.monotonic() - 1.0), None, QUIET)
    assert called == []


def test_repetitions_are_limited_where_the_user_says_so() -> None:
    called: list[tuple[str, int]] = []
    measure(experiment(called), Setting(most_repetitions=2), None, QUIET)
    assert sorted(called) == [("one", 0), ("one", 1), ("two", 0), ("two", 1)]

"""Measures what an experiment still lacks, cell by cell, with a progress bar and time left."""

import time
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from itertools import groupby
from pathlib import Path

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from sklearn.exceptions import ConvergenceWarning

from fedforest.experiments.experiment import Cell, Experiment, Setting
from fedforest.experiments.record import Record


def measure(
    experiment: Experiment, setting: Setting, folder: Path | None, console: Console
) -> Record:
    """Return the record of an experiment after all that lacked was measured."""
    record = Record.open(experiment.name, setting.describe(), folder)
    if setting.again:
        record.forget()
    try:
        with ExitStack() as stack:
            setting.stack, setting.record = stack, record
            cells = _limit(experiment.cells(setting), setting.most_repetitions)
            _measure_missing(cells, record, console, experiment.name, setting.deadline)
    finally:
        record.close()
    return record


def _limit(cells: Iterable[Cell], most: int | None) -> list[Cell]:
    if most is None:
        return list(cells)
    return [cell._replace(repetitions=min(most, cell.repetitions)) for cell in cells]


def _measure_missing(
    cells: Sequence[Cell], record: Record, console: Console, name: str, deadline: float | None
) -> None:
    missing = sum(max(0, cell.repetitions - record.n_repetitions(cell[:3])) for cell in cells)
    with _progress_bar(console) as progress:
        bar = progress.add_task(name, total=missing)
        for cell in _in_turn(cells, record):
            if deadline is not None and time.monotonic() > deadline:
                return
            progress.update(bar, description=f"{name}: {cell.group} {cell.method} {cell.point}")
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)  # baselines may stop early
                measured = cell.measure(record.n_repetitions(cell[:3]))
            record.add(cell[:3], measured)
            progress.advance(bar)


def _in_turn(cells: Sequence[Cell], record: Record) -> Iterator[Cell]:
    """Group by group and repetition by repetition; each repetition begins with another cell."""
    for _, together in groupby(cells, key=lambda cell: cell.group):
        group = list(together)
        for number in range(max(cell.repetitions for cell in group)):
            first = number % len(group)
            for cell in [*group[first:], *group[:first]]:
                if number < cell.repetitions and record.n_repetitions(cell[:3]) == number:
                    yield cell


@contextmanager
def _progress_bar(console: Console) -> Iterator[Progress]:
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("left:"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console) as progress:
        yield progress

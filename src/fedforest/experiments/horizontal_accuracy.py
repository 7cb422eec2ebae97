"""The accuracy of horizontal training: beside pooled rows, under noise, with few parties at a time.

Two parties repeat Table 2 of Federated Extra-Trees: without noise beside scikit-learn, then with
noise along three kinds of epsilon. Ten parties repeat Figure 2 of k-PPD-ERT. What the output folder
holds already is kept, so a run that was stopped goes on.
"""

import argparse
import sys
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from rich.console import Console

from fedforest.experiments.command import carry_out, parse_with_folder, progress_bar
from fedforest.experiments.horizontal_figure import draw
from fedforest.experiments.horizontal_findings import find, write_page
from fedforest.experiments.horizontal_methods import (
    LOCAL,
    QUERY,
    TOTAL,
    ForestSize,
    Method,
    compared_methods,
    noisy_methods,
    participation_methods,
)
from fedforest.experiments.horizontal_record import EXPERIMENT, HorizontalRecord, HorizontalSettings
from fedforest.experiments.horizontal_tasks import (
    PARTICIPATION_TASKS,
    TASKS,
    Deal,
    RowData,
    deal_rows,
    read_rows,
)
from fedforest.experiments.result_file import Result

PARTS = ("comparison", "local", "query", "total", "participation")
NOISES = {noise.name: noise for noise in (LOCAL, QUERY, TOTAL)}
DATA_SETS = tuple(dict.fromkeys((*TASKS, *PARTICIPATION_TASKS)))
PARTICIPATION_REPETITIONS = 30


class Measurement(NamedTuple):
    """Some methods on a data set, how often, and whether their seconds are compared."""

    group: str
    methods: Mapping[str, Method]
    repetitions: int
    is_timed: bool = False


def choose_part(
    name: str, data_set: str, settings: HorizontalSettings, n_jobs: int
) -> Measurement | None:
    """Return the measurement of one of `PARTS` for a data set; None where there is none."""
    if name == "participation":
        if data_set not in PARTICIPATION_TASKS:
            return None
        methods = participation_methods(settings.participation_forest)
        return Measurement("ten_parties", methods, PARTICIPATION_REPETITIONS, is_timed=True)
    if data_set not in TASKS:
        return None
    task = TASKS[data_set]
    if name == "comparison":
        methods = compared_methods(settings.exact_forest, n_jobs)
        return Measurement("two_parties", methods, task.most_repetitions)
    size: ForestSize = getattr(settings, f"{name}_forest")
    if task.is_large and name != "total":
        size = settings.large_forest
    methods = noisy_methods(NOISES[name], size, n_jobs)
    return Measurement("two_parties", methods, task.most_noisy_repetitions)


def warm_up(part: Measurement, deal: Deal) -> None:
    """Let every method train once: kernels are read from disk by whoever needs them first."""
    for method in part.methods.values():
        method(deal)


def begin_with(names: Sequence[str], number: int) -> list[str]:
    """All names in their order, from another one on for every number: nobody is always first."""
    first = number % len(names)
    return [*names[first:], *names[:first]]


class HorizontalExperiment:
    """One run: the record it fills, and the console it talks to."""

    def __init__(self, record: HorizontalRecord, console: Console) -> None:
        self.record = record
        self.console = console

    def measure(
        self, part: Measurement, data: RowData, most_repetitions: int | None = None
    ) -> None:
        """Let the methods of a part measure where something is missing; keeps each at once."""
        repetitions = min(part.repetitions, most_repetitions or part.repetitions)
        entry = self.record.entry(part.group, data)
        dealing = getattr(self.record.settings, part.group)
        missing = [max(0, repetitions - entry.n_repetitions(method)) for method in part.methods]
        is_warm = False
        with progress_bar(self.console) as progress:
            bar = progress.add_task(data.name, total=sum(missing))
            for number in range(repetitions):
                todo = [name for name in part.methods if entry.n_repetitions(name) == number]
                if not todo:
                    continue
                deal = deal_rows(data, dealing, self.record.settings.seed, number)
                if part.is_timed and not is_warm:
                    warm_up(part, deal)
                    is_warm = True
                for name in begin_with(todo, number):
                    self.record.add(entry, name, part.methods[name](deal))
                    progress.advance(bar)
        self.console.print(f"{data.name}: {sum(missing)} measurements added", highlight=False)


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog=f"python -m fedforest.experiments.{EXPERIMENT}",
        description="Accuracy of horizontal training: beside scikit-learn on pooled rows, under "
        "local and global differential privacy, and with a share of the parties at a time.",
    )
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument(
        "--datasets", nargs="+", metavar="NAME", choices=DATA_SETS, default=list(DATA_SETS)
    )
    parser.add_argument(
        "--repetitions", type=int, metavar="N", help="at most so many of each method"
    )
    parser.add_argument("--jobs", type=int, metavar="N", default=2, help="threads of each training")
    parser.add_argument("--seed", type=int, metavar="N", default=0)
    return parse_with_folder(parser, arguments)


def run(chosen: argparse.Namespace, console: Console) -> HorizontalRecord:
    """Measure what was chosen, part by part and data set by data set."""
    record = HorizontalRecord.open(chosen.output, HorizontalSettings(chosen.seed))
    experiment = HorizontalExperiment(record, console)
    for name in chosen.parts:
        for data_set in chosen.datasets:
            part = choose_part(name, data_set, record.settings, chosen.jobs)
            if part is None:
                continue
            if chosen.again:
                record.forget(part.group, [data_set], list(part.methods))
            experiment.measure(part, read_rows(data_set), chosen.repetitions)
    return record


def main(arguments: Sequence[str]) -> None:
    chosen = parse(arguments)

    def publish(result: Result) -> None:
        if chosen.output:
            draw(result, chosen.output)
            write_page(result, chosen.output / f"{EXPERIMENT}.md")

    carry_out(EXPERIMENT, lambda console: run(chosen, console).as_result(), find, publish)


if __name__ == "__main__":
    main(sys.argv[1:])

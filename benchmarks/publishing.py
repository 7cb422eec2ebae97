"""What every run has in common: its options, and what becomes of its result.

A result is said on the terminal, kept as a draft after every task, and published when the run is
whole, or where single tasks are to take the place of published ones.
"""

import argparse
import json
import shutil
import sys
import time
from collections.abc import Callable, Container, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

from rich.console import Console

from benchmarks.report import PAGE, RESULTS, RUNS, write_page
from fedforest.experiments.findings import to_rich

BUSY_LOAD = 0.3

Draw = Callable[[dict[str, Any], Path], None]
_FACTS = ("run", "environment", "settings", "contestants", "absent", "minutes")
_SERIES = ("growth", "prediction", "start_up", "skipped")  # by name


class Benchmark(Protocol):
    """What measures: the result that it fills."""

    result: dict[str, Any]


AnyBenchmark = TypeVar("AnyBenchmark", bound=Benchmark)


class MakeBenchmark(Protocol[AnyBenchmark]):  # type: ignore[misc] # used as a factory only
    """How a run makes its benchmark."""

    def __call__(
        self, console: Console, *, quick: bool, most_repeats: int | None
    ) -> AnyBenchmark: ...


@dataclass(frozen=True)
class Run(Generic[AnyBenchmark]):
    """A script of `make bench`: what it measures, in tasks that can be chosen, and how it looks."""

    description: str
    task_names: Sequence[str]
    make: MakeBenchmark[AnyBenchmark]
    measure: Callable[[AnyBenchmark, Container[str]], Iterator[None]]
    draw: Draw

    def parse(self, arguments: Sequence[str]) -> argparse.Namespace:
        """The options; only a whole run, or an update, replaces the published results."""
        parser = argparse.ArgumentParser(description=self.description)
        _add_options(parser, self.task_names)
        chosen = parser.parse_args(arguments)
        is_full = not (chosen.quick or chosen.repeats)
        is_whole = set(chosen.tasks) == set(self.task_names)
        if chosen.output is None and is_full and (is_whole or chosen.update):
            chosen.output = RESULTS
        return chosen

    def main(self, arguments: Sequence[str]) -> None:
        """Measure what was chosen, show it, and publish it where that was meant."""
        chosen = self.parse(arguments)
        console = open_console()
        benchmark = self.make(console, quick=chosen.quick, most_repeats=chosen.repeats)
        steps = self.measure(benchmark, chosen.tasks)
        carry_out(steps, benchmark.result, console, chosen.output)
        if chosen.output:
            result = benchmark.result
            if chosen.update:
                result = update_published(result, chosen.output)
            publish(result, chosen.output, self.draw)
            console.print("Results written.")


def _add_options(parser: argparse.ArgumentParser, names: Sequence[str]) -> None:
    parser.add_argument("--tasks", nargs="+", metavar="NAME", choices=names, default=list(names))
    parser.add_argument(
        "--update",
        action="store_true",
        help="put these tasks' results in place of the published ones, which say so",
    )
    parser.add_argument(
        "--quick", action="store_true", help="shrink every task: does it work? (a minute or two)"
    )
    parser.add_argument("--repeats", type=int, metavar="N", help="at most so many repeats")
    parser.add_argument(
        "--output",
        type=Path,
        metavar="FOLDER",
        help="where results go; a run of everything goes to benchmarks/results by default, "
        "a partial or quick one is only shown",
    )
    parser.epilog = "Tasks: " + ", ".join(names) + "."


def update_published(result: dict[str, Any], folder: Path) -> dict[str, Any]:
    """The published result with these tasks measured again; it names them, and when that was."""
    published: dict[str, Any] = json.loads((folder / f"{result['run']}.json").read_text())
    measured = {key: value for key, value in result.items() if key not in _FACTS and value}
    tasks: list[str] = []
    for key, value in measured.items():
        if key in _SERIES:
            published[key] = {**published[key], **value}
            tasks += [f"{key} by {name}" for name in value]
        elif isinstance(value, list) and "name" in value[0]:
            again = {task["name"]: task for task in value}
            kept = [task for task in published[key] if task["name"] not in again]
            order = [task["name"] for task in published[key]]
            published[key] = sorted([*kept, *value], key=lambda task: _place(task["name"], order))
            tasks += again
        else:  # one measurement, or a list that is only whole
            published[key] = value
            tasks.append(key)
    facts = result["environment"]
    told = {"tasks": tasks, "commit": facts["commit"], "date": facts["date"]}
    published.setdefault("updates", []).append(told)
    return published


def _place(name: str, order: Sequence[str]) -> int:
    return order.index(name) if name in order else len(order)


def open_console() -> Console:
    # Tables lose columns when a log file of 80 characters is all there is.
    width = shutil.get_terminal_size((160, 24)).columns
    return Console(width=max(width, 160) if not sys.stdout.isatty() else None)


def carry_out(
    steps: Iterator[None], result: dict[str, Any], console: Console, output: Path | None
) -> None:
    """Measure step by step, keeping a draft after each, and show what was found."""
    environment = result["environment"]
    if environment["load_at_start"] > BUSY_LOAD * environment["cores"]:
        console.print(f"This machine is busy (load {environment['load_at_start']}).", style="red")
    started = time.perf_counter()
    for _ in steps:
        result["minutes"] = round((time.perf_counter() - started) / 60, 1)
        if output:
            save_draft(result, output)
    _, find = RUNS[result["run"]]
    for finding in find(result):
        console.print(to_rich(finding))


def save_draft(result: dict[str, Any], folder: Path) -> Path:
    """Write what is known so far beside the result file, so that a broken run can be looked at."""
    folder.mkdir(parents=True, exist_ok=True)
    draft = folder / f"{result['run']}.json.tmp"
    draft.write_text(json.dumps(result, indent=1) + "\n")
    return draft


def publish(result: dict[str, Any], folder: Path, draw: Draw) -> None:
    """Write the result file, the figures and the page; a half-written file never stands there."""
    path = save_draft(result, folder).replace(folder / f"{result['run']}.json")
    draw(result, path.with_suffix(".png"))
    write_page(folder, PAGE if folder == RESULTS else folder / PAGE.name)

"""What every run does with its result: says it on the terminal, keeps it, publishes it."""

import argparse
import json
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from benchmarks.report import PAGE, RESULTS, RUNS, write_page
from fedforest.experiments.findings import to_rich

BUSY_LOAD = 0.3

Draw = Callable[[dict[str, Any], Path], None]


def add_common_options(parser: argparse.ArgumentParser, names: Sequence[str]) -> None:
    """The options that every run has; `names` are its tasks."""
    parser.add_argument("--tasks", nargs="+", metavar="NAME", choices=names, default=list(names))
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


def choose_output(chosen: argparse.Namespace, names: Sequence[str]) -> argparse.Namespace:
    """Only a whole run replaces the published results."""
    is_full = not (chosen.quick or chosen.repeats)
    is_whole = set(chosen.tasks) == set(names) and is_full
    if chosen.output is None and (is_whole or (getattr(chosen, "update", False) and is_full)):
        chosen.output = RESULTS
    return chosen


def update_published(result: dict[str, Any], folder: Path) -> dict[str, Any]:
    """The published result with these tasks measured again; it names them, and when that was."""
    published: dict[str, Any] = json.loads((folder / f"{result['run']}.json").read_text())
    tasks: list[str] = []
    for key, value in result.items():
        if not isinstance(value, list) or not value:
            continue
        again = {task["name"]: task for task in value}
        published[key] = [again.get(task["name"], task) for task in published[key]]
        tasks += again
    facts = result["environment"]
    told = {"tasks": tasks, "commit": facts["commit"], "date": facts["date"]}
    published.setdefault("updates", []).append(told)
    return published


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

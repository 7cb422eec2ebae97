"""The shared parts of experiment commands: options, a progress bar, and how they end."""

import argparse
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from fedforest.errors import FederationError
from fedforest.experiments.findings import Finding, to_rich
from fedforest.experiments.result_file import Result


def parse_with_folder(
    parser: argparse.ArgumentParser, arguments: Sequence[str]
) -> argparse.Namespace:
    """Parse options, among them the folder of results and whether to measure again."""
    parser.add_argument(
        "--again",
        action="store_true",
        help="forget the chosen measurements that the output folder already holds",
    )
    parser.add_argument(
        "--output",
        type=Path,
        metavar="FOLDER",
        help="where measurements, page and figures go, and where those of an earlier run are "
        "found; without it the result is only shown",
    )
    chosen = parser.parse_args(arguments)
    if chosen.repetitions is not None and chosen.repetitions < 2:
        parser.error("--repetitions must be at least 2: an interval needs a spread")
    return chosen


def progress_bar(console: Console) -> Progress:
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    return Progress(*columns, console=console)


def carry_out(
    experiment: str,
    measure: Callable[[Console], Result],
    find: Callable[[Result], Iterable[Finding]],
    publish: Callable[[Result], None],
) -> None:
    """Measure, show what was found, and publish it; an error is told in one line."""
    console = Console(width=160 if not sys.stdout.isatty() else None)
    try:
        result = measure(console)
    except FederationError as error:
        console.print(f"{experiment}: {error}", style="red", highlight=False)
        sys.exit(1)
    for finding in find(result):
        console.print(to_rich(finding))
    publish(result)

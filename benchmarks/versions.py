"""Compares the speed of two checkouts of fedforest on one machine, in turns.

    python benchmarks/versions.py --old PATH --new PATH [--quick] [--tasks NAME ...] [--write FILE]

Each checkout has a process of its own (`version_tasks.py`), and so has the old one a second time:
what the two equal processes differ by is the noise of this machine. For each repeat every process
does the task once, in rotating order. Equal processes can differ for as long as they live, in CPU
by a fifth, so every round of repeats has new ones. A ratio below 1 means that the new one is
faster; "median" is the median over the repeats of new against old in the same repeat, "best" is
the least of all repeats against the least. CPU is over all threads and, with TLS, all roles.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # run as a script

from rich.console import Console
from rich.table import Table

from benchmarks.measure import ROOT, interleave
from benchmarks.version_tasks import TASKS

OLD, NEW, AGAIN = "old", "new", "old again"
ROUNDS, REPEATS, QUICK_REPEATS = 3, 4, 2
ANSWER_SECONDS = 900.0  # the first one compiles kernels

Costs = dict[str, list[float]]  # "wall" and "cpu", one entry for each repeat


class Worker:
    """A process that imports one checkout."""

    def __init__(self, checkout: Path) -> None:
        source = checkout.resolve() / "src"
        if not (source / "fedforest").is_dir():
            raise SystemExit(f"{checkout} is no checkout: it has no src/fedforest")
        self._process = subprocess.Popen(
            [sys.executable, "-P", str(ROOT / "benchmarks" / "version_tasks.py")],
            env={**os.environ, "PYTHONPATH": str(source)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def ask(self, **order: Any) -> dict[str, Any]:
        """The answer to an order; a process that gives none in time is ended."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        watch = threading.Timer(ANSWER_SECONDS, self._process.kill)
        watch.start()
        try:
            self._process.stdin.write(json.dumps(order) + "\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline()
        finally:
            watch.cancel()
        if not line:
            raise RuntimeError(f"the process gave no answer to {order}; see its error above")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self._process.communicate(timeout=ANSWER_SECONDS)  # its input ends, and so does it
        except subprocess.TimeoutExpired:
            self._process.kill()
            raise


def compare(
    checkouts: Mapping[str, Path], task: str, *, rounds: int, repeats: int, quick: bool
) -> dict[str, Any]:
    """Costs of one task by arm, with the commits; or the reason why it cannot be done."""
    commits: dict[str, str] = {}
    costs: dict[str, Costs] = {arm: {"wall": [], "cpu": []} for arm in checkouts}
    for _ in range(rounds):
        with ExitStack() as stack:
            workers = {arm: stack.enter_context(Worker(path)) for arm, path in checkouts.items()}
            for arm, worker in workers.items():
                opened = worker.ask(do="open", task=task, quick=quick)
                if "reason" in opened:
                    return opened
                commits[arm] = opened["commit"]
            for _, arm in interleave(list(workers), repeats):
                for kind, seconds in workers[arm].ask(do="measure", quick=quick).items():
                    costs[arm][kind].append(seconds)
    return {"commits": commits, "costs": costs, "ratios": find_ratios(costs)}


def find_ratios(costs: Mapping[str, Costs]) -> dict[str, dict[str, float]]:
    """Of the new checkout, and of the old one's second process, against the old one."""
    return {
        f"{arm}, {kind}": {
            "median": statistics.median(
                ours / theirs
                for ours, theirs in zip(costs[arm][kind], costs[OLD][kind], strict=True)
            ),
            "best": min(costs[arm][kind]) / min(costs[OLD][kind]),
        }
        for arm in (NEW, AGAIN)
        for kind in ("wall", "cpu")
    }


def make_table(compared: Mapping[str, Mapping[str, Any]]) -> Table:
    """One line for each task."""
    table = Table(title="new / old, and the same for two processes of old")
    for heading in ("task", "old ms", "new ms"):
        table.add_column(heading, justify="left" if heading == "task" else "right")
    for arm in ("new", "noise"):
        for kind in ("wall", "CPU"):
            table.add_column(f"{arm}: {kind} median / best", justify="right")
    for task, result in compared.items():
        if "reason" in result:
            table.add_row(task, result["reason"])
            continue
        best = (min(result["costs"][arm]["wall"]) for arm in (OLD, NEW))
        ratios = (f"{r['median']:.2f} / {r['best']:.2f}" for r in result["ratios"].values())
        table.add_row(task, *(f"{1_000 * seconds:.1f}" for seconds in best), *ratios)
    return table


def main(arguments: Sequence[str]) -> None:
    """Compare, show, and write down what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--old", type=Path, required=True, metavar="PATH")
    parser.add_argument("--new", type=Path, required=True, metavar="PATH")
    parser.add_argument(
        "--quick", action="store_true", help="small tables, one round of two repeats"
    )
    parser.add_argument("--rounds", type=int, metavar="N", help="of new processes")
    parser.add_argument("--repeats", type=int, metavar="N", help="in each round")
    parser.add_argument("--tasks", nargs="+", metavar="NAME", choices=TASKS, default=list(TASKS))
    parser.add_argument(
        "--write", type=Path, metavar="FILE", help="all seconds and ratios, as JSON"
    )
    chosen = parser.parse_args(arguments)
    rounds = chosen.rounds or (1 if chosen.quick else ROUNDS)
    repeats = chosen.repeats or (QUICK_REPEATS if chosen.quick else REPEATS)
    console = Console(width=None if sys.stdout.isatty() else 160)
    checkouts = {OLD: chosen.old, NEW: chosen.new, AGAIN: chosen.old}
    compared: dict[str, Any] = {}
    for task in chosen.tasks:
        with console.status(task):
            compared[task] = compare(
                checkouts, task, rounds=rounds, repeats=repeats, quick=chosen.quick
            )
        if chosen.write is not None:
            result = {"load": os.getloadavg()[0], "quick": chosen.quick, "tasks": compared}
            chosen.write.write_text(json.dumps(result, indent=1) + "\n")
    console.print(make_table(compared))


if __name__ == "__main__":
    main(sys.argv[1:])

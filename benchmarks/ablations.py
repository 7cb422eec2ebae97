"""What each special fast path is worth: the same task with it, without it, and with it again.

    python benchmarks/ablations.py [--tasks NAME ...] [--update] [--quick]

Writes `ablations.json` and RESULTS.md. The ways to switch a path off are in `fast_paths.py`. Every
round has a new process, in which all arms take turns. A path below 5 % on every table goes, or has
its defence on its line; the second arm with everything on shows the noise of the machine.
"""

import statistics
import sys
from collections.abc import Container, Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # run as a script

from rich.console import Console

from benchmarks.fast_paths import AS_IT_IS, N_TREES, TASKS, find_paths
from benchmarks.measure import run_fresh
from benchmarks.publishing import Run
from benchmarks.tasks import SEED
from fedforest.experiments.environment import describe_environment

ROUNDS, REPEATS = 2, 10


class AblationBenchmark:
    """One run: the console it talks to and the result it fills."""

    def __init__(self, console: Console, *, quick: bool, most_repeats: int | None) -> None:
        self._console, self._quick = console, quick
        self._rounds = 1 if quick else ROUNDS
        self._repeats = 1 if quick else (most_repeats or REPEATS)
        self.result: dict[str, Any] = {
            "run": "ablations",
            "environment": describe_environment(),
            "settings": {"seed": SEED, "trees": N_TREES, "quick": quick},
            "tasks": [],
            "skipped": {},
        }

    def measure(self, task: str) -> None:
        """Ratios of every path that the task takes, over some new processes."""
        paths = find_paths(task)
        request = {
            "task": task,
            "paths": list(paths),
            "repeats": self._repeats,
            "quick": self._quick,
        }
        rounds: list[dict[str, dict[str, list[float]]]] = []
        with self._console.status(task):
            for _ in range(self._rounds):
                found = run_fresh("benchmarks.fast_paths", request)
                if "reason" in found:
                    self.result["skipped"][task] = found["reason"]
                    return
                rounds.append(found)
        costs = {
            arm: {kind: [s for each in rounds for s in each[arm][kind]] for kind in ("wall", "cpu")}
            for arm in rounds[0]
        }
        self.result["tasks"].append(
            {
                "name": task,
                "milliseconds": 1_000 * min(costs[AS_IT_IS]["cpu"]),
                "homes": {name: path.home for name, path in paths.items()},
                "ratios": find_ratios(costs),
            }
        )


def find_ratios(costs: dict[str, dict[str, list[float]]]) -> dict[str, dict[str, float]]:
    """Of every other arm against the code as it is: the median over repeats, by kind of cost."""
    return {
        arm: {
            kind: statistics.median(
                off / on for off, on in zip(spent[kind], costs[AS_IT_IS][kind], strict=True)
            )
            for kind in ("cpu", "wall")
        }
        for arm, spent in costs.items()
        if arm != AS_IT_IS
    }


def measure(benchmark: AblationBenchmark, tasks: Container[str]) -> Iterator[None]:
    """One task after the other."""
    for task in TASKS:
        if task in tasks:
            benchmark.measure(task)
            yield


def draw(_result: dict[str, Any], _path: Path) -> None:
    """The table says it all."""


RUN = Run(__doc__.split("\n")[0], TASKS, AblationBenchmark, measure, draw)

if __name__ == "__main__":
    RUN.main(sys.argv[1:])

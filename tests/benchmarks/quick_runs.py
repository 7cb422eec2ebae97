"""Runs of the benchmarks on shrunken tasks, and what is asked of every one of them."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.publishing import Run
from benchmarks.report import RESULTS
from fedforest.experiments.findings import MISSED, NOT_JUDGED, REACHED, Finding

ROOT = Path(__file__).parents[2]
OPTIONAL = ("xgboost", "lightgbm")
SECONDS = 900  # an empty kernel cache is filled first, by each process of a federation


class QuickRun(NamedTuple):
    """What a script showed, and where it wrote."""

    name: str
    shown: str
    output: Path

    def load(self) -> dict[str, Any]:
        """Its result file."""
        loaded: dict[str, Any] = json.loads((self.output / f"{self.name}.json").read_text())
        return loaded


def run_script(
    name: str, folder: Path, arguments: Sequence[str]
) -> subprocess.CompletedProcess[str]:
    """Run a script where neither XGBoost nor LightGBM can be imported."""
    hidden = folder / "hidden"
    hidden.mkdir()
    for library in OPTIONAL:
        (hidden / f"{library}.py").write_text("raise ImportError")
    search = [str(hidden), os.environ.get("PYTHONPATH", "")]
    return subprocess.run(
        [sys.executable, str(ROOT / "benchmarks" / "runs" / f"{name}.py"), *arguments],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, search))},
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )


def run_quick(name: str, folder: Path, tasks: Sequence[str]) -> QuickRun:
    """Run some tasks of a script, shrunken."""
    output = folder / "results"
    outcome = run_script(name, folder, ["--quick", "--tasks", *tasks, "--output", str(output)])
    assert outcome.returncode == 0, outcome.stderr
    return QuickRun(name, outcome.stdout, output)


def check_that_only_full_runs_judge(
    result: dict[str, Any], find: Callable[[dict[str, Any]], list[Finding]]
) -> None:
    """A quick run judges no target and a full one every target."""

    def words() -> set[str]:
        return {cell for finding in find(result) for row in finding.rows for cell in row}

    assert NOT_JUDGED in words()
    assert words().isdisjoint({REACHED, MISSED})
    result["settings"]["quick"] = False
    assert NOT_JUDGED not in words()
    assert words() & {REACHED, MISSED}


def check_page(run: QuickRun, figures: Sequence[str]) -> None:
    """The page shows the figures, and nothing that was written names a path of this machine."""
    page = (run.output / "RESULTS.md").read_text()
    for name in figures:
        assert f"({name})" in page
        assert (run.output / name).read_bytes().startswith(b"\x89PNG")
    for text in (run.shown, page, (run.output / f"{run.name}.json").read_text()):
        assert str(ROOT) not in text
        assert str(run.output) not in text


def check_what_replaces_published_results(run: Run[Any], task: str) -> None:
    """Only a whole run does, or one that says so."""
    assert run.parse([]).output == RESULTS
    assert run.parse(["--tasks", task, "--update"]).output == RESULTS
    for partial in (["--quick"], ["--repeats", "1"], ["--tasks", task], ["--quick", "--update"]):
        assert run.parse(partial).output is None

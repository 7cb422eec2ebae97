"""The JSON file that keeps what an experiment measured, and which run added what.

A later run goes on from it. The file is replaced as a whole: a run that is stopped leaves one that
can be read.
"""

import json
import re
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from fedforest.errors import DataError
from fedforest.experiments.environment import describe_environment, tell_environment

Result = dict[str, Any]

_LIST_OF_NUMBERS = re.compile(r"\[[^][{}]*\]")
_LINE_BREAK = re.compile(r"\n *")


class ResultFile(NamedTuple):
    """The file of an experiment's results; `called` is how errors name the experiment."""

    experiment: str
    called: str

    @property
    def name(self) -> str:
        return f"{self.experiment}.json"

    def read(self, path: Path) -> Result:
        """Return the content of a result file; raises `DataError` where it is none."""
        try:
            result: Result = json.loads(path.read_text())
        except json.JSONDecodeError as error:
            raise DataError(
                f"{path.name} is not valid JSON; remove it or choose another folder."
            ) from error
        if result.get("experiment") != self.experiment:
            raise DataError(f"{path.name} holds no result of {self.called}.")
        return result

    def find(self, folder: Path | None) -> Result | None:
        """Read the results of an earlier run from a folder, if there are any."""
        path = folder / self.name if folder else None
        return self.read(path) if path is not None and path.exists() else None

    def write(self, folder: Path, result: Result) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        draft = folder / f"{self.name}.tmp"
        draft.write_text(_to_text(result))
        draft.replace(folder / self.name)


def _to_text(result: Result) -> str:
    """JSON with lists of numbers on a line each; texts have no line breaks that could be lost."""
    text = json.dumps(result, indent=1)
    return _LIST_OF_NUMBERS.sub(lambda numbers: _LINE_BREAK.sub(" ", numbers[0]), text) + "\n"


@dataclass(slots=True)
class RunNotes:
    """For each run that added something its machine, versions and duration."""

    runs: list[dict[str, Any]] = field(default_factory=list)
    _ours: dict[str, Any] | None = None
    _started: float = field(default_factory=time.perf_counter)

    def added(self) -> dict[str, Any]:
        """Return this run's own results, to be extended; it has taken until now."""
        if self._ours is None:
            self._ours = {"environment": describe_environment(), "added": {}}
            self.runs.append(self._ours)
        self._ours["minutes"] = round((time.perf_counter() - self._started) / 60, 1)
        added: dict[str, Any] = self._ours["added"]
        return added


def tell_runs(result: Result, tell_added: Callable[[dict[str, Any]], str]) -> str:
    """Return the last section of a page: which run added what, where and for how long."""
    lines = ["### Runs", ""]
    for run in result["runs"]:
        facts = run["environment"]
        machine, versions = tell_environment(facts)
        lines.append(
            f"- Commit `{facts['commit']}`, {facts['date']}, {run['minutes']} minutes. "
            f"{machine}. {versions}. {tell_added(run['added'])}."
        )
    return "\n".join(lines)

"""The scores of the accuracy experiment: a JSON file that a later run goes on from.

A method's scores are a list by repetition, so equal places of two lists belong to the same rows and
columns. A file made with other settings is refused: its scores could not be compared.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from fedforest.errors import ConfigurationError
from fedforest.experiments.result_file import ResultFile, RunNotes

FILE = ResultFile("accuracy", "the accuracy experiment")


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings under which scores are comparable."""

    seed: int = 0
    n_trees: int = 100
    test_share: float = 0.2


@dataclass(slots=True)
class DataSetRecord:
    """A data set and the scores of every method on it, by repetition."""

    name: str
    task: str
    n_rows: int
    n_columns: int
    tolerance: float
    max_features: str | float
    scores: dict[str, list[float]] = field(default_factory=dict)

    def scores_of(self, method: str) -> list[float]:
        return self.scores.setdefault(method, [])

    def paired(self, *methods: str) -> list[NDArray[np.float64]]:
        """Return the scores of some methods over the repetitions that all of them have."""
        n = min(len(self.scores.get(method, ())) for method in methods)
        return [np.array(self.scores[method][:n]) if n else np.zeros(0) for method in methods]

    @property
    def measure(self) -> str:
        return "RMSE" if self.task == "regression" else "accuracy"


@dataclass(slots=True)
class AccuracyRecord:
    """All scores, and for each run that added some its machine, versions and duration."""

    settings: Settings
    folder: Path | None = None
    data_sets: dict[str, DataSetRecord] = field(default_factory=dict)
    notes: RunNotes = field(default_factory=RunNotes)

    @classmethod
    def open(cls, folder: Path | None, settings: Settings) -> Self:
        """Return the record in the folder, else a new one; without a folder nothing is kept."""
        result = FILE.find(folder)
        if result is None:
            return cls(settings, folder)
        if result["settings"] != asdict(settings):
            raise ConfigurationError(
                f"{FILE.name} in the output folder was made with other settings "
                f"({result['settings']}); choose the same settings or another folder."
            )
        data_sets = {name: DataSetRecord(**entry) for name, entry in result["data_sets"].items()}
        return cls(settings, folder, data_sets, RunNotes(result["runs"]))

    def entry(self, fresh: DataSetRecord) -> DataSetRecord:
        """Return the record of a data set; refuse one that has changed since."""
        known = self.data_sets.setdefault(fresh.name, fresh)
        if asdict(known) | {"scores": {}} != asdict(fresh) | {"scores": {}}:
            raise ConfigurationError(
                f"{FILE.name} in the output folder holds scores of another {fresh.name!r} (its "
                "size, tolerance or max_features differ); choose another folder."
            )
        return known

    def forget(self, data_sets: Sequence[str], methods: Sequence[str]) -> None:
        """Drop the scores of these methods on these data sets."""
        for name in data_sets:
            for method in methods:
                if name in self.data_sets:
                    self.data_sets[name].scores.pop(method, None)

    def add(self, entry: DataSetRecord, method: str, score: float) -> None:
        """Keep a score, on disk too: a run that is stopped loses one at most."""
        entry.scores_of(method).append(score)
        methods = self.notes.added().setdefault(entry.name, [])
        if method not in methods:
            methods.append(method)
        if self.folder is not None:
            FILE.write(self.folder, self.as_result())

    def as_result(self) -> dict[str, Any]:
        """Everything, as it stands in the file."""
        return {
            "experiment": FILE.experiment,
            "settings": asdict(self.settings),
            "runs": self.notes.runs,
            "data_sets": {name: asdict(entry) for name, entry in self.data_sets.items()},
        }

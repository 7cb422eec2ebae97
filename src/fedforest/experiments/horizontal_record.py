"""The measurements of the horizontal experiments: a JSON file that a later run continues.

A method's measurements are lists by repetition, so equal places of two lists belong to the same
rows. A file made with other settings is refused: its measurements could not be compared.

The file has a list for each quantity, in eight digits, of which pages tell half:

    "local 1": {"score": [0.54575, ...], "wall": [2.0, ...], ...}
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from fedforest.errors import ConfigurationError
from fedforest.experiments.horizontal_methods import ForestSize, Measured
from fedforest.experiments.horizontal_tasks import TEN_PARTIES, TWO_PARTIES, Dealing, RowData
from fedforest.experiments.result_file import ResultFile, RunNotes

EXPERIMENT = "horizontal_accuracy"
FILE = ResultFile(EXPERIMENT, "the horizontal experiments")
GROUPS = ("two_parties", "ten_parties")
SIGNIFICANT_DIGITS = 8


GROWN_OUT = ForestSize(100)
# Section 4.3 of Federated Extra-Trees has 20 trees of depth 20; Laplace noise swallows tiny leaves.
PAPERS_SIZE = ForestSize(20, max_depth=20, min_samples_leaf=5)
# One budget for all queries: few of them.
FEW_QUERIES = ForestSize(10, max_depth=5, min_samples_leaf=5)
LIMITED = ForestSize(20, max_depth=10, min_samples_leaf=20)
# Section 4 of k-PPD-ERT: 25 trees by information gain.
INFORMATION_GAIN = ForestSize(25, criterion="entropy")


@dataclass(frozen=True, slots=True)
class HorizontalSettings:
    """The settings of measurements; `large_forest` is for noise on large data."""

    seed: int = 0
    two_parties: Dealing = TWO_PARTIES
    ten_parties: Dealing = TEN_PARTIES
    exact_forest: ForestSize = GROWN_OUT
    local_forest: ForestSize = GROWN_OUT
    query_forest: ForestSize = PAPERS_SIZE
    total_forest: ForestSize = FEW_QUERIES
    large_forest: ForestSize = LIMITED
    participation_forest: ForestSize = INFORMATION_GAIN


@dataclass(slots=True)
class HorizontalDataSetRecord:
    """A data set and what every method measured on it, by repetition."""

    name: str
    n_rows: int
    n_columns: int
    n_classes: int
    measured: dict[str, list[Measured]] = field(default_factory=dict)

    @classmethod
    def of(cls, data: RowData) -> "HorizontalDataSetRecord":
        """Return a data set on which nothing was measured yet."""
        return cls(data.name, *data.shape, len(np.unique(data.y)))

    @classmethod
    def read(cls, stored: dict[str, Any]) -> "HorizontalDataSetRecord":
        """Read the entry of a data set from a file."""
        measured = {name: _read_columns(each) for name, each in stored["measured"].items()}
        return cls(**{**stored, "measured": measured})

    def store(self) -> dict[str, Any]:
        """Return the entry as it stands in a file."""
        return asdict(self) | {
            "measured": {name: _to_columns(each) for name, each in self.measured.items()}
        }

    def n_repetitions(self, *methods: str) -> int:
        """Count the repetitions that all of these methods have."""
        return min(len(self.measured.get(method, ())) for method in methods)

    def paired(self, *methods: str, quantity: str = "score") -> list[NDArray[np.float64]]:
        """Return a quantity of some methods over the repetitions that all of them have."""
        n = self.n_repetitions(*methods)
        return [
            np.array([measured[quantity] for measured in self.measured.get(method, ())[:n]])
            for method in methods
        ]


@dataclass(slots=True)
class HorizontalRecord:
    """All measurements, and for each run that added some its machine, versions and duration."""

    settings: HorizontalSettings
    folder: Path | None = None
    groups: dict[str, dict[str, HorizontalDataSetRecord]] = field(
        default_factory=lambda: {group: {} for group in GROUPS}
    )
    notes: RunNotes = field(default_factory=RunNotes)

    @classmethod
    def open(cls, folder: Path | None, settings: HorizontalSettings) -> Self:
        """Return the record in the folder, else a new one; without a folder nothing is kept."""
        result = FILE.find(folder)
        if result is None:
            return cls(settings, folder)
        if result["settings"] != asdict(settings):
            raise ConfigurationError(
                f"{FILE.name} in the output folder was made with other settings; choose the same "
                "settings or another folder."
            )
        return cls(settings, folder, read_groups(result), RunNotes(result["runs"]))

    def entry(self, group: str, data: RowData) -> HorizontalDataSetRecord:
        """Return the record of a data set; refuse one that has changed since."""
        fresh = HorizontalDataSetRecord.of(data)
        known = self.groups[group].setdefault(data.name, fresh)
        if asdict(known) | {"measured": {}} != asdict(fresh):
            raise ConfigurationError(
                f"{FILE.name} in the output folder holds measurements of another {data.name!r} "
                "(its size differs); choose another folder."
            )
        return known

    def forget(self, group: str, data_sets: Sequence[str], methods: Sequence[str]) -> None:
        """Drop what these methods measured on these data sets."""
        for name in data_sets:
            for method in methods:
                if name in self.groups[group]:
                    self.groups[group][name].measured.pop(method, None)

    def add(self, entry: HorizontalDataSetRecord, method: str, measured: Measured) -> None:
        """Keep a measurement, on disk too: a run that is stopped loses one at most."""
        entry.measured.setdefault(method, []).append(measured)
        added = self.notes.added()
        added[entry.name] = added.get(entry.name, 0) + 1
        if self.folder is not None:
            FILE.write(self.folder, self.as_result())

    def as_result(self) -> dict[str, Any]:
        """Everything, as it stands in the file."""
        return {
            "experiment": EXPERIMENT,
            "settings": asdict(self.settings),
            "runs": self.notes.runs,
            "groups": {
                group: {name: entry.store() for name, entry in entries.items()}
                for group, entries in self.groups.items()
            },
        }


def read_groups(result: dict[str, Any]) -> dict[str, dict[str, HorizontalDataSetRecord]]:
    """Return the data sets of a result, by group and name."""
    return {
        group: {name: HorizontalDataSetRecord.read(entry) for name, entry in entries.items()}
        for group, entries in result["groups"].items()
    }


def _to_columns(measured: list[Measured]) -> dict[str, list[float | None]]:
    """Return a list for each quantity, None where a repetition has none."""
    names = dict.fromkeys(name for each in measured for name in each)
    return {name: [_shorten(each.get(name)) for each in measured] for name in names}


def _read_columns(columns: dict[str, list[float | None]]) -> list[Measured]:
    """Read the measurements of each repetition."""
    return [
        {name: value for name, value in zip(columns, values, strict=True) if value is not None}
        for values in zip(*columns.values(), strict=True)
    ]


def _shorten(value: float | None) -> float | None:
    """Whole numbers as they are, others with `SIGNIFICANT_DIGITS`."""
    if value is None or float(value).is_integer():
        return value if value is None else int(value)
    return float(f"{value:.{SIGNIFICANT_DIGITS}g}")

"""The repetitions of an experiment, kept as they come, and the run that added each of them.

While an experiment runs, every repetition is a line of `NAME.partial.jsonl`: a run that is stopped
loses none that ended. `close` folds the lines into `NAME.raw.json.gz`, a list for each quantity:

    {"spambase | FF | ": {"score": [0.9283, ...], "wall": [1.2, ...]}}
"""

import gzip
import json
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from fedforest.errors import ConfigurationError, DataError
from fedforest.experiments.environment import describe_environment

SIGNIFICANT_DIGITS = 8
_SEPARATOR = " | "

Key = tuple[str, str, str]  # group, method, point
Columns = dict[str, list[float | None]]


@dataclass(slots=True)
class Record:
    """All measurements of an experiment, by key and repetition."""

    name: str
    settings: dict[str, Any]
    folder: Path | None = None
    runs: list[dict[str, Any]] = field(default_factory=list)
    measured: dict[Key, list[Mapping[str, float]]] = field(default_factory=dict)
    _ours: dict[str, Any] | None = None
    _started: float = field(default_factory=time.perf_counter)

    @classmethod
    def open(cls, name: str, settings: dict[str, Any], folder: Path | None) -> Self:
        """Return what the folder holds, else an empty record; without a folder nothing is kept."""
        record = cls(name, settings, folder)
        if folder is not None:
            if record._raw.exists():
                record._take(_read_raw(record._raw))
            if record._partial.exists():
                record._take_partial()
        return record

    @property
    def _raw(self) -> Path:
        assert self.folder is not None
        return self.folder / f"{self.name}.raw.json.gz"

    @property
    def _partial(self) -> Path:
        assert self.folder is not None
        return self.folder / f"{self.name}.partial.jsonl"

    def n_repetitions(self, *keys: Key) -> int:
        """Count the repetitions that all of these keys have."""
        return min((len(self.measured.get(key, ())) for key in keys), default=0)

    def groups(self) -> list[str]:
        """Return the groups on which something was measured, in their order."""
        return list(dict.fromkeys(key[0] for key in self.measured))

    def points(self, group: str, method: str) -> list[str]:
        """Return the points of a method's curve, in their order."""
        return [key[2] for key in self.measured if key[:2] == (group, method)]

    def values(
        self, group: str, method: str, point: str = "", quantity: str = "score"
    ) -> NDArray[np.float64]:
        """Return a quantity by repetition; empty where nothing was measured."""
        measured = self.measured.get((group, method, point), ())
        return np.array([each[quantity] for each in measured if quantity in each])

    def paired(self, *keys: Key, quantity: str = "score") -> list[NDArray[np.float64]]:
        """Return a quantity of some keys over the repetitions that all of them have."""
        all_values = [self.values(*key, quantity=quantity) for key in keys]
        n = min(map(len, all_values), default=0)
        return [values[:n] for values in all_values]

    def add(self, key: Key, measured: Mapping[str, float]) -> None:
        """Keep the next repetition of a key, on disk too."""
        shortened = {name: _shorten(value) for name, value in measured.items()}
        self.measured.setdefault(key, []).append(shortened)
        is_first = self._ours is None
        added = self._note_run()["added"]
        added[key[0]] = added.get(key[0], 0) + 1
        if self.folder is not None:
            self.folder.mkdir(parents=True, exist_ok=True)
            with self._partial.open("a") as file:
                if is_first:
                    head = {"settings": self.settings, "environment": self.runs[-1]["environment"]}
                    file.write(json.dumps(head) + "\n")
                file.write(json.dumps({"key": _SEPARATOR.join(key), **shortened}) + "\n")

    def forget(self) -> None:
        """Drop everything that was measured, on disk too."""
        self.runs.clear()
        self.measured.clear()
        if self.folder is not None:
            self._raw.unlink(missing_ok=True)
            self._partial.unlink(missing_ok=True)

    def close(self) -> None:
        """Fold what was added into the compressed file."""
        if self.folder is None or not self.measured:
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        content = {
            "experiment": self.name,
            "settings": self.settings,
            "runs": self.runs,
            "measured": {_SEPARATOR.join(k): _to_columns(v) for k, v in self.measured.items()},
        }
        draft = self._raw.with_suffix(".tmp")
        draft.write_bytes(gzip.compress(json.dumps(content).encode(), mtime=0))
        draft.replace(self._raw)
        self._partial.unlink(missing_ok=True)

    def _note_run(self) -> dict[str, Any]:
        if self._ours is None:
            self._ours = {"environment": describe_environment(), "added": {}}
            self.runs.append(self._ours)
        self._ours["minutes"] = round((time.perf_counter() - self._started) / 60, 1)
        return self._ours

    def _check(self, settings: Any, path: Path) -> None:
        if settings != self.settings:
            raise ConfigurationError(
                f"{path.name} was made with other settings ({settings}); choose another output "
                "folder, or measure again with --again."
            )

    def _take(self, content: dict[str, Any]) -> None:
        self._check(content["settings"], self._raw)
        self.runs = content["runs"]
        self.measured = {
            _read_key(key): _read_columns(each) for key, each in content["measured"].items()
        }

    def _take_partial(self) -> None:
        """Read what a run that was stopped has left; its last line may be torn."""
        for line in self._partial.read_text().splitlines():
            try:
                entry = json.loads(line)
            except json.JSONDecodeError:
                continue
            if "key" not in entry:
                self._check(entry["settings"], self._partial)
                run = {"environment": entry["environment"], "added": {}, "minutes": 0.0}
                self.runs.append(run)
                continue
            key = _read_key(entry.pop("key"))
            self.measured.setdefault(key, []).append(entry)
            added = self.runs[-1]["added"]
            added[key[0]] = added.get(key[0], 0) + 1


def _read_raw(path: Path) -> dict[str, Any]:
    try:
        content: dict[str, Any] = json.loads(gzip.decompress(path.read_bytes()))
        assert content.keys() >= {"settings", "runs", "measured"}
    except (OSError, EOFError, ValueError, AssertionError) as error:
        raise DataError(
            f"{path.name} holds no repetitions; remove it or choose another folder."
        ) from error
    return content


def _read_key(text: str) -> Key:
    group, method, point = text.split(_SEPARATOR)
    return group, method, point


def _to_columns(measured: Iterable[Mapping[str, float]]) -> Columns:
    """Return a list for each quantity, None where a repetition has none."""
    rows = list(measured)
    names = dict.fromkeys(name for row in rows for name in row)
    return {name: [row.get(name) for row in rows] for name in names}


def _read_columns(columns: Columns) -> list[Mapping[str, float]]:
    return [
        {name: value for name, value in zip(columns, values, strict=True) if value is not None}
        for values in zip(*columns.values(), strict=True)
    ]


def _shorten(value: float) -> float:
    """Whole numbers as they are, others with `SIGNIFICANT_DIGITS`."""
    number = float(value)
    return int(number) if number.is_integer() else float(f"{number:.{SIGNIFICANT_DIGITS}g}")

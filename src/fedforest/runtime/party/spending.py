"""What a party has spent so far, in its folder: epsilon of labels, rows of predictions.

    budgets/NAME.json      one ledger for each data set, on the disk before labels leave
    prediction_rows.json   rows predicted today for each asker

A ledger is never shortened: a run that is later refused or cancelled keeps its spends. Predicted
rows are counted by the day in UTC and survive the process, but are not synced to disk: after a
power failure the count may be too low.
"""

import math
import os
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from fedforest.errors import DataError, StorageError
from fedforest.privacy.budget import BudgetLedger
from fedforest.privacy.composition import PrivacySpending
from fedforest.runtime.party.approval import refusal
from fedforest.runtime.party.policy import DataSetRules, PolicyFile
from fedforest.runtime.recovery.run_store import write_file


class Budgets:
    """The privacy ledgers of a party's data sets."""

    def __init__(self, home: Path) -> None:
        self._folder = home / "budgets"

    def read(self, data: str, ceiling: float) -> BudgetLedger:
        """Read the ledger of a data set, with the present ceiling."""
        path = self._path(data)
        if not path.exists():
            return BudgetLedger(ceiling)
        limit = None if ceiling == float("inf") else ceiling
        try:
            stored = msgspec.json.decode(path.read_bytes(), type=dict)
        except (OSError, msgspec.DecodeError):
            raise StorageError(
                f"the privacy ledger {path} cannot be read; restore a copy"
            ) from None
        return BudgetLedger.from_dict({**stored, "ceiling": limit})

    def data_of(self, run: str) -> list[str]:
        """List the data sets whose budget a run was charged to."""
        names = sorted(path.stem for path in self._folder.glob("*.json"))
        ledgers = {name: self.read(name, math.inf) for name in names}
        return [name for name in names if run in {spend.run for spend in ledgers[name].spends}]

    def book(self, data: str, ceiling: float, run: str, spending: PrivacySpending) -> None:
        """Charge a run; on disk when this returns; raises `BudgetExhausted`."""
        ledger = self.read(data, ceiling)
        before = ledger.spends
        ledger.reserve(run, spending)
        if ledger.spends != before:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            write_file(self._path(data), msgspec.json.encode(ledger.as_dict()))

    def _path(self, data: str) -> Path:
        if "/" in data or data.startswith("."):
            raise DataError.of("data_set.unknown", data_set=data)
        return self._folder / f"{data}.json"


def tell_epsilon(home: Path, run: str) -> dict[str, dict[str, float | None]]:
    """Return epsilon spent and left for each data set of a run; None stands for no limit."""
    budgets, policy = Budgets(home), PolicyFile(home)
    told = {}
    for data in budgets.data_of(run):
        ledger = budgets.read(data, policy.rules(data).epsilon_ceiling)
        figures = {"spent": ledger.spent, "left": ledger.remaining}
        told[data] = {name: x if math.isfinite(x) else None for name, x in figures.items()}
    return told


class _Counted(msgspec.Struct):
    """Rows of one day."""

    day: str = ""
    rows: dict[str, int] = {}


def today() -> str:
    """Return the day in UTC."""
    return datetime.now(UTC).date().isoformat()


class PredictionQuota:
    """Rows that each asker had predicted today."""

    def __init__(self, home: Path, day: Callable[[], str] = today) -> None:
        self._path = home / "prediction_rows.json"
        self._day = day

    def count(self, asker: str) -> int:
        """Count the rows of this asker so far today."""
        return self._load().rows.get(asker, 0)

    def take(self, rules: DataSetRules, asker: str, n_rows: int) -> None:
        """Count the rows of a new prediction, or refuse it."""
        counted = self._load()
        after = counted.rows.get(asker, 0) + n_rows
        if after > rules.prediction_rows_per_day:
            limit = f"{rules.prediction_rows_per_day:,}"
            raise refusal("quota", "prediction", limit=limit, asker=asker, rows=after)
        counted.rows[asker] = after
        self._save(counted)

    def _load(self) -> _Counted:
        try:
            counted = msgspec.json.decode(self._path.read_bytes(), type=_Counted)
        except FileNotFoundError:
            return _Counted(self._day())
        except (OSError, msgspec.DecodeError):
            raise StorageError(f"{self._path} cannot be read; restore or remove it") from None
        return counted if counted.day == self._day() else _Counted(self._day())

    def _save(self, counted: _Counted) -> None:
        draft = self._path.with_suffix(".draft")
        try:
            file = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            with os.fdopen(file, "wb") as stream:
                stream.write(msgspec.json.encode(counted))
            draft.replace(self._path)
        except OSError as error:
            raise StorageError(f"{self._path} cannot be written: {error.strerror}") from error

"""The record of a party's spending, in its folder: epsilon of labels, rows of predictions.

    budgets/*.json         one ledger for each table, on the disk before labels leave
    prediction_rows.json   rows predicted today for each asker
    alignments_begun.json  alignments that began today, by asker and data set

A ledger is never shortened: a run that is later refused or cancelled keeps its spends. Predicted
rows and alignments are counted by the day in UTC and survive the process, but are not synced to
disk: after a power failure the count may be too low.
"""

import math
import os
from collections.abc import Callable
from datetime import UTC, datetime
from hashlib import blake2b
from pathlib import Path

import msgspec

from fedforest.errors import StorageError
from fedforest.privacy.budget import BudgetLedger
from fedforest.privacy.composition import PrivacySpending
from fedforest.runtime.party.approval import refusal
from fedforest.runtime.party.catalogue.entries import EntryFolder
from fedforest.runtime.party.catalogue.tables import find_table, list_sharing
from fedforest.runtime.party.policy import DataSetRules, Policy, PolicyFile
from fedforest.runtime.recovery.run_store import write_file


class _StoredLedger(msgspec.Struct, frozen=True):
    """A ledger file."""

    table: str
    data_sets: list[str]  # all through which the table was used
    spends: list[dict[str, str | float | None]]
    ceiling: float | None


class Budgets:
    """The privacy ledgers of a party's tables.

    A ledger counts for a data set if it is of the data set's table, or was charged through one of
    the data sets that read this table now: a table that moves takes its ledger along.
    """

    def __init__(self, home: Path) -> None:
        self._folder = home / "budgets"
        self._entries = EntryFolder(home)

    def sharing(self, data: str) -> list[str]:
        """List the data sets that share the ledger of this one, itself among them."""
        return list_sharing(self._entries, data)

    def ceiling(self, data: str, policy: Policy) -> float:
        """Return the lowest ceiling of all data sets that share the ledger."""
        return min(policy.rules(name).epsilon_ceiling for name in self.sharing(data))

    def label_columns(self, data: str, policy: Policy) -> tuple[str, ...] | None:
        """Return the label columns that the data sets of this table declare; None if none does."""
        declared = [policy.rules(name).label_columns for name in self.sharing(data)]
        known = [names for names in declared if names is not None]
        return tuple(sorted({name for names in known for name in names})) if known else None

    def read(self, data: str, ceiling: float) -> BudgetLedger:
        """Read the ledger of a data set's table, with the present ceiling."""
        return _merge(self._counted(data), ceiling)

    def data_of(self, run: str) -> list[str]:
        """List the data sets of the tables whose budget a run was charged to."""
        return sorted(
            {
                name
                for ledger in self._load_all()
                if run in {spend.get("run") for spend in ledger.spends}
                for name in ledger.data_sets
            }
        )

    def book(self, data: str, ceiling: float, run: str, spending: PrivacySpending) -> None:
        """Charge a run; on disk when this returns; raises `BudgetExhausted`."""
        counted = self._counted(data)
        ledger = _merge(counted, ceiling)
        before = ledger.spends
        ledger.reserve(run, spending)
        if ledger.spends == before:
            return
        used = {data, *(name for each in counted for name in each.data_sets)}
        table = find_table(self._entries, data)
        stored = {"table": table, "data_sets": sorted(used), **ledger.as_dict()}
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        name = blake2b(table.encode(), digest_size=16).hexdigest()
        write_file(self._folder / f"{name}.json", msgspec.json.encode(stored))

    def _counted(self, data: str) -> list[_StoredLedger]:
        """Return the ledgers that count for a data set, the one of its table first."""
        table, names = find_table(self._entries, data), set(self.sharing(data))
        ledgers = self._load_all()
        own = [ledger for ledger in ledgers if ledger.table == table]
        return own + [
            ledger
            for ledger in ledgers
            if ledger.table != table and not names.isdisjoint(ledger.data_sets)
        ]

    def _load_all(self) -> list[_StoredLedger]:
        return [_load(path) for path in sorted(self._folder.glob("*.json"))]


def _load(path: Path) -> _StoredLedger:
    try:
        return msgspec.json.decode(path.read_bytes(), type=_StoredLedger)
    except (OSError, msgspec.DecodeError):
        raise StorageError(f"the privacy ledger {path} cannot be read; restore a copy") from None


def _merge(ledgers: list[_StoredLedger], ceiling: float) -> BudgetLedger:
    """Put the spends of ledgers together; a run that several of them hold was charged once."""
    lines = {line.get("run"): line for ledger in reversed(ledgers) for line in ledger.spends}
    limit = None if ceiling == math.inf else ceiling
    return BudgetLedger.from_dict({"spends": list(lines.values()), "ceiling": limit})


def tell_epsilon(home: Path, run: str) -> dict[str, dict[str, float | None]]:
    """Return epsilon spent and left for the data sets of a run's tables; None without a limit."""
    budgets, policy = Budgets(home), PolicyFile(home)
    told = {}
    for data in budgets.data_of(run):
        ledger = budgets.read(data, budgets.ceiling(data, policy))
        figures = {"spent": ledger.spent, "left": max(0.0, ledger.remaining)}
        told[data] = {name: x if math.isfinite(x) else None for name, x in figures.items()}
    return told


MOST_ASKERS = 1000  # counted by name in a day; further ones share one count
_FURTHER = ""
_BETWEEN = "/"  # an asker and a data set, whose names have none


class _Counted(msgspec.Struct):
    """The counts of one day, by key."""

    day: str = ""
    counts: dict[str, int] = {}


def today() -> str:
    """Return the day in UTC."""
    return datetime.now(UTC).date().isoformat()


class DailyCounts:
    """Counts by key that begin anew every day; they survive the process."""

    def __init__(self, path: Path, day: Callable[[], str] = today) -> None:
        self._path = path
        self._day = day

    def count(self, key: str) -> int:
        """Return the count of a key so far today."""
        return self._load().counts.get(key, 0)

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
            raise StorageError.of_write(self._path, error) from error


class PredictionQuota(DailyCounts):
    """Rows that each asker had predicted today, of all data sets of the party."""

    def __init__(self, home: Path, day: Callable[[], str] = today) -> None:
        super().__init__(home / "prediction_rows.json", day)

    def take(self, rules: DataSetRules, asker: str, n_rows: int) -> None:
        """Count the rows of a new prediction, or refuse it."""
        counted = self._load()
        if asker not in counted.counts and len(counted.counts) >= MOST_ASKERS:
            asker = _FURTHER
        after = counted.counts.get(asker, 0) + n_rows
        in_all = sum(counted.counts.values()) + n_rows
        if after > rules.prediction_rows_per_day:
            limit = f"{rules.prediction_rows_per_day:,}"
            raise refusal("quota", "prediction", limit=limit, asker=asker, rows=after)
        if in_all > rules.prediction_rows_per_day_total:
            limit = f"{rules.prediction_rows_per_day_total:,}"
            raise refusal("quota_total", "prediction", limit=limit, asker=asker, rows=in_all)
        counted.counts[asker] = after
        self._save(counted)


class AlignmentQuota(DailyCounts):
    """Alignments that began today, by asker and data set.

    All together are limited, too: the names of askers are the coordinator's word.
    """

    def __init__(self, home: Path, day: Callable[[], str] = today) -> None:
        super().__init__(home / "alignments_begun.json", day)

    def take(self, rules: DataSetRules, asker: str, data: str) -> None:
        """Count a new alignment, or refuse it."""
        counted = self._load()
        counts = counted.counts
        known = {key.partition(_BETWEEN)[0] for key in counts}
        if asker not in known and len(known) >= MOST_ASKERS:
            asker = _FURTHER
        by_asker = sum(n for key, n in counts.items() if key.partition(_BETWEEN)[0] == asker)
        if sum(counts.values()) >= rules.alignments_per_day:
            limit = f"{rules.alignments_per_day:,}"
            raise refusal("alignments", "run", limit=limit, data_set=data)
        if by_asker >= rules.alignments_per_day_per_asker:
            limit = f"{rules.alignments_per_day_per_asker:,}"
            raise refusal("alignments_of_asker", "run", limit=limit, data_set=data, asker=asker)
        key = f"{asker}{_BETWEEN}{data}"
        counts[key] = counts.get(key, 0) + 1
        self._save(counted)

    def count_of(self, data: str) -> int:
        """Return how many alignments of a data set began today."""
        counts = self._load().counts
        return sum(n for key, n in counts.items() if key.partition(_BETWEEN)[2] == data)

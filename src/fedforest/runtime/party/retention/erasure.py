"""Erase rows of a table for its owner: what used them, and what is owed since.

Models name the trainings that went into them, and trainings the data set and the alignment of their
rows (`origins.py`). Where an alignment is still here, it tells whether the rows were in it; else a
training over the data set may have used them, and is counted as one that did.
"""

import secrets
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from fedforest.errors import ConfigurationError, DataError, FederationError
from fedforest.runtime.party.alignments import Alignments
from fedforest.runtime.party.catalogue.catalogue import Catalogue
from fedforest.runtime.party.catalogue.entries import Entry
from fedforest.runtime.party.catalogue.erased_rows import ErasedRows
from fedforest.runtime.party.catalogue.ids import normalise_ids
from fedforest.runtime.party.catalogue.sources import locate_erased, read_source
from fedforest.runtime.party.catalogue.tables import identify_table, list_sharing
from fedforest.runtime.party.data_sets import DataSet
from fedforest.runtime.party.parts import read_begun
from fedforest.runtime.party.retention.model_folder import OwnModel, PartyModelFolder
from fedforest.runtime.party.standing_alignments import PartyStandingAlignments
from fedforest.runtime.recovery.run_store import RunStore
from fedforest.runtime.trainings.origins import Origin

_KEY_BYTES = 32


class AffectedModel(msgspec.Struct, frozen=True, kw_only=True):
    """A model that used erased rows, or may have."""

    model: str
    data: str
    label: str | None
    is_certain: bool  # False: its training is older than what this party still knows
    is_withdrawn: bool


class ErasureReport(msgspec.Struct, frozen=True, kw_only=True):
    """What an erasure concerns at this party."""

    data_sets: list[str]  # entries over the table
    unreachable: list[str]  # those that have no column to find the rows by, and are refused now
    n_ids: int
    n_rows: int  # rows with these ids in the table as it is now
    models: list[AffectedModel]
    runs: list[str]  # under way; they can no longer end
    alignments: list[str]  # removed
    standing: list[str]  # removed; to be made anew

    @property
    def owed(self) -> list[str]:
        """The models that still answer, and are to be trained anew without the rows."""
        return [model.model for model in self.models if not model.is_withdrawn]

    def to_json(self) -> dict[str, Any]:
        """Describe it for programs."""
        described: dict[str, Any] = msgspec.to_builtins(self)
        return {**described, "retraining_owed": self.owed}


class _Place(NamedTuple):
    """A data set as it is now, and which of its rows are erased."""

    data: DataSet
    is_erased: NDArray[np.bool_]


class RowErasure:
    """The erasure of some rows of one data set's table; nothing is erased before `carry_out`."""

    def __init__(self, home: Path, data_set: str, ids: Any) -> None:
        self._home = home
        self._catalogue = Catalogue(home)
        self._store = ErasedRows(home)
        entry = self._catalogue.entries.read(data_set)
        if not entry.id:
            raise DataError.of("data_set.no_id", data_set=data_set)
        if not ids.num_rows:
            raise ConfigurationError("no id is given; name at least one row")
        known = normalise_ids(data_set, ids.select(entry.id), entry.id_rules).tolist()
        key = secrets.token_bytes(_KEY_BYTES)
        self._table = identify_table(home, entry)
        self._erasure = self._store.make(entry.id, entry.id_rules, known, key)
        self._sharing = list_sharing(self._catalogue.entries, data_set)
        self._places = {name: self._locate(name) for name in self._sharing}
        self._main = self._places[data_set]

    def report(self) -> ErasureReport:
        """Say what used the rows."""
        main = self._main
        return ErasureReport(
            data_sets=self._sharing,
            unreachable=[name for name, place in self._places.items() if place is None],
            n_ids=len(self._erasure.digests),
            n_rows=0 if main is None else int(main.is_erased.sum()),
            models=list(self._find_models()),
            runs=[run.hex() for run in self._find_runs()],
            alignments=sorted(self._find_alignments()),
            standing=sorted({file.name for _, file in self._find_standing()}),
        )

    def carry_out(self) -> None:
        """Leave the rows out from now on; remove the alignments that they are in."""
        gone, standing = self._find_alignments(), [each for each, _ in self._find_standing()]
        self._store.add(self._table, self._erasure)
        for alignment in gone:
            (self._home / "alignments" / alignment).unlink(missing_ok=True)
        for version in standing:
            PartyStandingAlignments(self._home).remove(version)

    def _locate(self, name: str) -> _Place | None:
        """Find the rows in a data set as it is now; None if it has no column to find them by."""
        entry = self._catalogue.entries.read(name)
        if not self._has_columns(name, entry):
            return None
        data = self._catalogue.read(name)
        whole: Entry = msgspec.structs.replace(entry, exclude=[])
        table = read_source(name, self._home, whole).table
        was_erased, is_erased = (
            locate_erased(name, self._home, whole, table, erasures)
            for erasures in (self._store.of(self._table), [self._erasure])
        )
        return _Place(data, is_erased[~was_erased])

    def _has_columns(self, name: str, entry: Entry) -> bool:
        whole = msgspec.structs.replace(entry, exclude=[])
        names = read_source(name, self._home, whole).table.column_names
        return set(self._erasure.columns) <= set(names)

    def _find_models(self) -> Sequence[AffectedModel]:
        folder = PartyModelFolder(self._home)
        described = (self._describe(model, folder.origins(model.model)) for model in folder.list())
        return [model for model in described if model is not None]

    def _describe(self, model: OwnModel, origins: Sequence[Origin]) -> AffectedModel | None:
        used = [(each, self._uses(each)) for each in origins]
        certain = [origin for origin, is_used in used if is_used]
        possible = certain or [origin for origin, is_used in used if is_used is None]
        if not possible:
            return None
        return AffectedModel(
            model=model.model,
            data=possible[0].data,
            label=possible[0].label,
            is_certain=bool(certain),
            is_withdrawn=model.withdrawal is not None,
        )

    def _uses(self, origin: Origin) -> bool | None:
        """Tell whether a training used any of the rows; None if it cannot be told any more."""
        if origin.data not in self._sharing:
            return False
        place = self._places[origin.data]
        if place is None:
            return None
        if origin.alignment is None:
            return True if place.is_erased.any() else None
        return self._is_aligned(origin.alignment, place)

    def _is_aligned(self, alignment: str, place: _Place) -> bool | None:
        try:
            rows = Alignments(self._home / "alignments").rows_of(alignment, place.data)
        except DataError:  # removed, damaged, or of ids that have changed since
            return None
        return bool(place.is_erased[rows].any())

    def _find_runs(self) -> list[bytes]:
        store, found = RunStore(self._home), []
        for run in store.unfinished():
            try:
                begun = read_begun(store.read_description(run))
            except FederationError:  # of another release, or damaged: it cannot be resumed
                continue
            if begun.role.data in self._sharing:
                found.append(run)
        return found

    def _find_alignments(self) -> list[str]:
        """Find the alignments of these data sets that the rows are in, or may be."""
        folder, found = Alignments(self._home / "alignments"), []
        for name in folder.names():
            try:
                data = folder.read(name).data
            except DataError:
                continue
            place = self._places.get(data)
            is_other = data not in self._sharing
            if not is_other and (place is None or self._is_aligned(name, place) is not False):
                found.append(name)
        return found

    def _find_standing(self) -> list[tuple[str, Any]]:
        found = []
        for version, file in PartyStandingAlignments(self._home).files():
            place = self._places.get(file.data)
            if file.data not in self._sharing:
                continue
            rows = np.empty(0, np.int64) if place is None else np.flatnonzero(place.is_erased)
            is_in = place is None or (file.ids.find(place.data.own_ids(), rows) >= 0).any()
            if is_in:
                found.append((version, file))
        return found


def withdraw_all(home: Path, models: Sequence[str]) -> None:
    """Withdraw models at this party for good."""
    folder = PartyModelFolder(home)
    for model in models:
        folder.withdraw(model)

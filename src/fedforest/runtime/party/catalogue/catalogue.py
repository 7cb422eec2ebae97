"""The data sets of a party by name: read when a run needs them, and kept until they change.

A file is unchanged while its time, size and inode are. A database cannot be checked this way, so it
is read again for every run and every prediction. Entries are looked up each time: adding or
removing a data set needs no restart.
"""

import logging
from collections import OrderedDict
from dataclasses import replace
from hashlib import blake2b
from pathlib import Path
from typing import NamedTuple

import msgspec

from fedforest.errors import ConfigurationError, DataError
from fedforest.runtime.event_log import log_event
from fedforest.runtime.membership.homes import read_memory_limit
from fedforest.runtime.party.catalogue.columns import prepare_columns
from fedforest.runtime.party.catalogue.entries import Entry, EntryFolder
from fedforest.runtime.party.catalogue.erased_rows import ErasedRows
from fedforest.runtime.party.catalogue.fingerprints import fingerprint_rows
from fedforest.runtime.party.catalogue.schema import (
    Schema,
    check_schema,
    describe_schema,
    load_schema,
    save_schema,
)
from fedforest.runtime.party.catalogue.sources import Source, Version, read_source, version_of
from fedforest.runtime.party.catalogue.stored_columns import prepare_stored
from fedforest.runtime.party.catalogue.tables import find_table, identify_table
from fedforest.runtime.party.data_sets import DataSet
from fedforest.runtime.party.row_identity import RowIdentity

MOST_KEPT = 4  # data sets in memory; the least recently used one is dropped
_LOG = logging.getLogger(__name__)


class _ReadBefore(NamedTuple):
    """A data set in memory, with its entry and source version to detect changes."""

    entry: Entry
    version: Version | None
    erased: str
    data: DataSet


class Catalogue:
    """The data sets of the party that has this folder."""

    def __init__(self, home: Path, memory_limit: int | None = None) -> None:
        self.entries = EntryFolder(home)
        self._home = home
        self._erased = ErasedRows(home)
        self._memory_limit = memory_limit  # bytes; None: every table is read into memory
        self._kept: OrderedDict[str, _ReadBefore] = OrderedDict()

    def read(self, name: str) -> DataSet:
        """Read a data set for a run; raises `DataError` if its columns have changed."""
        entry = self.entries.read(name)
        table = identify_table(self._home, entry)
        version, erased = version_of(name, self._home, entry), self._erased.version(table)
        kept = self._kept.get(name)
        if kept is None or kept[:3] != (entry, version, erased):
            self._kept.pop(name, None)
            source = self._open(name, entry, table)
            if version_of(name, self._home, entry) != version:
                raise DataError.of("data_set.written", data_set=name)
            self._check(name, describe_schema(source.table, entry))
            data = make_data_set(name, source, entry, table)
            data = replace(data, snapshot=_describe_snapshot(entry, source, version, erased))
            kept = self._kept[name] = _ReadBefore(entry, version, erased, data)
            if len(self._kept) > MOST_KEPT:
                self._kept.popitem(last=False)
        self._kept.move_to_end(name)
        return kept.data

    def examine(self, name: str) -> None:
        """Read a data set and compare its columns; keep and change nothing."""
        entry = self.entries.read(name)
        entry.check()
        source = self._open(name, entry, identify_table(self._home, entry))
        found = describe_schema(source.table, entry)
        noted = self.schema(name)
        if noted is not None:
            check_schema(name, noted, found)

    def renew(self, name: str) -> None:
        """Make the next `read` of a database read it again."""
        if name in self._kept and self._kept[name].version is None:
            del self._kept[name]

    def erased(self, name: str) -> str:
        """Return a text that changes whenever rows of the data set's table are erased."""
        return self._erased.version(find_table(self.entries, name))

    def add(self, name: str, entry: Entry, *, replaces: bool = False) -> DataSet:
        """Read a data set for the first time, note its columns and keep its entry.

        A data set that is replaced stays one of the same table unless its entry declares another.
        """
        if self.entries.has(name) and not replaces:
            raise ConfigurationError(
                f"there is a data set {name!r} already; replace it with --replace, or choose "
                "another name"
            )
        entry = self._keep_table(name, entry)
        entry.check()
        table = identify_table(self._home, entry)
        source = self._open(name, entry, table)
        data = make_data_set(name, source, entry, table)
        if entry.id:
            data.own_ids()  # reports an unusable id now and not in a run
        self.entries.write(name, entry)
        save_schema(self.entries.schema_path(name), describe_schema(source.table, entry))
        return data

    def _open(self, name: str, entry: Entry, table: str) -> Source:
        """Read a source into memory, or leave it on the disk if it is too large for that."""
        return read_source(name, self._home, entry, self._erased.of(table), self._memory_limit)

    def schema(self, name: str) -> Schema | None:
        """Return the stored columns; None if there are none yet."""
        return load_schema(self.entries.schema_path(name))

    def _keep_table(self, name: str, entry: Entry) -> Entry:
        """Declare the table of the entry that is replaced if the new one would lose it."""
        if entry.table_identity is not None or not self.entries.has(name):
            return entry
        try:
            table = identify_table(self._home, self.entries.read(name))
        except ConfigurationError:  # the entry that is replaced is damaged
            return entry
        is_same = identify_table(self._home, entry) == table
        return entry if is_same else msgspec.structs.replace(entry, table_identity=table)

    def _check(self, name: str, found: Schema) -> None:
        noted = self.schema(name)
        if noted is None:  # an entry written by hand: the columns found first count from now on
            save_schema(self.entries.schema_path(name), found)
            log_event(_LOG, "columns noted", data=name, n_columns=len(found))
            return
        check_schema(name, noted, found)


def open_catalogue(home: Path) -> Catalogue:
    """Open the catalogue of a party's folder, with the memory limit of its settings."""
    return Catalogue(home, read_memory_limit(home))


def _describe_snapshot(entry: Entry, source: Source, version: Version | None, erased: str) -> str:
    """Return a text that changes whenever a run would read something else.

    A file is the same while its time and its size are, so one that is put back from a copy that
    keeps times is. Rows of a database are compared themselves.
    """
    read = str(version[:2]) if version is not None else fingerprint_rows(source.table)
    parts = (msgspec.json.encode(entry), read.encode(), erased.encode())
    return blake2b(b"\0".join(parts), digest_size=16, person=b"snapshot").hexdigest()


def make_data_set(name: str, source: Source, entry: Entry, table: str) -> DataSet:
    """Make a data set with ids separate from the other columns."""
    raw = source.table
    ids = raw.select(entry.id) if entry.id else None
    columns = prepare_stored(raw, entry) or prepare_columns(name, raw, entry)
    missing = tuple(sorted(map(str, entry.missing)))
    identity = RowIdentity(table, name, columns, ids, missing, id_rules=entry.id_rules)
    return DataSet(name, columns, identity, ids, entry.id_rules, n_erased=source.n_erased)

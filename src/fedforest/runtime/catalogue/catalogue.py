"""The data sets of a party by name: read when a run needs them, and kept while they are the same.

A file is the same while its time and size are. A database does not tell, so it is read again for
every run and every prediction. Entries are looked up each time: a data set that is added or removed
counts from then on, without a restart.
"""

import logging
from collections import OrderedDict
from pathlib import Path
from typing import Any, NamedTuple

from fedforest.errors import ConfigurationError
from fedforest.runtime.catalogue.columns import prepare_columns
from fedforest.runtime.catalogue.entries import Entry, EntryFolder
from fedforest.runtime.catalogue.schema import (
    Schema,
    check_schema,
    describe_schema,
    load_schema,
    save_schema,
)
from fedforest.runtime.catalogue.sources import Version, read_source, version_of
from fedforest.runtime.data_sets import DataSet
from fedforest.runtime.event_log import log_event

MOST_KEPT = 4  # data sets in memory; the one that was not asked for longest is forgotten
_LOG = logging.getLogger(__name__)


class _Kept(NamedTuple):
    """A data set that was read before, and what tells whether it still is the same."""

    entry: Entry
    version: Version | None
    data: DataSet


class Catalogue:
    """The data sets of the party that has this folder."""

    def __init__(self, home: Path) -> None:
        self.entries = EntryFolder(home)
        self._home = home
        self._kept: OrderedDict[str, _Kept] = OrderedDict()

    def read(self, name: str) -> DataSet:
        """A data set for a run; raises `DataError` where its columns have changed."""
        entry = self.entries.read(name)
        version = version_of(name, self._home, entry)
        kept = self._kept.get(name)
        if kept is None or (kept.entry, kept.version) != (entry, version):
            self._kept.pop(name, None)
            raw = read_source(name, self._home, entry)
            self._check(name, describe_schema(raw, entry))
            kept = self._kept[name] = _Kept(entry, version, make_data_set(name, raw, entry))
            if len(self._kept) > MOST_KEPT:
                self._kept.popitem(last=False)
        self._kept.move_to_end(name)
        return kept.data

    def renew(self, name: str) -> None:
        """Read a database again, at the next time."""
        if name in self._kept and self._kept[name].version is None:
            del self._kept[name]

    def add(self, name: str, entry: Entry, *, replaces: bool = False) -> DataSet:
        """Read a data set for the first time, note its columns and keep its entry."""
        if self.entries.has(name) and not replaces:
            raise ConfigurationError(
                f"there is a data set {name!r} already; replace it with --replace, or choose "
                "another name"
            )
        entry.check()
        raw = read_source(name, self._home, entry)
        data = make_data_set(name, raw, entry)
        if entry.id:
            data.ids()  # an id that is none is found now and not in a run
        self.entries.write(name, entry)
        save_schema(self.entries.schema_path(name), describe_schema(raw, entry))
        return data

    def schema(self, name: str) -> Schema | None:
        """The columns that were noted."""
        return load_schema(self.entries.schema_path(name))

    def _check(self, name: str, found: Schema) -> None:
        noted = self.schema(name)
        if noted is None:  # written by hand: what is found first is what counts from now on
            save_schema(self.entries.schema_path(name), found)
            log_event(_LOG, "columns noted", data=name, n_columns=len(found))
            return
        check_schema(name, noted, found)


def make_data_set(name: str, raw: Any, entry: Entry) -> DataSet:
    """Columns and ids apart."""
    ids = raw.select(entry.id) if entry.id else None
    return DataSet(name, prepare_columns(name, raw, entry), ids)

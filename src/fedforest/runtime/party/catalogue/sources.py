"""Read data sets from their sources: CSV, Parquet, DuckDB and SQLite files, and PostgreSQL.

Every source becomes a pyarrow table with its columns unchanged, ids among them.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from fedforest.errors import ConfigurationError, DataError
from fedforest.runtime.party.catalogue.databases import read_duckdb, read_postgresql, read_sqlite
from fedforest.runtime.party.catalogue.entries import Entry
from fedforest.runtime.party.catalogue.erased_rows import Erasure, find_erased

Version = tuple[object, ...]

_CSV_ENDINGS = (".csv", ".csv.gz", ".tsv", ".tsv.gz")
_SQLITE_MAGIC = b"SQLite format 3\x00"
_DUCKDB_MAGIC = b"DUCK"  # after a checksum of eight bytes
_EMPTY = ""  # an empty field of a CSV file is missing, in any column


def version_of(name: str, home: Path, entry: Entry) -> Version | None:
    """Return a value that changes when the source does; None for a database.

    None also for a database in a file: its last changes may be in a log beside it.
    """
    if entry.source is None or entry.is_database:
        return None
    try:
        state = (home / entry.source).stat()
    except OSError as error:
        raise DataError.of("data_set.unreadable", data_set=name, detail=error.strerror) from None
    return (state.st_mtime_ns, state.st_size, state.st_ino)


class Source(NamedTuple):
    """A source as it was read: its rows but for erased ones, and how many were left out."""

    table: Any  # pyarrow.Table
    n_erased: int = 0


def read_source(name: str, home: Path, entry: Entry, erasures: Sequence[Erasure] = ()) -> Source:
    """Read all columns but the excluded ones, and all rows but the erased ones."""
    table = _read(name, home, entry)
    is_erased = locate_erased(name, home, entry, table, erasures)
    names = table.column_names
    missing = [column for column in (*entry.id, *entry.types) if column not in names]
    if missing:
        raise DataError.of("data_set.entry", data_set=name, own_column=missing[0])
    if len(set(names)) < len(names):
        raise DataError.of("data_set.twice", data_set=name)
    table = table.select([column for column in names if column not in entry.exclude])
    n_erased = int(is_erased.sum())
    return Source(_leave_out(table, is_erased) if n_erased else table, n_erased)


def _leave_out(table: Any, is_erased: NDArray[np.bool_]) -> Any:
    import pyarrow  # noqa: PLC0415 - only parties with tables need it

    return table.filter(pyarrow.array(~is_erased))


def locate_erased(
    name: str, home: Path, entry: Entry, table: Any, erasures: Sequence[Erasure]
) -> NDArray[np.bool_]:
    """Tell which rows of a source are erased, also by columns that the entry leaves out."""

    def read_ids(columns: Sequence[str]) -> Any:
        if not set(columns) <= set(table.column_names):
            return None
        is_csv = entry.source is not None and entry.source.endswith(_CSV_ENDINGS)
        if not is_csv or set(columns) <= set(entry.id):
            return table.select(list(columns))
        # types of a CSV file are inferred, and 007 is no 7: its ids are read as text
        as_ids = msgspec.structs.replace(entry, id=list(columns), types={}, exclude=[])
        return _read(name, home, as_ids).select(list(columns))

    return find_erased(name, erasures, table.num_rows, read_ids)


def _read(name: str, home: Path, entry: Entry) -> Any:
    if entry.source is None:
        return read_postgresql(name, home, entry)
    path = home / entry.source
    if path.name.endswith(_CSV_ENDINGS):
        return _read_file(name, path, entry)
    try:
        with path.open("rb") as file:
            start = file.read(16)
    except OSError as error:
        raise DataError.of("data_set.unreadable", data_set=name, detail=error.strerror) from None
    if start == _SQLITE_MAGIC:
        return read_sqlite(name, path, entry)
    if start[8:12] == _DUCKDB_MAGIC:
        return read_duckdb(name, path, entry)
    if path.suffix == ".parquet":
        return _read_file(name, path, entry)
    raise ConfigurationError.of("data_set.format", data_set=name)


def _read_file(name: str, path: Path, entry: Entry) -> Any:
    import pyarrow  # noqa: PLC0415 - only parties with files need it
    import pyarrow.parquet  # noqa: PLC0415 - as above

    if entry.is_database:
        raise ConfigurationError.of("data_set.tables", data_set=name)
    try:
        if path.suffix == ".parquet":
            return pyarrow.parquet.read_table(path)
        return _read_csv(path, entry)
    except (OSError, pyarrow.ArrowException) as error:
        kind = type(error).__name__  # the error's text may quote values of the file
        raise DataError.of("data_set.unreadable", data_set=name, detail=kind) from None


def _read_csv(path: Path, entry: Entry) -> Any:
    """Read a CSV file with inferred types; ids and categories stay text: 01234 is not 1234."""
    import pyarrow  # noqa: PLC0415 - as above
    import pyarrow.csv  # noqa: PLC0415 - as above

    categories = [column for column, kind in entry.types.items() if kind == "category"]
    converting = pyarrow.csv.ConvertOptions(
        column_types=dict.fromkeys([*entry.id, *categories], pyarrow.string()),
        null_values=[_EMPTY, *map(str, entry.missing)],
        strings_can_be_null=True,
        quoted_strings_can_be_null=True,
    )
    delimiter = "\t" if ".tsv" in path.suffixes else ","
    parsing = pyarrow.csv.ParseOptions(delimiter=delimiter, newlines_in_values=True)
    return pyarrow.csv.read_csv(path, convert_options=converting, parse_options=parsing)

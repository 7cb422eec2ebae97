"""Read data sets from their sources: CSV, Parquet, DuckDB and SQLite files, and PostgreSQL.

Every source becomes a pyarrow table with its columns unchanged, ids among them.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from fedforest.errors import ConfigurationError, DataError
from fedforest.runtime.party.catalogue.batches import (
    COPIES,
    ParquetCopy,
    Take,
    find_csv_types,
    read_all,
)
from fedforest.runtime.party.catalogue.databases import read_duckdb, read_postgresql, read_sqlite
from fedforest.runtime.party.catalogue.entries import Entry
from fedforest.runtime.party.catalogue.erased_rows import Erasure, find_erased
from fedforest.runtime.party.catalogue.stored_columns import (
    BYTES_PER_VALUE,
    StoredColumns,
    StoredFile,
)

Version = tuple[object, ...]

_TABLES_IN_LIMIT = 4  # a larger table stays on the disk: bins, row orders and labels need room
_PIECES_IN_LIMIT = 32
_MOST_PIECE_BYTES = 1 << 24

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

    table: Any  # pyarrow.Table, or StoredColumns where it is larger than memory
    n_erased: int = 0


def read_source(
    name: str,
    home: Path,
    entry: Entry,
    erasures: Sequence[Erasure] = (),
    memory_limit: int | None = None,
) -> Source:
    """Read all columns but the excluded ones, and all rows but the erased ones.

    With a limit in bytes, the columns of a table that is large beside it stay on the disk.
    """
    table = _open(name, home, entry, memory_limit)
    is_erased = locate_erased(name, home, entry, table, erasures, memory_limit)
    names = table.column_names
    missing = [column for column in (*entry.id, *entry.types) if column not in names]
    if missing:
        raise DataError.of("data_set.entry", data_set=name, own_column=missing[0])
    if len(set(names)) < len(names):
        raise DataError.of("data_set.twice", data_set=name)
    table = table.select([column for column in names if column not in entry.exclude])
    n_erased = int(is_erased.sum())
    return Source(_leave_out(table, is_erased) if n_erased else table, n_erased)


def _open(name: str, home: Path, entry: Entry, memory_limit: int | None) -> Any:
    """Read a source into memory, or leave it on the disk if it is too large for that.

    What is not Parquet is copied to Parquet first, batch by batch.
    """
    if memory_limit is None:
        return _read(name, home, entry, read_all)
    piece_bytes = min(_MOST_PIECE_BYTES, memory_limit // _PIECES_IN_LIMIT)
    if entry.source is not None and Path(entry.source).suffix == ".parquet":
        file = StoredFile(name, home / entry.source)
    else:
        copy = ParquetCopy(home / COPIES, piece_bytes)
        _read(name, home, entry, copy.write)
        file = StoredFile(name, copy.path, copy)
    columns = StoredColumns(file, tuple(file.empty.column_names), piece_bytes)
    n_bytes = BYTES_PER_VALUE * columns.num_rows * columns.num_columns
    return columns if n_bytes > memory_limit // _TABLES_IN_LIMIT else columns.load()


def _leave_out(table: Any, is_erased: NDArray[np.bool_]) -> Any:
    import pyarrow  # noqa: PLC0415 - only parties with tables need it

    if isinstance(table, StoredColumns):
        return table.take(np.flatnonzero(~is_erased))
    return table.filter(pyarrow.array(~is_erased))


def locate_erased(  # noqa: PLR0913, PLR0917 - the last one has a default
    name: str,
    home: Path,
    entry: Entry,
    table: Any,
    erasures: Sequence[Erasure],
    memory_limit: int | None = None,
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
        return _open(name, home, as_ids, memory_limit).select(list(columns))

    return find_erased(name, erasures, table.num_rows, read_ids)


def _read(name: str, home: Path, entry: Entry, take: Take) -> Any:
    if entry.source is None:
        return read_postgresql(name, home, entry, take)
    path = home / entry.source
    if path.name.endswith(_CSV_ENDINGS):
        return _read_file(name, path, entry, take)
    try:
        with path.open("rb") as file:
            start = file.read(16)
    except OSError as error:
        raise DataError.of("data_set.unreadable", data_set=name, detail=error.strerror) from None
    if start == _SQLITE_MAGIC:
        return read_sqlite(name, path, entry, take)
    if start[8:12] == _DUCKDB_MAGIC:
        return read_duckdb(name, path, entry, take)
    if path.suffix == ".parquet":
        return _read_file(name, path, entry, take)
    raise ConfigurationError.of("data_set.format", data_set=name)


def _read_file(name: str, path: Path, entry: Entry, take: Take) -> Any:
    import pyarrow  # noqa: PLC0415 - only parties with files need it
    import pyarrow.parquet  # noqa: PLC0415 - as above

    if entry.is_database:
        raise ConfigurationError.of("data_set.tables", data_set=name)
    try:
        if path.suffix == ".parquet":
            return pyarrow.parquet.read_table(path)
        return _read_csv(path, entry, take)
    except (OSError, pyarrow.ArrowException) as error:
        kind = type(error).__name__  # the error's text may quote values of the file
        raise DataError.of("data_set.unreadable", data_set=name, detail=kind) from None


def _read_csv(path: Path, entry: Entry, take: Take) -> Any:
    """Read a CSV file with inferred types; ids and categories stay text: 01234 is not 1234."""
    import pyarrow  # noqa: PLC0415 - as above
    import pyarrow.csv  # noqa: PLC0415 - as above

    categories = [column for column, kind in entry.types.items() if kind == "category"]
    types = dict.fromkeys([*entry.id, *categories], pyarrow.string())
    converting = {
        "null_values": [_EMPTY, *map(str, entry.missing)],
        "strings_can_be_null": True,
        "quoted_strings_can_be_null": True,
    }
    delimiter = "\t" if ".tsv" in path.suffixes else ","
    parsing = pyarrow.csv.ParseOptions(delimiter=delimiter, newlines_in_values=True)
    if take is read_all:
        options = pyarrow.csv.ConvertOptions(column_types=types, **converting)
        return pyarrow.csv.read_csv(path, convert_options=options, parse_options=parsing)

    def open_csv(types: Mapping[str, Any]) -> Any:
        options = pyarrow.csv.ConvertOptions(column_types=types, **converting)
        return pyarrow.csv.open_csv(path, convert_options=options, parse_options=parsing)

    with open_csv(find_csv_types(open_csv, types)) as reader:
        return take(reader)

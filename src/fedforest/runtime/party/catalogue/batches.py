"""Sources read batch by batch: the types of their columns, and a copy in Parquet on the disk.

Columns get the types that they would have if the source was read as a whole. CSV and SQLite do not
say them, so all rows are read once more to find them.
"""

import os
import re
import tempfile
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from fedforest.errors import StorageError

# what is done with the batches of a source, a pyarrow.RecordBatchReader
Take: TypeAlias = Callable[[Any], Any]
# a cursor over all rows, from the first one
Execute: TypeAlias = Callable[[], Any]

COPIES = "copies"  # the folder of sources that had to be copied to be read in pieces

_BATCH_ROWS = 10_000  # of a database whose rows are Python objects
_EXACT = 2**53  # whole numbers up to it are floats as well
_COLUMN_OF_ERROR = re.compile(r"In CSV column #(\d+):")
_CSV_TYPES = (  # in the order in which pyarrow tries them for a whole file
    "null",
    "int64",
    "bool",
    "date32[day]",
    "time32[s]",
    "timestamp[s]",
    "timestamp[ns]",
    "double",
    "string",
    "binary",
)


def read_all(reader: Any) -> Any:
    """Read all batches of a source as one pyarrow table."""
    return reader.read_all()


class ParquetCopy:
    """A copy of a source in a file of its own, which is removed with this object."""

    def __init__(self, folder: Path, piece_bytes: int) -> None:
        self._piece_bytes = piece_bytes
        folder.mkdir(mode=0o700, exist_ok=True)
        file, name = tempfile.mkstemp(".parquet", dir=folder)
        os.close(file)
        self.path = Path(name)
        weakref.finalize(self, self.path.unlink, missing_ok=True)

    def write(self, reader: Any) -> None:
        """Write all batches, joined to groups of rows that are worth reading alone."""
        import pyarrow  # noqa: PLC0415 - only parties with tables need it
        import pyarrow.parquet  # noqa: PLC0415 - as above

        try:
            with pyarrow.parquet.ParquetWriter(self.path, reader.schema) as writer:
                for group in self._join(reader):
                    writer.write_table(pyarrow.Table.from_batches(group, reader.schema))
        except OSError as error:
            raise StorageError.of_write(self.path, error) from None

    def _join(self, reader: Any) -> Iterator[list[Any]]:
        group: list[Any] = []
        for batch in reader:
            group.append(batch)
            if sum(each.nbytes for each in group) >= self._piece_bytes:
                yield group
                group = []
        yield group


def remove_copies(home: Path) -> None:
    """Remove the copies in a party's folder that no process uses."""
    for path in (home / COPIES).glob("*.parquet"):
        path.unlink(missing_ok=True)


def find_csv_types(open_csv: Callable[[Mapping[str, Any]], Any], types: Mapping[str, Any]) -> Any:
    """Find the type of each column; `open_csv` opens the file with types of some columns."""
    import pyarrow  # noqa: PLC0415 - as above

    known, names = dict(types), []
    while True:
        try:
            with open_csv(known) as reader:  # which infers types from the first rows
                names = reader.schema.names
                known = dict(zip(names, reader.schema.types, strict=True))
                for _ in reader:
                    pass
            return known
        except pyarrow.ArrowInvalid as error:
            found = _COLUMN_OF_ERROR.search(str(error))
            column = names[int(found[1])] if found is not None and names else None
            if column is None or column in types or known[column] == pyarrow.binary():
                raise
            looser = _CSV_TYPES[_CSV_TYPES.index(str(known[column])) + 1]
            known[column] = pyarrow.type_for_alias(looser)


def read_cursor(execute: Execute, take: Take) -> Any:
    """Read the rows of a cursor; columns that hold several types become text."""
    import pyarrow  # noqa: PLC0415 - as above

    cursor = execute()
    names = [column[0] for column in cursor.description]
    if take is read_all:
        columns = _turn(cursor.fetchall(), len(names))
        return pyarrow.Table.from_arrays([_as_array(values) for values in columns], names)
    types = [_ColumnType() for _ in names]
    for values in _read_columns(cursor, len(names)):
        for kind, column in zip(types, values, strict=True):
            kind.add(column)
    schema = pyarrow.schema(list(zip(names, (kind.type for kind in types), strict=True)))
    batches = (
        pyarrow.record_batch(
            [kind.convert(column) for kind, column in zip(types, values, strict=True)],
            schema=schema,
        )
        for values in _read_columns(execute(), len(names))
    )
    return take(pyarrow.RecordBatchReader.from_batches(schema, batches))


def _read_columns(cursor: Any, n_columns: int) -> Iterator[list[tuple[Any, ...]]]:
    rows = iter(lambda: cursor.fetchmany(_BATCH_ROWS), [])
    return (_turn(batch, n_columns) for batch in rows)


def _turn(rows: list[Any], n_columns: int) -> list[tuple[Any, ...]]:
    return list(zip(*rows, strict=True)) if rows else [()] * n_columns


def _as_array(values: Sequence[Any]) -> Any:
    import pyarrow  # noqa: PLC0415 - as above

    try:
        return pyarrow.array(values)
    except pyarrow.ArrowException:  # SQLite lets every row have a type of its own
        return _as_text(values)


def _as_text(values: Sequence[Any]) -> Any:
    import pyarrow  # noqa: PLC0415 - as above

    return pyarrow.array([None if value is None else str(value) for value in values], "string")


class _ColumnType:
    """The type of a column whose values come in batches."""

    def __init__(self) -> None:
        import pyarrow  # noqa: PLC0415 - as above

        self.type = pyarrow.null()
        self._is_exact = True  # all whole numbers are floats as well

    def add(self, values: Sequence[Any]) -> None:
        """Take a batch into account."""
        import pyarrow  # noqa: PLC0415 - as above

        found = _as_array(values).type
        if pyarrow.types.is_integer(found):
            largest = max(abs(value) for value in values if value is not None)
            self._is_exact &= largest <= _EXACT
        numbers = {pyarrow.int64(), pyarrow.float64()}
        if pyarrow.types.is_null(self.type):
            self.type = found
        elif not pyarrow.types.is_null(found) and found != self.type:
            are_numbers = {found, self.type} == numbers
            self.type = pyarrow.float64() if are_numbers else pyarrow.string()
        if self.type == pyarrow.float64() and not self._is_exact:
            self.type = pyarrow.string()

    def convert(self, values: Sequence[Any]) -> Any:
        """Return a batch as an array of the type of the whole column."""
        import pyarrow  # noqa: PLC0415 - as above

        is_text = pyarrow.types.is_string(self.type)
        return _as_text(values) if is_text else pyarrow.array(values, self.type)

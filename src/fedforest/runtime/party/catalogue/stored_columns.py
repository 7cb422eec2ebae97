"""The columns of a Parquet file that stay on the disk, and are read some rows at a time.

They have those methods of a pyarrow table that data sets use. One column, such as a label, is read
as a whole; a table of features comes in pieces. The file must not change while it is in use.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from fedforest.errors import DataError
from fedforest.runtime.party.catalogue.columns import prepare_columns
from fedforest.runtime.party.catalogue.entries import Entry
from fedforest.tree.table.data_frames import read_vector
from fedforest.tree.table.frames import Table, read_table
from fedforest.tree.table.pieces import TablePiece

BYTES_PER_VALUE = 8  # of a column in memory

_LEAST_ROWS = 1 << 10  # of a piece
_MOST_ROWS = 1 << 18
_BUFFER_BYTES = 1 << 20  # of a column that is being read


class StoredFile:
    """A Parquet file that has not changed since it was first opened."""

    def __init__(self, data_set: str, path: Path, owner: Any = None) -> None:
        self.data_set = data_set
        self.path = path
        self._owner = owner  # the file is removed with it
        self._state: tuple[int, ...] | None = None
        with self._open() as file:
            self.n_rows: int = file.metadata.num_rows
            self.empty = file.schema_arrow.empty_table()

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_owner": None}  # a copy in another process does not own the file

    def read(self, names: Sequence[str], batch_rows: int, span: range) -> Iterator[Any]:
        """Read these columns of a span of rows as pyarrow tables of at most `batch_rows` rows.

        Groups of rows outside of the span are not read. Without rows, one empty table.
        """
        import pyarrow  # noqa: PLC0415 - only parties with tables need it

        columns, n_read = list(names), 0
        try:
            with self._open() as file:
                groups, at = _find_groups(file.metadata, span)
                for batch in file.iter_batches(
                    batch_rows, row_groups=groups, columns=columns, use_threads=False
                ):
                    first, last = max(0, span.start - at), min(batch.num_rows, span.stop - at)
                    at += batch.num_rows
                    if first < last:
                        n_read += last - first
                        own = batch.slice(first, last - first)
                        yield pyarrow.Table.from_batches([own]).select(columns)
        except (OSError, pyarrow.ArrowException) as error:
            raise self._unreadable(type(error).__name__) from None
        pyarrow.default_memory_pool().release_unused()
        if not n_read:
            yield self.empty.select(columns)

    def _open(self) -> Any:
        import pyarrow.parquet  # noqa: PLC0415 - as above

        try:
            status = self.path.stat()
            state = (status.st_mtime_ns, status.st_size, status.st_ino)
            if self._state not in (None, state):
                raise self._unreadable("it has changed since the run began")
            self._state = state
            return pyarrow.parquet.ParquetFile(
                self.path, buffer_size=_BUFFER_BYTES, pre_buffer=False
            )
        except (OSError, pyarrow.ArrowException) as error:  # whose text may quote values
            raise self._unreadable(type(error).__name__) from None

    def _unreadable(self, why: str) -> DataError:
        return DataError.of("data_set.unreadable", data_set=self.data_set, detail=why)


def _find_groups(metadata: Any, span: range) -> tuple[list[int], int]:
    """Return the groups of rows that a span touches, and the first row of the first."""
    groups, first, at = list[int](), 0, 0
    for group in range(metadata.num_row_groups):
        end = at + metadata.row_group(group).num_rows
        if at < span.stop and span.start < end:
            first = first if groups else at
            groups.append(group)
        at = end
    return groups, first


@dataclass(frozen=True, slots=True, eq=False)
class StoredColumns:
    """Some columns and rows of a stored file, as the entry of its data set reads them."""

    file: StoredFile
    column_names: tuple[str, ...]
    piece_bytes: int  # of the rows that are in memory at once
    entry: Entry | None = None  # None: values as they are, such as ids
    rows: NDArray[np.integer] | None = None  # None: all of the span
    span: range | None = None  # of the file; None: all

    @property
    def num_rows(self) -> int:
        """The number of rows."""
        return len(self._span) if self.rows is None else len(self.rows)

    @property
    def num_columns(self) -> int:
        """The number of columns."""
        return len(self.column_names)

    @property
    def columns(self) -> list[Any]:
        """All columns, each as a whole."""
        return [self.column(name) for name in self.column_names]

    def head(self) -> Any:
        """Return the columns without rows, as the file has them."""
        return self.file.empty.select(list(self.column_names))

    def select(self, names: Sequence[str]) -> Self:
        """Return these columns only."""
        return replace(self, column_names=tuple(names))

    def take(self, rows: NDArray[np.integer]) -> Self:
        """Return these rows, in this order."""
        chosen = rows + self._span.start if self.rows is None else self.rows[rows]
        return replace(self, rows=chosen, span=None)

    def take_span(self, first: int, last: int) -> Self:
        """Return the rows first..last; the others are not read."""
        if self.rows is not None:
            return replace(self, rows=self.rows[first:last])
        return replace(self, span=self._span[first:last])

    @property
    def _span(self) -> range:
        """Return the rows of the file that are read."""
        if self.rows is None:
            return range(self.file.n_rows) if self.span is None else self.span
        return range(int(self.rows.min()), int(self.rows.max()) + 1) if len(self.rows) else range(0)

    def slice(self, first: int, n_rows: int) -> Any:
        """Return the values of consecutive rows as a pyarrow table."""
        return self.take(np.arange(self.num_rows)[first : first + n_rows]).load()

    def column(self, name: str) -> Any:
        """Return one column as a whole, as pyarrow holds it."""
        return self.select([name]).load().column(name)

    def vector(self, name: str, where: str) -> NDArray[Any]:
        """Return the values of one column."""
        tables = self.select([name])._read()
        values = np.concatenate([read_vector(table.column(name), where) for table in tables])
        return values if self.rows is None else values[self.rows - self._span.start]

    def table(self) -> "StoredTable":
        """Return the columns as a table that is read in pieces."""
        return StoredTable(self)

    def pieces(self) -> Iterator[TablePiece]:
        """Read all rows once, in pieces."""
        chosen = None if self.rows is None else _ChosenRows.of(self.rows)
        first = 0 if chosen is None else self._span.start
        for columns in self._read():
            table = read_table(columns, may_be_empty=True)
            places = range(first, first + table.n_rows)
            yield TablePiece(table, places) if chosen is None else chosen.cut(table, places)
            first = places.stop

    def load(self) -> Any:
        """Return columns and rows as a pyarrow table."""
        import pyarrow  # noqa: PLC0415 - only parties with tables need it

        table = pyarrow.concat_tables(self._read())
        return table if self.rows is None else table.take(self.rows - self._span.start)

    def _read(self) -> Iterator[Any]:
        """Read the rows of the span as pyarrow tables."""
        fitting = self.piece_bytes // (BYTES_PER_VALUE * max(1, self.num_columns))
        batch_rows = max(_LEAST_ROWS, min(_MOST_ROWS, fitting))
        for table in self.file.read(self.column_names, batch_rows, self._span):
            if self.entry is None:
                yield table
            else:
                yield prepare_columns(self.file.data_set, table, self.entry)


def prepare_stored(raw: Any, entry: Entry) -> StoredColumns | None:
    """Return stored columns without ids, each as numbers or categories; None for a table."""
    if not isinstance(raw, StoredColumns):
        return None
    names = [column for column in raw.column_names if column not in entry.id]
    prepare_columns(raw.file.data_set, raw.head(), entry)  # refuses their types
    return replace(raw, column_names=tuple(names), entry=entry)


@dataclass(frozen=True, slots=True, eq=False)
class StoredTable:
    """Stored columns as the table of a training."""

    columns: StoredColumns
    has_names: bool = True

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns."""
        return self.columns.column_names

    @property
    def n_rows(self) -> int:
        """The number of rows."""
        return self.columns.num_rows

    @property
    def n_features(self) -> int:
        """The number of columns."""
        return self.columns.num_columns

    def take(self, features: Sequence[int]) -> "StoredTable":
        """Return the table of these columns, in this order."""
        names = [self.names[feature] for feature in features]
        return StoredTable(self.columns.select(names), self.has_names)

    def take_rows(self, rows: NDArray[np.int64]) -> "StoredTable":
        """Return the table of these rows, in this order."""
        return StoredTable(self.columns.take(rows), self.has_names)

    def take_span(self, first: int, last: int) -> "StoredTable":
        """Return the table of the rows first..last, which are read alone."""
        return StoredTable(self.columns.take_span(first, last), self.has_names)

    def pieces(self) -> Iterator[TablePiece]:
        """Read all rows once."""
        return self.columns.pieces()

    def load(self) -> Table:
        """Read all rows into memory."""
        return read_table(self.columns.load(), may_be_empty=True)


class _ChosenRows(NamedTuple):
    """Rows in ascending order, and the place that each of them has in the choice."""

    rows: NDArray[np.integer]
    places: NDArray[np.int64]

    @classmethod
    def of(cls, rows: NDArray[np.integer]) -> Self:
        places = np.argsort(rows, kind="stable")
        return cls(rows[places], places)

    def cut(self, table: Table, span: range) -> TablePiece:
        """Return the chosen ones of consecutive rows."""
        first, last = np.searchsorted(self.rows, (span.start, span.stop))
        own = self.rows[first:last].astype(np.int64) - span.start
        return TablePiece(table.take_rows(own), self.places[first:last])

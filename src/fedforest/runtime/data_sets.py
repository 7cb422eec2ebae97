"""A party's data sets by name: files that are read when a run needs them, and kept while it does.

A table here is columns by name. Which of them are features follows from the run: all but its label
and its weight.
"""

import unicodedata
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from fedforest.errors import ConfigurationError, DataError
from fedforest.tree.table import Table, list_names, read_table


class DataSets(Protocol):
    """What a party can take part with."""

    def read(self, name: str) -> "DataSet":
        """The data set of this name; raises `DataError` where there is none."""


@dataclass(frozen=True, slots=True, eq=False)
class DataSet:
    """One table with named columns, as pyarrow holds it."""

    name: str
    columns: Any  # pyarrow.Table
    id_columns: tuple[str, ...] = ()

    @property
    def n_rows(self) -> int:
        """How many rows there are."""
        n_rows: int = self.columns.num_rows
        return n_rows

    def ids(self) -> NDArray[np.object_]:
        """What each row is known by to other parties, as bytes; nothing where it has no id.

        Text is stripped and in Unicode's form C, whole numbers are decimal; several columns are
        joined with their lengths.
        """
        if not self.id_columns:
            raise DataError(
                f"data set {self.name!r} has no id column to be aligned by; name one in its entry"
            )
        columns = [_write_ids(self.column(name)) for name in self.id_columns]
        ids = np.empty(self.n_rows, object)
        ids[:] = columns[0] if len(columns) == 1 else list(map(_join, zip(*columns, strict=True)))
        return ids

    def take(self, rows: NDArray[np.int64]) -> "DataSet":
        """The data set of these rows, in this order."""
        return replace(self, columns=self.columns.take(rows))

    def features(self, without: Collection[str | None] = ()) -> Table:
        """All columns but some; ids are none."""
        left_out = {*without, *self.id_columns}
        names = [name for name in self.columns.column_names if name not in left_out]
        return self._read(names)

    def select(self, names: Collection[str]) -> Table:
        """These columns; raises `DataError` where one is missing."""
        missing = [name for name in names if name not in self.columns.column_names]
        if missing:
            raise DataError(
                f"data set {self.name!r} has no column {list_names(missing)}, which the model needs"
            )
        return self._read(list(names))

    def column(self, name: str) -> NDArray[Any]:
        """The values of one column."""
        if name not in self.columns.column_names:
            raise DataError(f"data set {self.name!r} has no column {name!r}")
        return np.asarray(self.columns.column(name).to_pandas())

    def _read(self, names: list[str]) -> Table:
        if not names:
            return Table((), (), self.columns.num_rows, has_names=True)
        return read_table(self.columns.select(names), may_be_empty=True)


def _write_ids(values: NDArray[Any]) -> list[bytes]:
    """Ids in their one form: what is missing becomes nothing."""
    if values.dtype.kind in "iu":
        return [str(value).encode() for value in values.tolist()]
    texts = ["" if value is None or value != value else str(value) for value in values.tolist()]  # noqa: PLR0124 - NaN
    return [unicodedata.normalize("NFC", text.strip()).encode() for text in texts]


def _join(parts: tuple[bytes, ...]) -> bytes:
    """One id of several parts; nothing where one is missing."""
    if not all(parts):
        return b""
    return b"".join(len(part).to_bytes(4, "big") + part for part in parts)


class DataFiles:
    """Data sets in Parquet and CSV files; the last one read is kept while its file is the same."""

    def __init__(
        self, files: Mapping[str, Path], ids: Mapping[str, tuple[str, ...]] | None = None
    ) -> None:
        self._files = dict(files)
        self._ids = dict(ids or {})
        self._last: tuple[tuple[str, int, int], DataSet] | None = None

    def read(self, name: str) -> DataSet:
        """Read the file of this name."""
        if name not in self._files:
            raise DataError(f"there is no data set {name!r} at this party")
        path = self._files[name]
        try:
            state = path.stat()
        except OSError as error:
            raise DataError(
                f"the file of data set {name!r} cannot be read ({error.strerror})"
            ) from None
        version = (name, state.st_mtime_ns, state.st_size)
        if self._last is None or self._last[0] != version:
            columns = _read_file(name, path)
            self._last = (version, DataSet(name, columns, self._ids.get(name, ())))
        return self._last[1]


def _read_file(name: str, path: Path) -> Any:
    import pyarrow  # noqa: PLC0415 - only parties with files need it
    import pyarrow.csv  # noqa: PLC0415 - as above
    import pyarrow.parquet  # noqa: PLC0415 - as above

    readers = {".parquet": pyarrow.parquet.read_table, ".csv": pyarrow.csv.read_csv}
    if path.suffix not in readers:
        raise ConfigurationError(
            f"data set {name!r} is no .parquet or .csv file; convert it to one of these"
        )
    try:
        return readers[path.suffix](path)
    except (OSError, pyarrow.ArrowException) as error:
        kind = type(error).__name__  # its text may quote what the file holds
        raise DataError(f"the file of data set {name!r} cannot be read ({kind})") from None

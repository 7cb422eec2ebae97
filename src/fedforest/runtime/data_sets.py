"""A party's data sets by name: files that are read when a run needs them, and kept while it does.

A table here is columns by name. Which of them are features follows from the run: all but its label
and its weight.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
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

    def features(self, without: Collection[str | None] = ()) -> Table:
        """All columns but some."""
        names = [name for name in self.columns.column_names if name not in without]
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


class DataFiles:
    """Data sets in Parquet and CSV files; the last one read is kept while its file is the same."""

    def __init__(self, files: Mapping[str, Path]) -> None:
        self._files = dict(files)
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
            self._last = (version, DataSet(name, _read_file(name, path)))
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

"""Tables of users, read into columns with as few copies as possible.

Accepts two-dimensional arrays, lists of rows, mappings from column to values, and data frames of
other libraries (`data_frames.py`). How a model uses a column is decided in
`bins.py`.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedforest.errors import DataError
from fedforest.tree.table.columns import (
    CategoryColumn,
    Column,
    Numbers,
    as_array,
    as_numbers,
    encode_numbers,
    is_unicode,
    refuse_kind,
)
from fedforest.tree.table.data_frames import Frame, open_frame, read_column
from fedforest.tree.table.pieces import TablePiece

_MAX_ROWS = 2**31 - 1


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """Named columns of equal length; unnamed ones are called x0, x1 and so on."""

    names: tuple[str, ...]
    columns: tuple[Column, ...]
    n_rows: int
    has_names: bool
    # (rows, columns), where all columns are numbers of one array: read together, not one by one
    matrix: Numbers | None = None

    @property
    def n_features(self) -> int:
        return len(self.columns)

    def take(self, features: Sequence[int]) -> "Table":
        """Return the table of these columns, in this order, without a copy."""
        columns = tuple(self.columns[feature] for feature in features)
        names = tuple(self.names[feature] for feature in features)
        return Table(names, columns, self.n_rows, self.has_names)

    def take_span(self, first: int, last: int) -> "Table":
        """Return the table of the rows first..last."""
        return self.take_rows(slice(first, last))

    def pieces(self) -> Iterator[TablePiece]:
        """Return the whole table as one piece."""
        yield TablePiece(self, range(self.n_rows))

    def load(self) -> "Table":
        """Return the table, which is in memory."""
        return self

    def take_rows(self, rows: slice | NDArray[np.int64]) -> "Table":
        """Return the table of these rows, with only the categories that occur in them."""
        columns: tuple[Column, ...] = tuple(
            column.take(rows) if isinstance(column, CategoryColumn) else column[rows]
            for column in self.columns
        )
        n_rows = len(range(self.n_rows)[rows]) if isinstance(rows, slice) else len(rows)
        return Table(self.names, columns, n_rows, self.has_names)


def read_table(
    data: Any, *, categorical: Sequence[str | int] = (), may_be_empty: bool = False
) -> Table:
    """Read a table; `categorical` lists numeric columns to be read as categories.

    Text and categories of data frames are categorical anyway. Raises `DataError` for data that
    is no table, has no rows (unless it may be empty), repeats a name, or holds dates, complex
    numbers or objects.
    """
    source = _open(data)
    if source.n_rows == 0 and not may_be_empty:
        raise DataError.stating("the table has no rows (0 samples); give it at least one")
    names = _name_columns(source.labels, len(source.columns))
    chosen = _find_columns(categorical, names)
    if source.matrix is not None and not chosen:
        columns = tuple(source.columns)
        return Table(names, columns, source.n_rows, has_names=False, matrix=source.matrix)
    read = [
        _read(raw, name, source.n_rows, is_categorical=feature in chosen)
        for feature, (raw, name) in enumerate(zip(source.columns, names, strict=True))
    ]
    return Table(names, tuple(read), source.n_rows, source.labels is not None)


class _Source(NamedTuple):
    """A table whose columns are not read yet; no labels: the columns have positions only."""

    columns: Sequence[Any]
    n_rows: int
    labels: Sequence[object] | None
    matrix: Numbers | None = None  # of which the columns are views


def _open(data: Any) -> _Source:
    if hasattr(data, "toarray"):
        raise DataError.stating("sparse tables are not supported; convert with .toarray()")
    frame = open_frame(data)
    if frame is not None:
        source = _Source(frame.columns, frame.n_rows, _find_labels(frame))
    elif isinstance(data, Mapping):
        source = _open_mapping(data)
    else:
        return _open_array(data)
    _check_row_count(source.n_rows)
    return source


def _find_labels(frame: Frame) -> Sequence[object] | None:
    """Return the labels of columns; None where pandas numbered the columns of an array."""
    labels = list(frame.labels)
    return None if labels and labels == list(range(len(labels))) else labels


def _open_mapping(mapping: Mapping[Any, Any]) -> _Source:
    if not mapping:
        raise DataError.stating("the mapping has no columns, so the number of rows is unknown")
    try:
        n_rows = len(next(iter(mapping.values())))
    except TypeError as error:
        raise DataError.stating(
            "a mapping must hold one sequence of values for each column"
        ) from error
    return _Source(list(mapping.values()), n_rows, list(mapping))


def _open_array(data: Any) -> _Source:
    array = as_array(data, "the table")
    if array.ndim != 2:
        raise DataError(
            f"expected a table of rows and columns (a 2D array), got {array.ndim} dimension(s). "
            "Reshape your data with .reshape(-1, 1) for one column or .reshape(1, -1) for one row"
        )
    _check_row_count(len(array))
    refuse_kind(array.dtype.kind, "the table")
    matrix = as_numbers(array) if array.dtype.kind in "biuf" else None
    return _Source(list((array if matrix is None else matrix).T), len(array), None, matrix)


def _check_row_count(n_rows: int) -> None:
    if n_rows > _MAX_ROWS:
        raise DataError(f"the table has {n_rows} rows; at most {_MAX_ROWS} are supported")


def _read(raw: Any, name: str, n_rows: int, *, is_categorical: bool) -> Column:
    column = read_column(raw, f"column {name!r}")
    length = len(column.codes if isinstance(column, CategoryColumn) else column)
    if length != n_rows:
        raise DataError.of("column.length", own_column=name, n_rows=length, n_known=n_rows)
    if is_categorical and isinstance(column, np.ndarray):
        return encode_numbers(column)
    return column


def _name_columns(labels: Sequence[object] | None, n_features: int) -> tuple[str, ...]:
    if labels is None:
        return number_columns(n_features)
    names = tuple(str(label) for label in labels)
    repeated = [name for name, count in Counter(names).items() if count > 1]
    if repeated:
        raise DataError.of("columns.repeated", own_columns=list_names(repeated))
    if not all(map(is_unicode, names)):
        raise DataError.stating("a column name is not valid Unicode; rename the column")
    return names


def _find_columns(columns: Sequence[str | int], names: tuple[str, ...]) -> set[int]:
    """Return the positions of columns given by name or by position."""
    place_of = {name: feature for feature, name in enumerate(names)}
    places = {place_of.get(column, -1) if isinstance(column, str) else column for column in columns}
    if not all(0 <= place < len(names) for place in places):
        raise DataError.stating("`categorical` names a column that the table does not have")
    return places


def common_row_count(n_rows_by_party: Mapping[str, int]) -> int:
    """Return the number of rows of all parties' tables; raises where they differ."""
    counts = set(n_rows_by_party.values())
    if len(counts) > 1:
        told = ", ".join(f"{party!r} has {n_rows}" for party, n_rows in n_rows_by_party.items())
        raise DataError(
            f"the parties' tables have different numbers of rows: {told}; every party must hold "
            "the same rows in the same order, so align them first"
        )
    return counts.pop()


def number_columns(n_features: int) -> tuple[str, ...]:
    """Return names for columns that have none."""
    return tuple(f"x{feature}" for feature in range(n_features))


def list_names(names: Sequence[str]) -> str:
    """Write a few of the names for an error message."""
    shown = ", ".join(repr(name) for name in names[:5])
    return shown if len(names) <= 5 else f"{shown} and {len(names) - 5} more"

"""Tables as users have them, read into columns without copying what need not be copied.

Accepts two-dimensional arrays, lists of rows, mappings from column to values, pandas data frames
and pyarrow tables. What a column means for a model is not decided here; `tree.bins` does that.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedforest.errors import DataError
from fedforest.tree.columns import (
    CategoryColumn,
    Column,
    Numbers,
    as_array,
    as_numbers,
    encode_numbers,
    is_unicode,
    read_column,
    refuse_kind,
)

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
        """The table of these columns, in this order; nothing is copied."""
        columns = tuple(self.columns[feature] for feature in features)
        names = tuple(self.names[feature] for feature in features)
        return Table(names, columns, self.n_rows, self.has_names)

    def take_rows(self, rows: slice | NDArray[np.int64]) -> "Table":
        """The table of these rows, with those categories only that occur in them."""
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

    Text and pandas categories are categorical anyway. Raises `DataError` for what is no table, has
    no rows (unless it may be empty), repeats a name, or holds dates, complex numbers or objects.
    """
    source = _open(data)
    if source.n_rows == 0 and not may_be_empty:
        raise DataError("the table has no rows (0 samples); give it at least one")
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
        raise DataError("sparse tables are not supported; convert with .toarray()")
    if hasattr(data, "iloc") and hasattr(data, "columns"):
        source = _open_frame(data)
    elif hasattr(data, "to_batches"):
        source = _Source(data.columns, data.num_rows, data.column_names)
    elif isinstance(data, Mapping):
        source = _open_mapping(data)
    else:
        return _open_array(data)
    _check_row_count(source.n_rows)
    return source


def _open_frame(frame: Any) -> _Source:
    labels = list(frame.columns)
    columns = [column for _, column in frame.items()]
    # pandas numbers the columns of a nameless array
    is_named = labels != list(range(len(labels))) or not labels
    return _Source(columns, len(frame), labels if is_named else None)


def _open_mapping(mapping: Mapping[Any, Any]) -> _Source:
    if not mapping:
        raise DataError("the mapping has no columns, so the number of rows is unknown")
    try:
        n_rows = len(next(iter(mapping.values())))
    except TypeError as error:
        raise DataError("a mapping must hold one sequence of values for each column") from error
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
        raise DataError(f"column {name!r} has {length} rows, the first column has {n_rows}")
    if is_categorical and isinstance(column, np.ndarray):
        return encode_numbers(column)
    return column


def _name_columns(labels: Sequence[object] | None, n_features: int) -> tuple[str, ...]:
    if labels is None:
        return number_columns(n_features)
    names = tuple(str(label) for label in labels)
    repeated = [name for name, count in Counter(names).items() if count > 1]
    if repeated:
        raise DataError(f"column names must differ, but {list_names(repeated)} is repeated")
    if not all(map(is_unicode, names)):
        raise DataError("a column name is not valid Unicode; rename the column")
    return names


def _find_columns(columns: Sequence[str | int], names: tuple[str, ...]) -> set[int]:
    """The positions of columns given by name or by position."""
    place_of = {name: feature for feature, name in enumerate(names)}
    places = {place_of.get(column, -1) if isinstance(column, str) else column for column in columns}
    if not all(0 <= place < len(names) for place in places):
        raise DataError("`categorical` names a column that the table does not have")
    return places


def common_row_count(n_rows_by_party: Mapping[str, int]) -> int:
    """The number of rows of all parties' tables; refused where they differ."""
    counts = set(n_rows_by_party.values())
    if len(counts) > 1:
        told = ", ".join(f"{party!r} has {n_rows}" for party, n_rows in n_rows_by_party.items())
        raise DataError(
            f"the parties' tables have different numbers of rows: {told}; every party must hold "
            "the same rows in the same order, so align them first"
        )
    return counts.pop()


def number_columns(n_features: int) -> tuple[str, ...]:
    """The names of columns that have none."""
    return tuple(f"x{feature}" for feature in range(n_features))


def list_names(names: Sequence[str]) -> str:
    """A few of the names, for an error message."""
    shown = ", ".join(repr(name) for name in names[:5])
    return shown if len(names) <= 5 else f"{shown} and {len(names) - 5} more"

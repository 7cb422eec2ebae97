"""Reading of data frames and series of other libraries: pandas, polars, pyarrow and modin.

narwhals tells which library an object is of, what its columns are called and of which types they
are. None of these libraries is imported here, and narwhals only for objects that may be theirs.
Text and categories are numbered by the library's own means, so no row becomes a Python object.
"""

import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedforest.errors import DataError
from fedforest.tree.table.columns import (
    NUMBER_KINDS,
    Column,
    as_array,
    as_numbers,
    encode,
    encode_objects,
    read_array,
    refuse_kind,
)

if TYPE_CHECKING:
    from narwhals.stable.v2.dtypes import DType

_NEVER_A_FRAME = (np.ndarray, list, tuple, Mapping, str, bytes, int, float, type(None))
_SIGNS_OF_A_FRAME = ("__dataframe__", "__arrow_c_stream__", "columns")
_KIND_OF_REFUSED = {  # of narwhals' types: numpy's letter for the same
    "Date": "M",
    "Datetime": "M",
    "Time": "M",
    "Duration": "m",
    "Binary": "S",
    "List": "V",
    "Array": "V",
    "Struct": "V",
}
_TEXT = ("String", "Categorical", "Enum")
_TOO_WIDE_FOR_NUMPY = ("Int128", "UInt128")


class FrameColumn(NamedTuple):
    """A series, or a column of a data frame, as its library holds it."""

    native: Any
    dtype: "DType"
    library: str  # "pandas" stands for all libraries with its interface

    @property
    def kind(self) -> str:
        """The name of the type, without its parameters."""
        return type(self.dtype).__name__


class Frame(NamedTuple):
    """A data frame whose columns are not read yet."""

    labels: Sequence[object]
    columns: Sequence[FrameColumn]
    n_rows: int


def open_frame(data: Any, where: str = "the table") -> Frame | None:
    """Open a data frame of any library; return None for anything else.

    Raises `DataError` for lazy frames, and for tables with names of libraries that narwhals does
    not know: as arrays they would lose their names.
    """
    if isinstance(data, _NEVER_A_FRAME):
        return None
    import narwhals.stable.v2 as nw  # noqa: PLC0415 - arrays do without it

    try:
        known = nw.from_native(_complete(data), allow_series=True, pass_through=True)
    except nw.exceptions.DuplicateError:
        labels = data.column_names if hasattr(data, "column_names") else data.columns
        return Frame(list(labels), (), len(data))  # refused once its columns are named
    if isinstance(known, nw.LazyFrame):
        raise DataError(
            f"{where} is a lazy frame, so its rows are not there yet; collect them first, for "
            "example with .collect()"
        )
    if isinstance(known, nw.DataFrame):
        return _list_columns(known)
    is_unknown = not isinstance(known, nw.Series)
    if is_unknown and any(hasattr(data, sign) for sign in _SIGNS_OF_A_FRAME):
        raise DataError(
            f"{where} is a {type(data).__module__}.{type(data).__name__}, a data frame of a kind "
            "that cannot be read; convert it to pandas, polars or pyarrow"
        )
    return None


def is_frame(data: Any) -> bool:
    """Return whether `data` is a data frame of a known library, lazy or not."""
    if isinstance(data, _NEVER_A_FRAME):
        return False
    import narwhals.stable.v2 as nw  # noqa: PLC0415 - as above

    known = nw.from_native(_complete(data), pass_through=True)
    return isinstance(known, nw.DataFrame | nw.LazyFrame)


def row_labels(data: Any) -> Any:
    """Return the index of a frame or series; None for libraries whose rows have no labels."""
    return data.index if hasattr(data, "iloc") else None


def read_column(data: Any, where: str) -> Column:
    """Read one sequence of values; `where` names the column in errors.

    Numbers and booleans become numbers, and so do objects that are all numbers. Text, categories
    and objects among which there is text become categories.
    """
    column = data if isinstance(data, FrameColumn) else _open_series(data)
    if column is None:
        return read_array(as_array(data, where), where)
    _refuse_type(column, where)
    if column.dtype.is_numeric() or column.kind == "Boolean":
        return as_numbers(_to_numbers(column))
    if column.library == "pandas" and column.native.dtype == object:
        return encode_objects(column.native.factorize, where)
    if column.kind in _TEXT:
        return encode(*_number_categories(column), where)
    return read_array(column.native.to_numpy(), where)  # rare types: sparse, complex, nulls alone


def read_vector(data: Any, where: str) -> NDArray[Any]:
    """Read targets, weights or owners of rows as an array; a data frame gives two dimensions."""
    column = _open_series(data)
    if column is not None:
        return _to_array(column)
    frame = open_frame(data, where)
    if frame is not None and frame.columns:
        return np.column_stack([_to_array(column) for column in frame.columns])
    try:
        return np.asarray(data)
    except ValueError:
        raise DataError(f"{where} is ragged; expected one value for each row.") from None


def _complete(data: Any) -> Any:
    """Turn pieces of tables and columns, unknown to narwhals, into whole ones."""
    arrow, pandas = sys.modules.get("pyarrow"), sys.modules.get("pandas")
    if arrow is not None and isinstance(data, arrow.RecordBatch):
        return arrow.Table.from_batches([data])
    if arrow is not None and isinstance(data, arrow.Array):
        return arrow.chunked_array([data])
    if pandas is not None and isinstance(data, pandas.Index | pandas.api.extensions.ExtensionArray):
        return pandas.Series(data)
    return data


def _list_columns(frame: Any) -> Frame:
    """List all columns and types at once: one by one, narwhals takes three times as long."""
    library = _name_library(frame)
    native, types = frame.to_native(), frame.schema.values()
    if library == "pandas":
        columns = [column for _, column in native.items()]
    else:
        columns = native.get_columns() if library == "polars" else native.columns
    described = [
        FrameColumn(column, dtype, library) for column, dtype in zip(columns, types, strict=True)
    ]
    return Frame(frame.columns, described, len(native))


def _open_series(data: Any) -> FrameColumn | None:
    if isinstance(data, _NEVER_A_FRAME):
        return None
    import narwhals.stable.v2 as nw  # noqa: PLC0415 - as above

    known = nw.from_native(_complete(data), allow_series=True, pass_through=True)
    if not isinstance(known, nw.Series):
        return None
    return FrameColumn(known.to_native(), known.dtype, _name_library(known))


def _name_library(known: Any) -> str:
    library = known.implementation
    return "pandas" if library.is_pandas_like() else str(library.value)


def _refuse_type(column: FrameColumn, where: str) -> None:
    if column.kind == "Decimal":
        raise DataError(f"{where} holds decimals; convert them to floats")
    if column.kind in _KIND_OF_REFUSED:
        refuse_kind(_KIND_OF_REFUSED[column.kind], where)


def _to_numbers(column: FrameColumn) -> NDArray[Any]:
    """Convert numbers and booleans, with NaN for nulls."""
    if column.kind not in _TOO_WIDE_FOR_NUMPY:
        values: NDArray[Any] = column.native.to_numpy()
        if values.dtype.kind in NUMBER_KINDS:
            return values
    import narwhals.stable.v2 as nw  # noqa: PLC0415 - as above

    wide = nw.from_native(column.native, series_only=True).cast(nw.Float64)
    return np.asarray(wide.to_numpy())


def _to_array(column: FrameColumn) -> NDArray[Any]:
    """Return the values unchanged: text stays text, also where it is stored as categories."""
    if (column.dtype.is_numeric() and column.kind != "Decimal") or column.kind == "Boolean":
        return _to_numbers(column)
    native = column.native
    if column.library == "pyarrow" and column.kind == "Categorical":
        native = native.cast(native.type.value_type)  # pyarrow would read nulls as a category
    values: NDArray[Any] = native.to_numpy()
    return values


def _number_categories(column: FrameColumn) -> tuple[NDArray[Any], Iterable[object]]:
    """Return the number of each row's category, -1 if missing, and the categories."""
    native = column.native
    if column.library == "pandas":
        codes, values = native.factorize()
        return np.asarray(codes), values
    if column.library == "pyarrow":
        encoded = native.dictionary_encode().unify_dictionaries()
        pieces = [chunk.indices.fill_null(-1) for chunk in encoded.chunks]
        values = encoded.chunk(0).dictionary.to_pylist() if pieces else []
        return np.concatenate([np.empty(0, np.int32), *pieces]), values
    import narwhals.stable.v2 as nw  # noqa: PLC0415 - as above

    series = nw.from_native(native, series_only=True)
    values = series.drop_nulls().unique().to_list()
    numbered = series.cast(nw.Enum(values)).to_native().to_physical()
    codes = nw.from_native(numbered, series_only=True).cast(nw.Int32).fill_null(-1)
    return codes.to_numpy(), values

"""Convert columns to numbers or categories, with missing values marked as missing.

The kind is inferred from the type that the source gives a column, unless the owner states another.
A date has no kind by itself: its owner must choose one.
"""

from collections.abc import Sequence
from typing import Any

from fedforest.errors import DataError
from fedforest.runtime.party.catalogue.entries import Entry, Kind, Missing


def kind_of(column: Any) -> Kind | None:
    """Infer a column's kind from its type; None if neither kind fits."""
    import pyarrow.types as types  # noqa: PLC0415, PLR0402 - only parties with tables need it

    kind = column.type
    if types.is_dictionary(kind) or _is_text(kind):
        return "category"
    is_number = (
        types.is_integer(kind)
        or types.is_floating(kind)
        or types.is_decimal(kind)
        or types.is_boolean(kind)
        or types.is_null(kind)
    )
    return "number" if is_number or _is_numeric_text(kind) else None


def prepare_columns(name: str, table: Any, entry: Entry) -> Any:
    """Return the columns of a table without its ids, each as numbers or categories."""
    import pyarrow  # noqa: PLC0415 - as above

    names = [column for column in table.column_names if column not in entry.id]
    columns = [
        _prepare(
            table.column(column),
            entry.types.get(column),
            entry.missing,
            f"column {column!r} of data set {name!r}",
        )
        for column in names
    ]
    if not names:  # a table of ids alone still has rows
        return table.select([])
    return pyarrow.Table.from_arrays(columns, names)


def _prepare(column: Any, wanted: Kind | None, missing: Sequence[Missing], where: str) -> Any:
    kind = wanted or kind_of(column)
    if kind is None:
        raise DataError.of("column.kind", where=where, kinds=column.type)
    column = _remove_missing(column, missing)
    return _to_number(column, where) if kind == "number" else _to_category(column, where)


def _remove_missing(column: Any, missing: Sequence[Missing]) -> Any:
    """Mark values that stand for missing ones as missing."""
    import pyarrow  # noqa: PLC0415 - as above
    import pyarrow.compute as pc  # noqa: PLC0415 - as above

    types = pyarrow.types
    if types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if _is_text(column.type):
        values = pyarrow.array([str(value) for value in missing], column.type)
    elif types.is_integer(column.type) or types.is_floating(column.type):
        numbers = [value for value in map(_as_number, missing) if value is not None]
        values = pyarrow.array(numbers, pyarrow.float64())
        if len(values):
            is_missing = pc.is_in(column.cast(pyarrow.float64(), safe=False), value_set=values)
            return pc.if_else(is_missing, pyarrow.scalar(None, column.type), column)
        return column
    else:
        return column
    if not len(values):
        return column
    is_missing = pc.is_in(column, value_set=values)
    return pc.if_else(is_missing, pyarrow.scalar(None, column.type), column)


def _as_number(value: Missing) -> float | None:
    try:
        return float(value)
    except ValueError:
        return None


def _to_number(column: Any, where: str) -> Any:
    """Convert to numbers; dates become days, and timestamps seconds, since the start of 1970."""
    import pyarrow  # noqa: PLC0415 - as above

    kind, types = column.type, pyarrow.types
    if _is_numeric_text(kind):
        column = pyarrow.chunked_array(
            [chunk.storage for chunk in column.chunks], kind.storage_type
        )
    if types.is_date(kind):
        column = column.cast(pyarrow.date32()).cast(pyarrow.int32())
    elif types.is_timestamp(kind):
        seconds = column.cast(pyarrow.timestamp("us", kind.tz)).cast(pyarrow.int64())
        return pyarrow.compute.divide(seconds.cast(pyarrow.float64()), 1e6)
    is_plain = types.is_integer(column.type) or types.is_floating(column.type)
    if is_plain or types.is_boolean(column.type):
        return column
    try:
        return column.cast(pyarrow.float64())
    except pyarrow.ArrowException:  # its text quotes a value
        raise DataError.of("column.no_number", where=where) from None


def _to_category(column: Any, where: str) -> Any:
    """Convert to categories; text stays text, numbers become a list of categories and codes."""
    import pyarrow  # noqa: PLC0415 - as above

    types = pyarrow.types
    if types.is_decimal(column.type):
        column = column.cast(pyarrow.float64())
    is_plain = kind_of(column) is not None and not _is_numeric_text(column.type)
    try:
        if not is_plain:
            column = column.cast(pyarrow.string())
        return column.dictionary_encode() if not _is_text(column.type) else column
    except pyarrow.ArrowException:
        raise DataError.of("column.no_category", where=where) from None


def _is_text(kind: Any) -> bool:
    import pyarrow.types as types  # noqa: PLC0415, PLR0402 - as above

    return bool(types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind))


def _is_numeric_text(kind: Any) -> bool:
    """Tell whether this is PostgreSQL's `numeric`, which arrow carries as text."""
    return getattr(kind, "type_name", "") == "numeric" and hasattr(kind, "storage_type")

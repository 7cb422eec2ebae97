"""Normalise ids of rows, so that two parties write the same id as the same bytes.

- Text is stripped of white space at both ends and brought to Unicode's composed form (NFC).
- Whole numbers are written in decimal, floats among them if they are whole: 7, 7.0 and "7" are one
  id; "007" is another, as are "a" and "A".
- Dates are written in ISO 8601. Any other type is refused.
- Several columns are written one after the other, each as its length in bytes, a colon and the
  value: rows with different values never give the same bytes.

Every row must have an id: without one, no other party can find it.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedforest.errors import DataError

_LARGEST_EXACT = 2**53  # beyond, floats stand for several whole numbers


def normalise_ids(data_set: str, columns: Any) -> NDArray[np.object_]:
    """Return the ids of all rows; `columns` is a pyarrow table of one or several columns."""
    import pyarrow  # noqa: PLC0415 - only parties with tables need it
    import pyarrow.compute as pc  # noqa: PLC0415 - as above

    parts = [
        _write(column, f"id column {name!r} of data set {data_set!r}")
        for name, column in zip(columns.column_names, columns.columns, strict=True)
    ]
    if len(parts) > 1:
        colon, nothing = (pyarrow.scalar(text, pyarrow.binary()) for text in (b":", b""))
        lengths = [pc.binary_length(part).cast(pyarrow.string()) for part in parts]
        pieces = [
            piece
            for length, part in zip(lengths, parts, strict=True)
            for piece in (length.cast(pyarrow.binary()), colon, part)
        ]
        parts = [pc.binary_join_element_wise(*pieces, nothing)]
    ids = np.empty(columns.num_rows, object)
    ids[:] = parts[0].to_pylist()
    return ids


def _write(column: Any, where: str) -> Any:
    """Write one column as binary values."""
    import pyarrow  # noqa: PLC0415 - as above
    import pyarrow.compute as pc  # noqa: PLC0415 - as above

    if column.null_count:
        raise DataError.of("ids.empty", where=where)
    if pyarrow.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if pyarrow.types.is_floating(column.type):
        column = _whole_numbers(column, where)
    text = _as_text(column, where)
    if pyarrow.types.is_string(column.type) or pyarrow.types.is_large_string(column.type):
        text = pc.utf8_normalize(pc.utf8_trim_whitespace(text), form="NFC")
    if pc.any(pc.equal(pc.binary_length(text), 0)).as_py():
        raise DataError.of("ids.empty", where=where)
    return text.cast(pyarrow.binary())


def _as_text(column: Any, where: str) -> Any:
    import pyarrow  # noqa: PLC0415 - as above

    kind, types = column.type, pyarrow.types
    is_whole_decimal = types.is_decimal(kind) and kind.scale == 0
    if not (
        types.is_string(kind)
        or types.is_large_string(kind)
        or types.is_string_view(kind)
        or types.is_integer(kind)
        or types.is_date(kind)
        or is_whole_decimal
    ):
        raise DataError.of("ids.kind", where=where)
    return column.cast(pyarrow.string())


def _whole_numbers(column: Any, where: str) -> Any:
    import pyarrow  # noqa: PLC0415 - as above
    import pyarrow.compute as pc  # noqa: PLC0415 - as above

    values = column.cast(pyarrow.float64())
    is_whole = pc.and_(
        pc.equal(values, pc.floor(values)), pc.less(pc.abs(values), float(_LARGEST_EXACT))
    )
    if not pc.all(is_whole).as_py():
        raise DataError.of("ids.not_whole", where=where)
    return values.cast(pyarrow.int64())

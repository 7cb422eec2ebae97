"""One column of a table: numbers, or codes into a list of categories.

A missing value is NaN among numbers and -1 among codes; NaN, None and pandas' NA all count as
missing. Equal numbers are one category, however they were stored: True, 1 and 1.0 are all 1.
Columns of data frames are read by `data_frames.py`.
"""

import math
import re
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from itertools import count
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fedforest.errors import DataError

Category: TypeAlias = str | int | float
Numbers: TypeAlias = NDArray[np.float32] | NDArray[np.float64]
# the number of each row's value, -1 for none, and the values by number
Numbering: TypeAlias = Callable[[], tuple[NDArray[Any], Iterable[object]]]

NUMBER_KINDS = "biuf"
_PANDAS_MISSING = ("NAType", "NaTType")
_SURROGATE = re.compile("[\ud800-\udfff]")
_REFUSED_KINDS = {
    "M": "holds dates or times; convert them to numbers or to text",
    "m": "holds time spans; convert them to numbers, such as seconds",
    "c": "is complex. Complex data not supported; split it into real and imaginary part",
    "S": "holds bytes; decode them to text",
}


@dataclass(frozen=True, slots=True, eq=False)
class CategoryColumn:
    """The category of each row; `values` are distinct, in no particular order."""

    codes: NDArray[np.int32]  # positions in `values`; -1 is missing
    values: tuple[Category, ...]

    def take(self, rows: slice | NDArray[np.int64]) -> "CategoryColumn":
        """Return the column of these rows, without categories that none of them has."""
        codes = self.codes[rows]
        occurs = np.zeros(len(self.values) + 1, np.bool_)
        occurs[codes] = True  # a missing one, -1, marks the last place
        kept = np.flatnonzero(occurs[:-1])
        renumbered = np.full(len(self.values) + 1, -1, np.int32)
        renumbered[kept] = np.arange(len(kept), dtype=np.int32)
        return CategoryColumn(renumbered[codes], tuple(self.values[code] for code in kept))


Column: TypeAlias = Numbers | CategoryColumn


def as_array(data: Any, where: str) -> NDArray[Any]:
    """Turn nested sequences into an array whose numbers stay numbers next to text."""
    if isinstance(data, np.ma.MaskedArray):
        statement = "is a masked array; use .filled(np.nan) to mark missing values"
        raise DataError.of("column.unfit", where=where, statement=statement)
    try:
        array = np.asarray(data)
        if array.dtype.kind == "U" and not isinstance(data, np.ndarray):
            array = np.asarray(data, dtype=object)
    except (ValueError, TypeError) as error:
        statement = "is not a regular array: are its rows equally long?"
        raise DataError.of("column.unfit", where=where, statement=statement) from error
    return array


def as_numbers(array: NDArray[Any]) -> Numbers:
    """Convert to float32 where that is exact, else to float64; keep floats of these types."""
    is_narrow = array.dtype.itemsize <= (4 if array.dtype.kind == "f" else 2)
    with np.errstate(over="ignore"):  # a long double beyond float64 becomes infinite
        if is_narrow:
            return array.astype(np.float32, copy=False)
        return array.astype(np.float64, copy=False)


def encode_numbers(values: Numbers) -> CategoryColumn:
    """Read a column of numbers as categories."""
    distinct, codes = np.unique(values, return_inverse=True)
    return encode(codes, distinct.tolist(), "column")


def refuse_kind(kind: str, where: str) -> None:
    """Raise for the kinds of dtype that stand for neither numbers nor categories."""
    if kind not in NUMBER_KINDS + "UTO":
        reason = _REFUSED_KINDS.get(kind, "holds neither numbers nor text; convert it")
        raise DataError.of("column.unfit", where=where, statement=reason)


def read_array(array: NDArray[Any], where: str) -> Column:
    """Read a column that numpy holds; objects that are all numbers become numbers."""
    if array.ndim != 1:
        raise DataError(f"{where} has {array.ndim} dimensions; a column has one")
    refuse_kind(array.dtype.kind, where)
    if array.dtype.kind in NUMBER_KINDS:
        return as_numbers(array)
    number = partial(_number_objects, array.tolist())
    return encode_objects(number, where) if array.dtype.kind == "O" else encode(*number(), where)


def encode_objects(number: Numbering, where: str) -> Column:
    """Read objects of any types: numbers if all are, else categories.

    `number` numbers the distinct objects; it raises `TypeError` where some cannot be compared.
    """
    try:
        codes, values = number()
    except TypeError as error:
        raise _wrong_type(where, "that are neither numbers nor text") from error
    return _numbers_if_all_are(encode(np.asarray(codes), values, where))


def encode(codes: NDArray[Any], values: Iterable[object], where: str) -> CategoryColumn:
    """Make categories canonical, which may merge some, and turn missing ones into code -1."""
    code_of: dict[Category, int] = {}
    new_codes = [
        -1 if _is_missing(value) else code_of.setdefault(_canonical(value, where), len(code_of))
        for value in values
    ]
    renumbered = np.array([*new_codes, -1], np.int32)[codes]  # code -1 finds the -1 at the end
    return CategoryColumn(renumbered, tuple(code_of))


def _number_objects(values: list[object]) -> tuple[NDArray[np.int32], Iterable[object]]:
    code_of: defaultdict[object, int] = defaultdict(count().__next__)  # new values get new codes
    codes = np.fromiter(map(code_of.__getitem__, values), np.int32, len(values))
    return codes, code_of


def _numbers_if_all_are(column: CategoryColumn) -> Column:
    if any(isinstance(value, str) for value in column.values):
        return column
    return np.array([*column.values, np.nan], np.float64)[column.codes]


def _is_missing(value: object) -> bool:
    if isinstance(value, float | np.floating):
        return bool(np.isnan(value))
    return value is None or type(value).__name__ in _PANDAS_MISSING


def _canonical(value: object, where: str) -> Category:
    """Return the canonical form of a category, which is sorted and stored."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, str):
        category: Category = str(value)
    elif isinstance(value, int) or (isinstance(value, float) and _is_exact_integer(value)):
        category = int(value)
    elif isinstance(value, float):
        category = value
    else:
        raise _wrong_type(where, f"of type {type(value).__name__}")
    if not is_canonical(category):
        raise _wrong_type(where, "beyond the limits of their type")
    return category


def is_canonical(category: Category) -> bool:
    """Return whether a category is canonical and can be stored."""
    if isinstance(category, str):
        return is_unicode(category)
    if isinstance(category, int):
        return abs(category) < 2**64
    return not (math.isnan(category) or _is_exact_integer(category))


def is_unicode(text: str) -> bool:
    """Return whether the text can be stored: half a surrogate pair cannot."""
    return text.isascii() or _SURROGATE.search(text) is None


def _is_exact_integer(value: float) -> bool:
    return value.is_integer() and abs(value) < 2**53


def _wrong_type(where: str, what: str) -> DataError:
    advice = "use numbers of at most 64 bits, valid text or missing values"
    return DataError.of("column.unfit", where=where, statement=f"holds values {what}; {advice}")

"""One column of a table: numbers, or codes into a list of categories.

A missing value is NaN among numbers and -1 among codes; NaN, None and pandas' NA all count as
missing. Equal numbers are one category, however they were stored: True, 1 and 1.0 are all 1. pandas
and pyarrow are recognised by what their columns can do and never imported.
"""

import math
import re
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import count
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fedforest.errors import DataError

Category: TypeAlias = str | int | float
Numbers: TypeAlias = NDArray[np.float32] | NDArray[np.float64]

_NUMBER_KINDS = "biuf"
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
        """The column of these rows; categories that none of them has are forgotten."""
        codes = self.codes[rows]
        occurs = np.zeros(len(self.values) + 1, np.bool_)
        occurs[codes] = True  # a missing one, -1, marks the last place
        kept = np.flatnonzero(occurs[:-1])
        renumbered = np.full(len(self.values) + 1, -1, np.int32)
        renumbered[kept] = np.arange(len(kept), dtype=np.int32)
        return CategoryColumn(renumbered[codes], tuple(self.values[code] for code in kept))


Column: TypeAlias = Numbers | CategoryColumn


def read_column(data: Any, where: str) -> Column:
    """Read one sequence of values; `where` names the column in errors.

    Numbers and booleans become numbers, and so do objects that are all numbers. Text, pandas
    categories and objects among which there is text become categories.
    """
    if hasattr(data, "factorize"):
        return _read_pandas(data, where)
    if hasattr(data, "unify_dictionaries"):
        return _read_arrow(data, where)
    return _read_array(as_array(data, where), where)


def as_array(data: Any, where: str) -> NDArray[Any]:
    """Turn nested sequences into an array whose numbers stay numbers next to text."""
    if isinstance(data, np.ma.MaskedArray):
        raise DataError(f"{where} is a masked array; use .filled(np.nan) to mark missing values")
    try:
        array = np.asarray(data)
        if array.dtype.kind == "U" and not isinstance(data, np.ndarray):
            array = np.asarray(data, dtype=object)
    except (ValueError, TypeError) as error:
        raise DataError(f"{where} is not a regular array: are its rows equally long?") from error
    return array


def as_numbers(array: NDArray[Any]) -> Numbers:
    """Convert to float32 where that is exact, else to float64; floats of these types stay."""
    is_narrow = array.dtype.itemsize <= (4 if array.dtype.kind == "f" else 2)
    with np.errstate(over="ignore"):  # a long double beyond float64 becomes infinite
        if is_narrow:
            return array.astype(np.float32, copy=False)
        return array.astype(np.float64, copy=False)


def encode_numbers(values: Numbers) -> CategoryColumn:
    """Read a column of numbers as categories."""
    distinct, codes = np.unique(values, return_inverse=True)
    return _encode(codes, distinct.tolist(), "column")


def refuse_kind(kind: str, where: str) -> None:
    """Raise for the kinds of dtype that stand for neither numbers nor categories."""
    if kind not in _NUMBER_KINDS + "UTO":
        reason = _REFUSED_KINDS.get(kind, "holds neither numbers nor text; convert it")
        raise DataError(f"{where} {reason}")


def _read_array(array: NDArray[Any], where: str) -> Column:
    if array.ndim != 1:
        raise DataError(f"{where} has {array.ndim} dimensions; a column has one")
    refuse_kind(array.dtype.kind, where)
    if array.dtype.kind in _NUMBER_KINDS:
        return as_numbers(array)
    values = array.tolist()
    code_of: defaultdict[object, int] = defaultdict(count().__next__)  # new values get new codes
    try:
        codes = np.fromiter(map(code_of.__getitem__, values), np.int32, len(values))
    except TypeError as error:
        raise _wrong_type(where, "that are neither numbers nor text") from error
    column = _encode(codes, code_of, where)
    return _numbers_if_all_are(column) if array.dtype.kind == "O" else column


def _read_pandas(series: Any, where: str) -> Column:
    dtype = series.dtype
    is_numpy = isinstance(dtype, np.dtype)
    refuse_kind(dtype.kind, where)
    if dtype.kind == "O":
        try:
            codes, values = series.factorize()
        except TypeError as error:
            raise _wrong_type(where, "that are neither numbers nor text") from error
        column = _encode(np.asarray(codes), values, where)
        return _numbers_if_all_are(column) if is_numpy else column
    if dtype.kind in _NUMBER_KINDS and not is_numpy:
        return as_numbers(series.to_numpy(dtype=np.float64, na_value=np.nan))
    return _read_array(series.to_numpy(), where)


def _read_arrow(chunks: Any, where: str) -> Column:
    kind = str(chunks.type)
    if kind.endswith(("string", "string_view")) or kind.startswith("dictionary"):
        encoded = chunks.dictionary_encode().unify_dictionaries()
        codes = [chunk.indices.fill_null(-1) for chunk in encoded.chunks]
        values = encoded.chunk(0).dictionary.to_pylist() if codes else []
        return _encode(np.concatenate([np.empty(0, np.int32), *codes]), values, where)
    return _read_array(chunks.to_numpy(), where)


def _encode(codes: NDArray[Any], values: Iterable[object], where: str) -> CategoryColumn:
    """Bring categories into their one form, which may unite some, and take out missing ones."""
    code_of: dict[Category, int] = {}
    new_codes = [
        -1 if _is_missing(value) else code_of.setdefault(_canonical(value, where), len(code_of))
        for value in values
    ]
    renumbered = np.array([*new_codes, -1], np.int32)[codes]  # code -1 finds the -1 at the end
    return CategoryColumn(renumbered, tuple(code_of))


def _numbers_if_all_are(column: CategoryColumn) -> Column:
    if any(isinstance(value, str) for value in column.values):
        return column
    return np.array([*column.values, np.nan], np.float64)[column.codes]


def _is_missing(value: object) -> bool:
    if isinstance(value, float | np.floating):
        return bool(np.isnan(value))
    return value is None or type(value).__name__ in _PANDAS_MISSING


def _canonical(value: object, where: str) -> Category:
    """The one form of a category, which decides how it is sorted and stored."""
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
    """Whether a category is in its one form and can be stored."""
    if isinstance(category, str):
        return is_unicode(category)
    if isinstance(category, int):
        return abs(category) < 2**64
    return not (math.isnan(category) or _is_exact_integer(category))


def is_unicode(text: str) -> bool:
    """Whether the text can be stored: half a surrogate pair cannot."""
    return text.isascii() or _SURROGATE.search(text) is None


def _is_exact_integer(value: float) -> bool:
    return value.is_integer() and abs(value) < 2**53


def _wrong_type(where: str, what: str) -> DataError:
    return DataError(
        f"{where} holds values {what}; use numbers of at most 64 bits, valid text or missing values"
    )

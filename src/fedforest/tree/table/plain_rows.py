"""Rows of plain values, such as JSON has, as float64 for a forest that is prepared for rows.

A row is a sequence of values in the order of the model's columns, or a mapping from their names.
None is a missing value. A column of the model stays what it was in training: text in a column of
numbers is refused, a category that training did not see is missing.
"""

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fedforest.errors import DataError
from fedforest.kernels.layout import MISSING_BIN
from fedforest.tree.table.bins import Bins
from fedforest.tree.table.categories import RARE_BIN
from fedforest.tree.table.frames import list_names

if TYPE_CHECKING:
    from fedforest.tree.table.columns import Category

Value: TypeAlias = str | int | float | bool | None
PlainRow: TypeAlias = Sequence[Value] | Mapping[str, Value]


class RowReader:
    """Reads rows as a model's columns want them; `rounds` to float32, as thresholds are."""

    def __init__(self, bins: Bins, *, rounds: bool) -> None:
        self._bins = bins
        self._rounds = rounds
        self._codes: dict[int, dict[Category, int]] = {
            feature: {
                value: min(code, RARE_BIN) for code, value in enumerate(bins.categories(feature))
            }
            for feature in np.flatnonzero(bins.is_categorical).tolist()
        }

    @property
    def holds_categories(self) -> bool:
        """Whether any column of the model is categorical."""
        return bool(self._codes)

    def read(self, rows: Sequence[PlainRow]) -> NDArray[np.float64]:
        """Return (rows, columns); raises `DataError` naming the row, by number, and the column."""
        ordered = [self._order(number, row) for number, row in enumerate(rows)]
        if self._codes:
            ordered = [self._encode(number, row) for number, row in enumerate(ordered)]
        values = np.array(ordered)
        if values.dtype.kind not in "fiub":  # with None, numbers beyond 64 bits or text
            values = self._read_objects(ordered)
        values = values.astype(np.float64, copy=False)
        if self._rounds:
            with np.errstate(over="ignore"):  # beyond float32 is infinite, as in tables
                values = values.astype(np.float32).astype(np.float64)
        return values.reshape(len(rows), self._bins.n_features)

    def _order(self, number: int, row: PlainRow) -> Sequence[Value]:
        if isinstance(row, Mapping):
            return self._by_name(number, row)
        if len(row) != self._bins.n_features:
            raise DataError(
                f"row {number} has {len(row)} values; the model has {self._bins.n_features} columns"
            )
        return row

    def _by_name(self, number: int, row: Mapping[str, Value]) -> list[Value]:
        try:
            return [row[name] for name in self._bins.names]
        except KeyError:
            missing = [name for name in self._bins.names if name not in row]
            raise DataError(
                f"row {number} has no column {list_names(missing)}, which the model needs; "
                "a missing value is null"
            ) from None

    def _encode(self, number: int, row: Sequence[Value]) -> list[Value]:
        """Replace categories by their codes, and refuse text elsewhere."""
        encoded = list(row)
        for feature, value in enumerate(row):
            codes = self._codes.get(feature)
            if codes is not None:
                is_missing = value is None or (isinstance(value, float) and math.isnan(value))
                encoded[feature] = MISSING_BIN if is_missing else codes.get(value, MISSING_BIN)  # type: ignore[arg-type] # not None
            elif isinstance(value, str):
                raise self._text_in(number, feature)
        return encoded

    def _read_objects(self, rows: Sequence[Sequence[Value]]) -> NDArray[np.float64]:
        for number, row in enumerate(rows):
            for feature, value in enumerate(row):
                if not isinstance(value, int | float | None):
                    raise self._text_in(number, feature)
        try:
            return np.array(rows, np.float64)
        except OverflowError:
            raise DataError("a number is beyond the range of float64") from None

    def _text_in(self, number: int, feature: int) -> DataError:
        name = self._bins.names[feature]
        return DataError(f"row {number}: column {name!r} had numbers in training, and has text")

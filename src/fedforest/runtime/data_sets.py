"""A table that a party takes part with, as runs see it.

A table here is columns by name. Which of them are features follows from the run: all but its label
and its weight. Columns of ids are apart from the others: no run can use them as anything else.
"""

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from fedforest.errors import DataError, UnknownColumn
from fedforest.runtime.catalogue.ids import normalise_ids
from fedforest.tree.table import Table, list_names, read_table


class DataSets(Protocol):
    """What a party can take part with."""

    def read(self, name: str) -> "DataSet":
        """The data set of this name, the same one as long as it does not change.

        Raises `DataError` where there is none.
        """

    def renew(self, name: str) -> None:
        """A run or a prediction begins: what may have changed unnoticed is to be read again."""


@dataclass(frozen=True, slots=True, eq=False)
class DataSet:
    """One table with named columns, as pyarrow holds it."""

    name: str
    columns: Any  # pyarrow.Table
    id_columns: Any = None  # pyarrow.Table, None where no id is configured

    @property
    def n_rows(self) -> int:
        """How many rows there are."""
        n_rows: int = self.columns.num_rows
        return n_rows

    def ids(self) -> NDArray[np.object_]:
        """The id of each row, as bytes in their one form (`catalogue/ids.py`)."""
        if self.id_columns is None:
            raise DataError(
                f"data set {self.name!r} has no id column, and rows are to be matched by ids; its "
                "owner names one with `fedforest party data add --id COLUMN --replace`"
            )
        return normalise_ids(self.name, self.id_columns)

    def take(self, rows: NDArray[np.integer]) -> "DataSet":
        """The data set of these rows, in this order."""
        ids = None if self.id_columns is None else self.id_columns.take(rows)
        return replace(self, columns=self.columns.take(rows), id_columns=ids)

    def without(self, names: Collection[str]) -> "DataSet":
        """The data set without some columns, as if they were not there."""
        kept = [name for name in self.columns.column_names if name not in names]
        return replace(self, columns=self.columns.select(kept))

    def features(self, without: Collection[str | None] = ()) -> Table:
        """All columns but some; ids are none."""
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
        """The values of one column; raises `UnknownColumn` where there is none of this name."""
        self.check_has(name)
        return np.asarray(self.columns.column(name).to_pandas())

    def check_has(self, name: str) -> None:
        """Raise `UnknownColumn` where there is no column of this name."""
        if name not in self.columns.column_names:
            raise UnknownColumn(f"data set {self.name!r} has no column {name!r}")

    def _read(self, names: list[str]) -> Table:
        if not names:
            return Table((), (), self.columns.num_rows, has_names=True)
        return read_table(self.columns.select(names), may_be_empty=True)

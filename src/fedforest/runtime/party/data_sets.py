"""A party's table as runs see it: columns by name.

The run decides which columns are features: all but its label and its weight. Id columns are
separate from the others: no run can use them as anything else.
"""

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from fedforest.errors import DataError, UnknownColumn
from fedforest.protocol.alignment.payloads import IdForm
from fedforest.runtime.party.catalogue.ids import (
    DEFAULT_RULES,
    IdRules,
    keep_own_ids,
    normalise_ids,
)
from fedforest.runtime.party.catalogue.stored_columns import StoredColumns, StoredTable
from fedforest.runtime.party.row_identity import RowIdentity
from fedforest.tree.table.data_frames import read_vector
from fedforest.tree.table.frames import Table, list_names, read_table
from fedforest.tree.table.pieces import TableSource


class DataSets(Protocol):
    """The data sets of a party, by name."""

    def read(self, name: str) -> "DataSet":
        """Return the data set of this name: the same object until the data changes.

        Raises `DataError` if there is none.
        """

    def erased(self, name: str) -> str:
        """Return a text that changes whenever rows of the data set's table are erased."""

    def renew(self, name: str) -> None:
        """Read sources again that may change unnoticed; called when a run or prediction begins."""


@dataclass(frozen=True, slots=True, eq=False)
class DataSet:
    """One table with named columns, in memory or on the disk."""

    name: str
    columns: Any  # pyarrow.Table, or StoredColumns where it is larger than memory
    identity: RowIdentity
    id_columns: Any = None  # pyarrow.Table, None where no id is configured
    id_rules: IdRules = DEFAULT_RULES
    snapshot: str = ""  # changes whenever what is read from the source does
    n_erased: int = 0  # rows of the source that are left out

    @property
    def n_rows(self) -> int:
        """The number of rows."""
        n_rows: int = self.columns.num_rows
        return n_rows

    def ids(self) -> NDArray[np.object_]:
        """Return the normalised id of each row as bytes (`runtime/party/catalogue/ids.py`)."""
        if self.id_columns is None:
            raise DataError.of("data_set.no_id", data_set=self.name)
        return normalise_ids(self.name, self.id_columns, self.id_rules)

    def own_ids(self) -> list[bytes]:
        """Return the ids that rows are aligned by; an empty one leaves its row out."""
        return list(keep_own_ids(self.name, self.ids().tolist(), self.id_rules.duplicates))

    @property
    def id_form(self) -> IdForm:
        """The form of the ids, which other parties' ids must have, too."""
        return self.id_rules.form(0 if self.id_columns is None else self.id_columns.num_columns)

    def take(self, rows: NDArray[np.integer]) -> "DataSet":
        """Return a data set of these rows, in this order."""
        ids = None if self.id_columns is None else self.id_columns.take(rows)
        identity = self.identity.take(rows)
        return replace(self, columns=self.columns.take(rows), identity=identity, id_columns=ids)

    def without(self, names: Collection[str]) -> "DataSet":
        """Return the data set without these columns; its rows keep their identity."""
        kept = [name for name in self.columns.column_names if name not in names]
        return replace(self, columns=self.columns.select(kept))

    def features(self, without: Collection[str | None] = ()) -> TableSource:
        """Return all columns but these; ids are never among them."""
        names = [name for name in self.columns.column_names if name not in without]
        return self._read(names)

    def select(self, names: Collection[str]) -> TableSource:
        """Return these columns; raises `DataError` if one is missing."""
        missing = [name for name in names if name not in self.columns.column_names]
        if missing:
            raise DataError.of(
                "data_set.lacks", data_set=self.name, own_columns=list_names(missing)
            )
        return self._read(list(names))

    def column(self, name: str) -> NDArray[Any]:
        """Return the values of one column; raises `UnknownColumn` if there is none."""
        self.check_has(name)
        where = f"column {name!r} of data set {self.name!r}"
        if isinstance(self.columns, StoredColumns):
            return self.columns.vector(name, where)
        return read_vector(self.columns.column(name), where)

    def check_has(self, name: str) -> None:
        """Raise `UnknownColumn` if there is no column of this name."""
        if name not in self.columns.column_names:
            raise UnknownColumn.of("data_set.no_column", data_set=self.name, column=name)

    def _read(self, names: list[str]) -> TableSource:
        if not names:
            return Table((), (), self.columns.num_rows, has_names=True)
        if isinstance(self.columns, StoredColumns):
            return StoredTable(self.columns.select(names))
        return read_table(self.columns.select(names), may_be_empty=True)

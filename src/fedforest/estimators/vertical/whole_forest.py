"""A complete forest in one file, which predicts without its parties.

Horizontal training gives every party such a file; a vertical forest becomes one only if all parties
consent. The file says whether its cuts are bins or thresholds.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedforest.errors import DataError
from fedforest.tree.files.forests import decode_forest
from fedforest.tree.forest.forest import Forest, ForestWalker
from fedforest.tree.table.bins import Bins
from fedforest.tree.table.frames import Table, list_names, read_table
from fedforest.tree.workers import ALONE, Workers


@dataclass(frozen=True, slots=True, eq=False)
class WholeForest:
    """Trees, how columns are read, and what classes are called."""

    forest: Forest
    bins: Bins
    classes: NDArray[Any] | None  # None for regression

    @classmethod
    def from_bytes(cls, data: bytes) -> "WholeForest":
        """Read a model file; raises `ModelFileError` if it is none."""
        stored = decode_forest(data)
        return cls(stored.forest, stored.bins, stored.classes)

    def votes(
        self, columns: Any, workers: Workers = ALONE, *, hard: bool = False
    ) -> NDArray[np.float64]:
        """Return the mean votes of the trees, (rows, classes), for the rows of a pyarrow table.

        Columns go by name; columns that the model does not use are ignored.
        """
        table = self._select(columns)
        has_bins = self.forest.splits.cut.dtype == np.uint8
        read = self.bins.transform if has_bins else self.bins.raw_values
        votes = ForestWalker(self.forest).votes(read(table, workers), workers, hard=hard)
        votes /= self.forest.shape.n_trees
        return votes

    def _select(self, columns: Any) -> Table:
        if not self.bins.has_names:
            if columns.num_columns != self.bins.n_features:
                raise DataError(
                    f"the model has {self.bins.n_features} columns without names, so the table "
                    f"must have as many, in the order of training, not {columns.num_columns}"
                )
            return read_table(columns)
        missing = [name for name in self.bins.names if name not in columns.column_names]
        if missing:
            raise DataError(f"the table has no column {list_names(missing)}, which the model needs")
        return read_table(columns.select(list(self.bins.names)))

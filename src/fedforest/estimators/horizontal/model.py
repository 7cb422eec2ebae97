"""The model at every party after horizontal training: the complete forest, for use offline."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedforest.errors import DataError
from fedforest.estimators.inputs.party_tables import Heading, is_by_party, read_one_table
from fedforest.kernels.compiled.preparation import prepare
from fedforest.tree.forest.forest import Forest, ForestWalker
from fedforest.tree.table.bins import Bins
from fedforest.tree.workers import Workers


@dataclass(frozen=True, eq=False)
class HorizontalModel:
    """A forest with thresholds on raw values, and how tables to predict are read."""

    forest: Forest
    bins: Bins  # the categories of categorical columns; numbers stay as they are
    classes: NDArray[Any] | None  # None for regression
    parties: tuple[str, ...]

    @property
    def n_trees(self) -> int:
        """Trees of the forest."""
        return self.forest.shape.n_trees

    def mean_votes(self, X: Any, workers: Workers, *, hard: bool) -> NDArray[np.float64]:
        """Return the mean votes of the trees: (rows, classes), or (rows, 1) for regression."""
        votes = self._walker.votes(self._read(X, workers), workers, hard=hard)
        votes /= self.n_trees
        return votes

    def find_leaves(self, X: Any, workers: Workers) -> NDArray[np.int64]:
        """Return (rows, trees): the number, within its tree, of the leaf each row reaches."""
        return self._walker.apply(self._read(X, workers), workers)

    def _read(self, X: Any, workers: Workers) -> NDArray[np.float32]:
        prepare("horizontal prediction")
        if is_by_party(X):
            raise DataError(
                "X is a mapping; every party predicts its own rows with its own copy of the "
                "model, so pass one table"
            )
        table = read_one_table(X)
        Heading(self.bins.names, self.bins.has_names).check(table, "X")
        return self.bins.raw_values(table, workers)

    @cached_property
    def _walker(self) -> ForestWalker:
        return ForestWalker(self.forest)

    def __getstate__(self) -> dict[str, Any]:
        """Leave out attributes that follow from the forest."""
        return {name: value for name, value in vars(self).items() if name != "_walker"}

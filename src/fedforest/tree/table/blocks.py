"""Numeric columns that share memory, so that kernels can walk them together.

The columns of a matrix, or of a block inside a data frame, are views of one array. Read one by
one, each column of a C-ordered matrix would fetch the whole matrix from memory; read together, they
fetch it once.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray

from fedforest.kernels.bins.binning import Cells
from fedforest.tree.table.columns import CategoryColumn, Numbers
from fedforest.tree.table.frames import Table


class NumericBlock(NamedTuple):
    """Columns in one piece of memory, and which features of the table they are."""

    cells: Cells
    features: NDArray[np.int64]

    def take(self, positions: Sequence[int] | NDArray[np.int64]) -> "NumericBlock":
        """Return the block of these columns only."""
        cells = self.cells._replace(starts=self.cells.starts[positions])
        return NumericBlock(cells, self.features[positions])


def group_columns(columns: Iterable[tuple[int, Numbers]]) -> list[NumericBlock]:
    """Group (feature, values) pairs by the array they are views of; skip columns without rows."""
    groups: dict[tuple[object, ...], list[tuple[int, Numbers]]] = {}
    for feature, given in columns:
        if len(given) == 0:
            continue
        values = given if _is_regular(given) else given.copy()
        owner = values if values.base is None else values.base
        key = (id(owner), values.dtype, values.strides[0])
        groups.setdefault(key, []).append((feature, values))
    return [_build_block(group) for group in groups.values()]


def find_blocks(table: Table) -> list[NumericBlock]:
    """Return the numeric columns of a table as blocks; a matrix is one block."""
    matrix = table.matrix
    if matrix is None or not matrix.size or not _are_regular(matrix):
        columns = enumerate(table.columns)
        return group_columns((f, c) for f, c in columns if not isinstance(c, CategoryColumn))
    row_step, column_step = (step // matrix.itemsize for step in matrix.strides)
    features = np.arange(matrix.shape[1])
    n_items = (matrix.shape[0] - 1) * row_step + (matrix.shape[1] - 1) * column_step + 1
    memory = as_strided(matrix, (n_items,), (matrix.itemsize,), writeable=False)
    return [NumericBlock(Cells(memory, row_step, features * column_step), features)]


def _are_regular(matrix: Numbers) -> bool:
    """Return whether the numbers lie at ascending addresses that are multiples of their size."""
    size = matrix.itemsize
    return matrix.flags.aligned and all(step > 0 and step % size == 0 for step in matrix.strides)


def _is_regular(values: Numbers) -> bool:
    """Return whether the values lie at ascending addresses that are multiples of their size."""
    step, size = values.strides[0], values.itemsize
    return step > 0 and step % size == 0 and _address(values) % size == 0


def _address(values: Numbers) -> int:
    return int(values.__array_interface__["data"][0])


def _build_block(group: list[tuple[int, Numbers]]) -> NumericBlock:
    features = np.array([feature for feature, _ in group], np.int64)
    addresses = [_address(values) for _, values in group]
    lowest = min(addresses)
    first = group[addresses.index(lowest)][1]
    # All are views of one array, so what lies between them is memory of that array.
    starts = np.array([address - lowest for address in addresses], np.int64) // first.itemsize
    row_step = first.strides[0] // first.itemsize
    n_items = int(starts.max()) + (len(first) - 1) * row_step + 1
    memory = as_strided(first, (n_items,), (first.itemsize,), writeable=False)
    return NumericBlock(Cells(memory, row_step, starts), features)

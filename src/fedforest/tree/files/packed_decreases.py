"""Impurity decreases as model files keep them: one per column and tree, or one per split.

In horizontal forests all splits of a column in a tree have the same decrease
(`tree/forest/decreases.py`). Then
a table (trees, columns) holds them all, and the file keeps it if it is the smaller form.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedforest.kernels.files.decreases import look_up_decreases, mark_used, tabulate_decreases
from fedforest.tree.files.arrays import Arrays, read_array, require
from fedforest.tree.files.packed_shape import PackedShape
from fedforest.tree.files.packed_splits import PackedSplits, expand_splits, keep_splits


def pack_decreases(
    decrease: NDArray[np.float64], shape: PackedShape, splits: PackedSplits | None = None
) -> NDArray[np.float64]:
    """Return what a model file keeps; without `splits`, one decrease for each split."""
    of_splits = keep_splits(shape, decrease)
    table = None if splits is None else _tabulate(of_splits, shape, splits)
    return of_splits if table is None else table


def read_decreases(
    arrays: Arrays, shape: PackedShape, splits: PackedSplits | None = None
) -> NDArray[np.float64]:
    """Read the decreases of a file; raises `DamagedModelError` where one is invalid."""
    is_table = splits is not None and arrays["decrease"].ndim == 2
    form = _table_form(shape, splits) if is_table and splits is not None else (shape.n_splits,)
    decrease = read_array(arrays, "decrease", np.float64, form)
    are_decreases = (decrease >= 0.0) & (decrease < np.inf)
    require(are_decreases.all(), "decreases", "one is no decrease")
    if splits is not None:
        _check_form(decrease, shape, splits)
    return decrease


def expand_decreases(
    decrease: NDArray[np.float64], shape: PackedShape, feature: NDArray[np.int32] | None = None
) -> NDArray[np.float64]:
    """Return one decrease per node, zero at leaves; a table needs the `feature` of each node."""
    if decrease.ndim == 1:
        return expand_splits(shape, decrease, 0.0)
    assert feature is not None
    of_nodes = np.empty(shape.n_nodes, np.float64)
    look_up_decreases(shape.tree_start, feature, decrease, of_nodes)
    return of_nodes


def _table_form(shape: PackedShape, splits: PackedSplits) -> tuple[int, int]:
    return shape.n_trees, splits.n_features


def _tabulate(
    decrease: NDArray[np.float64], shape: PackedShape, splits: PackedSplits
) -> NDArray[np.float64] | None:
    """Return decreases per tree and column; None if they lose information or take more room."""
    n_trees, n_features = _table_form(shape, splits)
    if n_trees * n_features >= shape.n_splits or (splits.feature >= n_features).any():
        return None
    table = np.empty((n_trees, n_features), np.uint64)
    bits = decrease.view(np.uint64)
    says_all = tabulate_decreases(shape.split_start(), splits.feature, bits, table)
    return table.view(np.float64) if says_all else None


def _check_form(decrease: NDArray[np.float64], shape: PackedShape, splits: PackedSplits) -> None:
    """Require the form that `pack_decreases` chooses, and zero for a column without splits."""
    if decrease.ndim == 1:
        is_right = _tabulate(decrease, shape, splits) is None
    else:
        is_right = decrease.size < shape.n_splits
        is_used = np.zeros(decrease.shape, np.bool_)
        mark_used(shape.split_start(), splits.feature, is_used)
        unused: NDArray[Any] = decrease.view(np.uint64)[~is_used]
        require(not unused.any(), "decreases", "one belongs to a column without splits")
    require(is_right, "decreases", "they are not in their one form")

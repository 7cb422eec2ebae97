"""Histograms of a shard's rows, and the search over their sum.

Only nodes of many rows are searched this way: what a shard says of one has the same size however
many rows it has.
"""

import numpy as np
from numpy.typing import NDArray

from fedforest.kernels.layout import N_CODES, NO_SPLIT, Columns, Found, RowOrder, Rules
from fedforest.kernels.splits.shard_cells import (
    MOMENT_CELLS,
    fill_binary_cells,
    fill_class_cells,
    fill_moment_cells,
)
from fedforest.kernels.splits.summed_cells import find_in_class_cells, find_in_moment_cells
from fedforest.tree.growth.candidates import list_candidates
from fedforest.tree.table.targets import TargetKind, TrainingTargets
from fedforest.tree.workers import ALONE

CELLS_AT_ONCE = 2**23  # numbers of a shard's histograms that are made together: 64 MB


def count_cells(kind: TargetKind) -> int:
    """Return the numbers of one bin."""
    return kind.n_classes + 1 if kind.search == "classes" else MOMENT_CELLS


def fill_cells(
    columns: Columns, order: RowOrder, targets: TrainingTargets, candidates: NDArray[np.uint8]
) -> NDArray[np.int64]:
    """Return (pairs, bins, numbers): the histograms of all nodes of `order`."""
    pairs, kind = list_candidates(candidates, ALONE), targets.kind
    features, nodes = pairs.feature.astype(np.uint64), (0, len(candidates))
    cells = np.zeros((len(features), N_CODES, count_cells(kind)), np.int64)
    if kind.search == "binary":
        fill_binary_cells(columns, order, pairs.node_start, features, cells, *nodes)
    elif kind.search == "moments":
        at = pairs.node_start, features, cells
        fill_moment_cells(columns, order, targets.kernel, *at, *nodes)
    else:
        at = pairs.node_start, features, cells
        fill_class_cells(columns, order, targets.kernel.weights, *at, *nodes)
    return cells


def find_in_cells(
    columns: Columns,
    kind: TargetKind,
    cells: NDArray[np.int64],
    candidates: NDArray[np.uint8],
    rules: Rules,
) -> Found:
    """Return the best splits of nodes whose summed histograms these are."""
    pairs = list_candidates(candidates, ALONE)
    found = make_found(len(candidates), columns.is_categorical)
    find = find_in_class_cells if kind.search == "classes" else find_in_moment_cells
    features, nodes = pairs.feature.astype(np.uint64), (0, len(candidates))
    find(columns, pairs.node_start, features, cells, rules, found, *nodes)
    return found


def make_found(n_nodes: int, is_categorical: NDArray[np.bool_]) -> Found:
    """Make room for the best splits of nodes; none is there yet."""
    n_sets = n_nodes if is_categorical.any() else 0
    return Found(
        np.full(n_nodes, NO_SPLIT),
        np.full(n_nodes, -1, np.int32),
        np.zeros(n_nodes, np.uint8),
        np.zeros(n_nodes, np.uint8),
        np.zeros((n_sets, 4), np.uint64),
    )


def take_found(found: Found, nodes: NDArray[np.int64]) -> Found:
    """Return the best splits of some nodes."""
    score, feature, cut, missing_left, sets = found
    own = score[nodes], feature[nodes], cut[nodes], missing_left[nodes]
    return Found(*own, sets[nodes] if len(sets) else sets)


def put_found(part: Found, nodes: NDArray[np.int64], found: Found) -> None:
    """Write the best splits of some nodes to their places."""
    found.score[nodes], found.feature[nodes] = part.score, part.feature
    found.bin[nodes], found.missing_left[nodes] = part.bin, part.missing_left
    if len(found.left_set):
        found.left_set[nodes] = part.left_set

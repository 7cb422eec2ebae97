"""Nodes of few rows, gathered in one shard from all: a small table of their rows.

The rows of every node keep their order, so the search over them is the one over a whole table.
From then on these nodes are served level by level where they are.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedforest.kernels.growth.gathering import copy_nodes, place_nodes
from fedforest.kernels.layout import MULTIPLICITY_BITS, Columns, Found, Targets
from fedforest.tree.growth.rows import NodeMoves, NodeRows, bits_for_rows, entry_type
from fedforest.tree.growth.split_search import ColumnSearch, make_columns
from fedforest.tree.growth.structure import OpenNodes
from fedforest.tree.shards.cells import make_found, put_found
from fedforest.tree.table.targets import TrainingTargets
from fedforest.tree.workers import ALONE


class RowsOfNodes(NamedTuple):
    """The rows that one shard has of some nodes, node by node."""

    bins: NDArray[np.uint8]  # (columns, rows)
    codes: NDArray[np.uint16]  # what an entry holds beside its row
    targets: Targets


class SplitPart(NamedTuple):
    """The split nodes of one shard or of one group, node by node."""

    bits: NDArray[np.uint8]
    left: NDArray[np.int64]  # sums of the left children; only their rows, if not asked for
    ranges: NDArray[np.int64]  # of targets, at nodes whose rows lie in several shards
    missing_left: NDArray[np.uint8]  # at gathered nodes


@dataclass(frozen=True, slots=True, eq=False)
class GroupRules:
    """The rules of splits in a batch of trees."""

    min_rows_leaf: int
    share: float  # of its tree's weight that a leaf must have
    roots: NDArray[np.int64]


def extract_rows(
    columns: Columns, targets: TrainingTargets, rows: NodeRows, nodes: NDArray[np.int64]
) -> RowsOfNodes:
    """Copy the rows of some nodes."""
    order, kernel = rows.order, targets.kernel
    n_taken = int((order.stop[nodes] - order.start[nodes]).sum())
    bins = np.empty((len(columns.n_bins), n_taken), np.uint8)
    codes, here = np.empty(n_taken, np.uint16), np.empty(n_taken, np.int64)
    copy_nodes(columns.bins, columns.n_rows, order, nodes, bins, codes, here)
    values = kernel.weights, kernel.values, kernel.levels
    own = [each[here] if len(each) else each for each in values]
    return RowsOfNodes(bins, codes, Targets(kernel.n_classes, *own))


def place_spans(starts: NDArray[np.int64], sizes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the places start, start + 1, ... of each span, one span after the other."""
    before = np.cumsum(sizes) - sizes
    return np.repeat(starts - before, sizes) + np.arange(int(sizes.sum()))


class GatheredNodes:
    """Open nodes with all their rows."""

    def __init__(
        self,
        columns: Columns,
        targets: TrainingTargets,
        parts: Sequence[RowsOfNodes],
        sizes: NDArray[np.int64],
        rules: GroupRules,
    ) -> None:
        """`parts` by shard; sizes[shard, k] are the rows that it had of node k."""
        n_rows, of_node = int(sizes.sum()), sizes.sum(axis=0)
        starts = np.cumsum(of_node) - of_node + (np.cumsum(sizes, axis=0) - sizes)
        places = [place_spans(*each) for each in zip(starts, sizes, strict=True)]
        bins = np.empty((len(columns.n_bins), n_rows), np.uint8)
        for part, own_sizes, own_starts in zip(parts, sizes, starts, strict=True):
            place_nodes(part.bins, own_sizes, own_starts, bins)
        codes = np.empty(n_rows, np.uint64)
        for part, at in zip(parts, places, strict=True):
            codes[at] = part.codes
        kernel = _join_targets([part.targets for part in parts], places, n_rows)
        row_bits = bits_for_rows(n_rows)
        entries = (codes << np.uint64(row_bits)) | np.arange(n_rows, dtype=np.uint64)
        dtype = entry_type(n_rows, targets.kind.n_classes)
        n_classes = targets.kind.n_classes
        labels = (codes >> np.uint64(MULTIPLICITY_BITS)).astype(np.uint16)
        own = replace(
            targets,
            classes=labels if n_classes else targets.classes[:0],
            allowed=np.ones(n_rows, np.bool_),
            kernel=kernel,
        )
        self._is_categorical = columns.is_categorical
        rows = NodeRows(entries.astype(dtype), row_bits, of_node.tolist())
        binned = make_columns(bins, columns.n_bins, columns.is_categorical)
        self._search = ColumnSearch(binned, own, rows, rules.min_rows_leaf, ALONE)
        if rules.share:
            self._search.demand_weight(rules.share, rules.roots)

    def find(self, candidates: NDArray[np.uint8], trees: NDArray[np.int32]) -> Found:
        """Return the best split of every node; node k belongs to trees[k]."""
        self._search.find(candidates, OpenNodes(trees, trees, trees))
        found: Found = self._search.found
        return found

    def split(self, nodes: NDArray[np.int64], splits: Found, *, with_sums: bool) -> SplitPart:
        """Divide the rows of some nodes by these splits."""
        found = make_found(len(self._search.rows.sizes), self._is_categorical)
        put_found(splits, nodes, found)
        self._search.found = found
        bits, left = self._search.split(nodes, with_sums=with_sums)
        return SplitPart(bits, left, np.zeros((0, 4), np.int64), found.missing_left[nodes])

    def move(self, moves: NodeMoves, bits: NDArray[np.uint8]) -> None:
        """Move rows to the children that stay open."""
        self._search.rows.follow(moves, bits, ALONE)


def _join_targets(
    parts: Sequence[Targets], places: Sequence[NDArray[np.int64]], n_rows: int
) -> Targets:
    """Join what does not fit into entries; an empty array is empty in all parts."""
    n_classes = parts[0].n_classes
    fields = list(zip(*((part.weights, part.values, part.levels) for part in parts), strict=True))
    joined = [_join_values(of_parts, places, n_rows) for of_parts in fields]
    return Targets(n_classes, *joined)


def _join_values(
    parts: Sequence[NDArray[np.int64]], places: Sequence[NDArray[np.int64]], n_rows: int
) -> NDArray[np.int64]:
    if not any(map(len, parts)):
        return np.zeros(0, np.int64)
    values = np.empty(n_rows, np.int64)
    for part, at in zip(parts, places, strict=True):
        values[at] = part
    return values

"""The values of leaves: class fractions or a mean, computed once from exact integer sums."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedforest.kernels.growth.flat import (
    place_shares,
    place_values,
    scatter,
    scatter_ones,
    starts_of,
)
from fedforest.kernels.sums.nodes import list_shares
from fedforest.tree.table.targets import TargetKind

NONE = np.zeros(0, np.uint16)


class _NewLeaves(NamedTuple):
    """Leaves that closed together; leaf i has n_classes[i] classes, or one mean."""

    tree: NDArray[np.int32]
    node: NDArray[np.int32]
    n_classes: NDArray[np.uint16]
    label: NDArray[np.uint16]
    value: NDArray[np.float64]


class LeafRecord:
    """Collects the leaves of a batch of trees as they close, by class number, not by code."""

    def __init__(self, kind: TargetKind) -> None:
        self._kind = kind
        self._codes = np.array(kind.code_of_class, np.int64)
        self._parts: list[_NewLeaves] = []

    def add(
        self, tree: NDArray[np.int32], node: NDArray[np.int32], sums: NDArray[np.int64]
    ) -> None:
        """Note the leaves with these sums."""
        if self._kind.is_regression:
            mean = sums[:, 1].astype(np.float64) / sums[:, 0].astype(np.float64)
            value = self._kind.target_offset + mean * self._kind.target_unit
            self._parts.append(_NewLeaves(tree, node, NONE, NONE, value))
        else:
            self._parts.append(_NewLeaves(tree, node, *list_shares(sums, self._codes)))

    def assemble(
        self, offsets: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.uint16], NDArray[np.float64]]:
        """Return (start, class, value): node i of the flat forest owns start[i]:start[i + 1].

        A regression leaf owns one entry, an inner node none.
        """
        count = np.zeros(int(offsets[-1]), np.uint16)
        for leaves in self._parts:
            if self._kind.is_regression:
                scatter_ones(offsets, leaves.tree, leaves.node, count)
            else:
                scatter(offsets, leaves.tree, leaves.node, leaves.n_classes, count)
        start = starts_of(count)
        value = np.empty(int(start[-1]))
        label = np.empty(0 if self._kind.is_regression else len(value), np.uint16)
        for leaves in self._parts:
            position = (offsets, start, leaves.tree, leaves.node)
            if self._kind.is_regression:
                place_values(position, leaves.value, value)
            else:
                place_shares(position, leaves.n_classes, leaves.label, leaves.value, label, value)
        return start, label, value

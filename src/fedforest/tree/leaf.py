"""What leaves say: class shares or a mean, computed once from exact integer sums."""

import numpy as np
from numpy.typing import NDArray

from fedforest.kernels.node_sums import list_shares, place_entries
from fedforest.tree.targets import TargetKind


class LeafRecord:
    """Collects the leaves of a batch of trees as they close; they speak of classes, not codes."""

    def __init__(self, kind: TargetKind) -> None:
        self._kind = kind
        self._tree: list[NDArray[np.int32]] = []
        self._node: list[NDArray[np.int32]] = []
        self._class: list[NDArray[np.uint16]] = []
        self._value: list[NDArray[np.float64]] = []

    def add(
        self, tree: NDArray[np.int32], node: NDArray[np.int32], sums: NDArray[np.int64]
    ) -> None:
        """Note the leaves with these sums."""
        if self._kind.is_regression:
            mean = sums[:, 1].astype(np.float64) / sums[:, 0].astype(np.float64)
            self._tree.append(tree)
            self._node.append(node)
            self._value.append(self._kind.target_offset + mean * self._kind.target_unit)
            return
        codes = self._kind.code_of_class
        by_class = np.ascontiguousarray(sums[:, [*codes, -1]]) if codes else sums
        leaf, label, share = list_shares(by_class)
        self._tree.append(tree[leaf])
        self._node.append(node[leaf])
        self._class.append(label)
        self._value.append(share)

    def assemble(
        self, offsets: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.uint16], NDArray[np.float64]]:
        """(start, class, value): node i of the flat forest owns entries start[i]:start[i + 1].

        A regression leaf owns one entry, an inner node none.
        """
        tree = np.concatenate([np.zeros(0, np.int32), *self._tree])
        node = np.concatenate([np.zeros(0, np.int32), *self._node])
        value = np.concatenate([np.zeros(0), *self._value])
        position = offsets[tree] + node
        count = np.bincount(position, minlength=int(offsets[-1]))
        start = np.concatenate([[0], np.cumsum(count)])
        place = place_entries(position, start.copy())  # classes of a leaf stay in ascending order
        placed = np.empty_like(value)
        placed[place] = value
        if self._kind.is_regression:
            return start, np.zeros(0, np.uint16), placed
        label = np.concatenate([np.zeros(0, np.uint16), *self._class])
        placed_label = np.empty_like(label)
        placed_label[place] = label
        return start, placed_label, placed

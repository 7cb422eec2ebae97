"""The bits of split nodes' rows, on their way from those who split them to everybody else."""

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from fedforest.kernels.bit_ranges import place_bits_of_nodes, take_bits_of_nodes
from fedforest.kernels.partition import STAYS
from fedforest.protocol.asking import blame, check
from fedforest.protocol.payloads import RowBits, from_bytes
from fedforest.tree.structure import Step
from fedforest.tree.workers import ALONE, Workers


class BitStore:
    """Room for the bits of all split nodes of a step, which arrive owner by owner."""

    def __init__(self, is_split: NDArray[np.bool_], sizes: NDArray[np.int64]) -> None:
        self._sizes = sizes
        self._lengths = np.where(is_split, (sizes + 7) >> 3, 0)
        ends = np.cumsum(self._lengths)
        self._start = ends - self._lengths
        self.bits = np.zeros(int(ends[-1]) if len(ends) else 0, np.uint8)
        self.left_rows = np.zeros(len(sizes), np.int64)

    def put(self, nodes: NDArray[np.int64], packed: RowBits) -> None:
        """Put the bits of these nodes, one node after the other, into their places."""
        bits = from_bytes(packed.data, "u1", len(packed.data), "row bits")
        n_read = place_bits_of_nodes(
            bits, nodes, self._sizes, self._start, self.bits, self.left_rows
        )
        check(int(n_read) != -2, "row bits are padded with ones")
        check(int(n_read) == len(bits), "row bits are not as many as the nodes have rows")

    def take(self, nodes: NDArray[np.int64]) -> NDArray[np.uint8]:
        """The bits of these nodes, one node after the other."""
        taken = np.empty(int(self._lengths[nodes].sum()), np.uint8)
        take_bits_of_nodes(self.bits, nodes, self._start, self._lengths, taken)
        return taken


def bring_together(
    is_split: NDArray[np.bool_],
    sizes: NDArray[np.int64],
    parts: Iterable[tuple[str, NDArray[np.int64], RowBits]],
    workers: Workers = ALONE,
) -> BitStore:
    """The bits of all split nodes, from whoever split which."""
    store = BitStore(is_split, sizes)

    def put(part: tuple[str, NDArray[np.int64], RowBits]) -> None:
        party, nodes, packed = part
        with blame(party):
            store.put(nodes, packed)

    workers.run(put, parts)
    return store


def follow_sizes(
    sizes: NDArray[np.int64], left_rows: NDArray[np.int64], step: Step
) -> NDArray[np.int64]:
    """Rows of the nodes that are open after a step."""
    source = step.source
    of_child = np.where(step.is_right, sizes[source] - left_rows[source], left_rows[source])
    return np.where(step.fate[source] == STAYS, sizes[source], of_child)

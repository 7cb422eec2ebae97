"""The fates of nodes and the bits of their rows, between coordinator and parties.

Three bits tell a node's fate: split or not; then, if split, whether its left and its right child
stay open; if not, whether it stays open itself.
"""

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from fedforest.kernels.bit_ranges import copy_ranges
from fedforest.kernels.partition import OPEN_LEFT, OPEN_RIGHT, STAYS
from fedforest.protocol.asking import blame, check
from fedforest.protocol.payloads import RowBits, from_bytes
from fedforest.tree.structure import Step

BITS_PER_FATE = 3


def pack_fates(is_split: NDArray[np.bool_], fate: NDArray[np.uint8]) -> memoryview:
    """One after the other, three bits each."""
    first = (fate & (OPEN_LEFT | STAYS)) > 0
    fields = np.stack([is_split, first, (fate & OPEN_RIGHT) > 0], axis=1)
    return np.packbits(fields, bitorder="little").data


def unpack_fates(data: memoryview, n_nodes: int) -> tuple[NDArray[np.bool_], NDArray[np.uint8]]:
    """(is_split, fate) of so many nodes."""
    packed = from_bytes(data, "u1", (n_nodes * BITS_PER_FATE + 7) >> 3, "fates")
    flags = _unpack_bits(packed, n_nodes * BITS_PER_FATE)
    is_split, first, second = flags.reshape(n_nodes, BITS_PER_FATE).astype(np.bool_).T
    check(not (second & ~is_split).any(), "a node that was not split has a right child")
    fate = np.where(is_split, first * OPEN_LEFT + second * OPEN_RIGHT, first * STAYS)
    return np.ascontiguousarray(is_split), fate.astype(np.uint8)


def count_open(fate: NDArray[np.uint8]) -> int:
    """How many nodes are open after a step."""
    first, second = (fate & (OPEN_LEFT | STAYS)) > 0, (fate & OPEN_RIGHT) > 0
    return int(np.count_nonzero(first)) + int(np.count_nonzero(second))


def pack_flags(flags: NDArray[np.bool_]) -> memoryview:
    """One bit per node."""
    return np.packbits(flags, bitorder="little").data


def unpack_flags(data: memoryview, n_nodes: int) -> NDArray[np.bool_]:
    """The flags of so many nodes."""
    packed = from_bytes(data, "u1", (n_nodes + 7) >> 3, "node flags")
    return _unpack_bits(packed, n_nodes).astype(np.bool_)


def _unpack_bits(packed: NDArray[np.uint8], n_bits: int) -> NDArray[np.uint8]:
    bits = np.unpackbits(packed, bitorder="little")
    check(not bits[n_bits:].any(), "node flags are padded with ones")
    return bits[:n_bits]


class BitStore:
    """Room for the bits of all split nodes of a step, which arrive owner by owner."""

    def __init__(self, is_split: NDArray[np.bool_], sizes: NDArray[np.int64]) -> None:
        self._lengths = np.where(is_split, (sizes + 7) >> 3, 0)
        ends = np.cumsum(self._lengths)
        self._start = ends - self._lengths
        self.bits = np.zeros(int(ends[-1]) if len(ends) else 0, np.uint8)

    def put(self, nodes: NDArray[np.int64], bits: NDArray[np.uint8]) -> None:
        """Put the bits of these nodes, one node after the other, into their places."""
        lengths = self._lengths[nodes]
        copy_ranges(bits, np.cumsum(lengths) - lengths, self.bits, self._start[nodes], lengths)

    def take(self, nodes: NDArray[np.int64]) -> NDArray[np.uint8]:
        """The bits of these nodes, one node after the other."""
        lengths = self._lengths[nodes]
        taken = np.zeros(int(lengths.sum()), np.uint8)
        copy_ranges(self.bits, self._start[nodes], taken, np.cumsum(lengths) - lengths, lengths)
        return taken


def bring_together(
    is_split: NDArray[np.bool_],
    sizes: NDArray[np.int64],
    parts: Iterable[tuple[str, NDArray[np.int64], RowBits]],
) -> tuple[BitStore, NDArray[np.int64]]:
    """The bits of all split nodes, from whoever split which; and how many rows of each go left."""
    store = BitStore(is_split, sizes)
    left_rows = np.zeros(len(sizes), np.int64)
    for party, nodes, packed in parts:
        with blame(party):
            bits, left_rows[nodes] = packed.read(sizes[nodes])
        store.put(nodes, bits)
    return store, left_rows


def follow_sizes(
    sizes: NDArray[np.int64], left_rows: NDArray[np.int64], step: Step
) -> NDArray[np.int64]:
    """Rows of the nodes that are open after a step."""
    source = step.source
    of_child = np.where(step.is_right, sizes[source] - left_rows[source], left_rows[source])
    return np.where(step.fate[source] == STAYS, sizes[source], of_child)

"""The fates of nodes and the bits of their rows, between coordinator and parties.

Three bits tell a node's fate: split or not; then, if split, whether its left and its right child
stay open; if not, whether it stays open itself.
"""

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from fedforest.kernels.bit_ranges import place_bits_of_nodes, take_bits_of_nodes
from fedforest.kernels.partition import OPEN_LEFT, OPEN_RIGHT, STAYS
from fedforest.protocol.asking import blame, check
from fedforest.protocol.payloads import RowBits, from_bytes
from fedforest.tree.structure import Step
from fedforest.tree.workers import ALONE, Workers

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

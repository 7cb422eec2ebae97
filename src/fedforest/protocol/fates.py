"""The fates of nodes, as the coordinator tells parties: what became of the open nodes of a step.

Three bits tell a node's fate: split or not; then, if split, whether its left and its right child
stay open; if not, whether it stays open itself.
"""

import numpy as np
from numpy.typing import NDArray

from fedforest.kernels.partition import OPEN_LEFT, OPEN_RIGHT, STAYS
from fedforest.protocol.asking import check
from fedforest.protocol.payloads import from_bytes

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


def count_open_each(fate: NDArray[np.uint8]) -> NDArray[np.int64]:
    """How many nodes each node leaves open after a step: itself, or its children."""
    first, second = (fate & (OPEN_LEFT | STAYS)) > 0, (fate & OPEN_RIGHT) > 0
    return first.astype(np.int64) + second


def count_open(fate: NDArray[np.uint8]) -> int:
    """How many nodes are open after a step."""
    return int(count_open_each(fate).sum())


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

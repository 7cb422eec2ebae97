"""The fates of the open nodes of a step, as the coordinator sends them to parties.

Three bits encode a node's fate: whether it is split; then, if split, whether its left and its right
child stay open; if not, whether the node itself stays open.
"""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from fedforest.kernels.growth.fate_bits import (
    BITS_PER_FATE,
    PADDED_WITH_ONES,
    RIGHT_WITHOUT_SPLIT,
    find_flags,
    read_fates,
    write_fates,
)
from fedforest.kernels.growth.partition import OPEN_LEFT, OPEN_RIGHT, STAYS
from fedforest.protocol.asking import check
from fedforest.protocol.payloads import from_bytes


def pack_fates(is_split: NDArray[np.bool_], fate: NDArray[np.uint8]) -> memoryview:
    """Pack the fates of nodes, three bits each."""
    packed: NDArray[np.uint8] = write_fates(is_split, fate)
    return packed.data


def unpack_fates(data: memoryview, n_nodes: int) -> tuple[NDArray[np.bool_], NDArray[np.uint8]]:
    """Unpack the fates of `n_nodes` nodes into (is_split, fate)."""
    packed = from_bytes(data, "u1", (n_nodes * BITS_PER_FATE + 7) >> 3, "fates")
    is_split, fate = np.empty(n_nodes, np.bool_), np.empty(n_nodes, np.uint8)
    outcome = int(read_fates(packed, is_split, fate))
    check(outcome != RIGHT_WITHOUT_SPLIT, "a node that was not split has a right child")
    check(outcome != PADDED_WITH_ONES, "fates are padded with ones")
    return is_split, fate


def count_open_each(fate: NDArray[np.uint8]) -> NDArray[np.int64]:
    """Count the open nodes that each node leaves after a step: itself, or its children."""
    first, second = (fate & (OPEN_LEFT | STAYS)) > 0, (fate & OPEN_RIGHT) > 0
    return first.astype(np.int64) + second


def pack_flags(flags: NDArray[np.bool_]) -> memoryview:
    """Pack one bit per node."""
    return np.packbits(flags, bitorder="little").data


def pack_each(flags: NDArray[np.bool_], ends: Sequence[int]) -> list[memoryview]:
    """Pack the flags between consecutive `ends` separately; fast if none is set, as is usual."""
    if not flags.any():
        return [memoryview(bytes((last - first + 7) >> 3)) for first, last in pairwise(ends)]
    return [pack_flags(flags[first:last]) for first, last in pairwise(ends)]


def unpack_flags(data: memoryview, n_nodes: int) -> NDArray[np.bool_]:
    """Unpack the flags of `n_nodes` nodes."""
    packed = from_bytes(data, "u1", (n_nodes + 7) >> 3, "node flags")
    return _unpack_bits(packed, n_nodes).astype(np.bool_)


def find_flagged(data: memoryview, n_nodes: int) -> NDArray[np.int64]:
    """Return the indices of the nodes, out of `n_nodes`, whose flags are set."""
    packed = from_bytes(data, "u1", (n_nodes + 7) >> 3, "node flags")
    nodes, are_nodes = find_flags(packed, n_nodes)
    check(are_nodes, "node flags are padded with ones")
    return nodes  # type: ignore[no-any-return] # a kernel's


def _unpack_bits(packed: NDArray[np.uint8], n_bits: int) -> NDArray[np.uint8]:
    bits = np.unpackbits(packed, bitorder="little")
    check(not bits[n_bits:].any(), "node flags are padded with ones")
    return bits[:n_bits]

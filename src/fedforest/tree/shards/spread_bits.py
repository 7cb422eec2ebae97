"""The bits of moves on their way to shards and back.

Bits of a node are those of its rows in order; shards are consecutive rows.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from fedforest.kernels.bits.ranges import SPARE_BYTES, take_bits
from fedforest.kernels.bits.shard_bits import divide_bits, join_bits
from fedforest.kernels.growth.partition import OPEN_LEFT, OPEN_RIGHT, STAYS
from fedforest.tree.growth.rows import NodeMoves

Bits = NDArray[np.uint8]
Numbers = NDArray[np.int64]


def join_parts(parts: Sequence[Bits], sizes: Numbers) -> Bits:
    """Join the bits of all shards; sizes[shard, i] are the rows that it has of node i."""
    begins = np.cumsum([0, *(len(part) for part in parts[:-1])])
    n_bytes = int(((sizes.sum(axis=0) + 7) >> 3).sum())
    joined = np.zeros(n_bytes + 1, np.uint8)
    join_bits(np.concatenate(parts), begins, np.ascontiguousarray(sizes), joined)
    return joined[:n_bytes]


def divide_among(
    bits: Bits,
    offsets: Numbers,
    moved: tuple[Numbers, NDArray[np.uint8]],
    sizes: Numbers,
) -> tuple[list[Bits], Numbers]:
    """Divide the bits of nodes that move among shards: (bits, rows that go left) of each.

    `moved` are open nodes, whose bits start at offsets[node], and the fates of all open nodes.
    """
    nodes, fate = moved
    own_fate = fate[nodes] if len(fate) != len(nodes) else fate
    moves = has_bits(own_fate)
    of_moving = np.ascontiguousarray(sizes[:, moves])
    lengths = ((of_moving + 7) >> 3).sum(axis=1)
    begins = np.cumsum(lengths) - lengths
    parts = np.empty(int(lengths.sum()), np.uint8)
    left = np.zeros(of_moving.shape, np.int64)
    padded = np.concatenate([bits, np.zeros(1, np.uint8)]) if len(parts) else bits
    divide_bits(padded, offsets, nodes[moves], of_moving, begins, parts, left)
    left_rows = np.zeros(sizes.shape, np.int64)
    left_rows[:, moves] = left
    return np.split(parts, begins[1:]), left_rows


def has_bits(fate: NDArray[np.uint8]) -> NDArray[np.bool_]:
    """Return which nodes have rows that move by bits."""
    moves: NDArray[np.bool_] = (fate & (OPEN_LEFT | OPEN_RIGHT)) != 0
    return moves


def moves_of(fate: NDArray[np.uint8], left_rows: Numbers, sizes: Numbers) -> NodeMoves:
    """Return the moves of nodes whose bits lie one after the other."""
    lengths = np.where(has_bits(fate), (sizes + 7) >> 3, 0)
    sides = [fate & OPEN_LEFT, fate & OPEN_RIGHT, fate & STAYS]
    n_open = sum(int((side != 0).sum()) for side in sides)
    return NodeMoves(fate, left_rows, np.cumsum(lengths) - lengths, n_open)


def split_moves(
    bits: Bits,
    offsets: Numbers,
    moved: tuple[Numbers, NDArray[np.uint8]],
    sizes: Numbers,
    left_rows: Numbers,
) -> tuple[NodeMoves, Bits]:
    """Return the moves of some nodes, and their bits alone."""
    nodes, fate = moved
    taken = take_bits(bits, nodes[has_bits(fate)], sizes, offsets)
    moves = moves_of(fate, left_rows[nodes], sizes[nodes])
    return moves, np.concatenate([taken, np.zeros(SPARE_BYTES, np.uint8)])

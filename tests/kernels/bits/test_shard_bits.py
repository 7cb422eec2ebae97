"""Bits of nodes joined from consecutive shards, and divided among them again."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from fedforest.kernels.bits.shard_bits import divide_bits, join_bits
from tests.strategies import SEEDS


def pack(rows: list[NDArray[np.uint8]]) -> NDArray[np.uint8]:
    """Bits of one node after the other, each from a whole byte on."""
    packed = [np.packbits(node, bitorder="little") for node in rows]
    return np.concatenate([np.zeros(0, np.uint8), *packed])


@given(
    SEEDS,
    st.lists(st.lists(st.sampled_from([0, 1, 3, 7, 8, 9, 16, 65]), min_size=3, max_size=3)),
)
def test_bits_of_shards_are_joined_in_row_order_and_divided_again(
    seed: int, sizes_of_nodes: list[list[int]]
) -> None:
    rng = np.random.default_rng(seed)
    sizes = np.array(sizes_of_nodes, np.int64).reshape(-1, 3).T.copy()
    rows = [[rng.integers(0, 2, n).astype(np.uint8) for n in of_shard] for of_shard in sizes]
    parts = [pack(of_shard) for of_shard in rows]
    whole = [np.concatenate(node) for node in zip(*rows, strict=True)]
    begins = np.cumsum([0, *map(len, parts[:-1])])
    joined = np.zeros(len(pack(whole)) + 1, np.uint8)
    join_bits(np.concatenate(parts), begins, sizes, joined)
    assert joined[:-1].tobytes() == pack(whole).tobytes()

    nodes = np.flatnonzero(rng.random(sizes.shape[1]) < 0.7)  # only some move
    lengths = (sizes.sum(axis=0) + 7) >> 3
    offsets = np.cumsum(lengths) - lengths
    chosen = np.ascontiguousarray(sizes[:, nodes])
    expected = [pack([of_shard[node] for node in nodes]) for of_shard in rows]
    ends = np.cumsum([0, *map(len, expected)])
    divided, left = np.zeros(ends[-1], np.uint8), np.zeros(chosen.shape, np.int64)
    divide_bits(joined, offsets, nodes, chosen, ends[:-1], divided, left)
    assert divided.tobytes() == np.concatenate(expected).tobytes()
    counts = [[int(of_shard[node].sum()) for node in nodes] for of_shard in rows]
    assert np.array_equal(left, np.array(counts, np.int64).reshape(left.shape))

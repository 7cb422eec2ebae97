"""Ranges of targets on both sides of a split, in shards, and the pure children that follow."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from fedforest.kernels.growth.level_ranges import NOTHING_SEEN, find_pure, find_ranges
from fedforest.kernels.growth.partition import OPEN_LEFT, OPEN_RIGHT
from tests.reference.shards import is_pure, target_range
from tests.strategies import IS_PLAIN_PYTHON, SEEDS, DrawnNodes, drawn_nodes

N_EXAMPLES = 25 if IS_PLAIN_PYTHON else 80


@st.composite
def nodes_of_shards(draw: st.DrawFn) -> list[DrawnNodes]:
    """The rows of the same open nodes in one to four shards; a shard may have none of a node."""
    n_rows, rng = draw(st.sampled_from([1, 9, 40, 150])), np.random.default_rng(draw(SEEDS))
    nodes = draw(drawn_nodes(n_rows))
    n_shards = draw(st.integers(1, 4), label="shards")
    shard_of = np.sort(rng.integers(0, n_shards, n_rows))
    return [
        DrawnNodes(
            [rows[shard_of[rows] == shard] for rows in nodes.rows],
            [
                times[shard_of[rows] == shard]
                for rows, times in zip(nodes.rows, nodes.multiplicities, strict=True)
            ],
        )
        for shard in range(n_shards)
    ]


@given(
    nodes_of_shards(),
    SEEDS,
    st.sampled_from([1, 2, 2**60]),
    st.sampled_from([0.0, 0.2, 0.9, 1.0]),
    st.sampled_from([np.uint32, np.uint64]),
)
@settings(max_examples=N_EXAMPLES)
def test_ranges_of_shards_tell_which_children_are_pure(
    shards: list[DrawnNodes], seed: int, n_levels: int, to_the_left: float, dtype: type
) -> None:
    rng, n_nodes, n_rows = np.random.default_rng(seed), len(shards[0]), 150
    nodes = np.flatnonzero(rng.random(n_nodes) < 0.8)  # those that are split
    levels = rng.integers(-(n_levels // 2), n_levels - n_levels // 2, n_rows)
    sides: list[tuple[list[int], list[int]]] = [([], []) for _ in nodes]  # of all shards
    all_ranges = []
    for shard in shards:
        order = shard.order(n_rows, np.zeros(n_rows, np.int64), dtype)
        bits = [rng.random(len(shard.rows[node])) < to_the_left for node in nodes]
        packed = [np.packbits(each, bitorder="little") for each in bits]
        offsets = np.cumsum([0, *map(len, packed)])
        joined = np.concatenate([*packed, np.zeros(1, np.uint8)])
        ranges = np.tile(np.array(NOTHING_SEEN, np.int64), (len(nodes), 1))
        middle = len(nodes) // 2
        find_ranges(order, levels, nodes, offsets, joined, ranges, 0, middle)
        assert (ranges[middle:] == NOTHING_SEEN).all()
        find_ranges(order, levels, nodes, offsets, joined, ranges, middle, len(nodes))
        for i, node in enumerate(nodes.tolist()):
            targets = levels[shard.rows[node]]
            left, right = targets[bits[i]].tolist(), targets[~bits[i]].tolist()
            nothing = NOTHING_SEEN[:2]
            expected = (*target_range(left, nothing), *target_range(right, nothing))
            assert tuple(ranges[i].tolist()) == expected
            sides[i][0].extend(left)
            sides[i][1].extend(right)
        all_ranges.append(ranges)
    together, pure = np.stack(all_ranges), np.full(len(nodes), 77)
    find_pure(together.min(axis=0), together.max(axis=0), pure)
    assert pure.tolist() == [
        OPEN_LEFT * is_pure(left) + OPEN_RIGHT * is_pure(right) for left, right in sides
    ]

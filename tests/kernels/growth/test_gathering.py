"""Rows of nodes are copied out of shards, and into a table that has them in the order of all."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from fedforest.kernels.growth.gathering import copy_nodes, place_nodes
from tests.reference.shards import take_rows
from tests.strategies import IS_PLAIN_PYTHON, SEEDS, binned_tables, drawn_nodes

N_EXAMPLES = 15 if IS_PLAIN_PYTHON else 60


@given(
    st.data(),
    st.sampled_from([1, 9, 150, 640, 3000]),
    SEEDS,
    st.sampled_from([np.uint32, np.uint64]),
    st.integers(1, 60),
)
@settings(max_examples=N_EXAMPLES)
def test_rows_of_some_nodes_are_copied_with_their_codes(
    data: st.DataObject, n_rows: int, seed: int, dtype: type, n_classes: int
) -> None:
    rng = np.random.default_rng(seed)
    table, drawn = data.draw(binned_tables(n_rows, 4)), data.draw(drawn_nodes(n_rows))
    if n_rows > 2048:  # a node of several blocks
        drawn.rows.append(np.arange(n_rows))
        drawn.multiplicities.append(np.ones(n_rows, np.int64))
    classes = rng.integers(0, n_classes, n_rows)
    order, columns = drawn.order(n_rows, classes, dtype), table.columns()
    nodes = rng.permutation(len(drawn))[: rng.integers(0, len(drawn) + 1)]
    chosen = [drawn.rows[node].tolist() for node in nodes]
    n_taken = sum(map(len, chosen))
    copied = np.full((table.n_columns, n_taken), 77, np.uint8)
    codes, rows = np.full(n_taken, 77, np.uint16), np.full(n_taken, 77, np.int64)
    copy_nodes(columns.bins, columns.n_rows, order, nodes, copied, codes, rows)
    assert copied.tolist() == take_rows(table.bins.tolist(), chosen)
    assert rows.tolist() == [row for node in chosen for row in node]
    times = [each for node in nodes for each in drawn.multiplicities[node].tolist()]
    assert (codes & 15).tolist() == times
    assert (codes >> 4).tolist() == classes[rows].tolist()


@given(
    SEEDS,
    st.integers(1, 4),
    st.lists(st.lists(st.sampled_from([0, 0, 1, 2, 7, 40]), min_size=1, max_size=5), max_size=5),
)
@settings(max_examples=N_EXAMPLES)
def test_rows_of_all_shards_are_placed_node_by_node_and_in_the_order_of_shards(
    seed: int, n_columns: int, sizes_of_shards: list[list[int]]
) -> None:
    rng, n_nodes = np.random.default_rng(seed), 3
    sizes = [[*of_shard, 0, 0, 0][:n_nodes] for of_shard in sizes_of_shards]
    spans = [
        [rng.integers(0, 256, (n_columns, n)).astype(np.uint8) for n in of_shard]
        for of_shard in sizes
    ]
    empty = np.zeros((n_columns, 0), np.uint8)
    in_order = [of_shard[node] for node in range(n_nodes) for of_shard in spans]
    expected = np.concatenate([empty, *in_order], axis=1)
    target = np.full(expected.shape, 77, np.uint8)
    for shard, of_shard in enumerate(spans):
        starts = [
            sum(sum(each[:node]) for each in sizes) + sum(each[node] for each in sizes[:shard])
            for node in range(n_nodes)
        ]
        copied = np.ascontiguousarray(np.concatenate([empty, *of_shard], axis=1))
        place_nodes(copied, np.array(sizes[shard]), np.array(starts), target)
    assert target.tolist() == expected.tolist()

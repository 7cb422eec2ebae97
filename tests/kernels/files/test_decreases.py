"""Decreases of columns and trees in a table: whether it says it all, and everything again."""

from collections import defaultdict

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from fedforest.kernels.files.decreases import look_up_decreases, mark_used, tabulate_decreases

TREES = st.lists(st.lists(st.tuples(st.integers(0, 2), st.sampled_from([0.0, -0.0, 0.5]))))


@given(TREES)
def test_a_table_says_it_all_where_every_column_of_a_tree_has_one_decrease(
    trees: list[list[tuple[int, float]]],
) -> None:
    start = np.cumsum([0, *map(len, trees)])
    feature = np.array([column for tree in trees for column, _ in tree], np.int32)
    decrease = np.array([amount for tree in trees for _, amount in tree], np.float64)
    bits = decrease.view(np.uint64)
    table = np.full((len(trees), 3), 99, np.uint64)
    said: dict[tuple[int, int], set[bytes]] = defaultdict(set)
    for t, tree in enumerate(trees):
        for column, amount in tree:
            said[t, column].add(np.float64(amount).tobytes())
    is_used = np.zeros(table.shape, np.bool_)
    mark_used(start, feature, is_used)
    assert is_used.tolist() == [[bool(said[t, f]) for f in range(3)] for t in range(len(trees))]
    says_all = all(len(amounts) <= 1 for amounts in said.values())
    assert tabulate_decreases(start, feature, bits, table) == says_all
    if says_all:
        assert not table[~is_used].any()
        of_splits = np.full(len(feature), np.nan)
        look_up_decreases(start, feature, table.view(np.float64), of_splits)
        assert of_splits.tobytes() == decrease.tobytes()


def test_nodes_without_a_split_decrease_nothing() -> None:
    feature, decrease = np.array([1, -1, -1, -2], np.int32), np.full(4, np.nan)
    look_up_decreases(np.array([0, 3, 4]), feature, np.full((2, 2), 0.5), decrease)
    assert decrease.tolist() == [0.5, 0.0, 0.0, 0.0]

"""What files keep of nodes: entries of some, in order, and every entry again."""

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from fedforest.kernels.files.packed_nodes import (
    ascend_in_leaves,
    count_entries,
    keep_shares,
    keep_some,
    place_shares_of_leaves,
    place_some,
    place_starts,
)

FLAGS = st.lists(st.booleans(), max_size=40)
CLASSES = st.sets(st.integers(0, 5), min_size=1).map(sorted)


@given(FLAGS, st.sampled_from([np.int32, np.float32, np.uint8]))
def test_entries_that_are_kept_come_back_among_defaults(flags: list[bool], dtype: Any) -> None:
    is_kept = np.array(flags, np.bool_)
    values = np.arange(1, len(flags) + 1).astype(dtype)
    kept = np.zeros(is_kept.sum(), dtype)
    keep_some(is_kept, values, kept)
    np.testing.assert_array_equal(kept, values[is_kept], strict=True)
    placed = np.full(len(flags), 99, dtype)
    place_some(is_kept, kept, dtype(7), placed)
    np.testing.assert_array_equal(placed, np.where(is_kept, values, dtype(7)), strict=True)


@given(FLAGS, st.data())
def test_starts_come_back_from_how_many_entries_leaves_have(
    flags: list[bool], data: st.DataObject
) -> None:
    is_split = np.array(flags, np.bool_)
    n_leaves = int((~is_split).sum())
    counts = data.draw(st.lists(st.integers(1, 4), min_size=n_leaves, max_size=n_leaves))
    of_nodes = np.zeros(len(flags), np.int64)
    of_nodes[~is_split] = counts
    start = np.append(0, np.cumsum(of_nodes))
    entries = np.zeros(n_leaves, np.uint16)
    count_entries(is_split, start, entries)
    assert entries.tolist() == counts
    placed = np.full(len(flags) + 1, -1)
    place_starts(is_split, entries, placed)
    np.testing.assert_array_equal(placed, start, strict=True)


@given(st.lists(st.integers(1, 4), max_size=20))
def test_shares_are_kept_of_leaves_of_several_classes_and_come_back(counts: list[int]) -> None:
    leaves = [[1.0] if n == 1 else [k / 10 for k in range(n)] for n in counts]
    value = np.array([share for leaf in leaves for share in leaf], np.float64)
    of_several = [share for leaf in leaves for share in leaf if len(leaf) > 1]
    entries, kept = np.array(counts, np.uint16), np.zeros(len(of_several))
    assert keep_shares(entries, value, kept)
    assert kept.tolist() == of_several
    placed = np.zeros(len(value))
    place_shares_of_leaves(entries, kept, placed)
    np.testing.assert_array_equal(placed, value, strict=True)


def test_a_class_alone_in_its_leaf_without_all_of_it_is_noticed() -> None:
    entries, kept = np.array([1, 2, 1], np.uint16), np.zeros(2)
    assert keep_shares(entries, np.array([1.0, 0.5, 0.5, 1.0]), kept)
    assert not keep_shares(entries, np.array([0.5, 0.5, 0.5, 1.0]), kept)
    assert not keep_shares(entries, np.array([1.0, 0.5, 0.5, np.nan]), kept)


@given(st.lists(st.lists(st.integers(0, 5), min_size=1, max_size=4) | CLASSES, max_size=12))
def test_classes_ascend_in_every_leaf_or_not(leaves: list[list[int]]) -> None:
    label = np.array([name for leaf in leaves for name in leaf], np.uint16)
    entries = np.array([len(leaf) for leaf in leaves], np.uint16)
    assert ascend_in_leaves(entries, label) == all(leaf == sorted(set(leaf)) for leaf in leaves)

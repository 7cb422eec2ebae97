"""Pairs of node and candidate column, and which of them are asked about."""

from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray

from fedforest.kernels.cuts.pairs import (
    find_pairs,
    judge_pairs,
    place_asked,
    place_candidates,
)
from fedforest.tree.growth.candidates import list_candidates
from fedforest.tree.workers import ALONE
from tests.reference import random_cuts as reference

BITMAPS = arrays(np.uint8, st.tuples(st.integers(0, 6), st.integers(0, 19)))


def two_bitmaps(
    n_columns: int,
) -> st.SearchStrategy[tuple[int, NDArray[np.uint8], NDArray[np.uint8]]]:
    """Candidates of some nodes and what was tried there before; few bits, so that both happen."""
    few = st.sampled_from([0, 1, 2, 8, 128])
    shapes = st.tuples(st.integers(0, 6), st.just((n_columns + 7) >> 3))
    return shapes.flatmap(
        lambda shape: st.tuples(
            st.just(n_columns),
            arrays(np.uint8, shape, elements=few),
            arrays(np.uint8, shape, elements=few),
        )
    )


@given(BITMAPS)
def test_pairs_follow_the_nodes_and_the_columns_of_a_node_ascend(bitmap: NDArray[np.uint8]) -> None:
    pairs = list_candidates(bitmap, ALONE)
    candidates = reference.list_candidates(bitmap.tolist())
    bounds = pairs.node_start.tolist()
    assert bounds[0] == 0
    assert bounds[-1] == len(pairs.feature)
    listed = [pairs.feature[begin:end].tolist() for begin, end in pairwise(bounds)]
    assert listed == candidates


@given(st.integers(1, 20).flatmap(two_bitmaps))
def test_candidates_are_judged_as_they_are_listed(
    case: tuple[int, NDArray[np.uint8], NDArray[np.uint8]],
) -> None:
    n_columns, bitmap, tried = case
    listed = reference.list_candidates(bitmap.tolist())
    node_start, most, are_columns, are_new = judge_pairs(bitmap, tried, n_columns)
    assert node_start.tolist() == list_candidates(bitmap, ALONE).node_start.tolist()
    assert most == max(map(len, listed), default=0)
    assert are_columns == all(column < n_columns for own in listed for column in own)
    before = reference.list_candidates(tried.tolist())
    assert are_new == all(map(frozenset.isdisjoint, map(frozenset, listed), before))


@given(st.lists(st.integers(0, 9), max_size=6), st.integers(1, 12))
def test_candidates_not_drawn_yet_have_their_places(tried: list[int], count: int) -> None:
    node_start = place_candidates(np.array(tried, np.int64), count, 10)
    assert np.diff(node_start).tolist() == [min(count, 10 - n) for n in tried]
    assert node_start[0] == 0


@given(BITMAPS, st.data())
def test_pairs_with_a_threshold_are_asked_about_and_found_again(
    bitmap: NDArray[np.uint8], data: st.DataObject
) -> None:
    node_start, feature = list_candidates(bitmap, ALONE)
    any_threshold = st.sampled_from([np.nan, 0.0, np.inf])
    threshold = data.draw(arrays(np.float32, len(feature), elements=any_threshold))
    is_asked = ~np.isnan(threshold)
    expected = [int(is_asked[:end].sum()) for end in node_start.tolist()]
    asked_start = place_asked(node_start, threshold)
    assert asked_start.tolist() == expected
    asked_pairs = np.flatnonzero(is_asked)
    chosen = np.array(
        [
            data.draw(st.sampled_from([-1, *range(begin, end)]))
            for begin, end in pairwise(asked_start.tolist())
        ],
        np.int64,
    )
    nodes = np.flatnonzero(chosen >= 0)
    found = find_pairs(node_start, threshold, asked_start, nodes, chosen)
    assert found.tolist() == [asked_pairs[row] for row in chosen[nodes]]

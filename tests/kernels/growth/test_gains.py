"""Gains of several parties: nonsense is told, the best wins, the first among equals."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedforest.kernels.growth.gains import are_gains, outbid, share_out

GAINS = st.sampled_from([-np.inf, -1.0, 0.0, 0.5, 2.0])


@given(st.integers(0, 6).flatmap(lambda n: st.lists(st.lists(GAINS, min_size=n, max_size=n))))
def test_the_first_of_the_best_bidders_owns_a_node(bids: list[list[float]]) -> None:
    n_nodes = len(bids[0]) if bids else 0
    best, owner = np.full(n_nodes, -np.inf), np.full(n_nodes, -1, np.int16)
    for number, scores in enumerate(bids):
        outbid(np.array(scores), number, best, owner)
    for node, of_node in enumerate(zip(*bids, strict=True)):
        assert best[node] == max(of_node)
        expected = of_node.index(max(of_node)) if max(of_node) > -np.inf else -1
        assert owner[node] == expected


@pytest.mark.parametrize(
    ("score", "is_gain"),
    [(0.0, True), (-np.inf, True), (-9.9, True), (10.0, False), (np.inf, False), (np.nan, False)],
)
def test_only_minus_infinity_and_numbers_below_the_largest_are_gains(
    score: float, is_gain: bool
) -> None:
    assert bool(are_gains(np.array([1.0, score, 2.0]), 10.0)) is is_gain
    assert are_gains(np.zeros(0), 10.0)


@given(st.lists(st.tuples(st.integers(0, 2), st.booleans()), max_size=40))
def test_split_nodes_are_shared_out_to_their_owners(bids: list[tuple[int, bool]]) -> None:
    owner = np.array([number for number, _ in bids], np.int16)
    is_split = np.array([split for _, split in bids], np.bool_)
    nodes, first, flags, places, owners = share_out(owner, is_split, 3)
    for number in range(3):
        own = [k for k, bid in enumerate(bids) if bid == (number, True)]
        assert nodes[first[number] : first[number + 1]].tolist() == own
        listed = np.unpackbits(flags[number], bitorder="little")
        assert np.flatnonzero(listed).tolist() == own
    assert owner.tolist() == [number if split else -1 for number, split in bids]
    assert places.tolist() == [sum(split for _, split in bids[:k]) for k in range(len(bids))]
    assert owners.tolist() == [number for number, split in bids if split]

"""What is drawn for pairs does not depend on how nodes are divided, nor on other pairs."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedforest.kernels.cuts.draws import (
    PAIRS_TOGETHER,
    draw_sides,
    draw_thresholds,
    key_pairs,
    place_pairs,
)
from fedforest.kernels.cuts.pairs import Pairs
from fedforest.tree.growth.candidates import list_candidates
from fedforest.tree.workers import ALONE
from tests.strategies import IS_PLAIN_PYTHON, SEEDS

N_EXAMPLES = 20 if IS_PLAIN_PYTHON else 100


def make_pairs(rng: np.random.Generator, n_nodes: int) -> Pairs:
    return list_candidates(rng.integers(0, 256, (n_nodes, 2), np.uint8), ALONE)


@given(SEEDS, st.integers(1, 6), st.integers(0, 6))
@settings(max_examples=N_EXAMPLES)
def test_draws_of_a_pair_come_from_its_node_and_column_alone(
    seed: int, n_nodes: int, middle: int
) -> None:
    rng = np.random.default_rng(seed)
    pairs, node_keys = make_pairs(rng, n_nodes), rng.integers(0, 2**64, n_nodes, np.uint64)
    n_pairs, middle = len(pairs.feature), min(middle, n_nodes)
    points = np.array([[0.0] * n_pairs, [1.0] * n_pairs], np.float32)
    threshold = np.zeros(n_pairs, np.float32)
    for part in ((middle, n_nodes), (0, middle)):
        draw_thresholds(points, node_keys, pairs, threshold, *part)
    keys = key_pairs(node_keys, pairs, np.arange(n_pairs))
    node = np.repeat(np.arange(n_nodes), np.diff(pairs.node_start))
    for pair in range(n_pairs):
        alone = Pairs(np.array([0, 1]), pairs.feature[pair : pair + 1])
        key = node_keys[node[pair] : node[pair] + 1]
        drawn = np.zeros(1, np.float32)
        draw_thresholds(points[:, :1], key, alone, drawn, 0, 1)
        assert drawn[0] == threshold[pair]
        assert key_pairs(key, alone, np.zeros(1, np.int64))[0] == keys[pair]
    assert len(set(keys.tolist())) == n_pairs


def test_thresholds_are_spread_evenly_between_the_points() -> None:
    pairs = Pairs(np.arange(2001), np.zeros(2000, np.int32))
    points = np.tile(np.array([[-1.0], [1.0]], np.float32), 2000)
    threshold, keys = np.zeros(2000, np.float32), np.arange(2000, dtype=np.uint64)
    draw_thresholds(points, keys, pairs, threshold, 0, 2000)
    counts = np.histogram(threshold, bins=8, range=(-1, 1))[0]
    assert (np.abs(counts - 250) < 5 * np.sqrt(250)).all()  # seldom beyond: 1 in 10^5 runs


@pytest.mark.parametrize("n_pairs", [PAIRS_TOGETHER - 1, PAIRS_TOGETHER, PAIRS_TOGETHER + 1])
def test_thresholds_of_a_node_are_the_same_beside_nodes_of_many_pairs(n_pairs: int) -> None:
    starts = np.cumsum([0, 2, n_pairs, 3, n_pairs])
    pairs = Pairs(starts, np.arange(starts[-1], dtype=np.int32))
    points = np.random.default_rng(n_pairs).random((3, starts[-1])).astype(np.float32)
    together, one_by_one = np.zeros((2, starts[-1]), np.float32)
    keys = np.arange(4, dtype=np.uint64)
    draw_thresholds(points, keys, pairs, together, 0, 4)
    for node in range(4):
        draw_thresholds(points, keys, pairs, one_by_one, node, node + 1)
    assert together.tobytes() == one_by_one.tobytes()
    assert ((points.min(axis=0) <= together) & (together < points.max(axis=0))).all()


def test_missing_values_go_either_way_where_there_are_any_and_right_elsewhere() -> None:
    pairs = Pairs(np.arange(0, 2002, 2), np.tile(np.array([0, 1], np.int32), 1000))
    keys = np.arange(1000, dtype=np.uint64)
    sides = draw_sides(keys, pairs, np.array([True, False])).reshape(1000, 2)
    assert 400 < sides[:, 0].sum() < 600
    assert not sides[:, 1].any()


def test_places_tell_all_pairs_of_a_batch_apart_however_nodes_are_divided() -> None:
    rng = np.random.default_rng(3)
    pairs = make_pairs(rng, 5)
    tree, node = np.array([0, 0, 1, 1, 2], np.int32), np.array([0, 1, 0, 1, 0], np.int32)
    whole = place_pairs(pairs, tree, node, 0, 5)
    parts = [place_pairs(pairs, tree, node, *part) for part in ((0, 2), (2, 2), (2, 5))]
    assert np.array_equal(whole, np.concatenate(parts))
    assert len(np.unique(whole, axis=0)) == len(pairs.feature)

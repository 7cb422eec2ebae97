"""What the coordinator takes from parties as sums of left children, and what it refuses."""

import numpy as np
import pytest

from fedforest.errors import ProtocolError
from fedforest.kernels.criteria.registry import BY_NAME
from fedforest.protocol.vertical.sums import LeftSums, are_short, estimate_bytes, pack_sums
from fedforest.tree.table.targets import TargetKind, encode_classes, encode_values, weight_of

WEIGHTS = np.ones(1, np.int64)
GINI = BY_NAME["gini"]
CLASSES = encode_classes(np.zeros(1, np.int64), 2, WEIGHTS, GINI).kind
NUMBERS = encode_values(np.zeros(1, np.int64), WEIGHTS).kind
NODES = {"classes": (CLASSES, [60, 40, 9]), "numbers": (NUMBERS, [100, 5, 9, 0])}


def put(kind: TargetKind, node: list[int], weight: int) -> LeftSums:
    """A node of weight 100 is split so that `weight` goes left; children must weigh 25."""
    left_sums = LeftSums(kind, np.zeros(1, np.int64), 1, np.array([node]), np.array([25]))
    left = np.zeros((1, kind.n_sums), np.int64)
    left[0, 0] = weight if kind.is_regression else min(weight, 60)
    if not kind.is_regression:
        left[0, 1] = weight - left[0, 0]
    left_sums.put(pack_sums(left, kind), np.zeros(1, np.int64), np.array([4]))
    return left_sums


@pytest.mark.parametrize("sums", NODES)
@pytest.mark.parametrize("weight", [1, 24, 76, 99])
def test_a_child_on_either_side_that_weighs_too_little_is_refused(sums: str, weight: int) -> None:
    with pytest.raises(ProtocolError, match="min_weight_fraction_leaf"):
        put(*NODES[sums], weight)


@pytest.mark.parametrize("sums", NODES)
@pytest.mark.parametrize("weight", [25, 50, 75])
def test_children_that_weigh_enough_are_taken(sums: str, weight: int) -> None:
    kind, node = NODES[sums]
    assert weight_of(put(kind, node, weight).left, kind).tolist() == [weight]


def test_sums_travel_beside_bits_where_they_are_counts_of_few_classes() -> None:
    label = np.zeros(1, np.int64)
    for n_classes in range(1, 12):
        assert are_short(encode_classes(label, n_classes, None, GINI)) == (n_classes <= 6)
        assert not are_short(encode_classes(label, n_classes, WEIGHTS, GINI))
    assert not are_short(encode_values(label, None))
    assert not are_short(encode_values(label, WEIGHTS))


@pytest.mark.parametrize("n_rows", [3, 40, 1000])
def test_the_length_of_sums_is_foreseen_about(n_rows: int) -> None:
    rng = np.random.default_rng(n_rows)
    weight = rng.integers(n_rows, 2 * n_rows, 500)
    total = np.rint(rng.standard_normal(500) * 2.0**39 * np.sqrt(n_rows)).astype(np.int64)
    nodes = np.stack([weight, total, np.full(500, n_rows), np.zeros(500, np.int64)], axis=1)
    length = len(pack_sums(nodes // 2, NUMBERS).data)
    assert 0.8 * length < estimate_bytes(nodes, NUMBERS) < 1.3 * length

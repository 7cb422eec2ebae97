"""What the coordinator takes from parties as sums of left children, and what it refuses."""

import numpy as np
import pytest

from fedforest.errors import ProtocolError
from fedforest.protocol.vertical.sums import LeftSums, pack_sums
from fedforest.tree.targets import TargetKind, encode_classes, encode_values, weight_of

WEIGHTS = np.ones(1, np.int64)
CLASSES = encode_classes(np.zeros(1, np.int64), 2, WEIGHTS, "gini").kind
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

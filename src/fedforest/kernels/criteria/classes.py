"""Splits of classes: sums that all criteria score, and the best of many cuts by gini.

S, the sum over classes that a criterion scores, is int64 in nodes lighter than `EXACT_WEIGHT`, so
moving a row or a bin from right to left is exact. Heavier ones would overflow: there S is a float64
sum over the classes in ascending order.
"""

from typing import NamedTuple

import numpy as np

from fedforest.kernels.criteria.gini import score_purity
from fedforest.kernels.jit import embedded, inlined
from fedforest.kernels.layout import MULTIPLICITY_BITS, NO_SPLIT

EXACT_WEIGHT = 1 << 31
LIGHT_WEIGHT = 1 << 26  # squares of lighter nodes fit the fraction of a float64
CLASS_SHIFT = np.uint64(MULTIPLICITY_BITS)
_MULTIPLICITY = np.uint64(15)
_TWO_52 = 4503599627370496.0
_BITS_OF_2_52 = np.int64(0x4330000000000000)


class ClassNode(NamedTuple):
    """The constants of a node while its columns are searched."""

    n_rows: int
    weight: int
    whole: int  # S of the node
    formula: NamedTuple  # of the criterion
    min_rows_leaf: int
    least_weight: int = 0  # of a side; looked at by the general search alone


@inlined
def row_weight(code, row, weights):
    """Multiplicity times sample weight of one drawn row."""
    weight = np.int64(code & _MULTIPLICITY)
    if weights.shape[0] > 0:
        weight *= weights[row]
    return weight


@embedded
def as_float(x):
    """Return a whole number from 0 to 2^52 as float64.

    It becomes the fraction of 2^52 + x. Vector registers can do that; they lack a conversion.
    """
    return np.int64(x | _BITS_OF_2_52).view(np.float64) - _TWO_52


@embedded
def score_light(sums, count, node, scores):
    """The gini score of all cuts of a node so light that squares of weights stay below 2^52."""
    for k in range(count):
        weight, squares, products = sums[0, k], sums[1, k], sums[2, k]
        right = node.whole - 2 * products + squares
        left_weight = np.float64(np.int32(weight))
        right_weight = np.float64(np.int32(node.weight - weight))
        scores[k] = score_purity(as_float(squares), left_weight, as_float(right), right_weight)


@embedded
def score_exact(sums, count, node, scores):
    """Score all cuts of any exact node by gini."""
    for k in range(count):
        weight, squares, products = sums[0, k], sums[1, k], sums[2, k]
        right = node.whole - 2 * products + squares
        left, left_weight = np.float64(squares), np.float64(weight)
        right_weight = np.float64(node.weight - weight)
        scores[k] = score_purity(left, left_weight, np.float64(right), right_weight)


@embedded
def best_gini(sums, count, node, least, most, scores):
    """Return (score, position) of the best of `count` cuts, the first of equals.

    `sums` has four rows: on the left of a cut the weight, the sum of squares and the sum of
    products with the node's weights; and what must be at least `least` and below `most` for the cut
    to be valid. Scores are -1 or positive: their bits compare like integers, in vector registers.
    """
    if node.weight < LIGHT_WEIGHT:
        score_light(sums, count, node, scores)
    else:
        score_exact(sums, count, node, scores)
    best = np.float64(-1.0).view(np.int64)
    for k in range(count):
        score = scores[k] if (sums[3, k] >= least) & (sums[3, k] < most) else -1.0
        scores[k] = score
        best = max(best, np.float64(score).view(np.int64))
    where = 0
    if best >= 0:
        while np.float64(scores[where]).view(np.int64) != best:
            where += 1
    return scores[where] if best >= 0 else NO_SPLIT, where

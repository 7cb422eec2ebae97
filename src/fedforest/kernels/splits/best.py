"""Remembering the best split of a node."""

from fedforest.kernels.bits.bitsets import fill_set, put_in_set
from fedforest.kernels.jit import borrowing, embedded, kernel
from fedforest.kernels.layout import MISSING_BIN


@embedded
def keep_numeric(found, node, feature, cut):
    """Store a numeric cut (score, bin, side of missing values); return its score."""
    found.feature[node] = feature
    found.bin[node] = cut[1]
    found.missing_left[node] = cut[2]
    return cut[0]


@borrowing
def keep_categories(found, node, feature, cut, visit, count, larger_is_left):
    """Store a categorical cut (score, position): visited bins up to the position go left.

    Categories the node has not seen follow the missing values; where it saw none of those either,
    both go to the larger child.
    """
    score, where = cut
    others_left = larger_is_left
    for position in range(count):
        if visit[position] == MISSING_BIN:
            others_left = position <= where
    fill_set(found.left_set, node, others_left)
    for position in range(count):
        put_in_set(found.left_set, node, visit[position], position <= where)
    found.feature[node] = feature
    found.bin[node] = 0
    found.missing_left[node] = 1 if others_left else 0
    return score


@kernel
def keep_chosen_categories(found, node, feature, visit, n_left, larger_is_left):
    """Store a cut that another role chose: the first `n_left` of the visited bins go left."""
    keep_categories(found, node, feature, (0.0, n_left - 1), visit, len(visit), larger_is_left)

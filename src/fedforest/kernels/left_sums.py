"""What a stranger says the left children of split nodes add up to: put in place and judged.

A node's sums are (class weights ..., rows) or (weight, sum, rows, pure sides). Sums travel without
the rows, which are known. Nothing is believed that rows cannot add up to, of either child.
"""

import numpy as np

from fedforest.kernels.jit import kernel

# what is wrong with a node's sums; 0 where nothing is
WRONG_PART, WRONG_WEIGHT, WRONG_SIDES = 1, 2, 3


@kernel
def judge_classes(sums, limit):
    """What is wrong with the first node whose class weights cannot be: one, or their sum."""
    for i in range(sums.shape[0]):
        weight, lies_between = np.int64(0), True
        for c in range(sums.shape[1] - 1):
            lies_between &= (sums[i, c] >= 0) & (sums[i, c] <= limit)
            weight += sums[i, c]
        if not lies_between:
            return WRONG_PART
        if weight < 1 or weight > limit:
            return WRONG_WEIGHT
    return 0


@kernel
def judge_moments(sums, limit, sum_limit):
    """The same for weight and sum of targets, and for which sides are pure."""
    for i in range(sums.shape[0]):
        if sums[i, 1] < -sum_limit or sums[i, 1] > sum_limit:
            return WRONG_PART
        if sums[i, 0] < 1 or sums[i, 0] > limit:
            return WRONG_WEIGHT
        if sums[i, 3] < 0 or sums[i, 3] > 3:
            return WRONG_SIDES
    return 0


@kernel
def place_class_sums(given, is_own, is_split, left_rows, sums, left, limit):
    """Put an owner's sums, one node after the other, among those of all split nodes.

    left[i] describes the left child of the i-th split node, sums[node] the node itself. Returns
    what is wrong with one of the children.
    """
    n_classes = left.shape[1] - 1
    right = np.empty((1, n_classes + 1), np.int64)
    i, k = 0, 0
    for node in range(is_own.shape[0]):
        if is_own[node]:
            for c in range(n_classes):
                left[i, c] = given[k, c]
                right[0, c] = sums[node, c] - given[k, c]
            left[i, n_classes] = left_rows[node]
            wrong = judge_classes(left[i : i + 1], limit) or judge_classes(right, limit)
            if wrong:
                return wrong
            k += 1
        i += is_split[node]
    return 0


@kernel
def place_moment_sums(given, is_own, is_split, left_rows, sums, left, limits):
    """The same for moments; `limits` are those of weights and of sums."""
    limit, sum_limit = limits
    right = np.zeros((1, 4), np.int64)
    i, k = 0, 0
    for node in range(is_own.shape[0]):
        if is_own[node]:
            left[i, 0], left[i, 1], left[i, 3] = given[k, 0], given[k, 1], given[k, 2]
            left[i, 2] = left_rows[node]
            right[0, 0], right[0, 1] = sums[node, 0] - left[i, 0], sums[node, 1] - left[i, 1]
            wrong = judge_moments(left[i : i + 1], limit, sum_limit)
            wrong = wrong or judge_moments(right, limit, sum_limit)
            if wrong:
                return wrong
            k += 1
        i += is_split[node]
    return 0

"""Store and check the sums of left children that another party states.

A node's sums are (class weights ..., rows) or (weight, sum, rows, pure sides). Sums travel without
the rows, which are known. A statement is refused if no rows could add up to it, in either child.
"""

import numpy as np

from fedforest.kernels.jit import kernel

# what is wrong with a node's sums; 0 where nothing is
WRONG_PART, WRONG_WEIGHT, WRONG_SIDES = 1, 2, 3


@kernel
def judge_classes(sums, limit):
    """Find the fault of the first node whose class weights cannot be: one, or their sum."""
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
    """Judge weight and sum of targets, and which sides are pure."""
    for i in range(sums.shape[0]):
        if sums[i, 1] < -sum_limit or sums[i, 1] > sum_limit:
            return WRONG_PART
        if sums[i, 0] < 1 or sums[i, 0] > limit:
            return WRONG_WEIGHT
        if sums[i, 3] < 0 or sums[i, 3] > 3:
            return WRONG_SIDES
    return 0


@kernel
def place_class_sums(given, nodes, places, left_rows, sums, left, limit):
    """Put an owner's sums, given[k] those of nodes[k], among those of all split nodes.

    left[places[node]] describes the left child of a split node, sums[node] the node itself. Returns
    what is wrong with one of the children.
    """
    n_classes = left.shape[1] - 1
    for k in range(nodes.shape[0]):
        node, i = nodes[k], places[nodes[k]]
        left_weight, right_weight = np.int64(0), np.int64(0)
        left_lies_between, right_lies_between = True, True
        for c in range(n_classes):
            part = given[k, c]
            rest = sums[node, c] - part
            left[i, c] = part
            left_weight += part
            right_weight += rest
            left_lies_between &= (part >= 0) & (part <= limit)
            right_lies_between &= (rest >= 0) & (rest <= limit)
        left[i, n_classes] = left_rows[node]
        if not (left_lies_between and right_lies_between):
            return WRONG_PART
        if min(left_weight, right_weight) < 1 or max(left_weight, right_weight) > limit:
            return WRONG_WEIGHT
    return 0


@kernel
def place_moment_sums(given, nodes, places, left_rows, sums, left, limits):
    """Place moments; `limits` are those of weights and of sums."""
    limit, sum_limit = limits
    right = np.zeros((1, 4), np.int64)
    for k in range(nodes.shape[0]):
        node, i = nodes[k], places[nodes[k]]
        left[i, 0], left[i, 1], left[i, 3] = given[k, 0], given[k, 1], given[k, 2]
        left[i, 2] = left_rows[node]
        right[0, 0], right[0, 1] = sums[node, 0] - left[i, 0], sums[node, 1] - left[i, 1]
        wrong = judge_moments(left[i : i + 1], limit, sum_limit)
        wrong = wrong or judge_moments(right, limit, sum_limit)
        if wrong:
            return wrong
    return 0

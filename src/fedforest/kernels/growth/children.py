"""The children of a step: which stay open, their numbers, their sums.

One pass over the open nodes each. Where a random branch would be mispredicted once per node, a
value is written in any case and overwritten by the next if it did not count.
"""

from typing import NamedTuple

import numpy as np

from fedforest.kernels.growth.partition import OPEN_LEFT, OPEN_RIGHT, STAYS
from fedforest.kernels.jit import kernel


class Limits(NamedTuple):
    """The limits that make a node a leaf whatever it holds."""

    least_rows: int  # with fewer it is not split
    max_depth: int


@kernel
def keep_trying(scores, tried, count, n_columns):
    """The fate of nodes before any is split: without a score, try the next columns if there are."""
    fate = np.zeros(scores.shape[0], np.uint8)
    for k in range(scores.shape[0]):
        waits = not np.isfinite(scores[k]) and tried[k] + count < n_columns
        fate[k] = STAYS if waits else 0
    return fate


@kernel
def judge_by_classes(sums, left, nodes, depth, limits, fate):
    """Fate of the split nodes: children that are large, high and mixed stay open.

    left[i] describes the left child of nodes[i]; its right child is what remains of the node.
    """
    n_classes = sums.shape[1] - 1
    least_rows, max_depth = limits
    for i in range(nodes.shape[0]):
        k = nodes[i]
        left_classes, right_classes = 0, 0
        for c in range(n_classes):
            left_classes += left[i, c] > 0
            right_classes += sums[k, c] > left[i, c]
        left_rows = left[i, n_classes]
        right_rows = sums[k, n_classes] - left_rows
        is_high = depth[k] + 1 < max_depth
        opens_left = is_high & (left_rows >= least_rows) & (left_classes > 1)
        opens_right = is_high & (right_rows >= least_rows) & (right_classes > 1)
        fate[k] = opens_left * OPEN_LEFT + opens_right * OPEN_RIGHT


@kernel
def judge_by_moments(sums, left, nodes, depth, limits, fate):
    """Judge children by (weight, sum, rows, children whose targets are all equal)."""
    least_rows, max_depth = limits
    for i in range(nodes.shape[0]):
        k = nodes[i]
        left_rows, pure = left[i, 2], left[i, 3]
        right_rows = sums[k, 2] - left_rows
        is_high = depth[k] + 1 < max_depth
        opens_left = is_high & (left_rows >= least_rows) & (pure & OPEN_LEFT == 0)
        opens_right = is_high & (right_rows >= least_rows) & (pure & OPEN_RIGHT == 0)
        fate[k] = opens_left * OPEN_LEFT + opens_right * OPEN_RIGHT


@kernel
def count_open(fate):
    """Count the nodes that are open after a step."""
    total = 0
    for k in range(fate.shape[0]):
        total += fate[k] & (OPEN_LEFT | STAYS) != 0
        total += fate[k] & OPEN_RIGHT != 0
    return total


@kernel
def number_children(tree, node, is_split, node_count, left_child):
    """Number the children of split nodes: left_child[k] = number of the left one, -1 without.

    Returns (tree, node, left child) of the split nodes alone; `node_count` counts on.
    """
    n_split = 0
    for k in range(is_split.shape[0]):
        n_split += is_split[k]
    split_tree, split_node = np.empty(n_split, np.int32), np.empty(n_split, np.int32)
    split_left = np.empty(n_split, np.int32)
    i = 0
    for k in range(is_split.shape[0]):
        left_child[k] = -1
        if is_split[k]:
            number = node_count[tree[k]]
            node_count[tree[k]] = number + 2
            left_child[k] = number
            split_tree[i], split_node[i], split_left[i] = tree[k], node[k], number
            i += 1
    return split_tree, split_node, split_left


@kernel
def open_children(nodes, fate, left_child):
    """The nodes open after a step: (tree, node, depth, open node it came from, is right child)."""
    tree, node, depth = nodes
    size = count_open(fate) + 1  # one spare position
    tree_after, node_after = np.empty(size, np.int32), np.empty(size, np.int32)
    depth_after, source = np.empty(size, np.int32), np.empty(size, np.int64)
    is_right = np.empty(size, np.bool_)
    at = 0
    for k in range(fate.shape[0]):
        stays = fate[k] == STAYS
        level = depth[k] + (0 if stays else 1)
        tree_after[at], depth_after[at], source[at] = tree[k], level, k
        node_after[at] = node[k] if stays else left_child[k]
        is_right[at] = False
        at += fate[k] & (OPEN_LEFT | STAYS) != 0
        tree_after[at], depth_after[at], source[at] = tree[k], level, k
        node_after[at] = left_child[k] + 1
        is_right[at] = True
        at += fate[k] & OPEN_RIGHT != 0
    return tree_after[:at], node_after[:at], depth_after[:at], source[:at], is_right[:at]


@kernel
def grow(nodes, is_split, fate, node_count, left_child):
    """`number_children`, then `open_children`, in one call: (split nodes, open nodes)."""
    tree, node, _ = nodes
    split = number_children(tree, node, is_split, node_count, left_child)
    return split, open_children(nodes, fate, left_child)


@kernel
def follow_tried(fate, tried, flags):
    """Columns tried at the nodes open after a step: none at new ones, `flags` too at the others."""
    after = np.zeros((count_open(fate), tried.shape[1]), np.uint8)
    at = 0
    for k in range(fate.shape[0]):
        if fate[k] == STAYS:
            for byte in range(tried.shape[1]):
                after[at, byte] = tried[k, byte] | flags[k, byte]
        at += fate[k] & (OPEN_LEFT | STAYS) != 0
        at += fate[k] & OPEN_RIGHT != 0
    return after


@kernel
def divide_sums(before, left, nodes, left_child, fate, n_open):
    """Divide sums between the nodes after a step: (sums, tried, decrease, leaf tree, leaf node).

    Sums are those of the open nodes, then those of new leaves; `tried` counts the columns that open
    nodes have tried, and `decrease` is that of the nodes that were split. `before` the step: sums,
    columns tried, those tried in the step itself, decreases. left[i] describes the left child of
    the i-th split node. Open nodes keep their order.
    """
    sums, tried, n_tried_now, decrease = before
    tree, node = nodes
    n_sums = sums.shape[1]
    n_after = fate.shape[0] + left.shape[0]
    tried_after, decrease_of_split = np.zeros(n_open + 1, np.int64), np.empty(left.shape[0])
    after = np.empty((n_after, n_sums), np.int64)
    leaf_tree = np.empty(n_after - n_open + 1, np.int32)
    leaf_node = np.empty(n_after - n_open + 1, np.int32)
    opened, closed, i = 0, 0, 0
    for k in range(fate.shape[0]):
        is_split = left_child[k] >= 0
        opens = np.int64(fate[k] & (OPEN_LEFT | STAYS) != 0)
        at = opened if opens else n_open + closed
        leaf_tree[closed], leaf_node[closed] = tree[k], left_child[k] if is_split else node[k]
        opened, closed = opened + opens, closed + 1 - opens
        if not is_split:
            for c in range(n_sums):
                after[at, c] = sums[k, c]
            if opens:
                tried_after[at] = tried[k] + n_tried_now
            continue
        decrease_of_split[i] = decrease[k]
        opens = np.int64(fate[k] & OPEN_RIGHT != 0)
        right_at = opened if opens else n_open + closed
        leaf_tree[closed], leaf_node[closed] = tree[k], left_child[k] + 1
        opened, closed = opened + opens, closed + 1 - opens
        for c in range(n_sums):
            after[at, c] = left[i, c]
            after[right_at, c] = sums[k, c] - left[i, c]
        i += 1
    return after, tried_after[:n_open], decrease_of_split, leaf_tree[:closed], leaf_node[:closed]

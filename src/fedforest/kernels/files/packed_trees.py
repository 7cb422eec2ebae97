"""Trees as model files keep them: one bit per node says whether it was split.

Most trees number children in the order of their parents, one level after the other, so that the
bits alone say who is whose child. Of other trees every split's left child is kept too.
"""

import numpy as np

from fedforest.kernels.jit import kernel
from fedforest.kernels.prediction.walk import depth_in_any_order

_LEAF = -1


@kernel
def follows_order(left_child):
    """Return whether this is a tree that numbers children in the order of their parents.

    It asks without a branch: whether a node has children is as good as random.
    """
    n_born, is_so = 1, True
    for node in range(left_child.shape[0]):
        child = left_child[node]
        is_so &= (node < n_born) & ((child == _LEAF) | (child == n_born))
        n_born += np.int64(child != _LEAF) << 1
    return is_so and n_born == left_child.shape[0]


@kernel
def find_order(tree_start, left_child, is_in_order):
    """Note which trees number children in order; False where one is no tree."""
    for tree in range(is_in_order.shape[0]):
        own = left_child[tree_start[tree] : tree_start[tree + 1]]
        is_in_order[tree] = follows_order(own)
        if not is_in_order[tree] and depth_in_any_order(own) < 0:
            return False
    return True


@kernel
def are_all_born(is_split):
    """Return whether these bits are a tree: every node but the root is a child of one before it."""
    n_born, is_tree = 1, True
    for node in range(is_split.shape[0]):
        is_tree &= node < n_born
        n_born += np.int64(is_split[node]) << 1
    return is_tree and n_born == is_split.shape[0]


@kernel
def number_children(is_split, left_child):
    """The left children of a tree that numbers them in the order of their parents."""
    next_child = 1
    for node in range(is_split.shape[0]):
        left_child[node] = next_child if is_split[node] else _LEAF
        next_child += np.int64(is_split[node]) << 1


@kernel
def copy_children(is_split, kept, left_child):
    """The left children of a tree that has them in any order; returns how many were kept of it."""
    at = 0
    for node in range(is_split.shape[0]):
        left_child[node] = _LEAF
        if is_split[node]:
            left_child[node] = kept[at]
            at += 1
    return at


@kernel
def are_trees(tree_start, is_split, is_in_order, kept):
    """Return whether all trees are trees, in the one form that they have.

    `kept` are the left children of trees that are not in order, all above zero and, if these are
    trees, as many as they have splits.
    """
    at = 0
    for tree in range(is_in_order.shape[0]):
        own = is_split[tree_start[tree] : tree_start[tree + 1]]
        if is_in_order[tree]:
            if not are_all_born(own):
                return False
            continue
        n_splits = own.shape[0] >> 1
        if own.sum() != n_splits:
            return False
        left_child = np.empty(own.shape[0], np.int32)
        at += copy_children(own, kept[at : at + n_splits], left_child)
        if follows_order(left_child) or depth_in_any_order(left_child) < 0:
            return False
    return True


@kernel
def place_children(tree_start, is_split, is_in_order, kept, left_child):
    """The left children of all nodes of trees that were found right."""
    at = 0
    for tree in range(is_in_order.shape[0]):
        start, end = tree_start[tree], tree_start[tree + 1]
        if is_in_order[tree]:
            number_children(is_split[start:end], left_child[start:end])
        else:
            at += copy_children(is_split[start:end], kept[at:], left_child[start:end])

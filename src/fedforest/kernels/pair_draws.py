"""What a coordinator draws for each (node, candidate column): where, which side, which set.

A draw is a hash of the tree's seed, the node's number and the column, as in `sampling`: it does not
depend on what else is drawn, on participants or on threads.
"""

import numpy as np

from fedforest.kernels.jit import inlined, kernel
from fedforest.kernels.points import merge_points
from fedforest.kernels.sampling import draw_below, draw_unit, mix

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_ONE = np.uint64(1)
_UNIT, _SIDE, _SET, _MEMBER = np.uint64(0), np.uint64(1), np.uint64(2), np.uint64(8)  # counters


@inlined
def key_pair(node_key, column):
    """What everything that is drawn for a pair comes from."""
    return mix(node_key + (np.uint64(column) + _ONE) * _GOLDEN)


@kernel
def draw_thresholds(points, node_keys, pairs, threshold, first, last):
    """The thresholds of the nodes first..last, drawn between the parties' points."""
    node_start, feature = pairs
    for k in range(first, last):
        for pair in range(node_start[k], node_start[k + 1]):
            unit = draw_unit(key_pair(node_keys[k], feature[pair]), _UNIT)
            threshold[pair] = merge_points(points, pair, unit)


@kernel
def draw_sides(node_keys, pairs, has_missing):
    """Per pair a side for missing values, 1 for left; right where the column has no such values."""
    node_start, feature = pairs
    missing_left = np.zeros(feature.shape[0], np.uint8)
    for k in range(node_keys.shape[0]):
        for pair in range(node_start[k], node_start[k + 1]):
            if has_missing[feature[pair]]:
                key = key_pair(node_keys[k], feature[pair])
                missing_left[pair] = np.uint8(draw_below(key, _SIDE, np.uint64(2)))
    return missing_left


@kernel
def key_pairs(node_keys, pairs, chosen):
    """The keys of some pairs, which ascend."""
    node_start, feature = pairs
    keys = np.empty(chosen.shape[0], np.uint64)
    k = 0
    for i in range(chosen.shape[0]):
        while node_start[k + 1] <= chosen[i]:
            k += 1
        keys[i] = key_pair(node_keys[k], feature[chosen[i]])
    return keys


@kernel
def draw_category_sets(keys, n_categories, sets):
    """sets[i]: some of n_categories[i] categories, neither none nor all, by keys[i]."""
    for i in range(keys.shape[0]):
        n = n_categories[i]
        key = keys[i]
        members = 0
        for word in range(4):
            sets[i, word] = np.uint64(0)
        for category in range(n):
            is_in = mix(key + (np.uint64(category) + _MEMBER) * _GOLDEN) >> np.uint64(63)
            sets[i, category >> 6] |= is_in << np.uint64(category & 63)
            members += np.int64(is_in)
        if members in (0, n):  # change one category's mind
            chosen = draw_below(key, _SET, np.uint64(n))
            sets[i, chosen >> np.uint64(6)] ^= _ONE << (chosen & np.uint64(63))


@kernel
def place_pairs(pairs, tree, node, first, last):
    """(pairs, 2) words that tell the pairs of the nodes first..last from all others of a batch.

    These are tree and node, and column.
    """
    node_start, feature = pairs
    begin = node_start[first]
    places = np.empty((node_start[last] - begin, 2), np.uint64)
    for k in range(first, last):
        where = (np.uint64(tree[k]) << np.uint64(32)) | np.uint64(node[k])
        for pair in range(node_start[k], node_start[k + 1]):
            places[pair - begin, 0] = where
            places[pair - begin, 1] = np.uint64(feature[pair])
    return places

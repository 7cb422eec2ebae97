"""What a coordinator draws for each (node, candidate column): where, which side, which set.

A draw is a hash of the tree's seed, the node's number and the column, as in `sampling`: it does not
depend on what else is drawn, on participants or on threads.
"""

import numpy as np

from fedforest.kernels.jit import kernel
from fedforest.kernels.sampling import draw_below, draw_unit, mix

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_ONE = np.uint64(1)
_SIDE, _SET, _MEMBER = np.uint64(1), np.uint64(2), np.uint64(8)  # counters; the unit's is 0


@kernel
def draw_for_pairs(node_keys, node_start, feature, keys, units, missing_left):
    """A key, a uniform number in [0, 1) and a side for missing values, for each pair."""
    for k in range(node_keys.shape[0]):
        for pair in range(node_start[k], node_start[k + 1]):
            key = mix(node_keys[k] + (np.uint64(feature[pair]) + _ONE) * _GOLDEN)
            keys[pair] = key
            units[pair] = draw_unit(key, np.uint64(0))
            missing_left[pair] = np.uint8(draw_below(key, _SIDE, np.uint64(2)))


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
def place_pairs(pairs, tree, node):
    """(pairs, 2) words that tell every pair of a batch from every other: tree and node, column."""
    node_start, feature = pairs
    places = np.empty((feature.shape[0], 2), np.uint64)
    for k in range(tree.shape[0]):
        where = (np.uint64(tree[k]) << np.uint64(32)) | np.uint64(node[k])
        for pair in range(node_start[k], node_start[k + 1]):
            places[pair, 0] = where
            places[pair, 1] = np.uint64(feature[pair])
    return places

"""The draws of a coordinator for each (node, candidate column): threshold, missing side, set.

A draw is a hash of the tree's seed, the node's number and the column, as in `sampling`: it does not
depend on other draws, on participants or on threads.
"""

import numpy as np

from fedforest.kernels.cuts.points import draw_between
from fedforest.kernels.growth.sampling import draw_below, draw_unit, mix
from fedforest.kernels.jit import embedded, inlined, kernel

PAIRS_TOGETHER = 2048  # what is drawn for them stays in the first cache

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_NOTHING_LOWER, _NOTHING_HIGHER = np.float32(np.inf), np.float32(-np.inf)
_ONE, _TWO = np.uint64(1), np.uint64(2)
_UNIT, _SIDE, _SET, _MEMBER = np.uint64(0), np.uint64(1), np.uint64(2), np.uint64(8)  # counters


@inlined
def key_pair(node_key, column):
    """Make the key of everything that is drawn for a pair."""
    return mix(node_key + (np.uint64(column) + _ONE) * _GOLDEN)


@embedded
def end_of_block(node_start, first, last):
    """Behind the last of the nodes from `first` on whose pairs are few enough to draw together.

    A node with more pairs than that is a block of its own.
    """
    most, k = node_start[first] + PAIRS_TOGETHER, first + 1
    while k < last and node_start[k + 1] <= most:
        k += 1
    return k


@embedded
def spread_keys(node_keys, pairs, first, last, words):
    """Spread the parts of the nodes' keys over their pairs."""
    node_start, feature = pairs
    begin = np.uint64(node_start[first])
    for k in range(np.uint64(first), np.uint64(last)):
        for pair in range(np.uint64(node_start[k]), np.uint64(node_start[k + _ONE])):
            words[pair - begin] = node_keys[k] + (np.uint64(feature[pair]) + _ONE) * _GOLDEN


@embedded
def find_ranges(points, begin, n_pairs, low, high):
    """The lowest and highest point of n_pairs pairs; NaN, where a party abstained, is neither."""
    for i in range(n_pairs):
        low[i], high[i] = _NOTHING_LOWER, _NOTHING_HIGHER
    for party in range(points.shape[0]):
        named = points[party]
        for i in range(n_pairs):
            point = named[begin + i]
            low[i] = point if point < low[i] else low[i]
            high[i] = point if point > high[i] else high[i]


@kernel
def draw_thresholds(points, node_keys, pairs, threshold, first, last):
    """The thresholds of the nodes first..last, drawn between the parties' points.

    Many pairs take each step together, as vectors. A threshold is uniform in [lowest, highest) of
    the points (`points` is (parties, pairs)). A single point is the threshold itself; without one
    it is NaN, and the pair is not asked about.
    """
    node_start = pairs.node_start
    room = PAIRS_TOGETHER
    for k in range(first, last):
        room = max(room, node_start[k + 1] - node_start[k])
    words = np.empty(room, np.uint64)
    low, high = np.empty(room, np.float32), np.empty(room, np.float32)
    k = first
    while k < last:
        end = end_of_block(node_start, k, last)
        begin = np.uint64(node_start[k])
        n_pairs = np.uint64(node_start[end]) - begin
        spread_keys(node_keys, pairs, k, end, words)
        find_ranges(points, begin, n_pairs, low, high)
        for i in range(n_pairs):
            unit = draw_unit(mix(words[i]), _UNIT)
            threshold[begin + i] = draw_between(low[i], high[i], unit)
        k = end


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
    """Return the keys of some pairs, which ascend."""
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
    begin = np.uint64(node_start[first])
    places = np.empty(2 * (node_start[last] - node_start[first]), np.uint64)
    for k in range(np.uint64(first), np.uint64(last)):
        where = (np.uint64(tree[k]) << np.uint64(32)) | np.uint64(node[k])
        for pair in range(np.uint64(node_start[k]), np.uint64(node_start[k + _ONE])):
            at = _TWO * (pair - begin)
            places[at], places[at + _ONE] = where, np.uint64(feature[pair])
    return places.reshape(-1, 2)

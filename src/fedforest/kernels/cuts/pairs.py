"""(Node, candidate column) pairs of one level: the order in which points and sums travel.

Pairs are listed node by node, the columns of a node ascending. Party and coordinator list them from
the same candidate bitmap, so that no message needs to name a pair.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedforest.kernels.bits.bitsets import count_ones, lowest_bit, read_word
from fedforest.kernels.jit import kernel

_ZERO, _ONE, _EIGHT = np.uint64(0), np.uint64(1), np.uint64(8)


class Pairs(NamedTuple):
    """Node k has the pairs node_start[k] to node_start[k + 1]."""

    node_start: NDArray[np.int64]
    feature: NDArray[np.int32]  # column of each pair


class Cuts(NamedTuple):
    """The question about each pair: the threshold or set of categories that divides its node."""

    threshold: NDArray[np.float32]  # values <= threshold go left; NaN: the pair is not asked about
    missing_left: NDArray[np.uint8]  # 1 where missing values go left
    set_index: NDArray[np.int32]  # row of `left_set` of a categorical column, -1 for a numeric one
    left_set: NDArray[np.uint64]  # (sets, 4) sets of categories that go left


@kernel
def count_pairs(bitmap):
    """Place the pairs of each node; the last element is the number of pairs."""
    node_start = np.empty(bitmap.shape[0] + 1, np.int64)
    at = _ZERO
    for k in range(np.uint64(bitmap.shape[0])):
        node_start[k] = np.int64(at)
        for begin in range(0, bitmap.shape[1], 8):
            at += count_ones(read_word(bitmap, k, begin))
    node_start[bitmap.shape[0]] = np.int64(at)
    return node_start


@kernel
def judge_pairs(bitmap, tried, n_columns):
    """(node_start, most pairs of a node, whether all are columns, whether none was tried before).

    `tried` is a bitmap of the same shape. `node_start` is that of `count_pairs`.
    """
    node_start = np.empty(bitmap.shape[0] + 1, np.int64)
    at, most, again, beyond = _ZERO, _ZERO, _ZERO, _ZERO
    spare = np.uint8(8 * bitmap.shape[1] - n_columns)
    allowed = np.uint8(255) >> spare
    for k in range(np.uint64(bitmap.shape[0])):
        before = at
        node_start[k] = np.int64(at)
        for begin in range(0, bitmap.shape[1], 8):
            word = read_word(bitmap, k, begin)
            again |= word & read_word(tried, k, begin)
            at += count_ones(word)
        beyond |= np.uint64(bitmap[k, bitmap.shape[1] - 1] & ~allowed)
        most = max(most, at - before)
    node_start[bitmap.shape[0]] = np.int64(at)
    return node_start, most, beyond == _ZERO, again == _ZERO


@kernel
def place_candidates(tried, count, n_columns):
    """Place pairs before candidates are drawn: at most `count` of a node's columns.

    tried[k] columns of node k were drawn before.
    """
    node_start = np.empty(tried.shape[0] + 1, np.int64)
    at = 0
    for k in range(tried.shape[0]):
        node_start[k] = at
        at += min(count, n_columns - tried[k])
    node_start[tried.shape[0]] = at
    return node_start


@kernel
def write_pairs(bitmap, pairs, first, last):
    """List the columns of the nodes first..last: as many as they have bits."""
    node_start, feature = pairs
    for k in range(np.uint64(first), np.uint64(last)):
        begin, bits = _ZERO, read_word(bitmap, k, _ZERO)
        for pair in range(np.uint64(node_start[k]), np.uint64(node_start[k + _ONE])):
            while bits == _ZERO:
                begin += _EIGHT
                bits = read_word(bitmap, k, begin)
            feature[pair] = np.int32(begin * _EIGHT + lowest_bit(bits))
            bits &= bits - _ONE


@kernel
def take_pairs(pairs, nodes):
    """Return the pairs of some nodes, in the order of the nodes."""
    node_start, feature = pairs
    taken_start = np.empty(nodes.shape[0] + 1, np.int64)
    at = 0
    for k in range(nodes.shape[0]):
        taken_start[k] = at
        at += node_start[nodes[k] + 1] - node_start[nodes[k]]
    taken_start[nodes.shape[0]] = at
    taken = np.empty(at, np.int32)
    for k in range(nodes.shape[0]):
        first = node_start[nodes[k]]
        for j in range(taken_start[k + 1] - taken_start[k]):
            taken[taken_start[k] + j] = feature[first + j]
    return Pairs(taken_start, taken)


@kernel
def place_asked(node_start, threshold):
    """Place the asked pairs of each node among all asked ones; the last element is their number."""
    asked_start = np.empty(node_start.shape[0], np.int64)
    at = _ZERO
    for k in range(np.uint64(node_start.shape[0] - 1)):
        asked_start[k] = np.int64(at)
        for pair in range(np.uint64(node_start[k]), np.uint64(node_start[k + _ONE])):
            at += np.uint64(threshold[pair] == threshold[pair])
    asked_start[node_start.shape[0] - 1] = np.int64(at)
    return asked_start


@kernel
def find_pairs(node_start, threshold, asked_start, nodes, asked):
    """For each of some nodes k the pair that is the asked[k]-th of all asked ones."""
    pairs = np.empty(nodes.shape[0], np.int64)
    for i in range(nodes.shape[0]):
        k = nodes[i]
        pair, before = node_start[k], asked[k] - asked_start[k]
        if asked_start[k + 1] - asked_start[k] == node_start[k + 1] - pair:  # all are asked
            pair, before = pair + before, 0
        while before > 0 or threshold[pair] != threshold[pair]:
            before -= np.int64(threshold[pair] == threshold[pair])
            pair += 1
        pairs[i] = pair
    return pairs

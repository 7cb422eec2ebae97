"""Settling the uppermost levels of all trees for 64 rows at a time.

Near the roots there are few splits and many rows, so an owner says what each of its splits does
with every row that can still reach it: one bitmap word per 64 rows and split. Whoever has the words
of all owners knows, by a few operations on words, where 64 rows stand some levels down.

The rows that reach a node are one word, too. Per tree these words are numbered: 0 holds all rows;
the k-th split writes 2k + 1 for its left and 2k + 2 for its right child.

Codes, turns and landings are those of `kernels/prediction/positions.py`. Worth
(`benchmarks/ablations.py`): 6 to 17 % of a prediction.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedforest.kernels.bits.byte_lanes import WORD, compare_rows, look_up_rows
from fedforest.kernels.jit import kernel
from fedforest.kernels.prediction.positions import NOWHERE

MAX_SWEPT_LEVELS = 8  # a code is one byte

_ZERO = np.uint64(0)
_ONE = np.uint64(1)
_TWO = np.uint64(2)


class UpperNodes(NamedTuple):
    """The inner nodes of the first levels, tree by tree, parents before children."""

    first: NDArray[np.int64]  # where each tree's nodes start; plus the total
    node: NDArray[np.int64]  # flat over all trees
    level: NDArray[np.uint8]
    source: NDArray[np.uint32]  # which of the tree's words holds the rows that reach the node
    landing: NDArray[np.int32]  # (trees, codes): the inner node that a code leads to, or ~leaf


class UpperSplits(NamedTuple):
    """One owner's splits among them, in the same order."""

    first: NDArray[np.int64]
    source: NDArray[np.uint32]  # by own splits alone
    column: NDArray[np.uint32]
    shift: NDArray[np.uint8]  # 1 where missing values, the highest bin, go left
    cut: NDArray[np.uint8]  # shifted, too
    set_index: NDArray[np.int32]  # row of the sets for categorical splits, else -1


@kernel
def list_upper_nodes(left_child, tree_start, n_levels):
    """Return the inner nodes of the first levels; `left_child` is flat, negative at leaves."""
    n_trees, most = tree_start.shape[0] - 1, (1 << n_levels) - 1
    first = np.zeros(n_trees + 1, np.int64)
    node = np.empty(n_trees * most, np.int64)
    level, code = np.empty(n_trees * most, np.uint8), np.empty(n_trees * most, np.int32)
    source = np.empty(n_trees * most, np.uint32)
    landing = np.full((n_trees, 1 << n_levels), NOWHERE, np.int32)
    at = 0
    for tree in range(n_trees):
        begin = at
        if left_child[tree_start[tree]] < 0:
            landing[tree, 0] = ~tree_start[tree]
        else:
            node[at], level[at], code[at], source[at] = tree_start[tree], 0, 0, 0
            at += 1
        k = begin
        while k < at:  # those that are found on the way are visited, too
            for side in range(2):
                child, below = left_child[node[k]] + side, level[k] + 1
                path = code[k] | (1 - side) << level[k]
                if left_child[child] < 0:
                    landing[tree, path] = ~child
                elif below == n_levels:
                    landing[tree, path] = child
                else:
                    node[at], level[at], code[at] = child, below, path
                    source[at] = 2 * (k - begin) + 1 + side
                    at += 1
            k += 1
        first[tree + 1] = at
    return UpperNodes(first, node[:at], level[:at], source[:at], landing)


@kernel
def list_upper_splits(upper, splits):
    """Return the splits of one owner."""
    first, node, _, source, _ = upper
    _, feature, cut, missing_left, set_index, _ = splits
    n_trees, n_nodes = first.shape[0] - 1, node.shape[0]
    own_first, own_source = np.zeros(n_trees + 1, np.int64), np.empty(n_nodes, np.uint32)
    own_column, own_set = np.empty(n_nodes, np.uint32), np.empty(n_nodes, np.int32)
    own_shift, own_cut = np.empty(n_nodes, np.uint8), np.empty(n_nodes, np.uint8)
    at = 0
    for tree in range(n_trees):
        begin = at
        # each of the tree's words as own splits see it
        own_word = np.zeros(2 * (first[tree + 1] - first[tree]) + 1, np.int32)
        for k in range(first[tree], first[tree + 1]):
            here, left = node[k], 2 * (k - first[tree]) + 1
            reached = own_word[source[k]]
            if feature[here] < 0:
                own_word[left] = own_word[left + 1] = reached
                continue
            own_word[left] = 2 * (at - begin) + 1
            own_word[left + 1] = 2 * (at - begin) + 2
            own_source[at], own_column[at], own_set[at] = reached, feature[here], set_index[here]
            own_shift[at] = missing_left[here] & 1
            own_cut[at] = np.uint8(cut[here] + own_shift[at])
            at += 1
        own_first[tree + 1] = at
    return UpperSplits(
        own_first, own_source[:at], own_column[:at], own_shift[:at], own_cut[:at], own_set[:at]
    )


@kernel
def say_upper(upper, left_set, bins, n_rows, rows, said, first_word, last_word):
    """said[word, k] = rows, 64 of them, that reach own split k and go left there.

    `rows` are (first, last) of the table; said word w is about the 64 rows from first + 64 w on.
    """
    first, source, column, shift, cut, set_index = upper
    reached = np.empty(2 * source.shape[0] + 1, np.uint64)
    for word in range(first_word, last_word):
        row = rows[0] + WORD * word
        n = min(WORD, rows[1] - row)
        everyone = ~_ZERO >> np.uint64(WORD - n)
        for tree in range(first.shape[0] - 1):
            reached[0] = everyone
            written = _ONE
            for k in range(np.uint64(first[tree]), np.uint64(first[tree + 1])):
                at = np.uint64(column[k]) * n_rows + np.uint64(row)
                if set_index[k] >= 0:
                    left = look_up_rows(bins, at, n, left_set, set_index[k])
                else:
                    left = compare_rows(bins, at, n, shift[k], cut[k])
                come = reached[source[k]]
                left &= come
                said[word, k] = left
                reached[written] = left
                reached[written + _ONE] = come ^ left
                written += _TWO


@kernel
def settle_upper(upper, words, place, stride, n_rows, turns, first_tree, last_tree):
    """turns[tree, level, word] = rows that reach a node of that level and go left there.

    The word of node k about word w of the rows is words[place[k] + w * stride[k]]; all uint64.
    """
    first, _, level, source, _ = upper
    reached = np.empty(2 * level.shape[0] + 1, np.uint64)
    went_left = np.zeros(turns.shape[1], np.uint64)
    for tree in range(first_tree, last_tree):
        for word in range(turns.shape[2]):
            reached[0] = ~_ZERO >> np.uint64(WORD - min(WORD, n_rows - WORD * word))
            written = _ONE
            for k in range(np.uint64(first[tree]), np.uint64(first[tree + 1])):
                come = reached[source[k]]
                left = words[place[k] + np.uint64(word) * stride[k]] & come
                went_left[level[k]] |= left
                reached[written] = left
                reached[written + _ONE] = come ^ left
                written += _TWO
            for at_level in range(turns.shape[1]):
                turns[tree, at_level, word] = went_left[at_level]
                went_left[at_level] = _ZERO

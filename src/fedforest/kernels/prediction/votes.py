"""The votes of leaves for rows whose leaves are known.

Votes are added tree after tree, as `walk.py` adds them, so that sums are the same bits.
"""

import numpy as np

from fedforest.kernels.jit import kernel
from fedforest.kernels.prediction.walk import add_leaves

BLOCK_ROWS = 4096  # rows whose votes stay in cache from tree to tree, beside a tree's leaves

_ZERO = np.uint64(0)
_ONE = np.uint64(1)
_TWO = np.uint64(2)
_HALF = np.uint64(32)
_ODD = np.uint64(0x9E3779B97F4A7C15)


@kernel
def sum_leaf_votes(leaves, tree_start, leaf_of, votes, hard, first, last):
    """votes[row] += what the row's leaf of every tree says, tree after tree; rows first..last."""
    place = np.empty(BLOCK_ROWS, np.uint32)
    for begin in range(first, last, BLOCK_ROWS):
        rows = np.arange(begin, min(last, begin + BLOCK_ROWS))
        n = len(rows)
        for tree in range(leaf_of.shape[0]):
            for i in range(n):
                place[i] = tree_start[tree] + leaf_of[tree, begin + i]
            add_leaves(leaves, place[:n], rows, votes, hard)


@kernel
def hash_row(words, row):
    """Return a number in which all bits of a row have a part."""
    mixed = _ODD
    for k in range(words.shape[1]):
        mixed = (mixed ^ words[row, k]) * _ODD
        mixed ^= mixed >> _HALF
    return mixed


@kernel
def are_same(words, one, two):
    """Return whether two rows have the same bits."""
    differing = _ZERO
    for k in range(words.shape[1]):
        differing |= words[one, k] ^ words[two, k]
    return differing == _ZERO


@kernel
def find_same(words, row, found):
    """Find the number of a row like this one in `found`, a table of hashes; 0 if there is none."""
    last = np.uint64(found.shape[0] - 1)
    at = hash_row(words, row) & last
    while found[at] > 0 and not are_same(words, np.int64(found[at]), row):
        at = (at + _ONE) & last
    return at


@kernel
def number_votes(leaves, hard, number, votes):
    """votes[number[node]] = what a leaf says of each class; returns how many numbers there are.

    Most leaves of a grown tree say what others say, too, so the numbers are few. 0 says nothing, as
    inner nodes do. `votes` is zero and has room for as many as there are leaves, and for it.
    """
    place, row, n_numbers = np.empty(1, np.uint32), np.zeros(1, np.int64), 1
    room = 2
    while room < 2 * votes.shape[0]:
        room *= 2
    found, bits = np.zeros(room, np.uint32), votes.view(np.uint64)
    for node in range(number.shape[0]):
        number[node] = 0
        if leaves.start[node] == leaves.start[node + 1]:
            continue
        place[0] = node
        add_leaves(leaves, place, row, votes[n_numbers : n_numbers + 1], hard)
        at = find_same(bits, n_numbers, found)
        if found[at] == 0:
            found[at] = n_numbers
            n_numbers += 1
        else:
            votes[n_numbers] = 0.0
        number[node] = found[at]
    return n_numbers


@kernel
def add_pairs(said, number, leaves, summed, first, last):
    """Add what the leaves of rows first..last of a tree say of two classes; all uint64."""
    for row in range(first, last):
        leaf = np.uint64(number[np.uint64(leaves[row])]) * _TWO
        summed[row * _TWO] += said[leaf]
        summed[row * _TWO + _ONE] += said[leaf + _ONE]


@kernel
def add_all(said, number, leaves, n_classes, summed, first, last):
    """Add the votes of any number of classes."""
    for row in range(first, last):
        leaf = np.uint64(number[np.uint64(leaves[row])]) * n_classes
        for label in range(n_classes):
            summed[row * n_classes + label] += said[leaf + label]


@kernel
def sum_numbered_votes(votes, number, tree_start, leaf_of, summed, first, last):
    """As `sum_leaf_votes`, from what `number_votes` wrote, which is little to load."""
    n_classes = np.uint64(summed.shape[1])
    said, flat = votes.reshape(-1), summed.reshape(-1)
    for block in range(first, last, BLOCK_ROWS):
        begin, end = np.uint64(block), np.uint64(min(last, block + BLOCK_ROWS))
        for tree in range(leaf_of.shape[0]):
            own, leaves = number[tree_start[tree] : tree_start[tree + 1]], leaf_of[tree]
            if n_classes == _TWO:
                add_pairs(said, own, leaves, flat, begin, end)
            else:
                add_all(said, own, leaves, n_classes, flat, begin, end)

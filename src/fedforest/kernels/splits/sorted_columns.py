"""The rows of a small node in order of their bins, in eight columns at once.

A row is its bin and its position in the node, so that no two are equal. A key of sixteen bits holds
both, the keys of eight columns stand side by side, and a sorting network compares two rows in all
of them by one instruction, without a branch.

    | row 0: key in column 0, 1, ... 7 | row 1: ...

Worth (`benchmarks/ablations.py`): regression takes five times as long without.
"""

import numpy as np
from numpy.typing import NDArray

from fedforest.kernels.bits.instructions import LANES, exchange
from fedforest.kernels.jit import borrowing, embedded, kernel

LARGEST_SORTED = 128  # rows; up to here sorting them beats adding them up by bin
# rows that can be sorted: nodes of other sizes are filled up with rows that come last
_SIZES = (*range(17), *range(24, 65, 8), *range(80, LARGEST_SORTED + 1, 16))
_POSITION_BITS = 8
_POSITIONS = (1 << _POSITION_BITS) - 1
_MIDDLE = 1 << 15  # keys are moved by this to fit int16, which vectors can compare
_LAST = np.int16(_MIDDLE - 1)  # no key is larger


def merge_exchange(n: int) -> list[tuple[int, int]]:
    """Exchanging these pairs in turn, where out of order, sorts n things (Knuth 5.2.2 M)."""
    pairs = []
    top = p = 1 << (n - 1).bit_length() >> 1
    while p > 0:
        d, q, r = p, top, 0
        while d > 0:
            pairs += [(i, i + d) for i in range(n - d) if i & p == r]
            d, q, r = q - p, q >> 1, p
        p >>= 1
    return pairs


def _list_networks() -> tuple[NDArray[np.int64], NDArray[np.uint16]]:
    """Return (network, pairs) of the networks for every number of rows.

    With size, begin, end = network[n], n rows are filled up to the size and sorted by
    pairs[begin:end], which are places of keys.
    """
    network = np.zeros((LARGEST_SORTED + 1, 3), np.int64)
    pairs: list[tuple[int, int]] = []
    for smaller, size in zip((-1, *_SIZES), _SIZES, strict=False):
        begin = len(pairs)
        pairs += merge_exchange(size)
        network[smaller + 1 : size + 1] = size, begin, len(pairs)
    return network, LANES * np.array(pairs, np.uint16)


_NETWORK, _PAIRS = _list_networks()


@kernel
def make_keys():
    """Space for the keys of a node in eight columns, and one more row."""
    return np.zeros((LARGEST_SORTED + 1) * LANES, np.int16)


@embedded
def key_at(keys, rank, lane):
    """Return the key of the row of this rank in one of eight columns."""
    return keys[np.uint64(rank * LANES + lane)]


@embedded
def position_in(key):
    """Return a row's position in its node."""
    return np.uint64(key) & np.uint64(_POSITIONS)


@embedded
def bin_in(key):
    """Return a row's bin."""
    return (np.int64(key) + _MIDDLE) >> _POSITION_BITS


@embedded
def share_bin(key, other):
    """Return whether two rows are in the same bin."""
    return (key ^ other) >> _POSITION_BITS == 0


@borrowing
def sort_rows(by_row, columns, first, last, rows, n, keys):
    """Sort n rows in the columns columns[first:last], at most eight; row i begins at rows[i]."""
    for i in range(n):
        for lane in range(last - first):
            code = np.int64(by_row[rows[i] + columns[np.uint64(first + lane)]])
            keys[np.uint64(i * LANES + lane)] = (code << _POSITION_BITS) + (i - _MIDDLE)
    size, begin, end = _NETWORK[n, 0], _NETWORK[n, 1], _NETWORK[n, 2]
    for place in range(n * LANES, size * LANES):
        keys[np.uint64(place)] = _LAST
    for pair in range(begin, end):
        pair_at = np.uint64(pair)
        exchange(keys, np.uint64(_PAIRS[pair_at, 0]), np.uint64(_PAIRS[pair_at, 1]))

"""What falls on the left of each cut: one pass over a node's kept values per cut.

The rows of a node are first turned into *words*, once for all its cuts; what is left of a cut is
the sum of the words of the rows marked left. A word holds several small integers side by side

    classes   | 16 bits each: how often a row of the class was drawn |       four to a word
    bits      | 8 bits each: a response's bit |                              eight to a word
    moments   | weight |   and   | sum of weighted targets |                 one to a word

and as many rows are added at a time as its fields can hold. Weighted or many classes do without:
their weights are added class by class.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedforest.kernels.bitsets import in_set
from fedforest.kernels.jit import borrowing, inlined, kernel
from fedforest.kernels.layout import MAX_MULTIPLICITY, MULTIPLICITY_BITS
from fedforest.kernels.moment_split import row_moments

CLASS_FIELD, BIT_FIELD, WHOLE_WORD = 16, 8, 64  # bits of a field
CLASS_BLOCK = ((1 << CLASS_FIELD) - 1) // MAX_MULTIPLICITY
BIT_BLOCK = (1 << BIT_FIELD) - 1
LARGEST_BLOCK = 2048  # rows whose words stay in the cache while all cuts of the node use them

_ZERO = np.uint64(0)
_ONE = np.uint64(1)
_CLASS_SHIFT = np.uint64(MULTIPLICITY_BITS)
_BYTE = np.uint64(255)


class Kept(NamedTuple):
    """The values of all pairs: node k's from first[k] on, pair after pair, in the order of rows."""

    first: NDArray[np.int64]
    values: NDArray[np.float32]
    may_miss: NDArray[np.bool_]  # per column: whether it has missing values at all


@borrowing
def mark_below(values, at, n, threshold, left):
    """left[i] = 1 where the value is not above the threshold; missing values are not left."""
    for i in range(n):
        left[i] = np.uint8(values[at + i] <= threshold)


@borrowing
def mark_members(values, at, n, sets, index, left):
    """left[i] = 1 where the category is a member of the set; missing ones are not."""
    for i in range(n):
        value = values[at + i]
        is_seen = value == value
        code = np.uint64(value) if is_seen else _ZERO
        left[i] = np.uint8(in_set(sets, index, code)) & np.uint8(is_seen)


@borrowing
def mark_missing(values, at, n, left):
    """left[i] = 1 also where the value is missing."""
    for i in range(n):
        left[i] |= np.uint8(values[at + i] != values[at + i])


@borrowing
def count_marked(left, n):
    """How many rows are marked."""
    rows = 0
    for i in range(n):
        rows += np.int64(left[i])
    return rows


@borrowing
def add_words(words, w, left, n):
    """The sum of one word of the rows marked left."""
    total = _ZERO
    for i in range(n):
        total += words[w, i] & (_ZERO - np.uint64(left[i]))
    return total

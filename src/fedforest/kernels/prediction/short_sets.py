"""Sets of bins without their uniform ends, so that those of a tree stay in cache.

A code plus one, in a byte, is compared with zero, which says left for missing values alone, the
highest code; the set's bit of that number tells where this is wrong. So one comparison serves
splits by cuts and by sets: a cut has a set without bits.

Bits above the *limit* are as the bit at the limit, and are not kept: numbers of bits are at most
that. A forest's short sets lie in 32-bit words, as many for each as the limit of its column takes;
the first words are a set without bits, of any limit.
"""

import numpy as np

from fedforest.kernels.bits.bitsets import in_set
from fedforest.kernels.jit import inlined, kernel

EMPTY_WORDS = 8

_ONE = np.uint64(1)
_FIVE = np.uint64(5)
_LAST_BIT = np.uint64(31)


@kernel
def least_limit(sets, index):
    """Return the lowest bit of row `index` of the sets that all higher ones are like."""
    limit, highest = 255, in_set(sets, index, np.uint64(254))
    while limit > 1 and in_set(sets, index, np.uint64(limit - 2)) == highest:
        limit -= 1
    return limit


@inlined
def short_bit(sets, index, bit):
    """Return the bit of this number, an int, that row `index` of the sets has as a short set."""
    return in_set(sets, index, np.uint64((bit - 1) & 255)) ^ np.uint64(bit == 0)


@kernel
def find_limits(sets, column, limits):
    """limits[c] = the limit of the sets of column c; column[k] is that of set k."""
    limits[:] = 1
    for index in range(sets.shape[0]):
        limits[column[index]] = max(limits[column[index]], least_limit(sets, index))


@kernel
def shorten_sets(sets, column, limits):
    """Return (words, where each set's first word is)."""
    words = np.zeros(EMPTY_WORDS + 8 * sets.shape[0], np.uint32)
    start, at = np.empty(sets.shape[0], np.uint32), EMPTY_WORDS
    for index in range(sets.shape[0]):
        start[index] = at
        n_words = (np.int64(limits[column[index]]) >> 5) + 1
        for bit in range(32 * n_words):
            word = short_bit(sets, index, bit) << np.uint64(bit & 31)
            words[at + (bit >> 5)] |= np.uint32(word)
        at += n_words
    return words[:at].copy(), start


@inlined
def in_short_set(words, start, bit):
    """The bit of this number, at most the limit, of the set that starts there; all uint64."""
    return np.uint64(words[start + (bit >> _FIVE)]) >> (bit & _LAST_BIT) & _ONE

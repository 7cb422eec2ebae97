"""Bits: the candidate features of a node and sets of bins.

A candidate bitmap has one row of bytes per node; bit `f & 7` of byte `f >> 3` says that the node
may use column f. A set of bins is four 64-bit words.
"""

import numpy as np
from numba import config, types
from numba.extending import intrinsic

from fedforest.kernels.jit import borrowing, embedded, inlined, kernel
from fedforest.kernels.layout import SET_WORDS

_ONE = np.uint64(1)
_ZERO = np.uint64(0)
_SIX = np.uint64(6)
_EIGHT = np.uint64(8)
_LOW_SIX = np.uint64(63)

if config.DISABLE_JIT:  # type: ignore[attr-defined] # numba adds it at run time

    def lowest_bit(word):
        """Position of the lowest set bit of a non-zero word."""
        word = int(word)
        return np.uint64((word & -word).bit_length() - 1)

    def count_ones(number):
        """Set bits of an unsigned number, as one of the same type."""
        return type(number)(int(number).bit_count())

else:
    # numba offers neither count-trailing-zeros nor a bit count; the processor has both
    from llvmlite import ir

    @intrinsic
    def count_ones(_typing_context, number):
        """Set bits of an unsigned number, as one of the same type."""

        def generate(_context, builder, _signature, arguments):
            return builder.ctpop(arguments[0])

        return number(number), generate

    @intrinsic
    def lowest_bit(_typing_context, _word):
        """Position of the lowest set bit of a non-zero word."""

        def generate(_context, builder, _signature, arguments):
            return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 1))

        return types.uint64(types.uint64), generate


@embedded
def read_word(bitmap, node, begin):
    """Eight bytes of a node's bitmap, or those that there are."""
    bits, first = _ZERO, np.uint64(begin)  # unsigned: no place is counted from the end
    for byte in range(min(_EIGHT, np.uint64(bitmap.shape[1]) - first)):
        bits |= np.uint64(bitmap[np.uint64(node), first + byte]) << (byte * _EIGHT)
    return bits


@embedded
def list_candidates(bitmap, node, features):
    """Write the node's candidate columns in ascending order; return how many there are.

    Eight bytes at a time: most nodes have as many candidates as the one before them, so that a loop
    over all of them is foreseen by the processor, and one per byte is not.
    """
    count = 0
    for begin in range(0, bitmap.shape[1], 8):
        bits = read_word(bitmap, node, begin)
        while bits != _ZERO:
            features[count] = np.uint64(begin * 8) + lowest_bit(bits)
            bits &= bits - _ONE
            count += 1
    return count


@embedded
def empty_set(words, at, members):
    """List the bins of the set words[at : at + 4], ascending, and empty it; returns how many."""
    count = np.uint64(0)
    for word in range(SET_WORDS):
        bits = words[at + word]
        words[at + word] = _ZERO
        while bits != _ZERO:
            members[count] = np.uint64(word * 64) + lowest_bit(bits)
            bits &= bits - _ONE
            count += _ONE
    return np.int64(count)


@kernel
def take_bytes(bitmap, first, last):
    """Return the bytes first..last of every row, one row after the other."""
    width = last - first
    taken = np.empty(bitmap.shape[0] * width, np.uint8)
    for row in range(bitmap.shape[0]):
        for byte in range(width):
            taken[row * width + byte] = bitmap[row, first + byte]
    return taken


@borrowing
def fill_set(sets, index, member):
    """Make row `index` of `sets` hold every bin, or none."""
    for word in range(4):
        sets[index, word] = ~_ZERO if member else _ZERO


@borrowing
def put_in_set(sets, index, code, member):
    """Make the bin a member, or no member, of row `index` of `sets`; `code` is uint64."""
    bit = _ONE << (code & _LOW_SIX)
    if member:
        sets[index, code >> _SIX] |= bit
    else:
        sets[index, code >> _SIX] &= ~bit


@inlined
def in_set(sets, index, code):
    """Return one if row `index` of `sets` holds the bin, else zero; `code` is uint64."""
    return (sets[index, code >> _SIX] >> (code & _LOW_SIX)) & _ONE

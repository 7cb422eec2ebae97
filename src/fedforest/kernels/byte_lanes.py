"""Bits of 64 rows in a word, and how they come from bytes of rows and go back to them.

A bitmap of rows is one 64-bit word per 64 rows, the first row in the lowest bit. Comparing 64 bytes
at once is a few instructions on every processor with vectors, but no loop makes the compiler say
so; hence intrinsics, each beside the plain expression it stands for.
"""

import numpy as np
from numba import config, types
from numba.extending import intrinsic

from fedforest.kernels.bitsets import in_set
from fedforest.kernels.jit import inlined, kernel

WORD = 64  # rows of a bitmap's word

_ZERO = np.uint64(0)
_ONE = np.uint64(1)

if config.DISABLE_JIT:  # type: ignore[attr-defined] # numba adds it at run time

    def compare_word(data, at, shift, cut):
        """Bit k: is data[at + k] + shift, in a byte, at most `cut`? For 64 bytes."""
        shifted = data[int(at) : int(at) + WORD] + shift
        return np.packbits(shifted <= cut, bitorder="little").view(np.uint64)[0]

    def test_word(data, at, mask):
        """Bit k: has data[at + k] a bit of the mask? For 64 bytes."""
        masked = data[int(at) : int(at) + WORD] & mask
        return np.packbits(masked != 0, bitorder="little").view(np.uint64)[0]

    def mark_word(data, at, word, mask):
        """Give data[at + k] the bits of the mask where bit k of the word is set. For 64 bytes."""
        bits = np.unpackbits(np.array([word]).view(np.uint8), bitorder="little")
        data[int(at) : int(at) + WORD] |= bits * mask

else:
    from llvmlite import ir

    _LANES = ir.VectorType(ir.IntType(8), WORD)

    def _begin(context, builder, array_type, array, at):
        pointer = context.make_array(array_type)(context, builder, array).data
        return builder.bitcast(builder.gep(pointer, [at]), _LANES.as_pointer())

    def _load(context, builder, array_type, array, at):
        lanes = builder.load(_begin(context, builder, array_type, array, at))
        lanes.align = 1
        return lanes

    def _fill(builder, byte):
        nothing, first = ir.Constant(_LANES, ir.Undefined), ir.Constant(ir.IntType(32), 0)
        one = builder.insert_element(nothing, byte, first)
        everywhere = ir.Constant(ir.VectorType(ir.IntType(32), WORD), None)
        return builder.shuffle_vector(one, one, everywhere)

    @intrinsic
    def compare_word(_typing_context, data, _at, _shift, _cut):
        """Bit k: is data[at + k] + shift, in a byte, at most `cut`? For 64 bytes."""

        def generate(context, builder, signature, arguments):
            array, at, shift, cut = arguments
            lanes = _load(context, builder, signature.args[0], array, at)
            shifted = builder.add(lanes, _fill(builder, shift))
            at_most = builder.icmp_unsigned("<=", shifted, _fill(builder, cut))
            return builder.bitcast(at_most, ir.IntType(WORD))

        return types.uint64(data, types.uint64, types.uint8, types.uint8), generate

    @intrinsic
    def test_word(_typing_context, data, _at, _mask):  # noqa: PT019 - no fixture
        """Bit k: has data[at + k] a bit of the mask? For 64 bytes."""

        def generate(context, builder, signature, arguments):
            array, at, mask = arguments
            lanes = _load(context, builder, signature.args[0], array, at)
            masked = builder.and_(lanes, _fill(builder, mask))
            is_set = builder.icmp_unsigned("!=", masked, ir.Constant(_LANES, None))
            return builder.bitcast(is_set, ir.IntType(WORD))

        return types.uint64(data, types.uint64, types.uint8), generate

    @intrinsic
    def mark_word(_typing_context, data, _at, _word, _mask):
        """Give data[at + k] the bits of the mask where bit k of the word is set. For 64 bytes."""

        def generate(context, builder, signature, arguments):
            array, at, word, mask = arguments
            lanes = _load(context, builder, signature.args[0], array, at)
            is_set = builder.bitcast(word, ir.VectorType(ir.IntType(1), WORD))
            marks = builder.and_(builder.sext(is_set, _LANES), _fill(builder, mask))
            begin = _begin(context, builder, signature.args[0], array, at)
            builder.store(builder.or_(lanes, marks), begin, align=1)
            return context.get_dummy_value()

        return types.void(data, types.uint64, types.uint64, types.uint8), generate


@kernel
def compare_few(data, at, n, shift, cut):
    """`compare_word` for fewer than 64 bytes; bits behind them are zero."""
    word = _ZERO
    for k in range(n):
        shifted = np.uint8(data[at + np.uint64(k)] + shift)
        word |= np.uint64(shifted <= cut) << np.uint64(k)
    return word


@inlined
def compare_rows(data, at, n, shift, cut):
    """`compare_word` for up to 64 bytes."""
    return compare_word(data, at, shift, cut) if n == WORD else compare_few(data, at, n, shift, cut)


@kernel
def look_up_rows(bins, at, n, left_set, index):
    """Bit k: is bins[at + k] in row `index` of the sets? For up to 64 bytes."""
    word = _ZERO
    for k in range(n):
        code = np.uint64(bins[at + np.uint64(k)])
        word |= in_set(left_set, index, code) << np.uint64(k)
    return word


@kernel
def gather_codes(words, at, stride, n_words, codes):
    """codes[k] = bits k of several words, the lowest from the first; they lie `stride` apart."""
    codes[:] = 0
    for bit in range(n_words):
        mark_word(codes, _ZERO, words[at + bit * stride], np.uint8(_ONE << bit))

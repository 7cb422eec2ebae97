"""Bits of 64 rows in a word, and how they come from bytes of rows and go back to them.

A bitmap of rows is one 64-bit word per 64 rows, the first row in the lowest bit. Comparing 64 bytes
at once is a few instructions on every processor with vectors, but no loop makes the compiler say
so; hence intrinsics, each beside the plain expression it stands for.
"""

import numpy as np
from numba import config, types
from numba.extending import intrinsic

from fedforest.kernels.bits.bitsets import in_set
from fedforest.kernels.jit import borrowing, embedded, inlined, kernel

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

    def look_up_word(data, at, first, second, third, fourth):
        """Bit k: is data[at + k] in the set of these four words? For 64 bytes."""
        members = np.array([first, second, third, fourth]).view(np.uint8)
        is_member = np.unpackbits(members, bitorder="little")[data[int(at) : int(at) + WORD]]
        return np.packbits(is_member, bitorder="little").view(np.uint64)[0]

else:
    from llvmlite import ir
    from numba.core import cgutils

    PICKED = 16  # bytes that one instruction picks
    _LANES = ir.VectorType(ir.IntType(8), WORD)
    _FEW = ir.VectorType(ir.IntType(8), PICKED)
    _BIT_OF = ir.Constant(_FEW, [1 << (k & 7) for k in range(PICKED)])

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

    def pick_bytes(context, builder, tables, numbers):
        """Sixteen bytes, by their numbers, out of one or two vectors of sixteen."""
        if "+ssse3" not in context.codegen().magic_tuple()[2]:  # the processor's features
            return _pick_one_by_one(builder, tables, numbers)
        # the instruction picks byte `number & 15` if the number is below 128, else it gives zero
        kind = ir.FunctionType(_FEW, [_FEW, _FEW])
        name = "llvm.x86.ssse3.pshuf.b.128"
        shuffle = cgutils.get_or_insert_function(builder.module, kind, name)
        picked = ir.Constant(_FEW, None)
        for table, first in zip(tables, (128 - PICKED, 256 - PICKED), strict=False):
            number = builder.add(numbers, ir.Constant(_FEW, [first] * PICKED))
            picked = builder.or_(picked, builder.call(shuffle, [table, number]))
        return picked

    def _pick_one_by_one(builder, tables, numbers):
        every = _part(builder, tables[0], tables[-1], 0, 2 * PICKED)
        picked = ir.Constant(_FEW, None)
        for k in range(PICKED):
            place = ir.IntType(32)(k)
            number = builder.zext(builder.extract_element(numbers, place), ir.IntType(32))
            byte = builder.extract_element(every, number)
            picked = builder.insert_element(picked, byte, place)
        return picked

    def bits_in_bytes(context, builder, numbers):
        """1 << (number & 7), for sixteen bytes."""
        low = builder.and_(numbers, ir.Constant(_FEW, [7] * PICKED))
        return pick_bytes(context, builder, [_BIT_OF], low)

    def _part(builder, one, two, first, last):
        """Return the bytes first..last of two vectors, one behind the other."""
        mask = ir.Constant(ir.VectorType(ir.IntType(32), last - first), list(range(first, last)))
        return builder.shuffle_vector(one, two, mask)

    def _vector_of(builder, words):
        """Two words as sixteen bytes."""
        pair = ir.Constant(ir.VectorType(ir.IntType(64), len(words)), ir.Undefined)
        for k, word in enumerate(words):
            pair = builder.insert_element(pair, word, ir.IntType(32)(k))
        return builder.bitcast(pair, _FEW)

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

    @intrinsic
    def look_up_word(_typing_context, data, _at, _first, _second, _third, _fourth):
        """Bit k: is data[at + k] in the set of these four words? For 64 bytes."""

        def generate(context, builder, signature, arguments):
            array, at, *words = arguments
            low, high = _vector_of(builder, words[:2]), _vector_of(builder, words[2:])
            lanes = _load(context, builder, signature.args[0], array, at)
            found = ir.IntType(WORD)(0)
            three = ir.Constant(_FEW, [3] * PICKED)
            for first in range(0, WORD, PICKED):
                codes = _part(builder, lanes, lanes, first, first + PICKED)
                byte = pick_bytes(context, builder, [low, high], builder.lshr(codes, three))
                is_in = builder.and_(byte, bits_in_bytes(context, builder, codes))
                flags = builder.icmp_unsigned("!=", is_in, ir.Constant(_FEW, None))
                few = builder.zext(builder.bitcast(flags, ir.IntType(PICKED)), ir.IntType(WORD))
                found = builder.or_(found, builder.shl(few, ir.IntType(WORD)(first)))
            return found

        kinds = (data, *[types.uint64] * 5)
        return types.uint64(*kinds), generate


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


@borrowing
def look_up_few(data, at, n, sets, index):
    """`look_up_word` for fewer than 64 bytes and row `index` of the sets."""
    word = _ZERO
    for k in range(n):
        code = np.uint64(data[at + np.uint64(k)])
        word |= in_set(sets, index, code) << np.uint64(k)
    return word


@embedded
def look_up_rows(data, at, n, sets, index):
    """`look_up_word` for up to 64 bytes and row `index` of the sets."""
    if n < WORD:
        return look_up_few(data, at, n, sets, index)
    first, second, third, fourth = sets[index, 0], sets[index, 1], sets[index, 2], sets[index, 3]
    return look_up_word(data, at, first, second, third, fourth)


@kernel
def gather_codes(words, at, stride, n_words, codes):
    """codes[k] = bits k of several words, the lowest from the first; they lie `stride` apart."""
    codes[:] = 0
    for bit in range(n_words):
        mark_word(codes, _ZERO, words[at + bit * stride], np.uint8(_ONE << bit))

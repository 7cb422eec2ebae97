"""What field arithmetic needs of the processor and numba does not offer.

Without compilation (`NUMBA_DISABLE_JIT`) their plain equivalents.
"""

import numpy as np
from numba import config, types
from numba.extending import intrinsic

LIMB_BITS = 51
LIMB_MASK = (1 << LIMB_BITS) - 1
ENTRIES = 32  # of a window's table
LANES = 8
ENTRY_VECTORS = 2
ENTRY_LIMBS = LANES * ENTRY_VECTORS  # an addend's 15, and one to fill whole vectors

if config.DISABLE_JIT:  # type: ignore[attr-defined] # numba adds it at run time

    def sum_products(first, second, carry):
        """(low 51 bits, the rest) of `carry` and the products of two tuples, pair by pair."""
        pairs = zip(first, second, strict=True)
        total = int(carry) + sum(int(one) * int(other) for one, other in pairs)
        return np.uint64(total & LIMB_MASK), np.uint64(total >> LIMB_BITS)

    def hide(word):
        """The word; the compiler must not reason about what it may be."""
        return word

    def copy_entry(table, wanted, chosen):
        """Copy the wanted one of a window's entries, reading all of them alike."""
        chosen[:] = table[int(wanted)]

else:
    from llvmlite import ir

    @intrinsic
    def sum_products(_typing_context, first, _second, _carry):
        """(low 51 bits, the rest) of `carry` and the products of two tuples, pair by pair."""
        word = types.uint64

        def generate(_context, builder, _signature, arguments):
            narrow, wide = ir.IntType(64), ir.IntType(128)
            total = builder.zext(arguments[2], wide)
            for k in range(first.count):
                one, other = (
                    builder.zext(builder.extract_value(each, k), wide) for each in arguments[:2]
                )
                total = builder.add(total, builder.mul(one, other))
            low = builder.and_(builder.trunc(total, narrow), narrow(LIMB_MASK))
            rest = builder.trunc(builder.lshr(total, wide(LIMB_BITS)), narrow)
            return _context.make_tuple(builder, _signature.return_type, (low, rest))

        return types.UniTuple(word, 2)(first, first, word), generate

    def _hide(builder, word):
        kind = ir.FunctionType(word.type, [word.type])
        return builder.call(ir.InlineAsm(kind, "", "=r,0", side_effect=True), [word])

    @intrinsic
    def hide(_typing_context, _word):
        """The word; the compiler must not reason about what it may be.

        It passes through an empty piece of assembly. A mask of zeros or ones that is hidden stays
        a mask: nothing lets the compiler turn it into a jump.
        """

        def generate(_context, builder, _signature, arguments):
            return _hide(builder, arguments[0])

        return types.uint64(types.uint64), generate

    @intrinsic
    def copy_entry(_typing_context, table, _wanted, chosen):
        """Copy the wanted one of a window's entries, reading all of them alike."""

        def generate(context, builder, signature, arguments):
            word, vector = ir.IntType(64), ir.VectorType(ir.IntType(64), LANES)
            table_data, chosen_data = (
                builder.bitcast(
                    context.make_array(signature.args[k])(context, builder, arguments[k]).data,
                    vector.as_pointer(),
                )
                for k in (0, 2)
            )
            kept = [ir.Constant(vector, [0] * LANES)] * ENTRY_VECTORS
            for entry in range(ENTRIES):
                # 0 - 1 has its highest bit set, no other difference has
                apart = builder.sub(builder.xor(arguments[1], word(entry)), word(1))
                mask = _spread(builder, _hide(builder, builder.ashr(apart, word(63))), vector)
                for k in range(ENTRY_VECTORS):
                    at = word(ENTRY_VECTORS * entry + k)
                    read = builder.load(builder.gep(table_data, [at]), align=8)
                    kept[k] = builder.or_(kept[k], builder.and_(mask, read))
            for k in range(ENTRY_VECTORS):
                builder.store(kept[k], builder.gep(chosen_data, [word(k)]), align=8)
            return context.get_dummy_value()

        return types.void(table, types.uint64, chosen), generate

    def _spread(builder, word, vector):
        """A vector of copies of a word."""
        lane = ir.IntType(32)
        one = builder.insert_element(ir.Constant(vector, ir.Undefined), word, lane(0))
        zeros = ir.Constant(ir.VectorType(lane, LANES), [0] * LANES)
        return builder.shuffle_vector(one, ir.Constant(vector, ir.Undefined), zeros)

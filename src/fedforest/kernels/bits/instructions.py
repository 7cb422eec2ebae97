"""Instructions of the processor that numba does not offer.

Without compilation (`NUMBA_DISABLE_JIT`) their plain equivalents.
"""

import numpy as np
from numba import config, types
from numba.extending import intrinsic

LANES = 8  # numbers of sixteen bits that are compared at once

if config.DISABLE_JIT:  # type: ignore[attr-defined] # numba adds it at run time

    def exchange(array, first, second):
        """Put eight numbers from `first` and eight from `second` on in order, pair by pair."""
        one, other = (array[int(at) : int(at) + LANES] for at in (first, second))
        one[:], other[:] = np.minimum(one, other), np.maximum(one, other)

    def prefetch(array, at):
        """Let an element be brought into the cache."""

    def load_word(array, at):
        """Eight bytes from `at` on as one number."""
        return array[int(at) : int(at) + 8].view(np.uint64)[0]

    def store_word(array, at, word):
        """Write a number to eight bytes from `at` on."""
        array[int(at) : int(at) + 8].view(np.uint64)[0] = word

else:
    from llvmlite import ir
    from numba.core import cgutils

    def _address(context, builder, array_type, array, at):
        data = context.make_array(array_type)(context, builder, array).data
        return builder.gep(data, [at])

    @intrinsic
    def exchange(_typing_context, array, _first, _second):
        """Put eight numbers from `first` and eight from `second` on in order, pair by pair."""

        def generate(context, builder, signature, arguments):
            eight = ir.VectorType(ir.IntType(16), LANES).as_pointer()
            places = [
                builder.bitcast(
                    _address(context, builder, signature.args[0], arguments[0], at), eight
                )
                for at in arguments[1:]
            ]
            one, other = (builder.load(place, align=2) for place in places)
            in_order = builder.icmp_signed("<", one, other)
            builder.store(builder.select(in_order, one, other), places[0], align=2)
            builder.store(builder.select(in_order, other, one), places[1], align=2)
            return context.get_dummy_value()

        return types.void(array, types.uint64, types.uint64), generate

    @intrinsic
    def prefetch(_typing_context, array, _at):
        """Let an element be brought into the cache."""

        def generate(context, builder, signature, arguments):
            place = _address(context, builder, signature.args[0], *arguments)
            pointer = builder.bitcast(place, ir.IntType(8).as_pointer())
            number = ir.IntType(32)
            kind = ir.FunctionType(ir.VoidType(), [pointer.type, number, number, number])
            function = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
            builder.call(function, [pointer, number(0), number(3), number(1)])
            return context.get_dummy_value()

        return types.void(array, types.uint64), generate

    @intrinsic
    def load_word(_typing_context, array, _at):
        """Eight bytes from `at` on as one number."""

        def generate(context, builder, signature, arguments):
            place = _address(context, builder, signature.args[0], *arguments)
            return builder.load(builder.bitcast(place, ir.IntType(64).as_pointer()), align=1)

        return types.uint64(array, types.intp), generate

    @intrinsic
    def store_word(_typing_context, array, _at, _word):
        """Write a number to eight bytes from `at` on."""

        def generate(context, builder, signature, arguments):
            place = _address(context, builder, signature.args[0], *arguments[:2])
            builder.store(
                arguments[2], builder.bitcast(place, ir.IntType(64).as_pointer()), align=1
            )
            return context.get_dummy_value()

        return types.void(array, types.intp, types.uint64), generate

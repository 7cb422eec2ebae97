"""Eight entries of a row order at once: those that go one way are put together and stored.

Processors with vectors of eight numbers permute them by one instruction, for which no loop makes
the compiler; hence intrinsics, each beside the plain expression it stands for. On others, and for
wide entries, `packs_lanes` is false, and the caller moves entries one by one. Worth
(`benchmarks/ablations.py`): 5 % of a horizontal training, 2 % of a vertical one, which has it free.
"""

import numpy as np
from numba import config, types
from numba.extending import intrinsic

LANES = 8

_BITS = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1, bitorder="little")
# for every byte: the numbers of its set bits, then those of the others
LANE_ORDER = np.argsort(_BITS == 0, axis=1, kind="stable").astype(np.uint8).reshape(-1)

if config.DISABLE_JIT:  # type: ignore[attr-defined] # numba adds it at run time

    def packs_lanes(array):
        """Return whether `pack_lanes` is faster than entries one by one."""
        return array.itemsize == 4

    def pack_lanes(source, at, byte, lane_order, target, to):
        """Write source[at : at + 8] to target[to : to + 8], those with a set bit first."""
        order = lane_order[LANES * int(byte) :][:LANES]
        target[int(to) : int(to) + LANES] = source[int(at) : int(at) + LANES][order]

else:
    from llvmlite import ir
    from numba.core import cgutils

    _WORD = ir.IntType(64)
    _ENTRIES = ir.VectorType(ir.IntType(32), LANES)
    _NUMBERS = ir.VectorType(ir.IntType(8), LANES)

    def _can_permute(context, array_type):
        features = context.codegen().magic_tuple()[2]  # of the processor
        return "+avx2" in features and array_type.dtype.bitwidth == 32

    def address_of(context, builder, array_type, array, at):
        """Return the address of an element of an array, for other intrinsics too."""
        data = context.make_array(array_type)(context, builder, array).data
        return builder.gep(data, [at])

    def _permute(builder, source, numbers, target):
        kind = ir.FunctionType(_ENTRIES, [_ENTRIES, _ENTRIES])
        name = "llvm.x86.avx2.permd"
        permute = cgutils.get_or_insert_function(builder.module, kind, name)
        entries = builder.load(builder.bitcast(source, _ENTRIES.as_pointer()), align=4)
        order = builder.load(builder.bitcast(numbers, _NUMBERS.as_pointer()), align=1)
        packed = builder.call(permute, [entries, builder.zext(order, _ENTRIES)])
        builder.store(packed, builder.bitcast(target, _ENTRIES.as_pointer()), align=4)

    def _copy_each(builder, source, numbers, target):
        for k in range(LANES):
            lane = builder.zext(builder.load(builder.gep(numbers, [_WORD(k)])), _WORD)
            entry = builder.load(builder.gep(source, [lane]))
            builder.store(entry, builder.gep(target, [_WORD(k)]))

    @intrinsic
    def packs_lanes(_typing_context, array):
        """Return whether `pack_lanes` is faster than entries one by one."""

        def generate(context, _builder, signature, _arguments):
            return ir.IntType(1)(int(_can_permute(context, signature.args[0])))

        return types.boolean(array), generate

    @intrinsic
    def pack_lanes(_typing_context, source, _at, _byte, lane_order, target, _to):
        """Write source[at : at + 8] to target[to : to + 8], those with a set bit first."""

        def generate(context, builder, signature, arguments):
            entries, at, byte, order, written, to = arguments
            kinds = signature.args
            places = (
                address_of(context, builder, kinds[0], entries, at),
                address_of(context, builder, kinds[3], order, builder.mul(byte, _WORD(LANES))),
                address_of(context, builder, kinds[4], written, to),
            )
            store = _permute if _can_permute(context, kinds[0]) else _copy_each
            store(builder, *places)
            return context.get_dummy_value()

        word = types.uint64
        return types.void(source, word, word, lane_order, target, word), generate

"""A hint to the processor: this will be read soon.

Numbers that lie far apart arrive one cache miss after the other unless they are asked for before
they are needed. A hint reads nothing and changes nothing, wherever it points.
"""

from numba import config, types
from numba.extending import intrinsic

if config.DISABLE_JIT:  # type: ignore[attr-defined] # numba adds it at run time

    def prefetch(array, index):
        """Have array[index] brought into the cache; `index` is uint64."""

else:
    from llvmlite import ir
    from numba.core import cgutils

    _POINTER, _INT32 = ir.IntType(8).as_pointer(), ir.IntType(32)
    _FOR_READING, _KEEP, _DATA = _INT32(0), _INT32(3), _INT32(1)
    _HINT = ir.FunctionType(ir.VoidType(), [_POINTER, _INT32, _INT32, _INT32])

    @intrinsic
    def prefetch(_typing_context, array, _index):
        """Have array[index] brought into the cache; `index` is uint64."""

        def generate(context, builder, signature, arguments):
            layout = cgutils.create_struct_proxy(signature.args[0])(
                context, builder, value=arguments[0]
            )
            address = builder.bitcast(builder.gep(layout.data, [arguments[1]]), _POINTER)
            hint = builder.module.declare_intrinsic("llvm.prefetch", [_POINTER], _HINT)
            builder.call(hint, [address, _FOR_READING, _KEEP, _DATA])
            return context.get_dummy_value()

        return types.void(array, types.uint64), generate

"""The ways a kernel is compiled.

Every kernel releases the GIL, is cached on disk (`kernels/compiled/cache.py`), divides like numpy
(no Python exceptions) and never uses fast-math: gains must be the same bits on every machine.

`inlined` is for the few lines that run once per row: a call with arrays costs more than they do,
and the compiler does not always see that.

`borrowing` kernels get all their arrays from a caller that keeps them alive. They cannot make new
ones, and in return count no references, which is atomic and, in small nodes, dearer than the work.
`embedded` ones are moreover compiled into every caller: for small pieces that run once per column
of a small node, where handing over arrays would cost as much.
"""

from collections.abc import Callable
from typing import Any

from numba import config, njit

from fedforest.kernels.compiled.cache import KernelCache


def _way(**options: Any) -> Callable[[Callable[..., Any]], Any]:
    # no kernel is called from C, and the wrapper for that takes 7 % of the time to compile
    options |= {"nogil": True, "error_model": "numpy", "no_cfunc_wrapper": True}

    def compile_kernel(function: Callable[..., Any]) -> Any:
        kernel: Any = njit(**options)(function)
        if not config.DISABLE_JIT:  # type: ignore[attr-defined] # made at run time
            kernel._cache = KernelCache(kernel)
        return kernel

    return compile_kernel


kernel = _way()
inlined = _way(inline="always")
# `_nrt` is numba's memory manager
borrowing = _way(_nrt=False)
embedded = _way(_nrt=False, forceinline=True)
# what is compiled into its caller without a cache of its own (`kernels/criteria/dispatch.py`)
INTO_CALLER: dict[str, Any] = {"nogil": True, "error_model": "numpy", "forceinline": True}
EMBEDDED: dict[str, Any] = {**INTO_CALLER, "_nrt": False}

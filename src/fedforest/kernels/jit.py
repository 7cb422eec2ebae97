"""The ways a kernel is compiled.

Every kernel releases the GIL, is cached on disk, divides like numpy (no Python exceptions) and
never uses fast-math: gains must be the same bits on every machine.

`inlined` is for the few lines that run once per row: a call with arrays costs more than they do,
and the compiler does not always see that.

`borrowing` kernels get all their arrays from a caller that keeps them alive. They cannot make new
ones, and in return count no references, which is atomic and, in small nodes, dearer than the work.
`embedded` ones are moreover compiled into every caller: for small pieces that run once per column
of a small node, where handing over arrays would cost as much.
"""

from typing import Any

from numba import njit

kernel = njit(nogil=True, cache=True, error_model="numpy")
inlined = njit(nogil=True, cache=True, error_model="numpy", inline="always")
# numba types its options, but not this one, which switches off its memory manager
_BORROWED: dict[str, Any] = {"_nrt": False}
borrowing = njit(nogil=True, cache=True, error_model="numpy", **_BORROWED)
embedded = njit(nogil=True, cache=True, error_model="numpy", forceinline=True, **_BORROWED)

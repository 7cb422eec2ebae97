"""The one way a kernel is compiled.

Every kernel releases the GIL, is cached on disk, divides like numpy (no Python exceptions) and
never uses fast-math: gains must be the same bits on every machine.
"""

from numba import njit

kernel = njit(nogil=True, cache=True, error_model="numpy")

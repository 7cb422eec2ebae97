"""Checked reading of the arrays of a model file, whose author may be unknown.

An array must have the expected type and shape, or the file is refused. The callers check the
values.
"""

from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import DTypeLike, NDArray

from fedforest.errors import DamagedModelError

Arrays: TypeAlias = Mapping[str, NDArray[Any]]

_WIDTHS = (np.uint8, np.uint16, np.uint32)


def narrowest(largest: int) -> np.dtype[Any]:
    """Return the narrowest type of a file that holds the numbers from 0 to `largest`."""
    return np.dtype(next(width for width in _WIDTHS if largest <= np.iinfo(width).max))


def read_vector(
    arrays: Arrays, name: str, dtype: DTypeLike, length: int | None = None
) -> NDArray[Any]:
    """Read one vector, of any length if `length` is None, in the byte order of this machine."""
    return read_array(arrays, name, dtype, (arrays[name].size if length is None else length,))


def read_array(arrays: Arrays, name: str, dtype: DTypeLike, shape: tuple[int, ...]) -> NDArray[Any]:
    """Read one array in the byte order of this machine."""
    array, expected = arrays[name], np.dtype(dtype)
    if array.dtype != expected.newbyteorder("<") or array.shape != shape:
        raise damaged(f"array {name!r}", f"it is not of {expected} and the expected shape")
    return array.astype(expected, copy=False)


def write_bits(flags: NDArray[Any]) -> NDArray[np.uint8]:
    """Pack eight flags to a byte, the first in the lowest bit; zeros fill the last byte."""
    return np.packbits(flags, bitorder="little")


def read_bits(arrays: Arrays, name: str, length: int) -> NDArray[np.bool_]:
    """Read `length` flags that `write_bits` wrote."""
    packed = read_vector(arrays, name, np.uint8, -(-length // 8))
    flags = np.unpackbits(packed, bitorder="little")
    require(not flags[length:].any(), f"array {name!r}", "spare bits are not zero")
    return flags[:length].view(np.bool_)


def require(condition: bool | np.bool_, part: str, reason: str) -> None:
    """Refuse the file, whose `part` is wrong, unless the condition holds."""
    if not condition:
        raise damaged(part, reason)


def damaged(part: str, reason: str) -> DamagedModelError:
    """Return the error for a damaged part of a stored forest."""
    return DamagedModelError(
        f"the stored forest is damaged in its {part}: {reason}; get a fresh copy"
    )

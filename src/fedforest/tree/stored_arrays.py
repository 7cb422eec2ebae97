"""Arrays of a model file that a stranger may have written, read one by one, and what is refused.

An array is taken in the type and shape that the others ask for, or not at all. What it says is
left to those who know what it means.
"""

from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import DTypeLike, NDArray

from fedforest.errors import DamagedModelError

Arrays: TypeAlias = Mapping[str, NDArray[Any]]

_WIDTHS = (np.uint8, np.uint16, np.uint32)


def narrowest(largest: int) -> np.dtype[Any]:
    """The narrowest type of a file that holds the numbers from 0 to `largest`."""
    return np.dtype(next(width for width in _WIDTHS if largest <= np.iinfo(width).max))


def read_vector(
    arrays: Arrays, name: str, dtype: DTypeLike, length: int | None = None
) -> NDArray[Any]:
    """One vector, of any length if none is said, in the byte order of this machine."""
    return read_array(arrays, name, dtype, (arrays[name].size if length is None else length,))


def read_array(arrays: Arrays, name: str, dtype: DTypeLike, shape: tuple[int, ...]) -> NDArray[Any]:
    """One array in the byte order of this machine."""
    array, expected = arrays[name], np.dtype(dtype)
    if array.dtype != expected.newbyteorder("<") or array.shape != shape:
        raise damaged(f"array {name!r}", f"it is not of {expected} and the expected shape")
    return array.astype(expected, copy=False)


def write_bits(flags: NDArray[Any]) -> NDArray[np.uint8]:
    """Eight flags to a byte, the first in the lowest bit; the last byte is filled with zeros."""
    return np.packbits(flags, bitorder="little")


def read_bits(arrays: Arrays, name: str, length: int) -> NDArray[np.bool_]:
    """So many flags that `write_bits` wrote."""
    packed = read_vector(arrays, name, np.uint8, -(-length // 8))
    flags = np.unpackbits(packed, bitorder="little")
    require(not flags[length:].any(), f"array {name!r}", "spare bits are not zero")
    return flags[:length].view(np.bool_)


def require(condition: bool | np.bool_, part: str, reason: str) -> None:
    """Refuse the file, whose `part` is wrong, unless the condition holds."""
    if not condition:
        raise damaged(part, reason)


def damaged(part: str, reason: str) -> DamagedModelError:
    """What is wrong with a stored forest."""
    return DamagedModelError(
        f"the stored forest is damaged in its {part}: {reason}; get a fresh copy"
    )

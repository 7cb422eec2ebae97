"""Integers in as few bytes as they need: seven bits to a byte, the eighth says that more follow.

Signs go into the lowest bit first (0, -1, 1, -2 become 0, 1, 2, 3), so small is short either way.
"""

import numpy as np

from fedforest.kernels.jit import kernel

MAX_VARINT_BYTES = 10

_ONE = np.uint64(1)
_SEVEN = np.uint64(7)
_LOW = np.uint64(0x7F)
_MORE = np.uint64(0x80)


@kernel
def write_varints(values, out):
    """Write int64 values one after the other; returns the number of bytes written.

    `out` must have room for `MAX_VARINT_BYTES` each.
    """
    at = 0
    for i in range(values.shape[0]):
        word = np.uint64(values[i] << 1) ^ np.uint64(values[i] >> 63)
        while word > _LOW:
            out[at] = np.uint8((word & _LOW) | _MORE)
            word >>= _SEVEN
            at += 1
        out[at] = np.uint8(word)
        at += 1
    return at


@kernel
def read_varints(data, values):
    """Read as many integers as `values` holds; returns whether `data` was exactly these.

    An integer has one form only: a last byte of zero, which adds nothing, is refused.
    """
    at, n_bytes = 0, data.shape[0]
    for i in range(values.shape[0]):
        if at >= n_bytes:
            return False
        byte = np.uint64(data[at])
        at += 1
        word, shift = byte & _LOW, _SEVEN
        while byte >= _MORE:
            if at >= n_bytes or shift > np.uint64(63):
                return False
            byte = np.uint64(data[at])
            at += 1
            if byte == np.uint64(0) or (shift == np.uint64(63) and byte > _ONE):
                return False
            word |= (byte & _LOW) << shift
            shift += _SEVEN
        values[i] = np.int64(word >> _ONE) ^ -np.int64(word & _ONE)
    return at == n_bytes

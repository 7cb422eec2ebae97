"""Integers in as few bytes as they need: seven bits to a byte, the eighth says that more follow.

Signs go into the lowest bit first (0, -1, 1, -2 become 0, 1, 2, 3), so small is short either way.
"""

import numpy as np

from fedforest.kernels.jit import embedded, kernel

MAX_VARINT_BYTES = 10

_ZERO = np.uint64(0)
_ONE = np.uint64(1)
_SEVEN = np.uint64(7)
_EIGHT = np.uint64(8)
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


@embedded
def unfold(word):
    """Return the integer whose sign is in the lowest bit."""
    return np.int64(word >> _ONE) ^ -np.int64(word & _ONE)


@embedded
def are_short(data, at):
    """Return whether the next eight bytes are integers of one byte each."""
    together = _ZERO
    for j in range(_EIGHT):
        together |= np.uint64(data[at + j])
    return together < _MORE


@kernel
def read_varints(data, values):
    """Read as many integers as `values` holds; returns whether `data` was exactly these.

    An integer has one form only: a last byte of zero, which adds nothing, is refused. Most counts
    are small: eight of one byte are read at once.
    """
    at, n_bytes = _ZERO, np.uint64(data.shape[0])
    i, n_values = _ZERO, np.uint64(values.shape[0])
    while i < n_values:
        if i + _EIGHT <= n_values and at + _EIGHT <= n_bytes and are_short(data, at):
            for j in range(_EIGHT):
                values[i + j] = unfold(np.uint64(data[at + j]))
            i, at = i + _EIGHT, at + _EIGHT
            continue
        end = min(n_values, i + _EIGHT)
        while i < end:
            if at >= n_bytes:
                return False
            byte = np.uint64(data[at])
            at += _ONE
            word, shift = byte & _LOW, _SEVEN
            while byte >= _MORE:
                if at >= n_bytes or shift > np.uint64(63):
                    return False
                byte = np.uint64(data[at])
                at += _ONE
                if byte == _ZERO or (shift == np.uint64(63) and byte > _ONE):
                    return False
                word |= (byte & _LOW) << shift
                shift += _SEVEN
            values[i] = unfold(word)
            i += _ONE
    return at == n_bytes

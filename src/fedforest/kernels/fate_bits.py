"""The fates of nodes as they travel, three bits each: one pass over the nodes in either direction.

The bits are: split or not; whether the left child, or the node itself, stays open; whether the
right child does.
"""

import numpy as np

from fedforest.kernels.jit import kernel
from fedforest.kernels.partition import OPEN_LEFT, OPEN_RIGHT, STAYS

BITS_PER_FATE = 3

_BITS = np.uint64(BITS_PER_FATE)
_BYTE = np.uint64(8)
_ONE = np.uint64(1)
_ZERO = np.uint64(0)


@kernel
def write_fates(is_split, fate):
    """Pack the fates of all nodes, the first in the lowest bits."""
    packed = np.empty((fate.shape[0] * BITS_PER_FATE + 7) >> 3, np.uint8)
    word, n_bits, at = _ZERO, _ZERO, 0
    for node in range(fate.shape[0]):
        bits = np.uint64(is_split[node])
        bits |= np.uint64(fate[node] & (OPEN_LEFT | STAYS) != 0) << _ONE
        bits |= np.uint64(fate[node] & OPEN_RIGHT != 0) << (_ONE + _ONE)
        word |= bits << n_bits
        n_bits += _BITS
        if n_bits >= _BYTE:
            packed[at] = np.uint8(word & np.uint64(255))
            word >>= _BYTE
            n_bits -= _BYTE
            at += 1
    if n_bits > _ZERO:
        packed[at] = np.uint8(word)
    return packed


@kernel
def read_fates(packed, is_split, fate):
    """Unpack the fates of as many nodes as `fate` holds.

    Returns 0, -1 where a node that was not split has a right child, and -2 where the last byte is
    not padded with zeros. `packed` must have the right length.
    """
    right_without_split = _ZERO
    word, n_bits, at = _ZERO, _ZERO, 0
    for node in range(fate.shape[0]):
        if n_bits < _BITS:
            word |= np.uint64(packed[at]) << n_bits
            n_bits += _BYTE
            at += 1
        split, first, second = word & _ONE, (word >> _ONE) & _ONE, (word >> np.uint64(2)) & _ONE
        is_split[node] = split == _ONE
        right_without_split |= second & (split ^ _ONE)
        opens = first * np.uint64(OPEN_LEFT) + second * np.uint64(OPEN_RIGHT)
        fate[node] = np.uint8(opens if split == _ONE else first * np.uint64(STAYS))
        word >>= _BITS
        n_bits -= _BITS
    if word != _ZERO:
        return -2
    return -1 if right_without_split != _ZERO else 0

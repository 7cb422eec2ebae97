"""Fates of nodes in three bits each, as `protocol/fates.py` describes them."""

import numpy as np

from fedforest.kernels.jit import kernel
from fedforest.kernels.partition import OPEN_LEFT, OPEN_RIGHT, STAYS

BITS_PER_FATE = 3


@kernel
def write_fates(is_split, fate, packed):
    """Write fates one after the other into bytes that are zero."""
    for k in range(fate.shape[0]):
        first = np.uint16(fate[k] & (OPEN_LEFT | STAYS) != 0)
        second = np.uint16(fate[k] & OPEN_RIGHT != 0)
        told = np.uint16(is_split[k]) | first << 1 | second << 2
        at = BITS_PER_FATE * k
        told <<= at & 7
        packed[at >> 3] |= np.uint8(told & 0xFF)
        if told > 0xFF:
            packed[(at >> 3) + 1] |= np.uint8(told >> 8)


@kernel
def read_fates(packed, is_split, fate):
    """Read as many fates as there is room for; returns whether each is one."""
    is_sound = True
    for k in range(fate.shape[0]):
        at = BITS_PER_FATE * k
        told = np.uint16(packed[at >> 3])
        if at & 7 > 8 - BITS_PER_FATE:
            told |= np.uint16(packed[(at >> 3) + 1]) << 8
        told >>= at & 7
        splits, first, second = told & 1, told >> 1 & 1, told >> 2 & 1
        is_sound &= splits >= second
        is_split[k] = splits
        fate[k] = first * OPEN_LEFT + second * OPEN_RIGHT if splits else first * STAYS
    return is_sound

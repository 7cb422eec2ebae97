"""The fates of nodes as they travel, three bits each: one pass over the nodes in either direction.

The bits are: split or not; whether the left child, or the node itself, stays open; whether the
right child does. Flags of nodes are one bit each.
"""

import numpy as np

from fedforest.kernels.growth.partition import OPEN_LEFT, OPEN_RIGHT, STAYS
from fedforest.kernels.jit import kernel

BITS_PER_FATE = 3
RIGHT_WITHOUT_SPLIT, PADDED_WITH_ONES = -1, -2  # what can be wrong with fates

FATE_BITS = np.uint64(BITS_PER_FATE)
BYTE = np.uint64(8)
ONE = np.uint64(1)
ZERO = np.uint64(0)


@kernel
def write_fates(is_split, fate):
    """Pack the fates of all nodes, the first in the lowest bits."""
    packed = np.empty((fate.shape[0] * BITS_PER_FATE + 7) >> 3, np.uint8)
    word, n_bits, at = ZERO, ZERO, 0
    for node in range(fate.shape[0]):
        bits = np.uint64(is_split[node])
        bits |= np.uint64(fate[node] & (OPEN_LEFT | STAYS) != 0) << ONE
        bits |= np.uint64(fate[node] & OPEN_RIGHT != 0) << (ONE + ONE)
        word |= bits << n_bits
        n_bits += FATE_BITS
        if n_bits >= BYTE:
            packed[at] = np.uint8(word & np.uint64(255))
            word >>= BYTE
            n_bits -= BYTE
            at += 1
    if n_bits > ZERO:
        packed[at] = np.uint8(word)
    return packed


@kernel
def read_fate(word):
    """(split, left child or itself stays open, right child does, fate) by a word's lowest bits."""
    split, first, second = word & ONE, (word >> ONE) & ONE, (word >> (ONE + ONE)) & ONE
    opens = first * np.uint64(OPEN_LEFT) + second * np.uint64(OPEN_RIGHT)
    return split, first, second, np.uint8(opens if split == ONE else first * np.uint64(STAYS))


@kernel
def read_fates(packed, is_split, fate):
    """Unpack the fates of as many nodes as `fate` holds.

    Returns 0 or what is wrong with them. `packed` must have the right length.
    """
    right_without_split = ZERO
    word, n_bits, at = ZERO, ZERO, 0
    for node in range(fate.shape[0]):
        if n_bits < FATE_BITS:
            word |= np.uint64(packed[at]) << n_bits
            n_bits += BYTE
            at += 1
        split, _, second, fate[node] = read_fate(word)
        is_split[node] = split == ONE
        right_without_split |= second & (split ^ ONE)
        word >>= FATE_BITS
        n_bits -= FATE_BITS
    if word != ZERO:
        return PADDED_WITH_ONES
    return RIGHT_WITHOUT_SPLIT if right_without_split != ZERO else 0


@kernel
def find_flags(packed, n_flags):
    """Return (places of the flags that are set, whether all of them are flags)."""
    places, n_set = np.empty(packed.shape[0] * 8, np.int64), 0
    for byte in range(packed.shape[0]):
        if packed[byte] == 0:
            continue
        for bit in range(8):
            places[n_set] = 8 * byte + bit
            n_set += (packed[byte] >> bit) & 1
    return places[:n_set], n_set == 0 or places[n_set - 1] < n_flags

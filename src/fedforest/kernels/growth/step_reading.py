"""Read a step at a party, in one pass over its open nodes.

The same pass checks the coordinator's message.
"""

import numpy as np

from fedforest.kernels.growth.fate_bits import (
    BYTE,
    FATE_BITS,
    ONE,
    PADDED_WITH_ONES,
    RIGHT_WITHOUT_SPLIT,
    ZERO,
    read_fate,
)
from fedforest.kernels.jit import kernel
from fedforest.kernels.layout import NO_SPLIT

OWN_NOT_SPLIT, OWN_ASKED_AGAIN = -3, -4  # beside what can be wrong with fates


@kernel
def list_flagged(packed, n_nodes):
    """Return (nodes whose bit is set, whether all bits behind the last node's are zero)."""
    nodes = np.empty(n_nodes + 1, np.int64)  # one spare position
    count = 0
    for node in range(n_nodes):
        nodes[count] = node
        count += np.int64((packed[node >> 3] >> np.uint8(node & 7)) & np.uint8(1))
    rest = n_nodes & 7
    is_padded = rest == 0 or packed[n_nodes >> 3] >> np.uint8(rest) == 0
    return nodes[:count], is_padded


@kernel
def read_step(packed, sizes, scores, own, own_left, is_split, fate, offsets, left_rows):
    """Unpack the fates of all open nodes, `sizes` rows each, into `is_split` and `fate`.

    scores[node] is the best split found here; a node with one does not stay open for more columns.
    `own` are the nodes split here, ascending; own_left[i] rows of own[i] went left. Their bits lie
    one node after the other: offsets[node] becomes where they start. Returns (open nodes after the
    step or what is wrong, nodes split elsewhere that have an open child). `packed` must have the
    right length.
    """
    moving = np.empty(fate.shape[0] + 1, np.int64)  # one spare position
    right_without_split, own_split, asked_again = ZERO, ONE, ZERO
    word, n_bits, at = ZERO, ZERO, 0
    i, n_moving, n_bytes, n_open = 0, 0, 0, ZERO
    for node in range(fate.shape[0]):
        if n_bits < FATE_BITS:
            word |= np.uint64(packed[at]) << n_bits
            n_bits += BYTE
            at += 1
        split, first, second, fate[node] = read_fate(word)
        word >>= FATE_BITS
        n_bits -= FATE_BITS
        is_split[node] = split == ONE
        right_without_split |= second & (split ^ ONE)
        asked_again |= first & (split ^ ONE) & np.uint64(scores[node] > NO_SPLIT)
        n_open += first + second
        if i < own.shape[0] and own[i] == node:
            own_split &= split
            offsets[node], left_rows[node] = n_bytes, own_left[i]
            n_bytes += (sizes[node] + 7) >> 3
            i += 1
        else:
            offsets[node], left_rows[node] = 0, 0
            moving[n_moving] = node
            n_moving += np.int64(split & (first | second))
    outcome = np.int64(n_open)
    if asked_again != ZERO:
        outcome = OWN_ASKED_AGAIN
    if own_split == ZERO:
        outcome = OWN_NOT_SPLIT
    if right_without_split != ZERO:
        outcome = RIGHT_WITHOUT_SPLIT
    if word != ZERO:
        outcome = PADDED_WITH_ONES
    return outcome, moving[:n_moving]

"""What a party reads of a step, in one pass over its open nodes.

What the coordinator says is judged in the same pass.
"""

import numpy as np

from fedforest.kernels.fate_bits import BITS_PER_FATE
from fedforest.kernels.jit import kernel
from fedforest.kernels.partition import OPEN_LEFT, OPEN_RIGHT, STAYS

RIGHT_WITHOUT_SPLIT, PADDED_WITH_ONES, OWN_NOT_SPLIT = -1, -2, -3

_BITS = np.uint64(BITS_PER_FATE)
_BYTE = np.uint64(8)
_ONE = np.uint64(1)
_ZERO = np.uint64(0)


@kernel
def list_flagged(packed, n_nodes):
    """(nodes whose bit is set, whether all bits behind the last node's are zero)."""
    nodes = np.empty(n_nodes + 1, np.int64)  # one spare position
    count = 0
    for node in range(n_nodes):
        nodes[count] = node
        count += np.int64((packed[node >> 3] >> np.uint8(node & 7)) & np.uint8(1))
    rest = n_nodes & 7
    is_padded = rest == 0 or packed[n_nodes >> 3] >> np.uint8(rest) == 0
    return nodes[:count], is_padded


@kernel
def read_step(packed, sizes, own, own_left, is_split, fate, offsets, left_rows):
    """Unpack the fates of all open nodes, `sizes` rows each, into `is_split` and `fate`.

    `own` are the nodes split here, ascending; own_left[i] rows of own[i] went left. Their bits lie
    one node after the other: offsets[node] becomes where they start. Returns (open nodes after the
    step or what is wrong, nodes split elsewhere that have an open child). `packed` must have the
    right length.
    """
    moving = np.empty(fate.shape[0] + 1, np.int64)  # one spare position
    right_without_split, own_split = _ZERO, _ONE
    word, n_bits, at = _ZERO, _ZERO, 0
    i, n_moving, n_bytes, n_open = 0, 0, 0, _ZERO
    for node in range(fate.shape[0]):
        if n_bits < _BITS:
            word |= np.uint64(packed[at]) << n_bits
            n_bits += _BYTE
            at += 1
        split, first, second = word & _ONE, (word >> _ONE) & _ONE, (word >> np.uint64(2)) & _ONE
        word >>= _BITS
        n_bits -= _BITS
        opens = first * np.uint64(OPEN_LEFT) + second * np.uint64(OPEN_RIGHT)
        is_split[node] = split == _ONE
        fate[node] = np.uint8(opens if split == _ONE else first * np.uint64(STAYS))
        right_without_split |= second & (split ^ _ONE)
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
    if own_split == _ZERO:
        outcome = OWN_NOT_SPLIT
    if right_without_split != _ZERO:
        outcome = RIGHT_WITHOUT_SPLIT
    if word != _ZERO:
        outcome = PADDED_WITH_ONES
    return outcome, moving[:n_moving]

"""Predicting over several owners of splits, some levels at a time.

A row stands at a node. Its owner of splits says, for every own node the row can still reach within
the next levels, whether it would go left: one bit each, in preorder, following both children of
nodes that others split (Proposition 1 of Federated Forest, without the leaf sets). Whoever has the
bits of all owners can follow the row's true path and skip the rest.

Bits of rows follow each other without gaps; bit k is bit `k & 7` of byte `k >> 3`.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedforest.kernels.bitsets import in_set
from fedforest.kernels.jit import inlined, kernel

_ONE = np.uint64(1)
_SEVEN = np.uint64(7)
_EIGHT = np.uint64(8)


class OwnSplits(NamedTuple):
    """The shape of a forest and one owner's splits, flat over all nodes."""

    left_child: NDArray[np.int32]  # number within the tree, negative at leaves
    feature: NDArray[np.int32]  # negative where there is no own split
    cut: NDArray[np.uint8]
    missing_left: NDArray[np.uint8]
    set_index: NDArray[np.int32]
    left_set: NDArray[np.uint64]


@inlined
def read_bit(data, position):
    """Bit `position` (uint64) as int32."""
    return np.int32((data[position >> np.uint64(3)] >> np.uint8(position & _SEVEN)) & np.uint8(1))


@inlined
def write_bit(data, position, bit):
    """Set a bit of zeroed bytes; `position` is uint64."""
    data[position >> np.uint64(3)] |= np.uint8(np.uint8(bit) << np.uint8(position & _SEVEN))


@kernel
def follow_paths(left_child, base, rows, nodes, path, lookahead):
    """Move active rows of a tree by their path bits; return how many are active still.

    Rows that arrived at a leaf drop out of `rows` and `nodes`, whose order is kept.
    """
    at = np.uint64(0)
    n_active = 0
    for i in range(rows.shape[0]):
        node = nodes[i]
        child = left_child[base + node]
        level = 0
        while child >= 0 and level < lookahead:
            node = child + 1 - read_bit(path, at)
            at += _ONE
            level += 1
            child = left_child[base + node]
        if child >= 0:
            rows[n_active], nodes[n_active] = rows[i], node
            n_active += 1
    return n_active


@kernel
def count_path_bits(left_child, base, nodes, path, lookahead):
    """How many path bits so many rows need, or -1 where `path` has too few."""
    at = np.uint64(0)
    room = np.uint64(path.shape[0]) << np.uint64(3)
    for i in range(nodes.shape[0]):
        node = nodes[i]
        level = 0
        while left_child[base + node] >= 0 and level < lookahead:
            if at >= room:
                return -1
            node = left_child[base + node] + 1 - read_bit(path, at)
            at += _ONE
            level += 1
    return np.int64(at)


@kernel
def write_outcomes(splits, base, bins, n_rows, rows, nodes, lookahead, most_per_row):
    """The bits of an owner for the active rows of one tree; returns (bytes, number of bits).

    `most_per_row` bounds the bits of one row; the bytes grow as they are needed.
    """
    left_child, feature, cut, missing_left, set_index, left_set = splits
    out = np.zeros((rows.shape[0] >> 3) + (most_per_row >> 3) + 2, np.uint8)
    waiting_node = np.empty(lookahead + 2, np.int32)
    waiting_level = np.empty(lookahead + 2, np.int32)
    at, byte, n_bits = 0, np.uint64(0), np.uint64(0)  # bits gather in a register, then go out
    for i in range(rows.shape[0]):
        if at + (most_per_row >> 3) + 2 > out.shape[0]:
            longer = np.zeros(2 * out.shape[0], np.uint8)
            longer[: out.shape[0]] = out
            out = longer
        row = np.uint64(rows[i])
        waiting_node[0], waiting_level[0] = nodes[i], 0
        n_waiting = 1
        while n_waiting > 0:
            n_waiting -= 1
            node, level = waiting_node[n_waiting], waiting_level[n_waiting]
            while level < lookahead and left_child[base + node] >= 0:
                here = base + node
                own = feature[here]
                level += 1
                if own < 0:
                    waiting_node[n_waiting] = left_child[here] + 1
                    waiting_level[n_waiting] = level
                    n_waiting += 1
                    node = left_child[here]
                    continue
                code = bins[np.uint64(own) * n_rows + row]
                if set_index[here] >= 0:
                    goes_left = in_set(left_set, set_index[here], np.uint64(code))
                else:
                    shift = missing_left[here]
                    goes_left = np.uint64(np.uint8(code + shift) <= np.uint8(cut[here] + shift))
                byte |= goes_left << n_bits
                n_bits += _ONE
                if n_bits == _EIGHT:
                    out[at] = np.uint8(byte)
                    at, byte, n_bits = at + 1, np.uint64(0), np.uint64(0)
                node = left_child[here] + 1 - np.int32(goes_left)
    if n_bits > np.uint64(0):
        out[at] = np.uint8(byte)
    total = np.int64(8 * at) + np.int64(n_bits)
    return out[: (total + 7) >> 3], total


@kernel
def skip_subtree(left_child, owner, base, mine, node, level, lookahead, data, at, end, stack):
    """Pass over what owner `mine` said about a subtree; returns the next bit, or `end` + 1."""
    nodes, levels = stack
    nodes[0], levels[0] = node, level
    n_waiting = 1
    while n_waiting > 0:
        n_waiting -= 1
        node, level = nodes[n_waiting], levels[n_waiting]
        while level < lookahead and left_child[base + node] >= 0:
            here = base + node
            level += 1
            if owner[here] != mine:
                nodes[n_waiting], levels[n_waiting] = left_child[here] + 1, level
                n_waiting += 1
                node = left_child[here]
            else:
                if at >= end:
                    return end + _ONE
                node = left_child[here] + 1 - read_bit(data, at)
                at += _ONE
    return at


@kernel
def skip_for_others(left_child, owner, base, mine, node, level, lookahead, data, cursor, end):
    """Pass over what all owners but `mine` said about a subtree; returns who said too little.

    That is -1 where everybody said enough.
    """
    stack = (np.empty(lookahead + 2, np.int32), np.empty(lookahead + 2, np.int32))
    for other in range(cursor.shape[0]):
        if other == mine:
            continue
        cursor[other] = skip_subtree(
            left_child,
            owner,
            base,
            other,
            node,
            level,
            lookahead,
            data,
            cursor[other],
            end[other],
            stack,
        )
        if cursor[other] > end[other]:
            return other
    return -1


@kernel
def settle_paths(left_child, owner, base, nodes, lookahead, data, cursor, end, path):
    """Follow the true path of every active row of a tree through what all owners said.

    `cursor[p]` and `end[p]` bound, in bits of `data`, what owner p said; `nodes` become the nodes
    the rows stand at afterwards, `path` (zeroed) holds the turns taken. Returns the number of path
    bits, or -1 - p where owner p said too little.
    """
    pending_node = np.empty(lookahead + 2, np.int32)
    pending_level = np.empty(lookahead + 2, np.int32)
    pending_owner = np.empty(lookahead + 2, np.int32)
    at = np.uint64(0)
    for i in range(nodes.shape[0]):
        node = nodes[i]
        level = 0
        n_pending = 0
        while level < lookahead and left_child[base + node] >= 0:
            here = base + node
            mine = owner[here]
            if cursor[mine] >= end[mine]:
                return np.int64(-1 - mine)
            goes_left = read_bit(data, cursor[mine])
            cursor[mine] += _ONE
            write_bit(path, at, goes_left)
            at += _ONE
            level += 1
            left = left_child[here]
            node = left + 1 - goes_left
            if level == lookahead:
                break
            # the others spoke of both children, the left one first
            if goes_left:
                pending_node[n_pending], pending_level[n_pending] = left + 1, level
                pending_owner[n_pending] = mine
                n_pending += 1
            else:
                short = skip_for_others(
                    left_child, owner, base, mine, left, level, lookahead, data, cursor, end
                )
                if short >= 0:
                    return np.int64(-1 - short)
        nodes[i] = node
        for k in range(n_pending - 1, -1, -1):
            short = skip_for_others(
                left_child,
                owner,
                base,
                pending_owner[k],
                pending_node[k],
                pending_level[k],
                lookahead,
                data,
                cursor,
                end,
            )
            if short >= 0:
                return np.int64(-1 - short)
    return np.int64(at)


@kernel
def retire_rows(left_child, base, rows, nodes, leaf_of):
    """Note the leaves of rows that arrived; the others move up. Returns how many are left."""
    n_active = 0
    for i in range(rows.shape[0]):
        if left_child[base + nodes[i]] < 0:
            leaf_of[rows[i]] = nodes[i]
        else:
            rows[n_active], nodes[n_active] = rows[i], nodes[i]
            n_active += 1
    return n_active

"""Predicting over several owners of splits, some levels at a time.

A row stands at a node. Its owner of splits says, for every own node the row can still reach within
the next levels, whether it would go left: one bit each, in preorder, following both children of
nodes that others split (Proposition 1 of Federated Forest, without the leaf sets). The coordinator
has the bits of all owners: it follows the row's true path and skips the rest.

Outcomes of rows follow each other without gaps; bit k is bit `k & 7` of byte `k >> 3`. Turns are
those of `kernels/prediction/positions.py`. Nodes are numbered flat over all trees.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedforest.kernels.bits.bitsets import in_set
from fedforest.kernels.jit import inlined, kernel

_ONE = np.uint64(1)
_SEVEN = np.uint64(7)
_EIGHT = np.uint64(8)


class OwnSplits(NamedTuple):
    """The shape of a forest and one owner's splits, flat over all nodes."""

    left_child: NDArray[np.int32]  # flat, negative at leaves
    feature: NDArray[np.int32]  # negative where there is no own split
    cut: NDArray[np.uint8]
    missing_left: NDArray[np.uint8]
    set_index: NDArray[np.int32]
    left_set: NDArray[np.uint64]


@inlined
def read_bit(data, position):
    """Bit `position` (uint64) as int32."""
    return np.int32((data[position >> np.uint64(3)] >> np.uint8(position & _SEVEN)) & np.uint8(1))


@kernel
def follow_turns(left_child, turns, turns_start, n_levels, source, target, first, last):
    """Rows of trees first..last take so many turns, unless to a leaf."""
    from_rows, from_place, start, from_count = source
    rows, place, _, count = target
    for tree in range(first, last):
        n_words = (from_count[tree] + 63) >> 6
        kept = start[tree]
        for i in range(from_count[tree]):
            node = from_place[start[tree] + i]
            for level in range(n_levels):
                if left_child[node] < 0:
                    break
                word = turns[turns_start[tree] + level * n_words + (i >> 6)]
                node = left_child[node] + 1 - np.int32((word >> np.uint64(i & 63)) & _ONE)
            rows[kept], place[kept] = from_rows[start[tree] + i], node
            kept += left_child[node] >= 0
        count[tree] = kept - start[tree]


@kernel
def retire_rows(left_child, tree_start, leaf_of, source, target, first, last):
    """Note the leaves of rows of trees first..last that arrived; the others go to `target`."""
    from_rows, from_place, start, from_count = source
    rows, place, _, count = target
    for tree in range(first, last):
        kept = start[tree]
        for i in range(start[tree], start[tree] + from_count[tree]):
            node = from_place[i]
            leaf_of[tree, from_rows[i]] = node - tree_start[tree]
            rows[kept], place[kept] = from_rows[i], node
            kept += left_child[node] >= 0
        count[tree] = kept - start[tree]


@kernel
def write_outcomes(splits, bins, n_rows, rows, nodes, lookahead, most_per_row):
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
            while level < lookahead and left_child[node] >= 0:
                own = feature[node]
                level += 1
                if own < 0:
                    waiting_node[n_waiting] = left_child[node] + 1
                    waiting_level[n_waiting] = level
                    n_waiting += 1
                    node = left_child[node]
                    continue
                code = bins[np.uint64(own) * n_rows + row]
                if set_index[node] >= 0:
                    goes_left = in_set(left_set, set_index[node], np.uint64(code))
                else:
                    shift = missing_left[node]
                    goes_left = np.uint64(np.uint8(code + shift) <= np.uint8(cut[node] + shift))
                byte |= goes_left << n_bits
                n_bits += _ONE
                if n_bits == _EIGHT:
                    out[at] = np.uint8(byte)
                    at, byte, n_bits = at + 1, np.uint64(0), np.uint64(0)
                node = left_child[node] + 1 - np.int32(goes_left)
    if n_bits > np.uint64(0):
        out[at] = np.uint8(byte)
    total = np.int64(8 * at) + np.int64(n_bits)
    return out[: (total + 7) >> 3], total


@kernel
def say_outcomes(splits, bins, n_rows, standing, lookahead, most_per_row, n_bits, first, last):
    """Write `write_outcomes` for trees first..last, one after the other.

    Every tree starts a byte; n_bits[tree] counts its bits.
    """
    rows, place, start, count = standing
    parts, n_bytes = [np.zeros(0, np.uint8)], 0
    for tree in range(first, last):
        begin, end = start[tree], start[tree] + count[tree]
        part, n_bits[tree] = write_outcomes(
            splits, bins, n_rows, rows[begin:end], place[begin:end], lookahead, most_per_row[tree]
        )
        parts.append(part)
        n_bytes += part.shape[0]
    said, at = np.empty(n_bytes, np.uint8), 0
    for part in parts:
        said[at : at + part.shape[0]] = part
        at += part.shape[0]
    return said


@kernel
def skip_subtree(left_child, owner, mine, node, level, lookahead, data, at, end, stack):
    """Pass over what owner `mine` said about a subtree; returns the next bit, or `end` + 1."""
    nodes, levels = stack
    nodes[0], levels[0] = node, level
    n_waiting = 1
    while n_waiting > 0:
        n_waiting -= 1
        node, level = nodes[n_waiting], levels[n_waiting]
        while level < lookahead and left_child[node] >= 0:
            level += 1
            if owner[node] != mine:
                nodes[n_waiting], levels[n_waiting] = left_child[node] + 1, level
                n_waiting += 1
                node = left_child[node]
            else:
                if at >= end:
                    return end + _ONE
                node = left_child[node] + 1 - read_bit(data, at)
                at += _ONE
    return at


@kernel
def skip_for_others(left_child, owner, mine, node, level, lookahead, data, cursor, end):
    """Pass over what all owners but `mine` said about a subtree; returns who said too little.

    That is -1 where everybody said enough.
    """
    stack = (np.empty(lookahead + 2, np.int32), np.empty(lookahead + 2, np.int32))
    for other in range(cursor.shape[0]):
        if other == mine:
            continue
        at, last = cursor[other], end[other]
        cursor[other] = skip_subtree(
            left_child, owner, other, node, level, lookahead, data, at, last, stack
        )
        if cursor[other] > last:
            return other
    return -1


@kernel
def settle_paths(left_child, owner, nodes, lookahead, data, cursor, end, turns):
    """Follow the true path of every active row of a tree through what all owners said.

    `cursor[p]` and `end[p]` bound, in bits of `data`, what owner p said; `nodes` become the nodes
    the rows stand at afterwards, `turns` (zeroed) holds the turns taken. Returns -1, or the owner
    that said too little.
    """
    pending_node = np.empty(lookahead + 2, np.int32)
    pending_level = np.empty(lookahead + 2, np.int32)
    pending_owner = np.empty(lookahead + 2, np.int32)
    n_words = (nodes.shape[0] + 63) >> 6
    for i in range(nodes.shape[0]):
        node = nodes[i]
        level = 0
        n_pending = 0
        while level < lookahead and left_child[node] >= 0:
            mine = owner[node]
            if cursor[mine] >= end[mine]:
                return mine
            goes_left = read_bit(data, cursor[mine])
            cursor[mine] += _ONE
            turns[level * n_words + (i >> 6)] |= np.uint64(goes_left) << np.uint64(i & 63)
            level += 1
            left = left_child[node]
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
                    left_child, owner, mine, left, level, lookahead, data, cursor, end
                )
                if short >= 0:
                    return short
        nodes[i] = node
        for k in range(n_pending - 1, -1, -1):
            mine, left, level = pending_owner[k], pending_node[k], pending_level[k]
            short = skip_for_others(
                left_child, owner, mine, left, level, lookahead, data, cursor, end
            )
            if short >= 0:
                return short
    return -1


@kernel
def settle_outcomes(
    left_child, owner, standing, lookahead, said, turns, turns_start, short, first, last
):
    """`settle_paths` for trees first..last; short[tree] becomes what it returns.

    `said` is (data, cursor, end), the latter for each tree and owner.
    """
    _, place, start, count = standing
    data, cursor, end = said
    for tree in range(first, last):
        nodes = place[start[tree] : start[tree] + count[tree]]
        own_turns = turns[turns_start[tree] : turns_start[tree + 1]]
        short[tree] = settle_paths(
            left_child, owner, nodes, lookahead, data, cursor[tree], end[tree], own_turns
        )

"""The owner's answer for a row at fifteen splits, compared at once.

The splits are the slots of a small tree: slot k has the children 2k + 1 (left) and 2k + 2 (right).
A row's *lanes* are its codes side by side, a byte for each column; the last, without a column, is
zero. A *card* holds what an owner knows of a tree, in 64 bytes, which come from memory together:

    | columns 0..15 | cuts 16..31 | shifts 32..47 | free 48..62 | groups of sets 63 |

A code plus its shift, in a byte, goes left if it is at most the cut; the shift is one where missing
values, the highest code, go left. A slot is free, 255, if the owner has no say in whether it is
reached from above. At slots that are not the owner's, the last lane plus one is compared with zero:
no row goes left.

Sets of codes are short ones (see `short_sets.py`), of as many bytes as they need, in groups of 32
bytes behind a card of their own, which has for each slot the limit, the set's first byte in its
group, and the group (255: no set). Most trees have one group:

    | limits 0..15 | first bytes 16..31 | groups 32..47 | group 0: 48..79 | group 1: 80..111 | ...

Up to 32 lanes fit into two vectors, of which one instruction picks bytes, as it does of a group.
Columns of wider tables lie beside the cards, sixteen for each, and their codes are fetched one by
one.
"""

import numpy as np
from numba import config, types
from numba.extending import intrinsic

from fedforest.kernels.jit import kernel
from fedforest.kernels.prediction.short_sets import least_limit, short_bit

SLOTS = 15
PLACES = SLOTS + 1  # of a card's section; the last is spare
CARD_BYTES = 4 * PLACES
SET_CARD_BYTES = 3 * PLACES
GROUP_BYTES = 2 * PLACES
VECTOR_LANES = 32

_FREE = 255
_NO_GROUP = 255
_TILE = 256  # rows
_NO_SETS = np.full(SET_CARD_BYTES, _NO_GROUP, np.uint8)
_PARENT = [0] + [(k - 1) // 2 for k in range(1, PLACES)]
_GRANDPARENT = [_PARENT[parent] for parent in _PARENT]
_SIDE = [_FREE * (1 - k % 2) for k in range(PLACES)]  # of right children

if config.DISABLE_JIT:  # type: ignore[attr-defined] # numba adds it at run time

    def say_slots(lanes, base, cards, column, card):
        """Bit k is set where a row goes left at an own slot k that it can reach by own slots.

        Its lanes start at `base`. No slot is split by a set.
        """
        return say_slots_and_sets(lanes, base, cards, column, card, _NO_SETS, 0)

    def say_slots_and_sets(lanes, base, cards, column, card, sets, sets_at):
        """Answer where slots may be split by sets; the card's sets start at `sets_at`."""
        noted, cuts, shifts, free = cards[CARD_BYTES * int(card) :][:CARD_BYTES].reshape(4, -1)
        columns = column[PLACES * int(card) :] if len(column) else noted
        limits, first_bytes, groups = sets[int(sets_at) :][:SET_CARD_BYTES].reshape(3, -1)
        left, reached = [], [True]
        for k in range(SLOTS):
            code = (int(lanes[int(base) + int(columns[k])]) + int(shifts[k])) % 256
            goes_left = code <= cuts[k]
            if groups[k] != _NO_GROUP:
                bit = min(code, int(limits[k]))
                group = sets[int(sets_at) + SET_CARD_BYTES + GROUP_BYTES * int(groups[k]) :]
                goes_left ^= bool(int(group[int(first_bytes[k]) + bit // 8]) >> bit % 8 & 1)
            left.append(goes_left)
            if k > 0:
                parent, is_left = _PARENT[k], k % 2 == 1
                reached.append(reached[parent] and (free[k] > 0 or left[parent] == is_left))
        return np.uint64(sum(1 << k for k in range(SLOTS) if left[k] and reached[k]))

else:
    from llvmlite import ir
    from numba.core import cgutils

    from fedforest.kernels.bits.byte_lanes import bits_in_bytes, pick_bytes

    _BYTE, _WORD = ir.IntType(8), ir.IntType(64)
    _VECTOR = ir.VectorType(_BYTE, PLACES)

    def _constant(content):
        return ir.Constant(_VECTOR, content)

    def _load(builder, address, section):
        """Sixteen bytes, so many sections of sixteen behind an address."""
        vectors = builder.bitcast(address, _VECTOR.as_pointer())
        loaded = builder.load(builder.gep(vectors, [_WORD(section)]))
        loaded.align = 1
        return loaded

    def _fetch(builder, lanes, columns):
        """Return the codes of fifteen columns, one by one."""
        codes = _constant(None)
        for k in range(SLOTS):
            column = builder.zext(builder.load(builder.gep(columns, [_WORD(k)])), _WORD)
            code = builder.load(builder.gep(lanes, [column]))
            codes = builder.insert_element(codes, code, ir.IntType(32)(k))
        return codes

    def _codes(context, builder, lanes, card, column):
        """The codes of the columns on a card, or beside it, where columns have a wider type."""
        if column.type.pointee != _BYTE:
            return _fetch(builder, lanes, column)
        low, high = _load(builder, lanes, 0), _load(builder, lanes, 1)
        return pick_bytes(context, builder, [low, high], _load(builder, card, 0))

    def _ask_sets(context, builder, codes, sets, n_groups):
        """All ones where sets hold the codes; the sets of so many groups lie at an address."""
        found = cgutils.alloca_once_value(builder, _constant(None))
        with cgutils.for_range(builder, n_groups) as loop:
            limits, first_bytes = _load(builder, sets, 0), _load(builder, sets, 1)
            bits = builder.select(builder.icmp_unsigned("<", codes, limits), codes, limits)
            byte = builder.add(first_bytes, builder.lshr(bits, _constant([3] * PLACES)))
            at = builder.add(_WORD(SET_CARD_BYTES), builder.mul(loop.index, _WORD(GROUP_BYTES)))
            group = builder.gep(sets, [at])
            low, high = _load(builder, group, 0), _load(builder, group, 1)
            byte = pick_bytes(context, builder, [low, high], byte)
            is_in = builder.and_(byte, bits_in_bytes(context, builder, bits))
            is_here = builder.icmp_unsigned(
                "==", _load(builder, sets, 2), _fill(builder, builder.trunc(loop.index, _BYTE))
            )
            is_left = builder.and_(is_here, builder.icmp_unsigned("!=", is_in, _constant(None)))
            builder.store(builder.or_(builder.load(found), builder.sext(is_left, _VECTOR)), found)
        return builder.load(found)

    def _fill(builder, byte):
        """Sixteen times a byte."""
        one = builder.insert_element(_constant(ir.Undefined), byte, ir.IntType(32)(0))
        return _move(builder, one, [0] * PLACES)

    def _move(builder, vector, sources):
        """Return each byte from where its source is."""
        mask = ir.Constant(ir.VectorType(ir.IntType(32), PLACES), sources)
        return builder.shuffle_vector(vector, vector, mask)

    def _reach(builder, left, free):
        """Return all ones where a row can come to a slot, given where it goes left."""
        agrees = builder.xor(_move(builder, left, _PARENT), _constant(_SIDE))
        is_open = builder.or_(agrees, free)  # from the parent
        both = builder.and_(is_open, _move(builder, is_open, _PARENT))
        return builder.and_(both, _move(builder, both, _GRANDPARENT))

    def _say(context, builder, signature, arguments):
        """Answer for both forms of `say_slots`; the other one gets sets as well."""

        def address(number, at):
            array = context.make_array(signature.args[number])
            return builder.gep(array(context, builder, arguments[number]).data, [at])

        card_number = arguments[4]
        card = address(2, builder.mul(card_number, _WORD(CARD_BYTES)))
        beside = address(3, builder.mul(card_number, _WORD(PLACES)))
        codes = _codes(context, builder, address(0, arguments[1]), card, beside)
        shifted = builder.add(codes, _load(builder, card, 2))
        at_most = builder.icmp_unsigned("<=", shifted, _load(builder, card, 1))
        left = builder.sext(at_most, _VECTOR)
        if len(arguments) > 5:
            n_groups = builder.zext(builder.load(builder.gep(card, [_WORD(CARD_BYTES - 1)])), _WORD)
            sets = address(5, arguments[6])
            left = builder.xor(left, _ask_sets(context, builder, shifted, sets, n_groups))
        said = builder.and_(left, _reach(builder, left, _load(builder, card, 3)))
        flags = builder.icmp_signed("<", said, _constant(None))
        return builder.zext(builder.bitcast(flags, ir.IntType(PLACES)), _WORD)

    @intrinsic
    def say_slots(_typing_context, lanes, _base, cards, column, _card):
        """Bit k is set where a row goes left at an own slot k that it can reach by own slots.

        Its lanes start at `base`. No slot is split by a set.
        """
        return types.uint64(lanes, types.uint64, cards, column, types.uint64), _say

    @intrinsic
    def say_slots_and_sets(_typing_context, lanes, _base, cards, column, _card, sets, _sets_at):
        """Answer where slots may be split by sets; the card's sets start at `sets_at`."""
        kinds = (lanes, types.uint64, cards, column, types.uint64, sets, types.uint64)
        return types.uint64(*kinds), _say


@kernel
def write_card(splits, node, last_lane, card, column):
    """Note an owner's splits at the nodes of fifteen slots (-1: none) on a card.

    `column`, if not empty, is where columns lie beside the card.
    """
    _, feature, cut, missing_left, set_index, _ = splits
    card[:PLACES], column[:] = last_lane & 255, last_lane
    card[PLACES : 2 * PLACES], card[2 * PLACES : 3 * PLACES] = 0, 1
    card[CARD_BYTES - 1] = 0
    for slot in range(SLOTS):
        here, above = node[slot], node[(slot - 1) // 2] if slot > 0 else -1
        card[3 * PLACES + slot] = 0 if above >= 0 and feature[above] >= 0 else _FREE
        if here < 0 or feature[here] < 0:
            continue
        if column.shape[0] > 0:
            column[slot] = feature[here]
        else:
            card[slot] = feature[here]
        if set_index[here] < 0:
            card[PLACES + slot] = np.uint8(cut[here] + (missing_left[here] & 1))
            card[2 * PLACES + slot] = missing_left[here] & 1


@kernel
def has_set(splits, node):
    """Return whether any of the owner's slots is split by a set."""
    found = False
    for slot in range(SLOTS):
        here = node[slot]
        found |= here >= 0 and splits.feature[here] >= 0 and splits.set_index[here] >= 0
    return found


@kernel
def write_sets(splits, node, sets, card):
    """Note the sets of an owner's slots, and on the card how many groups they take, one at least.

    Returns how many bytes they take. Rows that always ask a group cost less than rows of which
    some do, because the processor guesses wrong which.
    """
    _, feature, _, _, set_index, left_set = splits
    sets[: 2 * PLACES], sets[2 * PLACES : SET_CARD_BYTES] = 0, _NO_GROUP
    sets[SET_CARD_BYTES : SET_CARD_BYTES + GROUP_BYTES] = 0
    group, filled = 0, 0
    for slot in range(SLOTS):
        here = node[slot]
        if here < 0 or feature[here] < 0 or set_index[here] < 0:
            continue
        n_bytes = (least_limit(left_set, set_index[here]) >> 3) + 1
        if filled + n_bytes > GROUP_BYTES:
            group, filled = group + 1, 0
        at = SET_CARD_BYTES + GROUP_BYTES * group
        if filled == 0:
            sets[at : at + GROUP_BYTES] = 0
        sets[slot], sets[PLACES + slot] = 8 * n_bytes - 1, filled
        sets[2 * PLACES + slot] = group
        for bit in range(8 * n_bytes):
            noted = short_bit(left_set, set_index[here], bit)
            sets[at + filled + (bit >> 3)] |= np.uint8(noted << np.uint64(bit & 7))
        filled += n_bytes
    card[CARD_BYTES - 1] = group + 1
    return SET_CARD_BYTES + GROUP_BYTES * (group + 1)


@kernel
def lay_side_by_side(bins, n_rows, rows, lanes, first, last):
    """lanes[i] = codes of row rows[0] + i, for rows first..last; lanes without a column stay."""
    n_columns, width = min(bins.shape[0] // n_rows, lanes.shape[1] - 1), np.uint64(lanes.shape[1])
    flat = lanes.reshape(-1)
    for begin in range(first, last, _TILE):  # whose lanes stay in cache
        end = np.uint64(min(begin + _TILE, last))
        for column in range(n_columns):
            base, to = np.uint64(column * n_rows + rows[0]), np.uint64(column)
            for row in range(np.uint64(begin), end):
                flat[row * width + to] = bins[base + row]

"""What an owner says about a row at fifteen splits, compared at once.

The splits are the slots of a small tree: slot k has the children 2k + 1 (left) and 2k + 2 (right).
A row's *lanes* are its codes side by side, a byte for each column; the last, without a column, is
zero. A *card* holds what an owner knows of a tree, in 64 bytes, which come from memory together:

    | columns 0..15 | cuts 16..31 | shifts 32..47 | free 48..62 | whether any is split by a set 63 |

A code plus its shift, in a byte, goes left if it is at most the cut; the shift is one where missing
values, the highest code, go left. A slot is free, 255, if the owner has no say in whether it is
reached from above. At slots that are not the owner's, the last lane plus one is compared with zero:
nobody goes left.

Up to 32 lanes fit into two vectors, of which one instruction picks bytes. Columns of wider tables
lie beside the cards, sixteen for each, and their codes are fetched one by one.
"""

import numpy as np
from numba import config, types
from numba.extending import intrinsic

from fedforest.kernels.jit import kernel

SLOTS = 15
PLACES = SLOTS + 1  # of a card's section; the last is spare
CARD_BYTES = 4 * PLACES
VECTOR_LANES = 32

_FREE = 255
_TILE = 256  # rows
_PARENT = [0] + [(k - 1) // 2 for k in range(1, PLACES)]
_GRANDPARENT = [_PARENT[parent] for parent in _PARENT]
_SIDE = [_FREE * (1 - k % 2) for k in range(PLACES)]  # of right children

if config.DISABLE_JIT:  # type: ignore[attr-defined] # numba adds it at run time

    def say_slots(lanes, base, cards, column, card, left_by_sets):
        """Bit k is set where a row goes left at an own slot k that it can reach by own slots.

        Its lanes start at `base`; `left_by_sets` are bits where sets say left.
        """
        noted, cuts, shifts, free = cards[CARD_BYTES * int(card) :][:CARD_BYTES].reshape(4, -1)
        columns = column[PLACES * int(card) :] if len(column) else noted
        left, reached = [], [True]
        for k in range(SLOTS):
            code = int(lanes[int(base) + int(columns[k])])
            left.append(
                (code + int(shifts[k])) % 256 <= cuts[k] or bool(int(left_by_sets) >> k & 1)
            )
            if k > 0:
                parent, is_left = _PARENT[k], k % 2 == 1
                reached.append(reached[parent] and (free[k] > 0 or left[parent] == is_left))
        return np.uint64(sum(1 << k for k in range(SLOTS) if left[k] and reached[k]))

else:
    from llvmlite import ir
    from numba.core import cgutils

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

    def _pick(builder, lanes, columns):
        """The codes of sixteen columns out of 32 lanes.

        The instruction picks byte `number & 15` if the number is below 128, else it gives zero.
        """
        kind = ir.FunctionType(_VECTOR, [_VECTOR, _VECTOR])
        name = "llvm.x86.ssse3.pshuf.b.128"
        shuffle = cgutils.get_or_insert_function(builder.module, kind, name)
        of_first = builder.add(columns, _constant([112] * PLACES))
        of_second = builder.sub(columns, _constant([16] * PLACES))
        first = builder.call(shuffle, [_load(builder, lanes, 0), of_first])
        return builder.or_(first, builder.call(shuffle, [_load(builder, lanes, 1), of_second]))

    def _fetch(builder, lanes, columns):
        """The codes of fifteen columns, one by one."""
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
        if "+ssse3" in context.codegen().magic_tuple()[2]:  # the processor's features
            return _pick(builder, lanes, _load(builder, card, 0))
        return _fetch(builder, lanes, card)

    def _spread(builder, bits):
        """Bits as bytes, all ones or zero."""
        few = builder.trunc(bits, ir.IntType(PLACES))
        flags = builder.bitcast(few, ir.VectorType(ir.IntType(1), PLACES))
        return builder.sext(flags, _VECTOR)

    def _move(builder, vector, sources):
        """Each byte from where its source is."""
        mask = ir.Constant(ir.VectorType(ir.IntType(32), PLACES), sources)
        return builder.shuffle_vector(vector, vector, mask)

    def _reach(builder, left, free):
        """All ones where a row can come to a slot, given where it goes left."""
        agrees = builder.xor(_move(builder, left, _PARENT), _constant(_SIDE))
        is_open = builder.or_(agrees, free)  # from the parent
        both = builder.and_(is_open, _move(builder, is_open, _PARENT))
        return builder.and_(both, _move(builder, both, _GRANDPARENT))

    @intrinsic
    def say_slots(_typing_context, lanes, _base, cards, column, _card, _left_by_sets):
        """Bit k is set where a row goes left at an own slot k that it can reach by own slots.

        Its lanes start at `base`; `left_by_sets` are bits where sets say left.
        """

        def generate(context, builder, signature, arguments):
            kinds, (lanes_, base, cards_, column_, number, by_sets) = signature.args, arguments

            def address(kind, array, at):
                return builder.gep(context.make_array(kind)(context, builder, array).data, [at])

            row = address(kinds[0], lanes_, base)
            card = address(kinds[2], cards_, builder.mul(number, _WORD(CARD_BYTES)))
            beside = address(kinds[3], column_, builder.mul(number, _WORD(PLACES)))
            codes = _codes(context, builder, row, card, beside)
            shifted = builder.add(codes, _load(builder, card, 2))
            at_most = builder.icmp_unsigned("<=", shifted, _load(builder, card, 1))
            left = builder.or_(builder.sext(at_most, _VECTOR), _spread(builder, by_sets))
            said = builder.and_(left, _reach(builder, left, _load(builder, card, 3)))
            flags = builder.icmp_signed("<", said, _constant(None))
            return builder.zext(builder.bitcast(flags, ir.IntType(PLACES)), _WORD)

        kinds = (lanes, types.uint64, cards, column, types.uint64, types.uint64)
        return types.uint64(*kinds), generate


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
        if set_index[here] >= 0:
            card[CARD_BYTES - 1] = 1
            continue
        if column.shape[0] > 0:
            column[slot] = feature[here]
        else:
            card[slot] = feature[here]
        card[PLACES + slot] = np.uint8(cut[here] + (missing_left[here] & 1))
        card[2 * PLACES + slot] = missing_left[here] & 1


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

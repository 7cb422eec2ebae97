"""Eight pairs of a node at once: their values side by side, compared and added up as vectors.

A *tile* is what a node's rows have in up to eight candidate columns, row after row:

    row 0: | pair 0 | pair 1 | ... |   row 1: | pair 0 | ...

so one vector of eight numbers has a row's values, and lowest, highest and sums of all pairs grow in
registers, without adding up across a vector at the end of every pair. A tile of fewer pairs has
shorter rows; a vector then reaches into the next row, which is written later, and behind the last
one room is left. No loop makes the compiler do this; hence intrinsics, each beside the plain
expression it stands for. They are the same on every processor, which is told what to do, not how.
"""

import numpy as np
from numba import config, types
from numba.extending import intrinsic

LANES = 8

if config.DISABLE_JIT:  # type: ignore[attr-defined] # numba adds it at run time

    def fetch_early(values, at):
        """Ask for values[at], which is needed soon, without waiting for it."""

    def gather_tile(cells, offsets, entries, start, n, row_mask, kept, at, width, ranges):
        """Copy what n entries from `start` on have at `offsets`; their ranges to ranges[0:2]."""
        values, _, per_row = cells
        ranges[0], ranges[1] = np.inf, -np.inf
        for i in range(int(n)):
            row = (int(entries[int(start) + i]) & int(row_mask)) * int(per_row)
            seen = values[offsets.astype(np.int64) + row]
            to = int(at) + i * int(width)
            kept[to : to + LANES] = seen
            ranges[0] = np.where(seen < ranges[0], seen, ranges[0])
            ranges[1] = np.where(seen > ranges[1], seen, ranges[1])

    def add_tile(values, at, width, n, cuts, words, word, sums, marks, mark):
        """sums[p] becomes the sum of words of the rows not above cuts[p]; which ones, in marks.

        Bit p of marks[mark + i] is set if row i is not above cuts[p].
        """
        sums[:] = 0
        flat = words.reshape(-1)
        for i in range(int(n)):
            place = int(at) + i * int(width)
            is_left = values[place : place + LANES] <= cuts
            sums += flat[int(word) + i] * is_left.astype(np.uint64)
            marks[int(mark) + i] = np.packbits(is_left, bitorder="little")[0]

    def read_marks(marks, at):
        """marks[at : at + 8] as one word, the first lowest."""
        return marks[int(at) : int(at) + LANES].view(np.uint64)[0]

else:
    from llvmlite import ir
    from numba.core import cgutils

    from fedforest.kernels.bits.entry_lanes import address_of

    _BYTE, _INT, _WORD = ir.IntType(8), ir.IntType(32), ir.IntType(64)
    _FLOATS = ir.VectorType(ir.FloatType(), LANES)
    _WORDS = ir.VectorType(_WORD, LANES)
    _FLOAT_ALIGN, _WORD_ALIGN = 4, 8

    def _as_vector(builder, address, kind):
        return builder.bitcast(address, kind.as_pointer())

    def _filled(builder, kind, number):
        return cgutils.alloca_once_value(builder, ir.Constant(kind, [number] * LANES))

    def _spread(builder, number, kind):
        one = builder.insert_element(ir.Constant(kind, ir.Undefined), number, _INT(0))
        lanes = ir.Constant(ir.VectorType(_INT, LANES), [0] * LANES)
        return builder.shuffle_vector(one, one, lanes)

    def _keep_better(builder, place, seen, order):
        best = builder.load(place)
        is_better = builder.fcmp_ordered(order, seen, best)
        builder.store(builder.select(is_better, seen, best), place)

    @intrinsic
    def fetch_early(_typing_context, values, _at):
        """Ask for values[at], which is needed soon, without waiting for it."""

        def generate(context, builder, signature, arguments):
            kind = ir.FunctionType(ir.VoidType(), [_BYTE.as_pointer(), _INT, _INT, _INT])
            fetch = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0i8")
            address = address_of(context, builder, signature.args[0], *arguments)
            address = builder.bitcast(address, _BYTE.as_pointer())
            builder.call(fetch, [address, _INT(0), _INT(3), _INT(1)])  # to read, to stay, data
            return context.get_dummy_value()

        return types.void(values, types.uint64), generate

    @intrinsic
    def gather_tile(
        _typing_context, cells, offsets, entries, _start, _n, _row_mask, kept, _at, _width, ranges
    ):
        """Copy what n entries from `start` on have at `offsets`; their ranges to ranges[0:2]."""

        def generate(context, builder, signature, arguments):
            table, offset, order, start, n, row_mask, copies, at, width, found = arguments
            kinds = signature.args
            values, per_row = (builder.extract_value(table, i) for i in (0, 2))
            first = address_of(context, builder, kinds[0][0], values, _WORD(0))
            where = address_of(context, builder, kinds[1], offset, _WORD(0))
            numbers = [builder.load(builder.gep(where, [_WORD(p)])) for p in range(LANES)]
            columns = [builder.gep(first, [number]) for number in numbers]
            entry = address_of(context, builder, kinds[2], order, start)
            target = address_of(context, builder, kinds[6], copies, at)
            low = _filled(builder, _FLOATS, float("inf"))
            high = _filled(builder, _FLOATS, float("-inf"))
            with cgutils.for_range(builder, n, intp=_WORD) as loop:
                row = builder.load(builder.gep(entry, [loop.index]))
                row = row if row.type == _WORD else builder.zext(row, _WORD)
                row = builder.mul(builder.and_(row, row_mask), per_row)
                seen = ir.Constant(_FLOATS, ir.Undefined)
                for p, column in enumerate(columns):
                    value = builder.load(builder.gep(column, [row]))
                    seen = builder.insert_element(seen, value, _INT(p))
                to = builder.gep(target, [builder.mul(loop.index, width)])
                builder.store(seen, _as_vector(builder, to, _FLOATS), align=_FLOAT_ALIGN)
                _keep_better(builder, low, seen, "<")
                _keep_better(builder, high, seen, ">")
            for side, best in enumerate((low, high)):
                to = address_of(context, builder, kinds[9], found, _WORD(LANES * side))
                to = _as_vector(builder, to, _FLOATS)
                builder.store(builder.load(best), to, align=_FLOAT_ALIGN)
            return context.get_dummy_value()

        word = types.uint64
        given = (cells, offsets, entries, word, word, word, kept, word, word, ranges)
        return types.void(*given), generate

    @intrinsic
    def add_tile(_typing_context, values, _at, _width, _n, cuts, words, _word, sums, marks, _mark):
        """sums[p] becomes the sum of words of the rows not above cuts[p]; which ones, in marks.

        Bit p of marks[mark + i] is set if row i is not above cuts[p].
        """

        def generate(context, builder, signature, arguments):
            seen, at, width, n, cut, added, word, total, marked, mark = arguments
            kinds = signature.args
            value = address_of(context, builder, kinds[0], seen, at)
            limit = address_of(context, builder, kinds[4], cut, _WORD(0))
            limit = builder.load(_as_vector(builder, limit, _FLOATS), align=_FLOAT_ALIGN)
            first_word = address_of(context, builder, kinds[5], added, word)
            first_mark = address_of(context, builder, kinds[8], marked, mark)
            sum_now = _filled(builder, _WORDS, 0)
            nothing = ir.Constant(_WORDS, [0] * LANES)
            with cgutils.for_range(builder, n, intp=_WORD) as loop:
                row = builder.gep(value, [builder.mul(loop.index, width)])
                row = builder.load(_as_vector(builder, row, _FLOATS), align=_FLOAT_ALIGN)
                is_left = builder.fcmp_ordered("<=", row, limit)
                own = builder.load(builder.gep(first_word, [loop.index]))
                own = builder.select(is_left, _spread(builder, own, _WORDS), nothing)
                builder.store(builder.add(builder.load(sum_now), own), sum_now)
                to = builder.gep(first_mark, [loop.index])
                builder.store(builder.bitcast(is_left, _BYTE), to)
            to = _as_vector(
                builder, address_of(context, builder, kinds[7], total, _WORD(0)), _WORDS
            )
            builder.store(builder.load(sum_now), to, align=_WORD_ALIGN)
            return context.get_dummy_value()

        word = types.uint64
        given = (values, word, word, word, cuts, words, word, sums, marks, word)
        return types.void(*given), generate

    @intrinsic
    def read_marks(_typing_context, marks, _at):
        """marks[at : at + 8] as one word, the first lowest."""

        def generate(context, builder, signature, arguments):
            address = address_of(context, builder, signature.args[0], *arguments)
            return builder.load(builder.bitcast(address, _WORD.as_pointer()), align=1)

        return types.uint64(marks, types.uint64), generate

"""Nanoseconds per (node, column) and per (row, column) of a party's work per level, by node size.

Values are gathered, rows counted on the left of a random cut, and bits written for one chosen cut
per node. Counts are timed both ways: rows turned into words, and added class by class. Last comes
what the coordinator does with the counts. Run it with a number of classes; 0 is regression.
"""

import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedforest.kernels.criteria.gini import Gini
from fedforest.kernels.criteria.squared_error import SquaredError
from fedforest.kernels.cuts.class_sums import add_weights
from fedforest.kernels.cuts.kept_values import (
    Kept,
    TableCells,
    gather_values,
    place_values,
    turn_values,
)
from fedforest.kernels.cuts.moves import Chosen, Marked, move_by_cuts
from fedforest.kernels.cuts.pairs import Pairs
from fedforest.kernels.cuts.scores import Choice, Sides, choose_by_classes
from fedforest.kernels.cuts.sides import Asked
from fedforest.kernels.cuts.sums import PADDING, add_moments, count_classes, count_responses
from fedforest.kernels.cuts.tiles import gather_tiles, place_tiles
from fedforest.kernels.cuts.whole_nodes import weigh_classes, weigh_targets
from fedforest.kernels.growth.partition import OPEN_LEFT, OPEN_RIGHT
from fedforest.kernels.layout import RowOrder, Rules, Targets
from fedforest.kernels.splits.random import Values
from fedforest.tree.growth.cut_choice import SideLayout, choose_cuts

N_TABLE_ROWS, N_COLUMNS, N_CANDIDATES = 40_000, 40, 6
NODE_SIZES = (2, 4, 8, 16, 32, 64, 128, 512, 2_000, 20_000)
ROWS_PER_SIZE = 200_000
REPEATS = 9
ROW_BITS = np.uint64(16)
RESPONSE_BITS = 16
NOTHING = np.zeros(0, np.int64)


class Case(NamedTuple):
    """Nodes of one size with their candidates, cuts and room for the results."""

    columns: Values
    order: RowOrder
    targets: Targets
    pairs: Pairs
    kept: Kept
    tiled: Kept
    asked: Asked
    chosen: Chosen

    @property
    def n_nodes(self) -> int:
        return len(self.order.start)


def make_case(rng: np.random.Generator, size: int, n_classes: int) -> Case:
    """Rows and columns at random; every cut is at the middle of the values."""
    values = rng.random(N_TABLE_ROWS * N_COLUMNS).astype(np.float32)
    columns = Values(values, np.uint64(N_TABLE_ROWS), np.zeros(N_COLUMNS, np.bool_))
    n_nodes = max(1, ROWS_PER_SIZE // size)
    order = make_nodes(rng, size, n_nodes, n_classes)
    pairs = Pairs(np.arange(n_nodes + 1) * N_CANDIDATES, choose_columns(rng, n_nodes))
    first = place_values(order.start, order.stop, pairs.node_start)
    kept = lay_out(first, 0)
    in_tiles = place_tiles(order.start, order.stop, pairs.node_start)
    tiled = lay_out(in_tiles, len(order.entries))
    threshold = np.full(len(pairs.feature), 0.5, np.float32)
    no_sets, right = np.zeros((0, 4), np.uint64), np.zeros(len(threshold), np.uint8)
    numeric = np.full(len(threshold), -1, np.int32)
    asked = Asked(*pairs, threshold, right, numeric, no_sets, pairs.node_start)
    one_each = pairs.node_start[:-1] + rng.integers(0, N_CANDIDATES, n_nodes)
    feature = pairs.feature[one_each]
    chosen = Chosen(np.arange(n_nodes), feature, threshold[one_each], right[one_each], no_sets)
    levels = rng.integers(-(2**39), 2**39, N_TABLE_ROWS)
    targets = Targets(n_classes, NOTHING, NOTHING if n_classes else levels, NOTHING)
    return Case(columns, order, targets, pairs, kept, tiled, asked, chosen)


def lay_out(first: NDArray[np.uint64], per_tile: int) -> Kept:
    """Room for values, in tiles if there are marks for them."""
    values, no_gaps = np.zeros(int(first[-1]) + int(PADDING), np.float32), np.zeros(N_COLUMNS, bool)
    return Kept(
        first, values, no_gaps, per_tile > 0, np.zeros(per_tile, np.uint8), np.uint64(per_tile)
    )


def make_nodes(rng: np.random.Generator, size: int, n_nodes: int, n_classes: int) -> RowOrder:
    """Nodes of one size, of rows drawn at random."""
    rows = [np.sort(rng.choice(N_TABLE_ROWS, size, replace=False)) for _ in range(n_nodes)]
    drawn = np.concatenate(rows)
    classes = rng.integers(0, max(1, n_classes), len(drawn))
    entries = drawn | (1 << int(ROW_BITS)) | (classes << (int(ROW_BITS) + 4))
    start = np.arange(n_nodes) * size
    return RowOrder(entries.astype(np.uint32), ROW_BITS, start, start + size)


def choose_columns(rng: np.random.Generator, n_nodes: int) -> NDArray[np.int32]:
    """Some columns per node, ascending."""
    order = rng.random((n_nodes, N_COLUMNS)).argsort(axis=1)[:, :N_CANDIDATES]
    return np.sort(order, axis=1).astype(np.int32).reshape(-1)


def parts(case: Case) -> Iterator[tuple[str, Callable[[], object]]]:
    """The parts of a level, each to be run on all nodes."""
    columns, order, targets, pairs, kept, tiled, asked, chosen = case
    n_nodes, n_classes, n_pairs = case.n_nodes, targets.n_classes, len(pairs.feature)
    low, high = np.empty(n_pairs, np.float32), np.empty(n_pairs, np.float32)
    values, n_rows, is_categorical = columns
    n_columns, one = np.uint64(len(is_categorical)), np.uint64(1)
    by_column = TableCells(values, n_rows, one)
    by_row = TableCells(np.empty_like(values), one, n_columns)
    turn_values(values, n_rows, n_columns, by_row.values)
    yield "gather", lambda: gather_values(by_column, order, pairs, 2, kept, low, high, 0, n_nodes)
    yield "by row", lambda: gather_values(by_row, order, pairs, 2, kept, low, high, 0, n_nodes)
    yield "in tiles", lambda: gather_tiles(by_row, order, pairs, 2, tiled, low, high, 0, n_nodes)
    width = n_classes or 2
    sums = np.zeros((n_pairs, width), np.int64)
    if n_classes:
        args = (kept, asked, width, sums, 0, n_nodes)
        yield "words", lambda: count_classes(order, n_classes, *args)
        tile_args = (tiled, asked, width, sums, 0, n_nodes)
        yield "words in tiles", lambda: count_classes(order, n_classes, *tile_args)
        yield "classes", lambda: add_weights(order, NOTHING, n_classes, *args)
    else:
        yield "moments", lambda: add_moments(order, targets, kept, asked, width, sums, 0, n_nodes)
    responses = np.arange(N_TABLE_ROWS, dtype=np.uint64)
    bit_sums = np.zeros((n_pairs, 2 * (RESPONSE_BITS + 1)), np.int64)
    yield (
        "responses",
        lambda: count_responses(order, responses, RESPONSE_BITS, kept, asked, bit_sums, 0, n_nodes),
    )
    fate = np.full(n_nodes, OPEN_LEFT | OPEN_RIGHT, np.uint8)
    target, left_rows = np.empty_like(order.entries), np.zeros(n_nodes, np.int64)
    unmarked = Marked(np.zeros(0, np.float32), np.zeros(0, np.uint8))
    marked = Marked(asked.threshold, asked.missing_left)
    for name, values_of, marks_of in (("move", kept, unmarked), ("move by marks", tiled, marked)):
        move_args = (values_of, marks_of, chosen, fate, target, left_rows, 0, n_nodes)
        yield name, partial(move_by_cuts, columns, order, pairs, *move_args)
    layout = SideLayout(n_classes, rows_apart=False)
    totals = np.repeat(order.stop - order.start, width).reshape(-1, width)
    sides = Sides(asked.asked_start, sums, totals, width)
    rules = Rules(Gini() if n_classes else SquaredError(), 1)
    yield "choose", lambda: choose_cuts(layout, sides, rules)
    if n_classes == 2:  # which have a kernel of their own
        flags, best = np.empty((2, n_nodes), np.bool_), np.empty(n_nodes, np.int64)
        choice = Choice(np.empty(n_nodes), best, *flags)
        yield "in a loop", lambda: choose_by_classes(sides, 2, rules, choice, 0, n_nodes)


def weighing(case: Case) -> Callable[[], object]:
    """What adds up all nodes whole."""
    order, targets, n_nodes = case.order, case.targets, case.n_nodes
    n_classes = targets.n_classes
    every_node, sums = np.arange(n_nodes), np.zeros((n_nodes, n_classes or 2), np.int64)
    if n_classes:
        return partial(weigh_classes, order, NOTHING, every_node, n_classes, sums, 0, n_nodes)
    return partial(weigh_targets, order, targets, every_node, sums, 0, n_nodes)


def time_part(run: Callable[[], object]) -> float:
    """Least processor nanoseconds of some repeats, after one that may compile."""
    run()
    nanoseconds = []
    for _ in range(REPEATS):
        begin = time.thread_time_ns()
        run()
        nanoseconds.append(time.thread_time_ns() - begin)
    return float(min(nanoseconds))


def main(n_classes: int) -> None:
    """Print one line per node size."""
    rng = np.random.default_rng(0)
    print(f"{n_classes} classes" if n_classes else "regression")
    for size in NODE_SIZES:
        case = make_case(rng, size, n_classes)
        cells = []
        for name, run in (*parts(case), ("nodes", weighing(case))):
            per_pair = time_part(run) / case.n_nodes / N_CANDIDATES
            cells.append(f"{name} {per_pair:8.1f} {per_pair / size:5.2f}")
        print(f"{size:6d} rows  ns per (node, column), (row, column):  " + "   ".join(cells))


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 2)

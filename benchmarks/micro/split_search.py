"""Nanoseconds per (node, column) and per (row, column) of the search for splits, by node size.

Every way to search a node is timed on the same nodes: the general one through wide integers, and
the faster ones where they apply. What `find_by_classes` and `find_by_moments` choose stands beside
them. Run it with a number of classes; 0 is regression.
"""

import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from fedforest.kernels.bits.bitsets import list_candidates
from fedforest.kernels.criteria.gini import Gini
from fedforest.kernels.jit import kernel
from fedforest.kernels.layout import Columns, Found, RowOrder, Rules, Targets
from fedforest.kernels.splits import classes as class_split
from fedforest.kernels.splits import moments as moment_split
from fedforest.kernels.splits.ranking import SORTED_NODE
from fedforest.kernels.splits.sorted_columns import LARGEST_SORTED
from fedforest.kernels.sums.packed_moments import rows_shift

N_TABLE_ROWS, N_COLUMNS, N_CANDIDATES = 80_000, 40, 6
NODE_SIZES = (2, 4, 6, 12, 24, 48, 96, 192, 384, 1_000, 10_000)
ROWS_PER_SIZE = 40_000
REPEATS = 15
ROW_BITS = np.uint64(17)


@kernel
def search_classes(case, way):  # type: ignore[no-untyped-def]
    """Search all nodes one way: 0 wide, 1 packed, 2 ordered."""
    columns, order, targets, candidates, rules, found = case
    scratch = class_split.make_class_scratch(
        candidates.shape[1] * 8, targets.n_classes, rules.formula
    )
    entries, row_bits, starts, stops = order
    for k in range(len(starts)):
        span = (starts[k], stops[k])
        n = list_candidates(candidates, k, scratch.features)
        weights, tally = targets.weights, scratch.tally
        weight = class_split.weigh_classes(entries, span, row_bits, weights, tally)
        rows = span[1] - span[0]
        node = class_split.describe_node(tally, weight, rows, rules, k, scratch.table)
        if way == 0:
            class_split.search_wide(columns, order, targets, n, node, scratch, found, k)
        elif way == 1:
            class_split.search_packed(columns, order, targets, n, node, scratch, found, k)
        else:
            class_split.read_labels(
                entries, span, row_bits, weights, scratch.rows, scratch.labels, scratch.weights
            )
            class_split.search_ordered(columns, order, targets, n, node, scratch, found, k)


@kernel
def search_moments(case, way):  # type: ignore[no-untyped-def]
    """Search all nodes one way: 0 wide, 1 packed, 2 sorted."""
    columns, order, targets, candidates, rules, found = case
    scratch = moment_split.make_moment_scratch(candidates.shape[1] * 8)
    leaf = rules.min_rows_leaf
    for k in range(len(order.start)):
        span = (order.start[k], order.stop[k])
        shift = rows_shift(span[1] - span[0], targets.weights)
        n = list_candidates(candidates, k, scratch.features)
        if way == 0:
            least = (leaf, 0)
            moment_split.search_wide(columns, order, targets, n, span, least, scratch, found, k)
        elif way == 1:
            moment_split.search_packed(
                columns, order, targets, n, span, leaf, shift, scratch, found, k
            )
        else:
            moment_split.search_small(
                columns, order, targets, n, span, leaf, shift, scratch, found, k
            )


def make_columns(rng: np.random.Generator) -> Columns:
    """A table of evenly filled bins."""
    bins = rng.integers(0, 255, (N_COLUMNS, N_TABLE_ROWS)).astype(np.uint8)
    n_bins = np.full(N_COLUMNS, 255, np.int16)
    is_categorical = np.zeros(N_COLUMNS, np.bool_)
    flat, by_row = bins.reshape(-1), bins.T.reshape(-1)
    return Columns(flat, np.uint64(N_TABLE_ROWS), n_bins, is_categorical, by_row)


def make_nodes(rng: np.random.Generator, size: int, n_classes: int) -> RowOrder:
    """Nodes of one size, of rows drawn at random."""
    n_nodes = max(1, ROWS_PER_SIZE // size)
    rows = [np.sort(rng.choice(N_TABLE_ROWS, size, replace=False)) for _ in range(n_nodes)]
    drawn = np.concatenate(rows)
    multiplicities = 1 + rng.poisson(0.6, len(drawn)).clip(0, 14)
    classes = rng.integers(0, max(1, n_classes), len(drawn))
    entries = drawn | (multiplicities << int(ROW_BITS)) | (classes << (int(ROW_BITS) + 4))
    start = np.arange(n_nodes) * size
    return RowOrder(entries.astype(np.uint32), ROW_BITS, start, start + size)


def choose_candidates(rng: np.random.Generator, n_nodes: int) -> np.ndarray[Any, Any]:
    """A bitmap of candidate columns per node."""
    bits = np.zeros((n_nodes, N_COLUMNS), np.uint8)
    for node in range(n_nodes):
        bits[node, rng.choice(N_COLUMNS, N_CANDIDATES, replace=False)] = 1
    return np.packbits(bits, axis=1, bitorder="little")


def time_search(search: Callable[[], None]) -> float:
    """Least processor nanoseconds of some repeats, after one that may compile."""
    search()
    nanoseconds = []
    for _ in range(REPEATS):
        begin = time.thread_time_ns()
        search()
        nanoseconds.append(time.thread_time_ns() - begin)
    return float(min(nanoseconds))


def ways_to_search(n_classes: int, size: int, case: tuple[Any, ...]) -> dict[str, float]:
    """Nanoseconds of every way that a node of this size can be searched."""
    module: Any = class_split if n_classes else moment_split
    one_way: Any = search_classes if n_classes else search_moments
    find = module.find_by_classes if n_classes else module.find_by_moments
    largest_ordered = SORTED_NODE if n_classes else LARGEST_SORTED
    n_nodes = len(case[1].start)
    times = {
        "wide": time_search(lambda: one_way(case, 0)),
        "packed": time_search(lambda: one_way(case, 1)),
    }
    if size <= largest_ordered:
        times["ordered"] = time_search(lambda: one_way(case, 2))
    times["chosen"] = time_search(lambda: find(*case, 0, n_nodes))
    return times


def main(n_classes: int) -> None:
    """Print one line per node size."""
    rng = np.random.default_rng(0)
    columns = make_columns(rng)
    values = rng.integers(-(2**39), 2**39, N_TABLE_ROWS)
    nothing = np.zeros(0, np.int64)
    values = nothing if n_classes else values
    targets = Targets(n_classes, nothing, values, values)
    print(f"{n_classes} classes" if n_classes else "regression")
    for size in NODE_SIZES:
        order = make_nodes(rng, size, n_classes)
        n_nodes = len(order.start)
        found = Found(
            np.zeros(n_nodes),
            np.zeros(n_nodes, np.int32),
            np.zeros(n_nodes, np.uint8),
            np.zeros(n_nodes, np.uint8),
            np.zeros((0, 4), np.uint64),
        )
        candidates = choose_candidates(rng, n_nodes)
        case = (columns, order, targets, candidates, Rules(Gini(), 1), found)
        cells = []
        for way, nanoseconds in ways_to_search(n_classes, size, case).items():
            per_node = nanoseconds / n_nodes / N_CANDIDATES
            cells.append(f"{way} {per_node:9.0f} {per_node / size:6.1f}")
        print(f"{size:6d} rows  ns per (node, column), (row, column):  " + "   ".join(cells))


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 10)

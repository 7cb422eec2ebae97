"""Growing a forest on one table: the level loop with all roles in one process.

A federated run is this loop with messages in between: `Growth` decides at the coordinator,
`ColumnSearch` and `NodeRows` work at each party.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedforest.kernels.layout import Columns
from fedforest.kernels.prediction.walk import Leaves
from fedforest.kernels.splits.random import Values
from fedforest.tree.forest.forest import Forest, Shape
from fedforest.tree.growth.decisions import NODES_WORTH_WAKING, ColumnBits, Growth, GrowthRules
from fedforest.tree.growth.left_out_rows import LeftOutRows
from fedforest.tree.growth.random_search import RandomSearch
from fedforest.tree.growth.rows import NodeRows, Sampling, draw_rows, entry_type
from fedforest.tree.growth.seeds import derive_seeds
from fedforest.tree.growth.split_record import SplitRecord
from fedforest.tree.growth.split_search import ColumnSearch, NodeSearch
from fedforest.tree.growth.structure import GrowthStep
from fedforest.tree.table.targets import TrainingTargets
from fedforest.tree.workers import Workers

BATCH_BYTES = 2**28  # row orders of the trees that grow together, at each role that keeps them


class GrowthProgress(NamedTuple):
    """The progress of a training."""

    trees_done: int
    trees_total: int
    level: int  # the deepest of the trees under way
    open_nodes: int


@dataclass(frozen=True, slots=True)
class GrowthPlan:
    """Everything that decides which forest grows."""

    rules: GrowthRules
    sampling: Sampling
    seed: int
    with_left_out: bool = False
    batch_bytes: int = BATCH_BYTES


@dataclass(frozen=True, slots=True)
class GrownBatch:
    """Consecutive trees and, if asked for, where the rows they left out ended."""

    forest: Forest
    left_out_leaves: NDArray[np.int32] | None  # (trees, rows): leaf number, -1 where trained on


def batches(
    plan: GrowthPlan, n_rows: int, n_classes: int, first: int, last: int
) -> Iterator[range]:
    """Divide trees first..last into consecutive batches whose row orders fit the memory."""
    per_tree = max(1, tree_bytes(n_rows, n_classes, with_left_out=plan.with_left_out))
    size = max(1, plan.batch_bytes // per_tree)
    for start in range(first, last, size):
        yield range(start, min(last, start + size))


def tree_bytes(n_rows: int, n_classes: int, *, with_left_out: bool) -> int:
    """Count the bytes of the row orders of a growing tree."""
    entry_bytes = np.dtype(entry_type(n_rows, n_classes)).itemsize
    per_row = 2 * entry_bytes + (12 if with_left_out else 0)
    per_row += n_classes // 8  # open nodes carry their class weights
    return n_rows * per_row


def _report_nothing(_level: int, _open_nodes: int) -> None:
    """Ignore the progress."""


def grow_batch(  # noqa: PLR0913, PLR0917 - the sixth listens and decides nothing
    columns: Columns | Values,
    targets: TrainingTargets,
    plan: GrowthPlan,
    trees: range,
    workers: Workers,
    report: Callable[[int, int], None] = _report_nothing,
) -> GrownBatch:
    """Grow some trees level by level; `report` gets the level and the number of open nodes."""
    row_seeds = derive_seeds(plan.seed, "rows", trees.start, trees.stop)
    feature_seeds = derive_seeds(plan.seed, "features", trees.start, trees.stop)
    rows, left_out = draw_rows(
        row_seeds, targets, plan.sampling, workers, with_left_out=plan.with_left_out
    )
    search = _make_search(columns, targets, rows, plan, trees, workers)
    column_bits = ColumnBits.of([len(columns.is_categorical)])
    roots = search.root_sums()
    search.demand_weight(plan.rules.min_weight_share, roots)
    growth = Growth(plan.rules, targets.kind, column_bits, feature_seeds, roots, workers)
    splits = SplitRecord(columns.is_categorical)
    routing = LeftOutRows(left_out, len(trees), targets.n_rows, workers) if left_out else None
    _start(growth.root_step, rows, routing, workers)
    level = 0
    while growth.n_open:
        report(level, growth.n_open)
        scores = search.find(growth.draw(), growth.structure.open)
        is_split = growth.choose(scores)
        nodes = np.flatnonzero(is_split)
        bits, left = search.split(nodes)
        step = growth.advance(is_split, scores, left)
        splits.add(*growth.structure.last_split(), search.table(nodes))
        if routing:
            routing.move(step, search.route(routing.rows, nodes))
        if growth.n_open:
            rows.move(step, bits, search.left_rows(nodes, left), workers)
        level += 1
    forest = assemble(growth, splits, workers)
    return GrownBatch(forest, routing.leaf_of if routing else None)


def _make_search(  # noqa: PLR0913, PLR0917 - what either of two constructors needs
    columns: Columns | Values,
    targets: TrainingTargets,
    rows: NodeRows,
    plan: GrowthPlan,
    trees: range,
    workers: Workers,
) -> NodeSearch:
    """Make a search for best cuts of binned columns, or for random thresholds on raw values."""
    leaf = plan.rules.min_rows_leaf
    if isinstance(columns, Columns):
        return ColumnSearch(columns, targets, rows, leaf, workers)
    seeds = derive_seeds(plan.seed, "thresholds", trees.start, trees.stop)
    return RandomSearch(columns, targets, rows, leaf, seeds, workers)


def _start(step: GrowthStep, rows: NodeRows, routing: LeftOutRows | None, workers: Workers) -> None:
    """Take the rows of trees that are a single leaf out of the row orders."""
    no_bits, none_left = np.zeros(0, np.uint8), np.zeros(len(step.fate), np.int64)
    if routing:
        routing.move(step, no_bits)
    if not step.nothing_left and (step.fate == 0).any():
        rows.move(step, no_bits, none_left, workers)


def assemble(growth: Growth, record: SplitRecord, workers: Workers) -> Forest:
    """Return the grown batch, with the splits on record, as a forest."""
    offsets = growth.structure.tree_offsets()
    parts: dict[str, Any] = {}
    ways: dict[str, Callable[[], Any]] = {  # the longest first
        "leaves": lambda: Leaves(*growth.leaves.assemble(offsets)),
        "splits": lambda: record.assemble(offsets),
        "decrease": growth.flat_decrease,
        "shape": lambda: Shape(offsets, growth.structure.flat_children()),
    }
    workers = workers.if_worth(int(offsets[-1]), NODES_WORTH_WAKING)
    workers.run(lambda part: parts.update({part: ways[part]()}), ways)
    n_features = len(growth.column_bits.bit_of_column)
    return Forest(**parts, n_classes=growth.kind.n_classes, n_features=n_features)

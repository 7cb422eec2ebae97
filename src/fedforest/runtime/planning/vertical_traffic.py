"""The bytes of a vertical training, exchange by exchange (docs/explanation/protocols/vertical.md).

Not planned: nodes that try further columns because none of the first had a valid cut, early
stopping, and what encryption of labels adds.
"""

from collections.abc import Mapping

import numpy as np

from fedforest.protocol.vertical.labels import code_type
from fedforest.protocol.vertical.sums import MOST_CLASSES
from fedforest.runtime.messages.orders import TrainVertical
from fedforest.runtime.planning.tables import PlannedTables
from fedforest.runtime.planning.traffic import Traffic
from fedforest.runtime.planning.tree_sizes import TreeSizes, Vector

NUMBER = 8  # bytes of a gain, a target, a weight, a seed, an importance, a leaf's value
FATE_BITS = 3  # of an open node
START_OF_NODE = NUMBER  # in the leaves that the label party gets for out-of-bag votes
LEAF = NUMBER + 2  # value and class
CLASSES_OF_LEAF = 1.0  # counted: nearly all leaves of trees that are grown out have one
ROOT = 7  # of a tree: its sums and its numbers of rows drawn and left out
VARINT_BITS = (6, 13, 20, 27)  # numbers above need a further byte
LONG_SUM_BITS = 8.0  # of a sum of targets or weights, beside the digits of its number of rows


class LevelBytes:
    """The bytes that one level of a batch needs, before they are divided among parties."""

    def __init__(self, sizes: TreeSizes, order: TrainVertical, tables: PlannedTables) -> None:
        left_out = _left_out_share(order)
        self.open = sizes.n_open()
        self.bits = sizes.bits() + (sizes.bits(left_out) if order.with_left_out else 0.0)
        is_short = 0 < _count_classes(order, tables) <= MOST_CLASSES and not _has_weights(
            order, tables
        )
        self.sums = _sum_bytes(sizes, order, tables)
        self.beside = self.sums if is_short else np.zeros_like(self.sums)
        last = sizes.n_levels - 1
        self.told = self.bits.copy()  # to the other parties
        is_last = sizes.n_levels == order.parameters.depth_limit and not order.with_left_out
        if is_last and (is_short or self.sums[last] < self.bits[last]):
            self.told[last], self.beside[last] = 0.0, self.sums[last]


def plan_vertical(
    order: TrainVertical, tables: PlannedTables, batches: list[tuple[int, int, TreeSizes]]
) -> Traffic:
    """Plan the exchanges of a training; `batches`: how many, of how many trees, of which sizes."""
    traffic, columns = Traffic(), _columns(order, tables)
    _give_out_labels(traffic, order, tables)
    n_splits, n_all = 0.0, order.parameters.n_estimators
    for times, n_trees, sizes in batches:
        traffic.add(_grow_batch(order, tables, n_trees, sizes), times)
        n_splits += times * float(sizes.n_split().sum())
    share = _shares(columns)
    traffic.exchange(
        "WeighColumns",
        {p: NUMBER * (n_splits * share[p] + n_all) for p in columns},
        {
            p: NUMBER * columns[p] + (_vote_bytes(order, tables) if p == order.label_party else 0)
            for p in columns
        },
    )
    return traffic


def _give_out_labels(traffic: Traffic, order: TrainVertical, tables: PlannedTables) -> None:
    n_rows = tables.most_rows
    is_numeric = order.is_regression
    width = NUMBER if is_numeric else np.dtype(code_type(tables.n_classes)).itemsize
    labels = n_rows * (width + (NUMBER if _has_weights(order, tables) else 0))
    traffic.exchange("BinColumns", dict.fromkeys(order.data, 16.0), dict.fromkeys(order.data, 12.0))
    asked = {order.label_party: 2.0 * tables.n_classes}
    traffic.exchange("ShareLabels", asked, {order.label_party: labels})
    traffic.exchange("TakeLabels", dict.fromkeys(order.data, labels + 12.0))


def _grow_batch(
    order: TrainVertical, tables: PlannedTables, n_trees: int, sizes: TreeSizes
) -> Traffic:
    traffic = Traffic()
    columns = _columns(order, tables)
    share, level = _shares(columns), LevelBytes(sizes, order, tables)
    owner = order.label_party
    starting = dict.fromkeys({*columns, owner}, NUMBER * float(n_trees) + 12.0)
    n_sums = max(1, _count_classes(order, tables) - 1)
    traffic.exchange("StartTrees", starting, {owner: n_trees * (ROOT + 3.0 * (n_sums - 1))})
    moves = dict.fromkeys(columns, 0.0)
    for number, n_open in enumerate(level.open):
        traffic.exchange(
            "FindSplits",
            {p: moves[p] + n_open * _bitmap(n) for p, n in columns.items()},
            dict.fromkeys(columns, NUMBER * n_open),
        )
        said = level.told[number] + level.beside[number]
        winners = {p: share[p] for p, n in columns.items() if n}
        traffic.exchange(
            "ApplySplits",
            dict.fromkeys(winners, n_open / 8.0),
            {p: said * part for p, part in winners.items()},
        )
        fates = FATE_BITS * n_open / 8.0
        moves = {p: fates + level.told[number] * (1.0 - share[p]) for p in columns}
    finish = dict(moves)
    if order.with_left_out:
        n_leaves = float(sizes.n_split().sum()) + n_trees
        n_values = 1.0 if order.is_regression else CLASSES_OF_LEAF
        finish[owner] += n_leaves * (2 * START_OF_NODE + n_values * LEAF)
    traffic.exchange(
        "FinishTrees", finish, {owner: NUMBER * n_trees} if order.with_left_out else None
    )
    return traffic


def _columns(order: TrainVertical, tables: PlannedTables) -> dict[str, int]:
    """Return the columns of the parties that follow the trees."""
    counts = {party: tables.by_party[party].n_columns for party in order.data}
    return {
        p: n for p, n in counts.items() if n or (p == order.label_party and order.with_left_out)
    }


def _shares(columns: Mapping[str, int]) -> dict[str, float]:
    """Return the fraction of splits that each party wins: as its columns are among all."""
    total = max(1, sum(columns.values()))
    return {party: n / total for party, n in columns.items()}


def _bitmap(n_columns: int) -> float:
    return float((n_columns + 7) // 8)


def _count_classes(order: TrainVertical, tables: PlannedTables) -> int:
    return 0 if order.is_regression else tables.n_classes


def _has_weights(order: TrainVertical, tables: PlannedTables) -> bool:
    return tables.is_weighted or order.weight is not None or order.class_weight is not None


def _sum_bytes(sizes: TreeSizes, order: TrainVertical, tables: PlannedTables) -> Vector:
    """Return the bytes of the sums of left children, level by level."""
    n_classes = _count_classes(order, tables)
    if n_classes == 2 and not _has_weights(order, tables):
        per_node = 1.0 + sum(sizes.rows / 4.0 >= 1 << bits for bits in VARINT_BITS)
        return sizes.split @ per_node
    n_sums = max(1, n_classes - 1) if n_classes else 2
    extra = LONG_SUM_BITS * 4 if n_classes == 0 or _has_weights(order, tables) else 3.0
    weight = sizes.rows if n_classes == 0 else sizes.rows / max(1, n_classes)
    bits = n_sums * (np.log2(1.0 + weight) + extra)
    return sizes.split @ bits / 8.0


def _left_out_share(order: TrainVertical) -> float:
    """Return how many rows a tree leaves out for each that it draws."""
    return 0.368 / 0.632 if order.parameters.bootstrap else 0.0


def _vote_bytes(order: TrainVertical, tables: PlannedTables) -> float:
    n_rows = tables.most_rows
    outputs = 1 if order.is_regression else tables.n_classes
    return float(NUMBER * n_rows * outputs) if order.out_of_bag else 0.0

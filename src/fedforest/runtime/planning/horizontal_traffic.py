"""The bytes of a horizontal training, exchange by exchange.

The exchanges are those of docs/explanation/protocols/horizontal.md. Not planned: nodes that
try further columns, and trees begun anew after a party was lost.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from fedforest.privacy.local_dp import LocalDP
from fedforest.protocol.aggregation.options import Masked, Ring, Shamir
from fedforest.runtime.messages.orders import TrainHorizontal
from fedforest.runtime.planning.tables import PlannedTables
from fedforest.runtime.planning.traffic import Traffic
from fedforest.runtime.planning.tree_sizes import TreeSizes, Vector

POINT, THRESHOLD, WORD = 4, 4, 8
SPLIT = 9  # column, threshold, side of missing values
SPLIT_SET = 32  # the set of categories that goes left
FATE_BITS = 3  # of an open node
NAME = 4  # of a column, as numbered ones have; long names are told twice, which is little
KEY = 70  # of a party, with a nonce
SEED = 50  # sealed
AGREED = 84  # limits of the run
SEALING = 40  # bytes around content that is sealed
VARINT_BITS = (6, 13, 20, 27)  # numbers above need a further byte
TARGET_SUM = 7  # of a party that has rows there
# of a model file:
HEADER, SPLIT_OF_CLASSES, SPLIT_OF_NUMBERS = 3600, 8.5, 12.0
DECREASE = 8.0  # of a split, where it does not follow from noisy leaves
CLASS_OF_LEAF, NUMBER_OF_LEAF = 8, 12  # where the rows of a leaf do not agree
FIELD_BITS = (8, 16, 32)  # of counts that share a masked word


class PlannedLevel(NamedTuple):
    """The figures of one level of a batch."""

    n_open: float
    n_split: float
    n_pairs: float  # of nodes and candidate columns
    n_numbers: float  # of the sums that are asked for
    plain_bytes: float  # of these, where no mask hides how small they are
    largest: float  # rows of a node


def expect_participation(order: TrainHorizontal) -> float:
    """Return the fraction of parties in a sum: blocks are drawn again until one takes part."""
    n_blocks = max(1, len(order.data) // order.least)
    return order.participation / (1.0 - (1.0 - order.participation) ** n_blocks)


def plan_horizontal(
    order: TrainHorizontal, tables: PlannedTables, batches: list[tuple[int, int, TreeSizes]]
) -> Traffic:
    """Plan the exchanges of a training; `batches`: how many, of how many trees, of which sizes."""
    traffic = Traffic()
    _declare(traffic, order, tables)
    model = float(HEADER) + NAME * tables.most_columns
    for times, n_trees, sizes in batches:
        traffic.add(_grow_batch(order, tables, n_trees, sizes), times)
        model += times * _model_bytes(order, tables, sizes)
    traffic.exchange("TakeForest", dict.fromkeys(order.data, model))
    return traffic


def _model_bytes(order: TrainHorizontal, tables: PlannedTables, sizes: TreeSizes) -> float:
    n_splits = float(sizes.n_split().sum())
    noisy = n_splits * (0.0 if order.privacy is None else DECREASE)
    if order.is_regression:
        return noisy + n_splits * SPLIT_OF_NUMBERS + sizes.n_mixed * NUMBER_OF_LEAF
    return noisy + n_splits * SPLIT_OF_CLASSES + sizes.n_mixed * CLASS_OF_LEAF * tables.n_classes


def _declare(traffic: Traffic, order: TrainHorizontal, tables: PlannedTables) -> None:
    n_parties, described = len(order.data), 20.0 + (NAME + 2) * tables.most_columns
    traffic.exchange(
        "DeclareTable", dict.fromkeys(order.data, 8.0), dict.fromkeys(order.data, described)
    )
    is_protected = order.aggregation is not None
    others = 10.0 * n_parties if is_protected else 0.0
    agreed = described + AGREED + others
    traffic.exchange("AgreeOnTable", dict.fromkeys(order.data, agreed))
    if not is_protected:
        return
    traffic.exchange("Introduce", dict.fromkeys(order.data, 24.0), dict.fromkeys(order.data, KEY))
    keys, seeds = float((KEY + 10) * n_parties), float(SEED * (n_parties - 1))
    is_masked = isinstance(order.plug(), Masked)
    back = dict.fromkeys(order.data, seeds if is_masked else 0.0)
    traffic.exchange("MeetPeers", dict.fromkeys(order.data, keys), back)
    if is_masked:
        traffic.exchange("TakeSeeds", dict.fromkeys(order.data, seeds))


def _grow_batch(
    order: TrainHorizontal, tables: PlannedTables, n_trees: int, sizes: TreeSizes
) -> Traffic:
    traffic = Traffic()
    n_columns, share = tables.most_columns, expect_participation(order)
    has_sets = max(table.n_categorical for table in tables.by_party.values()) / max(1, n_columns)
    told = 2.0 * n_trees * share + 16.0  # how trees draw rows
    for level in _levels(order, tables, sizes):
        bitmap = level.n_open * ((n_columns + 7) // 8)
        traffic.exchange(
            "ProposeThresholds",
            dict.fromkeys(order.data, told + share * bitmap),
            dict.fromkeys(order.data, share * POINT * level.n_pairs),
        )
        sets = has_sets * SPLIT_SET
        question = (THRESHOLD + sets) * level.n_pairs + level.n_open / 8.0
        _SUMS[type(order.plug())](traffic, order, level, share * question)
        fates = FATE_BITS * level.n_open / 8.0
        told = share * (fates + level.n_split * (SPLIT + sets))
    return traffic


def _levels(order: TrainHorizontal, tables: PlannedTables, sizes: TreeSizes) -> list[PlannedLevel]:
    n_rows = tables.all_rows
    rules = order.parameters.growth_rules(n_rows, tables.most_columns)
    k, width = rules.features_per_node, _width(order, tables)
    noise = order.noise()
    n_sides = 1 if noise is None else 2
    counts = sizes.rows / (2.0 * tables.n_classes * len(order.data))
    per_number = _varint_bytes(counts)
    if order.is_regression:
        is_there = 1.0 - np.exp(-sizes.rows / (2.0 * len(order.data)))
        per_number = (per_number + 1.0 + is_there * (TARGET_SUM - 1)) / 2.0
    numbers = sizes.n_split() * k * width * n_sides
    plain = (sizes.split @ per_number) * k * width * n_sides
    numbers_of_roots = width * float(sizes.open[0].sum()) if noise is None and len(numbers) else 0.0
    if len(numbers):
        numbers[0] += numbers_of_roots
        plain[0] += numbers_of_roots * float(per_number[-1])
    columns = (sizes.n_open(), sizes.n_split(), sizes.n_open() * k, numbers, plain, sizes.largest())
    return [PlannedLevel(*map(float, row)) for row in zip(*columns, strict=True)]


def _width(order: TrainHorizontal, tables: PlannedTables) -> int:
    """Return the numbers of one side of a cut."""
    noise = order.noise()
    is_weighted = tables.is_weighted or order.weight is not None
    if isinstance(noise, LocalDP):
        return noise.resolve(tables.n_classes).bits + 1
    if noise is not None:
        return 2 if order.is_regression else tables.n_classes + 1
    rows_apart = is_weighted or (order.class_weight is not None and not order.is_regression)
    return (2 if order.is_regression else tables.n_classes) + rows_apart


def _varint_bytes(values: Vector) -> Vector:
    total = np.ones(len(values))
    for bits in VARINT_BITS:
        total += values >= 1 << bits
    return total


def _count(traffic: Traffic, order: TrainHorizontal, level: PlannedLevel, question: float) -> None:
    back = expect_participation(order) * level.plain_bytes
    name = "Count" if order.privacy is None else "CountNoisily"
    traffic.exchange(name, dict.fromkeys(order.data, question), dict.fromkeys(order.data, back))


def _count_masked(
    traffic: Traffic, order: TrainHorizontal, level: PlannedLevel, question: float
) -> None:
    back = expect_participation(order) * level.n_numbers * _field_bytes(order, level)
    asked = question + NAME * len(order.data)
    data = order.data
    traffic.exchange("CountMasked", dict.fromkeys(data, asked), dict.fromkeys(data, back))


def _pass_on(
    traffic: Traffic, order: TrainHorizontal, level: PlannedLevel, question: float
) -> None:
    """Each participant in turn: the total of those before it, sealed."""
    total = level.n_numbers * WORD * expect_participation(order) + SEALING
    for party in order.data:
        traffic.exchange("PassOn", {party: question + total}, {party: total})


def _share_out(
    traffic: Traffic, order: TrainHorizontal, level: PlannedLevel, question: float
) -> None:
    n_parties = max(1.0, len(order.data) * order.participation)
    share = level.n_numbers * WORD * expect_participation(order) + SEALING
    data = order.data
    shares = dict.fromkeys(data, share * n_parties)
    traffic.exchange("ShareOut", dict.fromkeys(data, question), shares)
    plug = order.plug()
    assert isinstance(plug, Shamir)
    adding = dict.fromkeys(list(data)[: plug.threshold - 1], share)
    traffic.exchange("AddShares", shares, adding)


def _field_bytes(order: TrainHorizontal, level: PlannedLevel) -> float:
    if order.is_regression or order.privacy is not None or order.weight is not None:
        return float(WORD)
    return next((bits / 8.0 for bits in FIELD_BITS if level.largest < 1 << bits), float(WORD))


_SUMS: dict[type, Callable[[Traffic, TrainHorizontal, PlannedLevel, float], None]] = {
    str: _count,
    Masked: _count_masked,
    Ring: _pass_on,
    Shamir: _share_out,
}

"""Levels of raw columns for Hypothesis: tables with gaps and categories, nodes, candidates."""

from dataclasses import dataclass

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

from fedforest.kernels.cuts.kept_values import (
    Kept,
    TableCells,
    find_gaps,
    gather_values,
    place_values,
    turn_values,
)
from fedforest.kernels.cuts.pairs import Cuts, Pairs, place_asked
from fedforest.kernels.cuts.sides import Asked
from fedforest.kernels.cuts.tile_lanes import LANES
from fedforest.kernels.cuts.tiles import gather_tiles, place_tiles
from fedforest.kernels.layout import RowOrder
from fedforest.kernels.splits.random import Values
from fedforest.tree.growth.candidates import list_candidates
from fedforest.tree.workers import ALONE
from tests.reference import random_cuts as reference
from tests.reference.forest import pack_set
from tests.reference.random_cuts import Cut
from tests.strategies import SEEDS, DrawnNodes

# around whole vector registers and whole blocks of responses; a party may have no row in a node
ONE = np.uint64(1)
NODE_SIZES = (0, 1, 2, 3, 7, 8, 9, 16, 31, 100, 247, 248, 249, 500)
TABLE_SIZES = (1, 3, 40, 300, 600)


@dataclass(frozen=True, eq=False)
class RawLevel:
    """Open nodes over a raw table and the columns each of them may use."""

    values: NDArray[np.float32]  # (columns, rows)
    is_categorical: NDArray[np.bool_]
    nodes: DrawnNodes
    bitmap: NDArray[np.uint8]

    @property
    def n_rows(self) -> int:
        return int(self.values.shape[1])

    @property
    def candidates(self) -> list[list[int]]:
        return reference.list_candidates(self.bitmap.tolist())

    @property
    def pairs(self) -> list[tuple[int, int]]:
        """(node, column) in the order in which points and sums are listed."""
        return [(node, f) for node, columns in enumerate(self.candidates) for f in columns]

    def columns(self) -> Values:
        return Values(self.values.reshape(-1), np.uint64(self.n_rows), self.is_categorical)

    def cells(self, *, by_row: bool = False) -> TableCells:
        """The table as it is read, column by column or row by row."""
        n_columns, n_rows = map(np.uint64, self.values.shape)
        by_column = self.values.reshape(-1)
        if by_row:
            turned = np.empty_like(by_column)
            turn_values(by_column, n_rows, n_columns, turned)
            return TableCells(turned, ONE, n_columns)
        return TableCells(by_column, n_rows, ONE)

    def order(self, classes: NDArray[np.int64] | None = None, dtype: type = np.uint32) -> RowOrder:
        codes = np.zeros(self.n_rows, np.int64) if classes is None else classes
        return self.nodes.order(self.n_rows, codes, dtype)

    def seen(self, node: int, column: int) -> list[np.float32]:
        """The values of a node's rows."""
        return list(self.values[column, self.nodes.rows[node]])

    def room(self, order: RowOrder, *, in_tiles: bool = False) -> tuple[Pairs, Kept]:
        """The level's pairs and room for their values; whoever reads beyond them reads NaN."""
        pairs = list_candidates(self.bitmap, ALONE)
        if in_tiles:
            first, _ = place_tiles(order.start, order.stop, pairs.node_start)
        else:
            first = place_values(order.start, order.stop, pairs.node_start)
        gaps = find_gaps(self.values.reshape(-1), np.uint64(self.n_rows), len(self.values))
        values = np.full(int(first[-1]) + 8, np.nan, np.float32)
        per_tile = len(order.entries) if in_tiles else 0
        n_tiles = -(-len(self.values) // LANES)
        marks = np.full(n_tiles * per_tile, 0xA5, np.uint8)  # of earlier counts
        return pairs, Kept(first, values, gaps, in_tiles, marks, np.uint64(per_tile))

    def kept(
        self, order: RowOrder, *, by_row: bool = False, in_tiles: bool = False
    ) -> tuple[Pairs, Kept]:
        """The level's pairs and their gathered values."""
        pairs, kept = self.room(order, in_tiles=in_tiles)
        low, high = np.zeros((2, len(pairs.feature)), np.float32)
        gather = gather_tiles if in_tiles else gather_values
        gather(self.cells(by_row=by_row), order, pairs, 1, kept, low, high, 0, len(self.nodes))
        return pairs, kept


@dataclass(frozen=True, eq=False)
class AskedLevel:
    """A level and a cut for some of its pairs."""

    level: RawLevel
    cuts: list[Cut | None]  # per pair; None: not asked about

    @property
    def asked(self) -> list[tuple[int, int, Cut]]:
        """(node, column, cut) of the pairs that are asked about."""
        places = zip(self.level.pairs, self.cuts, strict=True)
        return [(node, column, cut) for (node, column), cut in places if cut is not None]

    def as_cuts(self) -> Cuts:
        set_index = np.full(len(self.cuts), -1, np.int32)
        sets: list[list[int]] = []
        for pair, cut in enumerate(self.cuts):
            if cut is not None and cut.left_set is not None:
                set_index[pair] = len(sets)
                sets.append(pack_set(cut.left_set))
        return Cuts(
            np.array([np.nan if cut is None else cut.threshold for cut in self.cuts], np.float32),
            np.array([cut is not None and cut.missing_left for cut in self.cuts], np.uint8),
            set_index,
            np.array(sets, np.uint64).reshape(len(sets), 4),
        )

    def as_asked(self, pairs: Pairs) -> Asked:
        cuts = self.as_cuts()
        return Asked(
            pairs.node_start,
            pairs.feature,
            cuts.threshold,
            cuts.missing_left,
            cuts.set_index,
            cuts.left_set,
            place_asked(pairs.node_start, cuts.threshold),
        )

    def goes_left(self, node: int, column: int, cut: Cut) -> list[bool]:
        return [cut.goes_left(value) for value in self.level.seen(node, column)]


@st.composite
def raw_levels(draw: st.DrawFn, max_columns: int = 19) -> RawLevel:
    """One to four nodes of any rows, with candidates among up to `max_columns` columns."""
    rng = np.random.default_rng(draw(SEEDS, label="level seed"))
    n_rows = draw(st.sampled_from(TABLE_SIZES), label="rows")
    n_columns = draw(st.integers(1, max_columns), label="columns")
    is_categorical = rng.random(n_columns) < draw(st.sampled_from([0.0, 0.0, 0.5]))
    decimals = draw(st.sampled_from([0, 1, 6]), label="decimals")
    values = rng.normal(size=(n_columns, n_rows)).round(decimals)
    n_categories = draw(st.sampled_from([1, 3, 255]), label="categories")
    values[is_categorical] = rng.integers(0, n_categories, n_rows)
    with_gaps = rng.random((n_columns, 1)) < draw(st.sampled_from([0.0, 0.5]), label="gaps")
    values[with_gaps & (rng.random(values.shape) < rng.choice([0.1, 0.9, 1.0]))] = np.nan
    sizes = draw(st.lists(st.sampled_from(NODE_SIZES), min_size=1, max_size=4), label="sizes")
    rows = [np.sort(rng.choice(n_rows, min(size, n_rows), replace=False)) for size in sizes]
    most = draw(st.sampled_from([1, 15]), label="largest multiplicity")
    nodes = DrawnNodes(rows, [rng.integers(1, most + 1, len(r)) for r in rows])
    is_candidate = rng.random((len(rows), n_columns)) < rng.choice([0.3, 1.0])
    bitmap = np.packbits(is_candidate, axis=1, bitorder="little")
    return RawLevel(values.astype(np.float32), is_categorical, nodes, bitmap)


@st.composite
def asked_levels(draw: st.DrawFn) -> AskedLevel:
    """A level with cuts inside, at the ends of and beside what its nodes see."""
    level = draw(raw_levels())
    rng = np.random.default_rng(draw(SEEDS, label="cut seed"))
    share_asked = draw(st.sampled_from([0.5, 1.0]), label="share asked")
    cuts: list[Cut | None] = []
    for node, column in level.pairs:
        if rng.random() > share_asked:
            cuts.append(None)
            continue
        side = bool(rng.integers(2))
        if level.is_categorical[column]:
            members = frozenset(np.flatnonzero(rng.random(256) < 0.5).tolist())
            cuts.append(Cut(np.float32(0), side, members))
            continue
        seen = [value for value in level.seen(node, column) if not np.isnan(value)]
        near = seen[int(rng.integers(len(seen)))] if seen else np.float32(0)
        cuts.append(Cut(np.float32(near + rng.choice([0.0, 0.0, 0.05, -10.0, 10.0])), side))
    return AskedLevel(level, cuts)

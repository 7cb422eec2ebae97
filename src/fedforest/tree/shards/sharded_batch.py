"""A batch of trees that grow on rows in shards.

    large nodes   in all shards: their histograms are added up, their bits joined in row order
    small nodes   gathered in one shard, with the rows of all; searched there as a table of theirs

It has the methods of a search over rows in this process (`ColumnSearch`) and of its rows, and gives
the same splits, bits and sums.
"""

from functools import partial
from itertools import pairwise
from typing import Any
from weakref import finalize

import numpy as np
from numpy.typing import NDArray

from fedforest.kernels.bits.ranges import copy_ranges
from fedforest.kernels.growth.level_ranges import find_pure
from fedforest.kernels.growth.partition import OPEN_LEFT, OPEN_RIGHT, STAYS, place_bits
from fedforest.kernels.layout import N_CODES, NO_LIMITS, Rules
from fedforest.tree.growth.batches import OwnRows, TreeSample
from fedforest.tree.growth.candidates import list_candidates
from fedforest.tree.growth.split_search import SplitTable, rule_by_weight
from fedforest.tree.growth.structure import GrowthStep, OpenNodes
from fedforest.tree.shards.cells import (
    CELLS_AT_ONCE,
    count_cells,
    make_found,
    put_found,
    take_found,
)
from fedforest.tree.shards.engine import ShardEngine
from fedforest.tree.shards.gathered import GroupRules, SplitPart
from fedforest.tree.shards.replay import Shards
from fedforest.tree.shards.shard_trees import Group, Moves
from fedforest.tree.shards.spread_bits import divide_among, join_parts, moves_of, split_moves
from fedforest.tree.table.targets import rows_of
from fedforest.tree.workers import ALONE, Workers

ROWS_GATHERED = 2**13  # of a node; decision 61 has what moving rows and histograms cost

GATHERED_FRACTION = 0.25  # of the rows that are in all shards; calls cost more than a histogram
SPREAD = -1  # the group of nodes that are in all shards
Nodes = NDArray[np.int64]


def _ask_batch(batch: int, engine: ShardEngine, shard: int, method: str, *arguments: Any) -> Any:
    """Begin a call about a batch of trees."""
    return engine.ask(shard, "ask", batch, method, *arguments)


class ShardedBatch:
    """The rows of open nodes in shards, and the search for their best splits."""

    def __init__(
        self, shards: Shards, own: OwnRows, sample: TreeSample, numbers: tuple[int, int]
    ) -> None:
        """`numbers`: that of the batch, and of rows of the largest node that is gathered."""
        self._shards, self._kind, self._is_weighted = shards, own.kind, own.is_weighted
        self._batch, self._rows_gathered = numbers
        self._count = shards.count
        self._ask = partial(_ask_batch, self._batch)  # steps that are kept must not keep the batch
        finalize(self, shards.end, self._batch)
        self._is_categorical = own.is_categorical
        self._rows_at = 2 if own.kind.is_regression else own.kind.n_classes
        self.left_out_sizes: NDArray[np.int64]  # (shards, open nodes)
        self._spread: NDArray[np.int64]  # (shards, open nodes that are in all of them)
        self._spread, self.left_out_sizes = self._begin(sample)
        self._at = np.arange(self._spread.shape[1])  # where shards have those nodes
        self._sizes = self._spread.sum(axis=0)
        self._group = np.full(len(self._sizes), SPREAD)
        self._shard_of: list[int] = []  # of each group
        self._rules = Rules(own.kind.scores.formula, sample.min_rows_leaf)
        self._least_weight = NO_LIMITS
        self._roots: NDArray[np.int64] | None = None
        self._of_groups = GroupRules(sample.min_rows_leaf, 0.0, np.zeros((0, 0), np.int64))
        self.found = make_found(0, self._is_categorical)

    @property
    def rows(self) -> "ShardedBatch":
        """Return what has the sizes of open nodes, and moves rows."""
        return self

    @property
    def sizes(self) -> NDArray[np.int64]:
        """Rows per open node."""
        sizes: NDArray[np.int64] = self._sizes
        return sizes

    def _begin(self, sample: TreeSample) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Draw rows; a tree that draws none with weight takes all of those."""
        takes_all = np.zeros(len(sample.seeds), np.bool_)
        batch, count = self._batch, self._count

        def draw(engine: ShardEngine) -> list[tuple[NDArray[np.int64], NDArray[np.int64]]]:
            begun = batch, sample, takes_all
            return engine.collect([engine.ask(s, "begin", *begun) for s in range(count)])

        drawn = self._shards.begin(self._batch, draw)
        is_empty = np.sum([sizes for sizes, _ in drawn], axis=0) == 0
        if is_empty.any():
            takes_all = is_empty
            drawn = self._shards.begin(self._batch, draw)
        return np.stack([sizes for sizes, _ in drawn]), np.stack([left for _, left in drawn])

    def root_sums(self) -> NDArray[np.int64]:
        """Return the sums of the roots."""
        if self._roots is None:
            self._roots = self._join_sums(self._ask_all("sum_roots"), with_ranges=True)
        return self._roots

    def demand_weight(self, share: float, roots: NDArray[np.int64]) -> None:
        """Require children to weigh a fraction of their tree."""
        self._of_groups = GroupRules(self._rules.min_rows_leaf, share, roots)
        self._rules, self._least_weight = rule_by_weight(
            self._rules, self._kind, share, roots, is_weighted=self._is_weighted
        )

    def find(self, candidates: NDArray[np.uint8], nodes: OpenNodes) -> NDArray[np.float64]:
        """Return each open node's best score over its candidate columns."""
        self.found = found = make_found(len(candidates), self._is_categorical)
        if not len(self._is_categorical):
            return found.score
        self._gather_small()
        spread = self._spread_nodes()
        by_shard = self._by_shard()

        def search(engine: ShardEngine) -> list[Any]:
            handles = [
                self._ask(
                    engine, shard, "find", {g: (candidates[of], nodes.tree[of]) for g, of in groups}
                )
                for shard, groups in by_shard.items()
            ]
            return engine.collect(handles + self._add_up(engine, candidates, nodes.tree, spread))

        results = self._shards.query(search)
        for groups, of_shard in zip(by_shard.values(), results, strict=False):
            for group, own in groups:
                put_found(of_shard[group], own, found)
        of_chunks = results[len(by_shard) :]
        for (first, last), part in zip(self._chunks(candidates[spread]), of_chunks, strict=True):
            put_found(part, spread[first:last], found)
        return found.score

    def _add_up(
        self,
        engine: ShardEngine,
        candidates: NDArray[np.uint8],
        trees: NDArray[np.int32],
        spread: Nodes,
    ) -> list[Any]:
        """Begin the search of nodes that are in all shards, some of them at a time."""
        found: list[Any] = []
        for number, (first, last) in enumerate(self._chunks(candidates[spread])):
            positions, own = self._at[first:last], spread[first:last]
            bitmap, rules = candidates[own], self._rules
            if len(self._least_weight):
                rules = rules._replace(least_weight=self._least_weight[trees[own]])
            filled = [
                self._ask(engine, shard, "fill", positions, bitmap) for shard in range(self._count)
            ]
            at = number % self._count
            found.append(self._ask(engine, at, "find_in_sum", engine.add(filled), bitmap, rules))
        return found

    def _chunks(self, candidates: NDArray[np.uint8]) -> list[tuple[int, int]]:
        """Divide nodes into ranges whose histograms are in memory together."""
        if not len(candidates):
            return []
        starts = list_candidates(candidates, ALONE).node_start
        number = starts[:-1] * (N_CODES * count_cells(self._kind)) // CELLS_AT_ONCE
        bounds = [0, *(np.flatnonzero(np.diff(number)) + 1).tolist(), len(candidates)]
        return list(pairwise(bounds))

    def _spread_nodes(self) -> Nodes:
        return np.flatnonzero(self._group == SPREAD)

    def _by_shard(self, nodes: Nodes | None = None) -> dict[int, list[tuple[Group, Nodes]]]:
        """List the groups in each shard, and which of the nodes are theirs (all open ones)."""
        group = self._group if nodes is None else self._group[nodes]
        order = np.argsort(group, kind="stable")
        names, begins = np.unique(group[order], return_index=True)
        by_shard: dict[int, list[tuple[Group, Nodes]]] = {}
        if not len(group):
            return by_shard
        for name, own in zip(names.tolist(), np.split(order, begins[1:]), strict=True):
            if name != SPREAD:
                by_shard.setdefault(self._shard_of[name], []).append((name, own))
        return by_shard

    def _gather_small(self) -> None:
        """Gather small nodes, once they are a good part of what is in all shards."""
        spread = self._spread_nodes()
        small = spread[self._sizes[spread] <= self._rows_gathered]
        n_rows = int(self._sizes[small].sum())
        if len(small) and n_rows >= GATHERED_FRACTION * int(self._sizes[spread].sum()):
            self._gather(spread, small)

    def _gather(self, spread: Nodes, nodes: Nodes) -> None:
        """Move the rows of some nodes to one shard each, about as many to every shard."""
        at = np.searchsorted(spread, nodes)  # positions among the nodes that are in all shards
        kept, places = np.setdiff1d(np.arange(len(spread)), at), self._at[at]
        ends, count = np.cumsum(self._sizes[nodes]), self._count
        target = np.minimum((ends - 1) * count // max(1, int(ends[-1])), count - 1)
        sizes, rules, first = self._spread, self._of_groups, len(self._shard_of)
        chosen = [(shard, np.flatnonzero(target == shard)) for shard in np.unique(target).tolist()]

        ask = self._ask

        def gather(engine: ShardEngine) -> None:
            handles = []
            for number, (shard, own) in enumerate(chosen):
                parts = [ask(engine, each, "extract", places[own]) for each in range(count)]
                of_group = first + number, parts, sizes[:, at[own]], rules
                handles.append(ask(engine, shard, "gather", *of_group))
            engine.collect(handles)

        self._shards.change(self._batch, gather)
        for number, (shard, own) in enumerate(chosen):
            self._group[nodes[own]] = first + number
            self._shard_of.append(shard)
        self._spread, self._at = sizes[:, kept], self._at[kept]

    def split(
        self, nodes: Nodes, *, with_sums: bool = True
    ) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
        """Apply the best splits of the nodes this owner won: (bits, sums of the left children)."""
        is_spread = self._group[nodes] == SPREAD
        spread, count = nodes[is_spread], self._count
        at = np.searchsorted(self._spread_nodes(), spread)
        places = self._at[at]
        by_shard, splits = self._by_shard(nodes), self.found
        positions = self._positions_in_groups()

        ask = self._ask

        def divide(engine: ShardEngine) -> list[Any]:
            handles = [
                ask(
                    engine,
                    shard,
                    "split_groups",
                    {
                        group: (positions[nodes[own]], take_found(splits, nodes[own]))
                        for group, own in groups
                    },
                    with_sums,
                )
                for shard, groups in by_shard.items()
            ]
            if len(spread):
                of_all = places, take_found(splits, spread), with_sums
                handles += [ask(engine, shard, "split", *of_all) for shard in range(count)]
            return engine.collect(handles)

        parts = self._shards.query(divide)
        pieces: list[tuple[Nodes, SplitPart]] = []  # places in `nodes`
        for groups, of_shard in zip(by_shard.values(), parts, strict=False):
            pieces += [(own, of_shard[group]) for group, own in groups]
        if len(spread):
            joined = self._join_spread(parts[len(by_shard) :], (at, spread), with_sums=with_sums)
            pieces.append((np.flatnonzero(is_spread), joined))
        return self._join_pieces(nodes, pieces)

    def _positions_in_groups(self) -> Nodes:
        """Return the position of each open node among those of its group."""
        order = np.argsort(self._group, kind="stable")
        group = self._group[order]
        first = np.searchsorted(group, group)
        positions = np.empty(len(order), np.int64)
        positions[order] = np.arange(len(order)) - first
        return positions

    def _join_spread(
        self, parts: list[SplitPart], nodes: tuple[Nodes, Nodes], *, with_sums: bool
    ) -> SplitPart:
        """Join what all shards say of the same nodes: positions among theirs, open nodes."""
        at, spread = nodes
        bits = join_parts([part.bits for part in parts], self._spread[:, at])
        left = self._join_sums(parts, with_ranges=with_sums)
        missing_left = self.found.missing_left[spread]
        rows = left[:, self._rows_at]
        larger = (2 * rows > self._sizes[spread]).astype(np.uint8)
        missing_left = np.where(missing_left > 1, larger, missing_left)
        return SplitPart(bits, left, parts[0].ranges[:0], missing_left)

    def _join_sums(self, parts: list[SplitPart], *, with_ranges: bool) -> NDArray[np.int64]:
        left: NDArray[np.int64] = np.sum([part.left for part in parts], axis=0)
        if self._kind.is_regression and with_ranges:
            ranges = np.stack([part.ranges for part in parts])
            find_pure(ranges.min(axis=0), ranges.max(axis=0), left[:, 3])
        return left

    def _join_pieces(
        self, nodes: Nodes, pieces: list[tuple[Nodes, SplitPart]]
    ) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
        """Put what was said of some nodes each in the order of all."""
        sizes = self._sizes[nodes]
        offsets = place_bits(np.zeros(len(nodes), np.int64), sizes, np.arange(len(nodes)))
        bits = np.empty(int(offsets[-1]), np.uint8)
        left = np.zeros((len(nodes), self._kind.n_sums), np.int64)
        for places, part in pieces:
            left[places] = part.left
            self.found.missing_left[nodes[places]] = part.missing_left
            lengths = (sizes[places] + 7) >> 3
            begins = np.cumsum(lengths) - lengths
            copy_ranges(part.bits, begins, bits, offsets[places], lengths)
        return bits, left

    def table(self, nodes: Nodes) -> SplitTable:
        """Return the splits at the nodes this owner won; call after `split`."""
        part = take_found(self.found, nodes)
        return SplitTable(part.feature, part.bin, part.missing_left, part.left_set)

    def left_rows(self, nodes: Nodes, left: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the rows that go left per open node, from the sums of the split nodes."""
        rows = np.zeros(len(self._sizes), np.int64)
        rows[nodes] = rows_of(left, self._kind)
        return rows

    def route(self, _: Any, nodes: Nodes) -> NDArray[np.uint8]:
        """Return the bits of rows that trees left out at the nodes this owner won."""
        parts = self._ask_all("route", nodes, take_found(self.found, nodes))
        return join_parts(parts, self.left_out_sizes[:, nodes])

    def move(
        self,
        step: GrowthStep,
        bits: NDArray[np.uint8],
        left_rows: NDArray[np.int64],
        workers: Workers,  # noqa: ARG002 - shards work
        offsets: NDArray[np.int64],
    ) -> None:
        """Move the rows of open children; the bits of open node k start at byte offsets[k]."""
        fate, count = step.fate, self._count
        spread, by_shard = self._spread_nodes(), self._by_shard()
        divided, left_by_shard = divide_among(bits, offsets, (spread, fate), self._spread)
        of_shards = [
            (self._at, Moves(moves_of(fate[spread], left, self._spread[shard]), own))
            for shard, (own, left) in enumerate(zip(divided, left_by_shard, strict=True))
        ]
        of_groups = {
            shard: {
                group: Moves(*split_moves(bits, offsets, (own, fate[own]), self._sizes, left_rows))
                for group, own in groups
            }
            for shard, groups in by_shard.items()
        }

        ask = self._ask

        def move(engine: ShardEngine) -> None:
            moved = [
                ask(
                    engine,
                    shard,
                    "move",
                    of_shards[shard] if len(spread) else None,
                    of_groups.get(shard, {}),
                )
                for shard in range(count)
                if len(spread) or shard in of_groups
            ]
            engine.collect(moved)

        self._shards.change(self._batch, move)
        is_spread = self._group[step.source] == SPREAD
        left = np.zeros((count, len(fate)), np.int64)
        sizes = np.zeros_like(left)
        left[:, spread], sizes[:, spread] = left_by_shard, self._spread
        self._spread = follow(sizes, left, step)[:, is_spread]
        self._at = np.arange(self._spread.shape[1])
        self._sizes = follow(self._sizes[None], left_rows[None], step)[0]
        self._group = self._group[step.source]

    def move_left_out(
        self, step: GrowthStep, bits: NDArray[np.uint8], offsets: NDArray[np.int64]
    ) -> None:
        """Follow one step with the rows that trees left out."""
        nodes, sizes = np.flatnonzero(step.is_split), self.left_out_sizes
        everything = np.full(len(nodes), OPEN_LEFT | OPEN_RIGHT, np.uint8)
        divided, left = divide_among(bits, offsets, (nodes, everything), sizes[:, nodes])
        places = np.zeros((len(sizes), len(step.fate)), np.int64)
        lengths = (sizes[:, nodes] + 7) >> 3
        places[:, nodes] = np.cumsum(lengths, axis=1) - lengths

        ask, count = self._ask, self._count

        def move(engine: ShardEngine) -> None:
            engine.collect(
                [
                    ask(engine, shard, "move_left_out", step, divided[shard], places[shard])
                    for shard in range(count)
                ]
            )

        self._shards.change(self._batch, move)
        left_rows = np.zeros((len(sizes), len(step.fate)), np.int64)
        left_rows[:, nodes] = left
        self.left_out_sizes = follow(sizes, left_rows, step)

    def leaves_of_left_out(self) -> NDArray[np.int32]:
        """Return (trees, rows): the leaf of each row left out."""
        return np.concatenate(self._ask_all("leaves_of_left_out"), axis=1)

    def _ask_all(self, method: str, *arguments: Any) -> list[Any]:
        return self._shards.query(
            lambda engine: engine.collect(
                [self._ask(engine, shard, method, *arguments) for shard in range(self._count)]
            )
        )


def follow(
    sizes: NDArray[np.int64], left_rows: NDArray[np.int64], step: GrowthStep
) -> NDArray[np.int64]:
    """Return the rows of the nodes that are open after a step, in each shard."""
    source = step.source
    of_left = left_rows[:, source]
    of_child = np.where(step.is_right, sizes[:, source] - of_left, of_left)
    return np.where(step.fate[source] == STAYS, sizes[:, source], of_child)


class ShardedLeftOut:
    """Rows that trees left out, in shards; it stands for `LeftOutRows`."""

    def __init__(self, batch: ShardedBatch) -> None:
        self._batch = batch

    @property
    def rows(self) -> "ShardedLeftOut":
        """Return what has the sizes of open nodes."""
        return self

    @property
    def sizes(self) -> NDArray[np.int64]:
        """Rows that were left out, per open node."""
        sizes: NDArray[np.int64] = self._batch.left_out_sizes.sum(axis=0)
        return sizes

    @property
    def leaf_of(self) -> NDArray[np.int32]:
        """Return (trees, rows): the leaf of each row left out, -1 where it was trained on."""
        return self._batch.leaves_of_left_out()

    def move(self, step: GrowthStep, bits: NDArray[np.uint8], offsets: NDArray[np.int64]) -> None:
        """Follow one step."""
        self._batch.move_left_out(step, bits, offsets)

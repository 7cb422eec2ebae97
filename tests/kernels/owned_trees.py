"""Random trees whose splits belong to several owners, with rows to send down."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

from fedforest.kernels.prediction.lookahead import OwnSplits
from fedforest.kernels.prediction.positions import Standing
from fedforest.tree.forest.forest import Shape, Splits
from fedforest.tree.forest.partial import FOREIGN, PartialForest
from tests.reference.leaf_sets import goes_left
from tests.strategies import MISSING, SEEDS

N_COLUMNS = 3  # of every owner


@dataclass(frozen=True, eq=False)
class OwnedTree:
    """A random tree behind some other nodes, its splits at several owners, and rows."""

    base: int
    left_child: NDArray[np.int32]  # within the tree
    owner: NDArray[np.int32]
    partials: list[PartialForest]
    bins: list[NDArray[np.uint8]]  # per owner: (columns, rows)
    lookahead: int

    @property
    def tree_start(self) -> NDArray[np.int64]:
        """Trees of a single leaf lie before the tree."""
        return self.partials[0].shape.tree_start

    @property
    def n_rows(self) -> int:
        return int(self.bins[0].shape[1])

    @property
    def flat_children(self) -> NDArray[np.int32]:
        return np.where(self.left_child < 0, -1, self.left_child + self.base).astype(np.int32)

    def splits(self, number: int) -> OwnSplits:
        splits = self.partials[number].splits
        return OwnSplits(
            self.flat_children,
            splits.feature,
            splits.cut,
            splits.missing_left,
            splits.set_index,
            splits.left_set,
        )

    def path(self, row: int, start: int) -> Iterator[tuple[int, int]]:
        """(turn, node reached) of each split that a row passes."""
        node = start
        while self.flat_children[node] >= 0:
            number = int(self.owner[node])
            partial, bins = self.partials[number], self.bins[number][:, row]
            turn = goes_left(partial, node, int(bins[partial.splits.feature[node]]))
            node = int(self.flat_children[node]) + 1 - turn
            yield int(turn), node

    def paths(self, nodes: NDArray[np.int32]) -> list[list[tuple[int, int]]]:
        """The paths of all rows from where they stand, as far as the lookahead."""
        return [list(self.path(row, node))[: self.lookahead] for row, node in enumerate(nodes)]


@st.composite
def owned_trees(draw: st.DrawFn, row_counts: tuple[int, ...] = (0, 1, 7, 8, 30)) -> OwnedTree:
    rng = np.random.default_rng(draw(SEEDS, label="seed"))
    n_splits = draw(st.integers(0, 25), label="splits")
    n_owners = draw(st.integers(1, 4), label="owners")
    n_rows = draw(st.sampled_from(row_counts), label="rows")
    base = draw(st.sampled_from([0, 5]), label="nodes before")
    children = [-1]
    for _ in range(n_splits):
        leaves = [node for node, child in enumerate(children) if child < 0]
        # mostly the last leaf: deep, lopsided trees
        chosen = leaves[-1] if rng.random() < 0.5 else int(rng.choice(leaves))
        children[chosen] = len(children)
        children += [-1, -1]
    left_child = np.array([-1] * base + children, np.int32)
    is_inner = left_child >= 0
    owner = np.where(is_inner, rng.integers(0, n_owners, len(left_child)), -1).astype(np.int32)
    starts = np.array([*range(base + 1), len(left_child)])
    partials = [
        PartialForest(Shape(starts, left_child), _random_splits(owner, k, rng), N_COLUMNS)
        for k in range(n_owners)
    ]
    bins = [_random_bins(n_rows, rng) for _ in range(n_owners)]
    lookahead = draw(st.integers(1, 12), label="lookahead")
    return OwnedTree(base, left_child, owner, partials, bins, lookahead)


def _random_splits(owner: NDArray[np.int32], number: int, rng: np.random.Generator) -> Splits:
    n_nodes = len(owner)
    is_own = owner == number
    feature = np.where(owner < 0, -1, FOREIGN)
    feature[is_own] = rng.integers(0, N_COLUMNS, int(is_own.sum()))
    by_set = is_own & (rng.random(n_nodes) < 0.3)
    set_index = np.where(by_set, np.cumsum(by_set) - 1, -1)
    return Splits(
        feature.astype(np.int32),
        rng.integers(0, 254, n_nodes).astype(np.uint8),
        rng.integers(0, 2, n_nodes).astype(np.uint8),
        set_index.astype(np.int32),
        rng.integers(0, 2**64, (int(by_set.sum()), 4), dtype=np.uint64),
    )


def _random_bins(n_rows: int, rng: np.random.Generator) -> NDArray[np.uint8]:
    bins = rng.integers(0, 255, (N_COLUMNS, n_rows))
    bins[rng.random(bins.shape) < 0.2] = MISSING
    return bins.astype(np.uint8)


def starting_nodes(tree: OwnedTree) -> NDArray[np.int32]:
    """Some rows stand at the root, some further down, none at a leaf."""
    inner = np.flatnonzero(tree.left_child >= 0)
    rng = np.random.default_rng(tree.n_rows)
    return rng.choice(inner, tree.n_rows).astype(np.int32) if len(inner) else np.zeros(0, np.int32)


def standing_at(tree: OwnedTree, nodes: NDArray[np.int32], gap: int = 3) -> Standing:
    """Rows of the tree, behind the empty places of the trees before it."""
    rows = np.arange(len(nodes), dtype=np.uint32)
    filler = np.zeros(gap * tree.base, np.int64)
    return Standing(
        np.concatenate([filler.astype(np.uint32), rows]),
        np.concatenate([filler.astype(np.int32), nodes]),
        gap * np.arange(tree.base + 1),
        np.array([0] * tree.base + [len(nodes)]),
    )


def room_for(tree: OwnedTree, nodes: NDArray[np.int32]) -> Standing:
    """Room for these rows to go to."""
    rows, place, start, count = standing_at(tree, nodes)
    return Standing(np.full_like(rows, 99), np.full_like(place, -99), start, np.full_like(count, 9))


def assert_only_inner_stay(tree: OwnedTree, standing: Standing, reached: list[int]) -> None:
    """Rows that reached an inner node are left, in order."""
    staying = [row for row, node in enumerate(reached) if tree.left_child[node] >= 0]
    first, count = standing.start[-1], standing.counts[-1]
    assert standing.counts[:-1].tolist() == [0] * tree.base
    assert standing.rows[first : first + count].tolist() == staying
    assert standing.place[first : first + count].tolist() == [reached[row] for row in staying]


def pack_turns(paths: list[list[tuple[int, int]]], n_levels: int) -> NDArray[np.uint64]:
    """One bit for each row and level, zero behind the end of a path; levels start a word."""
    turns = np.zeros((n_levels, -(-len(paths) // 64) * 64), np.uint8)
    for row, steps in enumerate(paths):
        for level, (turn, _) in enumerate(steps):
            turns[level, row] = turn
    return np.packbits(turns, axis=1, bitorder="little").view(np.uint64).reshape(-1)

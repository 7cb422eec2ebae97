"""A party's search where labels are encrypted: sums at all its cuts, for the label party to judge.

Cuts that divide the rows of a node alike in one column are sent once. Of a column of categories the
sum of each category is sent, in the order of their codes, by which ties between them are broken.
Which cut has which position in the list is known here alone: they are shuffled over all columns of
a node, and the categories of a column stay together.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedforest.kernels.cuts.listed_cuts import count_cells
from fedforest.kernels.cuts.pairs import Pairs
from fedforest.kernels.layout import MISSING_BIN, NO_SPLIT, UNSEEN, Columns, RowOrder
from fedforest.kernels.splits.best import keep_chosen_categories
from fedforest.masking.homomorphic.scheme import Sums, accumulate_bins, add_sums
from fedforest.masking.key_agreement import derive_key
from fedforest.masking.keystream import expand
from fedforest.protocol.asking import check
from fedforest.protocol.vertical.encrypted.cut_lists import (
    A_CATEGORY,
    A_COLUMN,
    A_CUT,
    CutCipher,
    CutCounts,
)
from fedforest.protocol.vertical.encrypted.payloads import EncryptedCuts
from fedforest.tree.growth.candidates import list_candidates
from fedforest.tree.growth.rows import NodeRows
from fedforest.tree.growth.split_search import ColumnSearch
from fedforest.tree.table.targets import TrainingTargets, weight_of
from fedforest.tree.workers import Workers

BLOCK_BYTES = 2**25  # of cells that one thread adds up at a time
_POINT_BYTES = 160
_ORDER = b"order of cuts"


class ListedCuts(NamedTuple):
    """Different valid cuts and categories, in the order of nodes, columns, missing sides and bins.

    `rows` and `draws` are those left of a cut, or of a category.
    """

    node: NDArray[np.int64]
    feature: NDArray[np.int32]
    bin: NDArray[np.uint8]
    missing_left: NDArray[np.uint8]
    rows: NDArray[np.int64]
    draws: NDArray[np.int64]
    kind: NDArray[np.int64]  # as in `CutCounts`

    @classmethod
    def concatenate(cls, parts: "list[ListedCuts]") -> "ListedCuts":
        """Put several lists one behind the other."""
        columns: Any = zip(*parts, strict=True)
        return cls(*map(np.concatenate, columns))

    def shuffled(self, order: NDArray[np.int64]) -> "ListedCuts":
        """Return the same cuts in another order."""
        columns: Any = self
        return ListedCuts(*(values[order] for values in columns))


class CutSearch(ColumnSearch):
    """Sums encrypted labels over one owner's binned columns."""

    def __init__(  # noqa: PLR0913, PLR0917 - those of every search, and ciphertexts
        self,
        columns: Columns,
        targets: TrainingTargets,
        rows: NodeRows,
        min_rows_leaf: int,
        workers: Workers,
        cipher: CutCipher,
    ) -> None:
        """`targets` know no labels: every row is of one class."""
        super().__init__(columns, targets, rows, min_rows_leaf, workers)
        self._cipher = cipher
        self._cuts: ListedCuts
        self._rank: NDArray[np.int64]  # of each listed cut before the shuffle
        self._first: NDArray[np.int64]  # listed cut of each node
        self._unit: NDArray[np.int64]  # of each listed cut: the categories of a column are one
        self.n_cuts: NDArray[np.int64]  # of each node
        self._n_bins = int(columns.n_bins.max(initial=1))

    def offer(self, candidates: NDArray[np.uint8], secret: bytes) -> EncryptedCuts:
        """Return the cuts of every open node; `secret` are 32 bytes for this call only."""
        n_nodes = len(candidates)
        pairs = list_candidates(candidates, self.workers)
        blocks = self._blocks(len(pairs.feature))
        found: dict[int, tuple[ListedCuts, Sums]] = {}

        def work(number: int) -> None:
            found[number] = self._sum_block(pairs, *blocks[number])

        self.workers.run(work, range(len(blocks)))
        parts = [found[number] for number in range(len(blocks))]
        cuts = ListedCuts.concatenate([cuts for cuts, _ in parts])
        sums = np.concatenate([sums for _, sums in parts])
        unit = np.cumsum(cuts.kind != A_CATEGORY) - 1
        self._rank = _shuffle(cuts.node, unit, derive_key(secret, _ORDER))
        self._cuts, self._unit = cuts.shuffled(self._rank), unit[self._rank]
        n_cuts = np.bincount(cuts.node, minlength=n_nodes)
        self._first = np.cumsum(n_cuts) - n_cuts
        self.n_cuts = n_cuts
        self.found = self._make_found(n_nodes)
        # whether categories can be divided depends on an order that is not known here
        has_cut = np.bincount(cuts.node[cuts.kind == A_CUT], minlength=n_nodes) > 0
        self.found.score[:] = np.where(has_cut, 0.0, NO_SPLIT)
        self.found.feature[:] = -1
        node_draws = weight_of(self._sums.of_nodes(), self.targets.kind)
        counts = CutCounts(n_cuts, self._cuts.rows, self._cuts.draws, self._cuts.kind)
        return self._cipher.encrypt(counts, sums[self._rank], node_draws, secret)

    def take(self, nodes: NDArray[np.int64], positions: list[NDArray[np.int64]]) -> None:
        """Take the first in own columns of the chosen cuts of each node."""
        for node, tied in zip(nodes.tolist(), positions, strict=True):
            listed = self._first[node] + tied
            cut = listed[np.argmin(self._rank[listed])]
            if self._cuts.kind[cut] != A_CUT:
                self._take_categories(node, listed[self._unit[listed] == self._unit[cut]])
                continue
            self.found.feature[node] = self._cuts.feature[cut]
            self.found.bin[node] = self._cuts.bin[cut]
            self.found.missing_left[node] = self._cuts.missing_left[cut]

    def _take_categories(self, node: int, left: NDArray[np.int64]) -> None:
        """Send these of the categories of a column left and the others right."""
        column = np.flatnonzero(self._unit == self._unit[left[0]])
        right = np.setdiff1d(column, left)
        n_left, n_right = int(self._cuts.rows[left].sum()), int(self._cuts.rows[right].sum())
        is_split = len(np.unique(left)) == len(left) and len(right) > 0
        least = max(1, self.rules.min_rows_leaf)
        check(is_split and min(n_left, n_right) >= least, "categories are divided that cannot be")
        visit = self._cuts.bin[np.concatenate([left, right])].astype(np.uint64)
        feature = self._cuts.feature[left[0]]
        keep_chosen_categories(self.found, node, feature, visit, len(left), n_left > n_right)

    def _blocks(self, n_pairs: int) -> list[tuple[int, int]]:
        n_bytes = (self._n_bins + 1) * self._cipher.scheme.n_components * _POINT_BYTES
        size = max(1, BLOCK_BYTES // n_bytes)
        starts = range(0, max(1, n_pairs), size)
        return [(start, min(n_pairs, start + size)) for start in starts]

    def _sum_block(self, pairs: Pairs, first: int, last: int) -> tuple[ListedCuts, Sums]:
        """Return the cuts of the pairs first..last, and the sums on the left of them."""
        node = np.searchsorted(pairs.node_start, np.arange(first, last), side="right") - 1
        feature, order = pairs.feature[first:last], self.rows.order
        order = RowOrder(order.entries, order.row_bits, order.start[node], order.stop[node])
        counts = np.zeros((last - first, self._n_bins + 1, 2), np.int64)
        count_cells(self.columns, order, feature, counts)
        by_category = self.columns.is_categorical[feature]
        listed = _list_cuts(counts, by_category, self.rules.min_rows_leaf)
        pair, side, code = listed.at
        cells = self._cipher.scheme.sum_rows(
            self._cipher.rows, self.columns, order, feature[:, None], self._n_bins
        )
        running = accumulate_bins(cells)[:, 0]
        sums, missing, is_category = running[pair, code], side == 1, listed.kind != A_CUT
        sums[missing] = add_sums(sums[missing], running[pair[missing], -1])
        sums[is_category] = cells[pair[is_category], 0, code[is_category]]
        sees_missing = counts[pair, -1, 0] > 0
        missing_left = np.where(sees_missing, side, UNSEEN).astype(np.uint8)
        bins = np.where(code == counts.shape[1] - 1, MISSING_BIN, code).astype(np.uint8)
        places = node[pair], feature[pair], bins, missing_left
        left_rows, draws = listed.counts.T
        return ListedCuts(*places, left_rows, draws, listed.kind), sums


class _Listed(NamedTuple):
    """Cuts and categories of some pairs of node and column."""

    at: tuple[NDArray[np.int64], ...]  # (pair, side of missing values, bin)
    counts: NDArray[np.int64]  # (rows, draws) left of a cut, or of a category
    kind: NDArray[np.int64]


def _list_cuts(
    counts: NDArray[np.int64], by_category: NDArray[np.bool_], least_rows: int
) -> _Listed:
    """List the different valid cuts of numbers, and the categories where there are several."""
    values, missing = counts[:, :-1], counts[:, -1]
    left = np.cumsum(values, axis=1)
    lefts = np.stack([left, left + missing[:, None]], axis=1)  # missing right, then left
    rests = counts.sum(axis=1)[:, None, None] - lefts
    smaller = np.minimum(lefts, rests)[..., 0]
    is_valid = (smaller >= least_rows) & (values[:, None, :, 0] > 0)
    is_valid[:, 1] &= missing[:, None, 0] > 0
    is_valid[by_category] = False
    at = np.nonzero(is_valid)
    kind = np.full(len(at[0]), A_CUT)
    if not by_category.any():
        return _Listed(at, lefts[at], kind)
    occurs = counts[..., 0] > 0
    can_be_cut = (occurs.sum(axis=1) > 1) & (counts[..., 0].sum(axis=1) >= 2 * least_rows)
    pair, code = np.nonzero(occurs & (by_category & can_be_cut)[:, None])
    is_first = np.concatenate([[True], pair[1:] != pair[:-1]])[: len(pair)]
    categories = np.where(is_first, A_COLUMN, A_CATEGORY)
    all_at = tuple(map(np.append, at, (pair, np.zeros_like(pair), code)))
    order = np.lexsort((all_at[2], all_at[1], all_at[0]))
    whole = np.concatenate([lefts[at], counts[pair, code]])[order]
    kinds = np.append(kind, categories)[order]
    return _Listed(tuple(values[order] for values in all_at), whole, kinds)


def _shuffle(node: NDArray[np.int64], unit: NDArray[np.int64], key: bytes) -> NDArray[np.int64]:
    """Draw a secret order of the units within each node; each keeps its own order."""
    drawn = expand(key, int(unit[-1]) + 1 if len(unit) else 0)
    return np.lexsort((np.arange(len(node)), drawn[unit], node))

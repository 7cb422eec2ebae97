"""What a coordinator that lies can still learn within the contract of a vertical run, in figures.

It makes up the labels that a party without labels trains towards, and the moves of other parties,
and keeps to everything that it declared. `docs/explanation/privacy.md` states the figures.
"""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from fedforest.errors import RemoteProtocolError
from fedforest.kernels.criteria.registry import BY_NAME
from fedforest.kernels.growth.partition import OPEN_LEFT, OPEN_RIGHT
from fedforest.kernels.growth.sampling import count_draws
from fedforest.protocol.fates import pack_fates, pack_flags
from fedforest.protocol.linear.messages import Propose, StandardiseColumns
from fedforest.protocol.payloads import Curvatures, EncodedLabels, Residuals, RowBits
from fedforest.protocol.vertical.messages import (
    ApplySplits,
    BinColumns,
    FindSplits,
    RowMoves,
    StartTrees,
    TakeLabels,
)
from fedforest.runtime.messages.roles import LinearRole, VerticalRole
from fedforest.runtime.messages.terms import Terms
from fedforest.runtime.party.policy import DataSetRules
from fedforest.tree.growth.parameters import ForestParameters
from tests.hostile.played_coordinator import PlayedCoordinator
from tests.protocol.horizontal.asking_one import NOTHING, pack_candidates

N_ROWS, LEAST = 200, 5
GINI = BY_NAME["gini"].wire
Rows = NDArray[np.int64]


class MadeUpRun:
    """Trees over one column of a party, towards labels that the coordinator made up."""

    def __init__(
        self, folder: Path, values: NDArray[np.float64], labels: Rows, n_trees: int = 1
    ) -> None:
        """One tree is over all rows; of several, each draws half of them."""
        self._played = PlayedCoordinator(folder, DataSetRules(), people={"x": values})
        forest = ForestParameters(
            n_estimators=n_trees,
            min_samples_leaf=LEAST,
            bootstrap=n_trees > 1,
            max_samples=0.5 if n_trees > 1 else None,
        )
        sampling = forest.sampling(N_ROWS)
        terms = Terms(asker="ann", n_parties=2, forest=forest)
        self._played.begin(VerticalRole(data="people"), terms)
        self._played.ask(BinColumns(1, forest.max_bins, GINI))
        codes = EncodedLabels(memoryview(labels.astype("u1").tobytes()), NOTHING, NOTHING)
        self._played.ask(TakeLabels(2, GINI, codes))
        seeds = np.arange(n_trees, dtype="<u8")
        start = StartTrees(
            memoryview(seeds.tobytes()),
            bootstrap=sampling.bootstrap,
            n_draws=sampling.n_draws,
            min_rows_leaf=LEAST,
            with_left_out=False,
        )
        self._played.ask(start)
        counts = np.ones((n_trees, N_ROWS), np.uint8)
        for seed, drawn in zip(seeds if sampling.bootstrap else [], counts, strict=False):
            drawn[:] = 0
            count_draws(seed, sampling.n_draws, drawn)
        self.nodes: list[Rows] = [np.flatnonzero(drawn) for drawn in counts]  # of open nodes

    def search(self, moves: RowMoves | None = None) -> NDArray[np.float64]:
        """The gain of the column in every open node."""
        candidates = pack_candidates([[0]] * len(self.nodes), 1)
        found = self._played.ask(FindSplits(moves, candidates))
        gains: NDArray[np.float64] = found.gains.read(len(self.nodes))
        return gains

    def split(self, is_split: NDArray[np.bool_]) -> list[tuple[Rows, Rows]]:
        """The rows on both sides of the nodes that the party splits."""
        applied = self._played.ask(ApplySplits(pack_flags(is_split), with_bits=True))
        sides, at = [], 0
        for node in np.flatnonzero(is_split):
            rows = self.nodes[int(node)]
            n_bytes = (len(rows) + 7) // 8
            data = np.frombuffer(applied.bits.data[at : at + n_bytes], np.uint8)
            goes_left = np.unpackbits(data, bitorder="little")[: len(rows)].astype(np.bool_)
            sides.append((rows[goes_left], rows[~goes_left]))
            at += n_bytes
        return sides


def _order_rows(run: MadeUpRun) -> Rows:
    """The place of every row's leaf from left to right, after the tree has grown out."""
    leaves: dict[str, Rows] = {}  # by the path from the root
    paths, moves = [""], None
    while run.nodes:
        is_split = np.isfinite(run.search(moves))
        sides = iter(run.split(is_split))
        fate, nodes, next_paths = np.zeros(len(run.nodes), np.uint8), [], []
        for number, path in enumerate(paths):
            if not is_split[number]:
                leaves[path] = run.nodes[number]
                continue
            for side, rows, opens in zip("01", next(sides), (OPEN_LEFT, OPEN_RIGHT), strict=True):
                if len(rows) < 2 * LEAST:
                    leaves[path + side] = rows
                    continue
                fate[number] |= opens
                nodes.append(rows)
                next_paths.append(path + side)
        moves = RowMoves(pack_fates(is_split, fate), RowBits(NOTHING), RowBits(NOTHING))
        run.nodes, paths = nodes, next_paths
    place = np.zeros(N_ROWS, np.int64)
    for number, path in enumerate(sorted(leaves)):
        place[leaves[path]] = number
    return place


def _divide(run: MadeUpRun) -> NDArray[np.bool_]:
    """Grow all trees out; tell of every two rows whether any split divided them."""
    divided = np.zeros((N_ROWS, N_ROWS), np.bool_)
    moves = None
    while run.nodes:
        is_split = np.isfinite(run.search(moves))
        sides = iter(run.split(is_split))
        fate, nodes = np.zeros(len(run.nodes), np.uint8), []
        for number in np.flatnonzero(is_split).tolist():
            left, right = next(sides)
            divided[np.ix_(left, right)] = divided[np.ix_(right, left)] = True
            for rows, opens in ((left, OPEN_LEFT), (right, OPEN_RIGHT)):
                if len(rows) >= 2 * LEAST:
                    fate[number] |= opens
                    nodes.append(rows)
        moves = RowMoves(pack_fates(is_split, fate), RowBits(NOTHING), RowBits(NOTHING))
        run.nodes = nodes
    return divided


@pytest.mark.parametrize(("n_trees", "told"), [(1, 0.15), (10, 0.22), (100, 0.70), (1000, 0.94)])
def test_many_trees_over_other_rows_tell_the_order_within_leaves(
    tmp_path: Path, n_trees: int, told: float
) -> None:
    """Cuts of trees that draw other rows fall at other places: few neighbours stay together."""
    rng = np.random.default_rng(3)
    values = rng.normal(size=N_ROWS)
    run = MadeUpRun(tmp_path, values, rng.integers(0, 2, N_ROWS), n_trees)
    divided, order = _divide(run), np.argsort(values)
    share = float(divided[order[:-1], order[1:]].mean())
    assert share == pytest.approx(told, abs=0.03)


def test_a_linear_model_of_one_column_tells_its_values_but_for_their_unit(tmp_path: Path) -> None:
    """In one step, whatever rows per leaf the policy demands: there are no leaves."""
    values = np.random.default_rng(6).normal(size=N_ROWS)
    played = PlayedCoordinator(tmp_path, DataSetRules(), people={"x": values})
    played.begin(LinearRole(data="people"), Terms(asker="ann", n_parties=2))
    played.ask(StandardiseColumns(1.0))
    residuals = np.random.default_rng(7).normal(size=N_ROWS)
    asked = Propose(Residuals.of(residuals), NOTHING, Curvatures.of(np.ones(N_ROWS)))
    scores = played.ask(asked).scores.read(N_ROWS)
    assert abs(np.corrcoef(scores, values)[0, 1]) == pytest.approx(1.0, abs=1e-9)


def _rank(values: NDArray[Any]) -> Rows:
    return values.argsort(kind="stable").argsort(kind="stable")


def test_one_tree_tells_the_order_of_a_column_as_finely_as_leaves_are(tmp_path: Path) -> None:
    """Any labels do, true ones too: it is what row bits tell, and min_rows_per_leaf bounds it."""
    rng = np.random.default_rng(3)
    values = rng.normal(size=N_ROWS)
    place = _order_rows(MadeUpRun(tmp_path, values, rng.integers(0, 2, N_ROWS)))
    assert np.bincount(place).min() >= LEAST
    correlation = float(np.corrcoef(_rank(values), place)[0, 1])
    assert correlation == pytest.approx(0.999, abs=0.002)
    for rows in (np.flatnonzero(place == leaf) for leaf in range(int(place.max()))):
        assert values[rows].max() < values[place > place[rows[0]]].min()


@pytest.mark.parametrize("row", [0, 17, 100, 151])
def test_a_gain_tells_the_rank_of_the_one_row_with_a_label_of_its_own(
    tmp_path: Path, row: int
) -> None:
    """One row in each group of a run, up to which end is which, and not at the ends themselves."""
    values = np.random.default_rng(4).normal(size=N_ROWS)
    labels = (np.arange(N_ROWS) == row).astype(np.int64)
    run = MadeUpRun(tmp_path, values, labels)
    (gain,) = run.search()
    expected = [_gain_of_one(rank) for rank in range(N_ROWS // 2)]
    told = int(np.argmin(np.abs(np.array(expected) - gain)))
    rank = int(_rank(values)[row])
    from_end = min(rank, N_ROWS - 1 - rank)
    assert told == (from_end if from_end >= LEAST else 0)


def _gain_of_one(from_end: int) -> float:
    """The score of cutting off the rows up to the only row of its class (least squares)."""
    n_side = max(from_end + 1, LEAST)
    return (N_ROWS - n_side) / n_side


def test_made_up_moves_leave_no_group_below_the_limit(tmp_path: Path) -> None:
    """Groups that the coordinator makes up are as large as leaves at least."""
    rng = np.random.default_rng(5)
    run = MadeUpRun(tmp_path, rng.normal(size=N_ROWS), rng.integers(0, 2, N_ROWS))
    run.search()
    for n_left in (0, LEAST - 1, N_ROWS - LEAST + 1):
        bits = np.packbits(np.arange(N_ROWS) < n_left, bitorder="little").data
        fates = pack_fates(np.ones(1, np.bool_), np.full(1, OPEN_LEFT | OPEN_RIGHT, np.uint8))
        with pytest.raises(RemoteProtocolError, match="fewer rows than min_samples_leaf"):
            run.search(RowMoves(fates, RowBits(bits), RowBits(NOTHING)))

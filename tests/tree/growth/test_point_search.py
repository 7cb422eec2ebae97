"""A party's work per level: its points, sums and bits, and trees grown from them."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from fedforest.kernels.cuts.pairs import Cuts, Pairs, place_asked
from fedforest.kernels.cuts.scores import Sides
from fedforest.kernels.growth.partition import OPEN_LEFT, OPEN_RIGHT
from fedforest.kernels.layout import SET_WORDS, Rules
from fedforest.kernels.splits.random import Values
from fedforest.tree.growth import point_search
from fedforest.tree.growth.candidates import list_candidates
from fedforest.tree.growth.cut_choice import choose_cuts
from fedforest.tree.growth.decisions import ColumnBits, Growth, GrowthRules
from fedforest.tree.growth.point_search import DrawWords, PointSearch
from fedforest.tree.growth.rows import Sampling, draw_rows
from fedforest.tree.growth.seeds import derive_seeds
from fedforest.tree.growth.split_search import SplitTable
from fedforest.tree.growth.structure import GrowthStep, Structure
from fedforest.tree.table.targets import TrainingTargets, classification_targets, regression_targets
from fedforest.tree.workers import ALONE, Workers
from tests.strategies import SEEDS

N_TREES = 3


def tabulate_cuts(pairs: Pairs, cuts: Cuts, chosen: NDArray[np.int64]) -> SplitTable:
    """Return the cuts of the chosen pairs as splits."""
    left_set = np.zeros((len(chosen) if len(cuts.left_set) else 0, SET_WORDS), np.uint64)
    by_set = np.flatnonzero(cuts.set_index[chosen] >= 0)
    left_set[by_set] = cuts.left_set[cuts.set_index[chosen[by_set]]]
    return SplitTable(
        pairs.feature[chosen], cuts.threshold[chosen], cuts.missing_left[chosen], left_set
    )


@pytest.fixture(scope="module")
def two_workers() -> Iterator[Workers]:
    with ThreadPoolExecutor(1) as executor:
        yield Workers(executor, 2)


@dataclass(frozen=True, eq=False)
class Table:
    """Raw columns with gaps and categories, and targets."""

    values: NDArray[np.float32]  # (columns, rows)
    is_categorical: NDArray[np.bool_]
    targets: TrainingTargets
    is_weighted: bool  # a party without rows does not know

    def take(self, rows: NDArray[np.int64]) -> "Table":
        kernel, targets = self.targets.kernel, self.targets
        taken = {
            name: array[rows] if len(array) else array
            for name, array in kernel._asdict().items()
            if name != "n_classes"
        }
        classes = targets.classes[rows] if len(targets.classes) else targets.classes
        part = replace(
            targets,
            classes=classes,
            allowed=targets.allowed[rows],
            kernel=kernel._replace(**taken),
        )
        return Table(self.values[:, rows], self.is_categorical, part, self.is_weighted)

    def search(self, workers: Workers = ALONE) -> PointSearch:
        """A party that trains three trees on all its rows."""
        values, n_rows = np.ascontiguousarray(self.values), self.values.shape[1]
        columns = Values(values.reshape(-1), np.uint64(n_rows), self.is_categorical)
        sampling = Sampling(bootstrap=False, n_draws=n_rows)
        seeds = derive_seeds(0, "rows", 0, N_TREES)
        rows, _ = draw_rows(seeds, self.targets, sampling, workers)
        return PointSearch(columns, self.targets, rows, workers, rows_apart=self.is_weighted)


def make_table(rng: np.random.Generator, n_rows: int, task: str) -> Table:
    n_columns = 10
    values = rng.normal(size=(n_columns, n_rows)).round(int(rng.choice([0, 1, 6])))
    is_categorical = np.arange(n_columns) % 5 == 3
    values[is_categorical] = rng.integers(0, 7, n_rows)
    values[1, rng.random(n_rows) < 0.3] = np.nan
    values[3, rng.random(n_rows) < 0.3] = np.nan
    signal = np.nan_to_num(values[:4]).sum(axis=0) + rng.normal(size=n_rows)
    weights = rng.integers(1, 4, n_rows).astype(np.float64) if "weighted" in task else None
    if "regression" in task:
        targets = regression_targets(signal.round(1), weights)
    else:
        n_classes = 12 if "many" in task else 2
        codes = np.clip(signal * n_classes / 8 + n_classes / 2, 0, n_classes - 1).astype(np.int64)
        targets = classification_targets(codes, n_classes, weights)
        targets = replace(targets, kind=replace(targets.kind, search="classes"))
    return Table(values.astype(np.float32), is_categorical, targets, weights is not None)


NO_SPLITS = SplitTable(
    np.zeros(0, np.int32),
    np.zeros(0, np.float32),
    np.zeros(0, np.uint8),
    np.zeros((0, 4), np.uint64),
)
TASKS = ["two classes", "many classes", "weighted classes", "regression", "weighted regression"]


def draw_cuts(table: Table, tree: NDArray[np.int32], candidates: NDArray[np.uint8]) -> Cuts:
    """Cuts that depend on tree and column alone, so that any number of parties has the same."""
    pairs = list_candidates(candidates, ALONE)
    node = np.repeat(np.arange(len(tree)), np.diff(pairs.node_start))
    rng = np.random.default_rng(5)
    thresholds = rng.normal(size=(N_TREES, len(table.values)))
    threshold = thresholds[tree[node], pairs.feature] / (1 + node % 3)
    is_set = table.is_categorical[pairs.feature]
    set_index = np.where(is_set, np.cumsum(is_set) - 1, -1).astype(np.int32)
    sets = rng.integers(0, 2**64, (int(is_set.sum()), 4), np.uint64)
    missing_left = (pairs.feature + tree[node]) % 2
    unasked = (pairs.feature + node) % 7 == 0
    return Cuts(
        np.where(unasked, np.nan, threshold).astype(np.float32),
        missing_left.astype(np.uint8),
        set_index,
        sets,
    )


def goes_left(
    table: Table, rows: NDArray[np.int64], splits: SplitTable, place: int
) -> NDArray[np.bool_]:
    """Where the split at a place of the list sends some rows, by its definition."""
    column, side = int(splits.feature[place]), bool(splits.missing_left[place])
    values = table.values[column, rows]
    if not table.is_categorical[column]:
        return np.where(np.isnan(values), side, values <= splits.cut[place])
    words = splits.left_set[place].tolist()
    codes = np.nan_to_num(values).astype(int).tolist()
    is_member = np.array([words[code >> 6] >> (code & 63) & 1 for code in codes], np.bool_)
    return np.where(np.isnan(values), side, is_member)


def halves_of(pairs: Pairs) -> DrawWords:
    """Every point in the middle of its range."""
    starts = pairs.node_start
    return lambda first, last: np.full((starts[last] - starts[first], 2), 2**63, np.uint64)


class Training:
    """Trees grown level by level on the rows of some parties; knows where every row should be."""

    def __init__(self, parties: list[Table], workers: Workers = ALONE) -> None:
        self.parties = parties
        self.workers = workers
        self.searches = [table.search(workers) for table in parties]
        self.layout = self.searches[0].layout
        kind = parties[0].targets.kind
        roots = self.layout.expand(self._united([s.node_sums() for s in self.searches]))
        seeds, columns = derive_seeds(2, "features", 0, N_TREES), ColumnBits.of([10])
        rules = GrowthRules(features_per_node=4, max_depth=6)
        self.growth = Growth(rules, kind, columns, seeds, roots)
        self.members = [[np.arange(t.values.shape[1])] * N_TREES for t in parties]
        self.record: list[tuple[list[object], ...]] = []
        self._move(self.growth.root_step, NO_SPLITS)

    @staticmethod
    def _united(parts: list[NDArray[np.int64]]) -> NDArray[np.int64]:
        return np.sum(parts, axis=0)  # type: ignore[no-any-return]

    def step(self) -> None:
        """One level; sums are those of both exchanges, choices are recorded."""
        growth, width = self.growth, self.layout.width
        candidates = growth.draw()
        pairs = list_candidates(candidates, ALONE)
        for search in self.searches:
            search.propose(list_candidates(candidates, ALONE), halves_of(pairs), 2)
        cuts = draw_cuts(self.parties[0], growth.structure.open.tree, candidates)
        left = self._united([s.count(cuts, both_sides=False) for s in self.searches])
        both = self._united([s.count(cuts, both_sides=True) for s in self.searches])
        asked_start = place_asked(pairs.node_start, cuts.threshold)
        node_of_asked = np.repeat(np.arange(growth.n_open), np.diff(asked_start))
        assert np.array_equal(both[:, :width], left)
        assert np.array_equal(both[:, width:], growth.sums[node_of_asked, :width] - left)
        rules = Rules(growth.kind.scores.formula, 2)
        choice = choose_cuts(self.layout, Sides(asked_start, left, growth.sums, width), rules)
        is_split = growth.choose(choice.score)
        chosen = choice.asked[is_split]
        splits = tabulate_cuts(pairs, cuts, np.flatnonzero(~np.isnan(cuts.threshold))[chosen])
        step = growth.advance(is_split, choice.score, self.layout.expand(left[chosen]))
        self.record.append((left.tolist(), choice.asked.tolist(), choice.score.tolist()))
        self._move(step, splits)

    def _move(self, step: GrowthStep, splits: SplitTable) -> None:
        nodes = np.flatnonzero(step.is_split).tolist()
        place_of_node = {node: place for place, node in enumerate(nodes)}
        for party, (table, search) in enumerate(zip(self.parties, self.searches, strict=True)):
            search.move(step, splits)
            after = []
            for source, is_right in zip(step.source.tolist(), step.is_right, strict=True):
                rows = self.members[party][source]
                if source in place_of_node:
                    is_left = goes_left(table, rows, splits, place_of_node[source])
                    rows = rows[is_left != is_right]
                after.append(rows)
            self.members[party] = after

    def rows_of(self, party: int) -> list[list[int]]:
        """The rows a party has in each open node."""
        order = self.searches[party].rows.order
        mask = (1 << int(order.row_bits)) - 1
        spans = zip(order.start.tolist(), order.stop.tolist(), strict=True)
        return [[entry & mask for entry in order.entries[a:b].tolist()] for a, b in spans]

    def grow(self) -> "Training":
        while self.growth.n_open:
            for party in range(len(self.parties)):
                assert self.rows_of(party) == [rows.tolist() for rows in self.members[party]]
            self.step()
        return self

    def shape(self) -> list[int]:
        return list(self.growth.structure.flat_children().tolist())


@given(SEEDS, st.sampled_from(TASKS), st.sampled_from([5, 60, 400]), st.integers(2, 4))
@settings(max_examples=30)
def test_any_number_of_parties_grows_the_trees_of_one(
    seed: int, task: str, n_rows: int, n_parties: int
) -> None:
    rng = np.random.default_rng(seed)
    table = make_table(rng, n_rows, task)
    owner = rng.integers(0, n_parties, n_rows)
    parts = [table.take(np.flatnonzero(owner == party)) for party in range(n_parties)]
    alone, together = Training([table]).grow(), Training(parts).grow()
    assert together.record == alone.record
    assert together.shape() == alone.shape()


@pytest.mark.parametrize("task", TASKS)
def test_threads_change_nothing(task: str, two_workers: Workers) -> None:
    table = make_table(np.random.default_rng(3), 4000, task)
    alone, with_threads = Training([table]).grow(), Training([table], two_workers).grow()
    assert with_threads.record == alone.record
    assert with_threads.shape() == alone.shape()


def test_points_and_bit_sums_are_the_same_with_threads(two_workers: Workers) -> None:
    rng = np.random.default_rng(4)
    table = make_table(rng, 3000, "two classes")
    responses = rng.integers(0, 2**64, 3000, np.uint64) >> np.uint64(50)
    candidates = np.full((N_TREES, 2), 255, np.uint8) & np.array([255, 3], np.uint8)
    words = rng.integers(0, 2**64, (10 * N_TREES, 2), np.uint64)
    outcomes, pairs = [], list_candidates(candidates, ALONE)
    for workers in (ALONE, two_workers):
        search = table.search(workers)
        points = search.propose(pairs, lambda *nodes: words[slice(*pairs.node_start[[*nodes]])], 2)
        cuts = draw_cuts(table, np.arange(N_TREES, dtype=np.int32), candidates)
        outcomes.append((points.tolist(), search.count_bits(cuts, responses, 14).tolist()))
    assert outcomes[0] == outcomes[1]
    assert {len(line) for line in outcomes[0][1]} == {2 * 15}


@pytest.mark.parametrize("together", [1, 7, 10, 25])
def test_points_are_the_same_however_many_are_drawn_together(
    together: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = make_table(np.random.default_rng(4), 300, "two classes")
    pairs = list_candidates(
        np.full((N_TREES, 2), 255, np.uint8) & np.array([255, 3], np.uint8), ALONE
    )
    words = np.random.default_rng(5).integers(0, 2**64, (len(pairs.feature), 2), np.uint64)

    def draw_words(first: int, last: int) -> NDArray[np.uint64]:
        return words[pairs.node_start[first] : pairs.node_start[last]]

    at_once = table.search(ALONE).propose(pairs, draw_words, 2)
    monkeypatch.setattr(point_search, "PAIRS_DRAWN_TOGETHER", together)
    in_blocks = table.search(ALONE).propose(pairs, draw_words, 2)
    assert np.isfinite(at_once).any()
    assert in_blocks.tobytes() == at_once.tobytes()


@pytest.mark.parametrize(("n_nodes", "count"), [(5, 3), (20_000, 3), (20_000, 12)])
def test_candidates_listed_while_they_are_drawn_are_those_of_the_bitmap(
    n_nodes: int, count: int, two_workers: Workers
) -> None:
    kind = make_table(np.random.default_rng(0), 10, "two classes").targets.kind
    seeds, columns = derive_seeds(1, "features", 0, n_nodes), ColumnBits.of([10])
    sums = np.full((n_nodes, kind.n_sums), 9)
    growth = Growth(GrowthRules(features_per_node=count), kind, columns, seeds, sums, two_workers)
    bitmap, pairs = growth.draw_pairs()
    listed = list_candidates(growth.draw(), ALONE)
    assert bitmap.tolist() == growth.draw().tolist()
    assert pairs.node_start.tolist() == listed.node_start.tolist()
    assert pairs.feature.tolist() == listed.feature.tolist()


def test_a_party_that_sat_out_a_step_splits_its_rows_all_the_same() -> None:
    rng = np.random.default_rng(6)
    table = make_table(rng, 300, "two classes")
    training, late = Training([table]), table.search()
    training.step()  # the late party saw no candidates and counted nothing
    candidates = np.full((N_TREES, 2), 255, np.uint8) & np.array([255, 3], np.uint8)
    late.propose(
        list_candidates(candidates, ALONE), halves_of(list_candidates(candidates, ALONE)), 2
    )
    order = late.rows.order
    late.rows.order = order._replace(start=order.start.copy())  # rows have moved since it proposed
    splits = SplitTable(
        np.array([0, 3, 1], np.int32),
        np.array([0.1, 0.0, -0.2], np.float32),
        np.array([1, 1, 1], np.uint8),
        rng.integers(0, 2**64, (3, 4), np.uint64),
    )
    structure = Structure(N_TREES)
    both_open = np.full(N_TREES, OPEN_LEFT | OPEN_RIGHT, np.uint8)
    late.move(structure.advance(np.ones(N_TREES, np.bool_), both_open), splits)
    expected = []
    for place in range(N_TREES):
        is_left = goes_left(table, np.arange(300), splits, place)
        expected += [np.flatnonzero(is_left).tolist(), np.flatnonzero(~is_left).tolist()]
    assert [late.rows_of(node).tolist() for node in range(2 * N_TREES)] == expected


def test_rows_may_be_counted_apart_from_how_often_they_were_drawn() -> None:
    table = make_table(np.random.default_rng(7), 200, "two classes")
    plain = table.search()
    seeds, sampling = derive_seeds(0, "rows", 0, N_TREES), Sampling(bootstrap=True, n_draws=200)
    rows, _ = draw_rows(seeds, table.targets, sampling, ALONE)
    search = PointSearch(plain.columns, table.targets, rows, ALONE, rows_apart=True)
    sums = search.node_sums()
    assert sums.shape == (N_TREES, 3)
    assert (sums[:, :2].sum(axis=1) == 200).all()
    assert sums[:, 2].tolist() == rows.sizes.tolist()
    assert np.array_equal(search.layout.expand(sums), sums)


@pytest.mark.parametrize("task", TASKS)
def test_counting_within_some_nodes_gives_what_counting_everywhere_gives_for_them(
    task: str,
) -> None:
    rng = np.random.default_rng(9)
    table = make_table(rng, 200, task)
    search = table.search()
    tree = np.arange(N_TREES, dtype=np.int32)
    candidates = rng.integers(0, 256, (N_TREES, 2)).astype(np.uint8) & np.array([255, 3], np.uint8)
    pairs = list_candidates(candidates, ALONE)
    search.propose(pairs, halves_of(pairs), 2)
    cuts = draw_cuts(table, tree, candidates)
    everywhere = search.count(cuts, both_sides=True)
    node_of_pair = np.repeat(tree, np.diff(pairs.node_start))
    node_of_asked = node_of_pair[~np.isnan(cuts.threshold)]
    for nodes in ([0], [2], [0, 2], [1, 2], []):
        here = np.isin(node_of_pair, nodes)
        own = Cuts(
            cuts.threshold[here], cuts.missing_left[here], cuts.set_index[here], cuts.left_set
        )
        part = search.within(np.array(nodes, np.int64))
        expected = everywhere[np.isin(node_of_asked, nodes)]
        assert np.array_equal(part.count(own, both_sides=True), expected)
        of_nodes = search.node_sums()[nodes]
        assert np.array_equal(part.node_sums(), of_nodes)
        together = part.count_with_nodes(own, np.arange(len(nodes)), both_sides=True)
        assert together.tolist() == [*expected.flat, *of_nodes.flat]
    assert np.array_equal(search.count(cuts, both_sides=True), everywhere)


def test_counting_before_proposing_is_a_mistake_of_ours() -> None:
    search = make_table(np.random.default_rng(8), 50, "two classes").search()
    splits = NO_SPLITS
    cuts = Cuts(splits.cut, splits.missing_left, splits.feature, splits.left_set)
    with pytest.raises(AssertionError, match="counting follows proposing"):
        search.count(cuts, both_sides=False)

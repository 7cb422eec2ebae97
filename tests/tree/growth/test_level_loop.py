"""The forest of one table: equal to the slow reference, and the same however it is computed."""

from collections.abc import Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from fedforest.kernels.criteria.registry import BY_NAME
from fedforest.tree.forest.forest import Forest, ForestWalker, concatenate_forests
from fedforest.tree.growth.decisions import NO_DEPTH_LIMIT, GrowthRules
from fedforest.tree.growth.left_out_rows import OutOfBagTally
from fedforest.tree.growth.level_loop import GrownBatch, GrowthPlan, batches, grow_batch
from fedforest.tree.growth.rows import Sampling, entry_type
from fedforest.tree.growth.seeds import derive_seed
from fedforest.tree.table.targets import TrainingTargets, classification_targets, regression_targets
from fedforest.tree.workers import Workers
from tests.reference import forest as reference
from tests.strategies import SEEDS, BinnedTable, binned_tables, class_codes, sample_weights

ALONE = Workers()


@pytest.fixture(scope="module")
def executor() -> Iterator[Executor]:
    with ThreadPoolExecutor(2) as threads:
        yield threads


@dataclass(frozen=True, eq=False)
class Case:
    """Everything that decides which forest grows."""

    table: BinnedTable
    targets: TrainingTargets
    plan: GrowthPlan
    trees: range

    def grow(self, workers: Workers = ALONE) -> GrownBatch:
        return grow_batch(self.table.columns(), self.targets, self.plan, self.trees, workers)

    def reference_table(self) -> reference.Table:
        return reference.Table(self.table.bins.tolist(), self.table.is_categorical.tolist())

    def reference_trees(self) -> list[reference.Tree]:
        return reference.grow_trees(self.reference_table(), self.targets, self.plan, self.trees)


def arrays_of(forest: Forest) -> dict[str, list[float]]:
    shape, splits, leaves = forest.shape, forest.splits, forest.leaves
    return {
        "tree_start": shape.tree_start.tolist(),
        "left_child": shape.left_child.tolist(),
        "feature": splits.feature.tolist(),
        "cut": splits.cut.tolist(),
        "missing_left": splits.missing_left.tolist(),
        "set_index": splits.set_index.tolist(),
        "left_set": splits.left_set.reshape(-1).tolist(),
        "leaf_start": leaves.start.tolist(),
        "leaf_label": leaves.label.tolist(),
        "leaf_value": leaves.value.tolist(),
    }


def assert_same_forest(one: Forest, other: Forest) -> None:
    assert arrays_of(one) == arrays_of(other)
    assert one.decrease.tolist() == other.decrease.tolist()


@st.composite
def training_targets(draw: st.DrawFn, table: BinnedTable) -> TrainingTargets:
    weights = draw(sample_weights(table.n_rows))
    n_classes = draw(st.sampled_from([0, 2, 2, 3, 6]), label="classes")
    if n_classes == 0:
        rng = np.random.default_rng(draw(SEEDS, label="target seed"))
        followed = draw(class_codes(table, 5)).astype(np.float64)
        noise = draw(st.sampled_from([0.0, 0.5]), label="target noise")
        values = followed + noise * rng.standard_normal(table.n_rows)
        criterion = draw(st.sampled_from(["squared_error", "poisson"]), label="criterion")
        if criterion == "poisson":  # some are zero, and one with weight is not
            values = np.maximum(values, 0.0)
            values[0 if weights is None else int(np.argmax(weights))] = 3.0
        return regression_targets(values, weights, BY_NAME[criterion])
    criterion = draw(st.sampled_from(["gini", "entropy"]), label="criterion")
    codes = draw(class_codes(table, n_classes))
    return classification_targets(codes, n_classes, weights, BY_NAME[criterion])


@st.composite
def growth_rules(draw: st.DrawFn, n_columns: int) -> GrowthRules:
    return GrowthRules(
        max_depth=draw(st.sampled_from([0, 1, 3, NO_DEPTH_LIMIT, NO_DEPTH_LIMIT])),
        min_rows_split=draw(st.sampled_from([2, 2, 9])),
        min_rows_leaf=draw(st.sampled_from([1, 1, 1, 2, 5])),
        min_weight_share=draw(st.sampled_from([0.0, 0.0, 0.0, 0.013, 0.1, 0.29, 0.5])),
        # not a number that a decrease of impurity is likely to hit exactly
        min_impurity_decrease=draw(st.sampled_from([0.0, 0.0, 0.00271828, 0.0314159])),
        features_per_node=draw(st.integers(1, n_columns)),
        sample_per_tree=draw(st.sampled_from([False, False, False, True])),
    )


@st.composite
def cases(draw: st.DrawFn) -> Case:
    table = draw(binned_tables(draw(st.sampled_from([1, 2, 5, 20, 60, 150]), label="rows"), 9))
    n_draws = draw(st.integers(1, table.n_rows), label="draws")
    plan = GrowthPlan(
        draw(growth_rules(table.n_columns)),
        Sampling(draw(st.booleans()), draw(st.sampled_from([table.n_rows, n_draws]))),
        draw(st.integers(0, 2**63 - 1), label="seed"),
        with_left_out=draw(st.booleans()),
    )
    first = draw(st.integers(0, 5))
    return Case(table, draw(training_targets(table)), plan, range(first, first + 2))


def large_case(task: str = "gini", n_rows: int = 3000) -> Case:
    """Nodes of all sizes, gaps, categories, weights for some tasks; threads get work to do."""
    rng = np.random.default_rng(11)
    bins = rng.integers(0, 60, (6, n_rows)).astype(np.uint8)
    bins[1, rng.random(n_rows) < 0.2] = 255
    bins[2] = rng.integers(0, 200, n_rows)
    table = BinnedTable(bins, np.full(6, 200, np.int16), np.arange(6) == 2)
    signal = bins[0] // 15 + 2.0 * (bins[1] == 255) + bins[2] % 3 + rng.standard_normal(n_rows)
    weights = rng.random(n_rows) if task == "weighted" else None
    if task == "regression":
        targets = regression_targets(signal)
    elif task == "poisson":
        targets = regression_targets(np.maximum(signal.round(), 0.0), None, BY_NAME["poisson"])
    elif task == "entropy":
        targets = classification_targets(
            (signal * 0.7).astype(int) % 5, 5, None, BY_NAME["entropy"]
        )
    else:
        targets = classification_targets(signal > 3, 2, weights)
    rules = GrowthRules(features_per_node=2, min_rows_leaf=2)
    plan = GrowthPlan(rules, Sampling(bootstrap=True, n_draws=n_rows), 17, with_left_out=True)
    return Case(table, targets, plan, range(5))


@given(cases())
@settings(max_examples=300)
def test_the_forest_equals_the_reference(case: Case) -> None:
    grown, expected = case.grow(), case.reference_trees()
    assert arrays_of(grown.forest) == reference.flatten(expected, case.targets)
    decrease = [node.decrease for tree in expected for node in tree.nodes]
    np.testing.assert_allclose(grown.forest.decrease, decrease, rtol=1e-6, atol=1e-7)
    if not case.plan.with_left_out:
        assert grown.left_out_leaves is None
        return
    assert grown.left_out_leaves is not None
    table = case.reference_table()
    leaves = [reference.left_out_leaves(tree, table, case.targets) for tree in expected]
    assert grown.left_out_leaves.tolist() == leaves


@pytest.mark.parametrize("task", ["gini", "entropy", "weighted", "regression", "poisson"])
def test_a_forest_with_large_nodes_equals_the_reference(task: str) -> None:
    case = replace(large_case(task, n_rows=1000), trees=range(2))
    assert arrays_of(case.grow().forest) == reference.flatten(case.reference_trees(), case.targets)


@pytest.mark.parametrize("task", ["gini", "entropy", "weighted", "regression", "poisson"])
@pytest.mark.parametrize("count", [2, 3])
def test_any_number_of_threads_grows_the_same_forest(
    task: str, count: int, executor: Executor
) -> None:
    case = large_case(task)
    alone, together = case.grow(), case.grow(Workers(executor, count))
    assert_same_forest(alone.forest, together.forest)
    np.testing.assert_array_equal(alone.left_out_leaves, together.left_out_leaves)


@pytest.mark.parametrize("task", ["gini", "regression"])
@pytest.mark.parametrize("batch_bytes", [0, 150_000, 2**28])
def test_batches_of_any_size_grow_the_same_forest(task: str, batch_bytes: int) -> None:
    case = large_case(task)
    plan = replace(case.plan, batch_bytes=batch_bytes)
    ranges = list(batches(plan, case.targets.n_rows, case.targets.kind.n_classes, 0, 5))
    assert [tree for trees in ranges for tree in trees] == list(range(5))
    assert len(ranges) == {0: 5, 150_000: 3, 2**28: 1}[batch_bytes]
    parts = [replace(case, plan=plan, trees=trees).grow() for trees in ranges]
    whole = case.grow()
    assert_same_forest(concatenate_forests([part.forest for part in parts]), whole.forest)
    leaves = np.concatenate([part.left_out_leaves for part in parts])
    np.testing.assert_array_equal(leaves, whole.left_out_leaves)


@pytest.mark.slow
def test_wide_entries_grow_the_same_forest_as_narrow_ones() -> None:
    n_rows = 2**18 + 1
    rng = np.random.default_rng(0)
    bins = rng.integers(0, 9, (2, n_rows)).astype(np.uint8)
    table = BinnedTable(bins, np.full(2, 9, np.int16), np.array([False, True]))
    codes = (bins.sum(axis=0) + rng.integers(0, 3, n_rows)) % 2
    plan = GrowthPlan(GrowthRules(max_depth=3), Sampling(bootstrap=True, n_draws=n_rows), 3)
    grown = []
    for n_classes, entries in ((2, np.uint32), (1000, np.uint64)):
        assert entry_type(n_rows, n_classes) is entries
        targets = classification_targets(codes, n_classes, criterion=BY_NAME["entropy"])
        grown.append(Case(table, targets, plan, range(1)).grow().forest)
    assert_same_forest(*grown)


@given(cases(), SEEDS)
@settings(max_examples=50)
def test_the_order_of_rows_does_not_matter_when_every_tree_sees_all_of_them(
    case: Case, seed: int
) -> None:
    shuffled = np.random.default_rng(seed).permutation(case.table.n_rows)
    plan = replace(case.plan, sampling=Sampling(bootstrap=False, n_draws=case.table.n_rows))
    targets, kernel = case.targets, case.targets.kernel
    moved = replace(
        targets,
        classes=targets.classes[shuffled] if len(targets.classes) else targets.classes,
        allowed=targets.allowed[shuffled],
        kernel=kernel._replace(
            weights=kernel.weights[shuffled] if len(kernel.weights) else kernel.weights,
            values=kernel.values[shuffled] if len(kernel.values) else kernel.values,
            levels=kernel.levels[shuffled] if len(kernel.levels) else kernel.levels,
        ),
    )
    one = replace(case, plan=plan).grow()
    other = Case(case.table.take_rows(shuffled), moved, plan, case.trees).grow()
    assert_same_forest(one.forest, other.forest)


@given(cases(), st.data())
@settings(max_examples=50)
def test_a_row_without_weight_counts_as_if_it_were_not_there(
    case: Case, data: st.DataObject
) -> None:
    n_rows, n_classes = case.table.n_rows, 3
    codes = data.draw(class_codes(case.table, n_classes))
    kept = np.array(data.draw(st.lists(st.booleans(), min_size=n_rows, max_size=n_rows)))
    kept[data.draw(st.integers(0, n_rows - 1))] = True
    plan = replace(case.plan, with_left_out=False)
    everything = replace(plan, sampling=Sampling(bootstrap=False, n_draws=n_rows))
    fewer = replace(plan, sampling=Sampling(bootstrap=False, n_draws=int(kept.sum())))
    weighted = classification_targets(codes, n_classes, kept.astype(np.float64))
    plain = classification_targets(codes[kept], n_classes, np.ones(int(kept.sum())))
    one = Case(case.table, weighted, everything, case.trees).grow()
    other = Case(case.table.take_rows(kept), plain, fewer, case.trees).grow()
    assert arrays_of(one.forest) == arrays_of(other.forest)


@given(st.integers(1, 40), st.integers(0, 39), st.integers(1, 40), SEEDS)
@settings(max_examples=60)
def test_the_one_informative_column_is_found_however_few_are_drawn(
    n_columns: int, informative: int, features_per_node: int, seed: int
) -> None:
    informative %= n_columns
    bins = np.zeros((n_columns, 40), np.uint8)
    bins[informative] = np.arange(40)
    table = BinnedTable(bins, np.full(n_columns, 40, np.int16), np.zeros(n_columns, np.bool_))
    targets = classification_targets(np.arange(40) // 3 % 2, 2)
    rules = GrowthRules(features_per_node=min(features_per_node, n_columns))
    plan = GrowthPlan(rules, Sampling(bootstrap=False, n_draws=40), seed)
    forest = Case(table, targets, plan, range(3)).grow().forest
    assert set(forest.splits.feature.tolist()) == {-1, informative}
    assert set(forest.leaves.value.tolist()) == {1.0}, "every leaf is pure"


def test_features_sampled_per_tree_are_not_drawn_again() -> None:
    bins = np.zeros((8, 40), np.uint8)
    bins[5] = np.arange(40)
    table = BinnedTable(bins, np.full(8, 40, np.int16), np.zeros(8, np.bool_))
    targets = classification_targets(np.arange(40) % 2, 2)
    rules = GrowthRules(features_per_node=2, sample_per_tree=True)
    plan = GrowthPlan(rules, Sampling(bootstrap=False, n_draws=40), 1)
    forest = Case(table, targets, plan, range(40)).grow().forest
    is_single = np.diff(forest.shape.tree_start) == 1
    assert 0.5 < is_single.mean() < 0.95, "most of the trees did not draw column 5"


@pytest.mark.parametrize("weights", [None, np.arange(1.0, 31.0)])
def test_a_constant_target_gives_single_leaves(weights: NDArray[np.float64] | None) -> None:
    bins = np.random.default_rng(0).integers(0, 9, (3, 30)).astype(np.uint8)
    table = BinnedTable(bins, np.full(3, 9, np.int16), np.zeros(3, np.bool_))
    rules = GrowthRules(features_per_node=3)
    plan = GrowthPlan(rules, Sampling(bootstrap=True, n_draws=30), 1, with_left_out=True)
    for targets in (
        classification_targets(np.full(30, 1), 3, weights),
        regression_targets(np.full(30, 4.5), weights),
    ):
        grown = Case(table, targets, plan, range(4)).grow()
        assert grown.forest.shape.n_nodes == 4
        assert set(grown.forest.leaves.value.tolist()) == {
            4.5 if targets.kind.is_regression else 1.0
        }
        assert grown.left_out_leaves is not None
        assert set(np.unique(grown.left_out_leaves).tolist()) == {-1, 0}


@given(cases())
@settings(max_examples=50)
def test_no_tree_is_deeper_and_no_leaf_smaller_than_allowed(case: Case) -> None:
    forest = case.grow().forest
    assert forest.shape.depths().max() <= case.plan.rules.max_depth
    leaves = ForestWalker(forest).apply(case.table.bins, ALONE)
    for tree, expected in enumerate(case.reference_trees()):
        drawn = np.array(expected.multiplicity) > 0
        is_split = forest.shape.tree_start[tree + 1] - forest.shape.tree_start[tree] > 1
        if is_split:
            assert (
                np.unique_counts(leaves[drawn, tree]).counts.min() >= case.plan.rules.min_rows_leaf
            )


@pytest.mark.parametrize("bootstrap", [False, True])
@pytest.mark.parametrize("task", ["gini", "entropy", "weighted", "regression", "poisson"])
def test_every_leaf_weighs_its_share_of_the_tree_as_often_as_rows_were_drawn(
    task: str, bootstrap: bool
) -> None:
    case = large_case(task)
    share, sampling = 0.01, Sampling(bootstrap, case.table.n_rows)
    rules = replace(case.plan.rules, min_weight_share=share)
    limited = replace(case, plan=replace(case.plan, rules=rules, sampling=sampling))
    weights = lightest_leaves(limited)
    assert weights.min() >= share
    assert weights.min() < 1.2 * share
    unlimited = replace(case, plan=replace(case.plan, sampling=sampling))
    assert lightest_leaves(unlimited).min() < share


def lightest_leaves(case: Case) -> NDArray[np.float64]:
    """The share of each tree's weight that its lightest leaf has."""
    leaves = ForestWalker(case.grow().forest).apply(case.table.bins, ALONE)
    weights = case.targets.kernel.weights
    weights = weights if len(weights) else np.ones(case.table.n_rows, np.int64)
    shares = []
    for place, number in enumerate(case.trees):
        seed = derive_seed(case.plan.seed, "rows", number)
        drawn = np.array(reference.draw_multiplicity(case.targets, case.plan, seed)) * weights
        of_leaf = np.bincount(leaves[:, place], drawn)
        shares.append(of_leaf[of_leaf > 0].min() / drawn.sum())
    return np.array(shares)


@pytest.mark.parametrize("threads", [1, 2])
def test_a_limit_on_weight_is_a_limit_on_rows_where_every_row_weighs_one(threads: int) -> None:
    case = large_case()
    by_weight = replace(case.plan.rules, min_weight_share=0.01)
    by_rows = replace(case.plan.rules, min_rows_leaf=30)
    sampling = Sampling(bootstrap=False, n_draws=case.table.n_rows)
    with ThreadPoolExecutor(2) as executor:
        forests = [
            replace(case, plan=replace(case.plan, rules=rules, sampling=sampling))
            .grow(Workers(executor, threads))
            .forest
            for rules in (by_weight, by_rows)
        ]
    assert_same_forest(*forests)


@pytest.mark.parametrize("task", ["gini", "entropy", "weighted", "regression", "poisson"])
def test_every_split_decreases_impurity_by_what_was_asked_for(task: str) -> None:
    case = large_case(task)
    least = 0.004
    rules = replace(case.plan.rules, min_impurity_decrease=least)
    forest = replace(case, plan=replace(case.plan, rules=rules)).grow().forest
    is_inner = forest.shape.left_child >= 0
    assert is_inner.any()
    unit = case.targets.kind.target_unit if task == "regression" else 1.0
    assert (forest.decrease[is_inner] * unit**2 >= least - 1e-12).all()
    assert (forest.decrease[~is_inner] == 0).all()
    unlimited = case.grow().forest
    assert unlimited.shape.n_nodes > forest.shape.n_nodes
    assert (unlimited.decrease >= 0).all()


def recomputed_votes(case: Case, batch: GrownBatch) -> tuple[NDArray[Any], NDArray[Any]]:
    """Walk every row through every tree; only those that had not drawn it vote."""
    forest, n_rows = batch.forest, case.table.n_rows
    reached = ForestWalker(forest).apply(case.table.bins, ALONE)
    votes, counts = np.zeros((n_rows, max(1, forest.n_classes))), np.zeros(n_rows, np.int64)
    for i, number in enumerate(case.trees):
        seed = derive_seed(case.plan.seed, "rows", number)
        drawn = reference.draw_multiplicity(case.targets, case.plan, seed)
        for row in range(n_rows):
            if drawn[row] == 0 and case.targets.allowed[row]:
                leaf = int(forest.shape.tree_start[i] + reached[row, i])
                owned = slice(forest.leaves.start[leaf], forest.leaves.start[leaf + 1])
                labels = forest.leaves.label[owned] if forest.n_classes else [0]
                votes[row, labels] += forest.leaves.value[owned]
                counts[row] += 1
    return votes, counts


@given(cases())
@settings(max_examples=50)
def test_out_of_bag_votes_are_those_of_the_trees_that_left_the_row_out(case: Case) -> None:
    case = replace(case, plan=replace(case.plan, with_left_out=True))
    batch = case.grow()
    assert batch.left_out_leaves is not None
    out_of_bag = OutOfBagTally(case.table.n_rows, batch.forest.n_classes)
    for tree in range(len(case.trees)):
        out_of_bag.add(batch.forest.shape, batch.forest.leaves, batch.left_out_leaves, tree)
    votes, counts = recomputed_votes(case, batch)
    np.testing.assert_array_equal(out_of_bag.votes, votes)
    np.testing.assert_array_equal(out_of_bag.counts, counts)
    assert np.isnan(out_of_bag.means()[counts == 0]).all()
    assert np.isfinite(out_of_bag.means()[counts > 0]).all()


def test_progress_is_reported_once_for_every_step() -> None:
    case = large_case()
    heard: list[tuple[int, int]] = []
    grow_batch(
        case.table.columns(),
        case.targets,
        case.plan,
        case.trees,
        ALONE,
        lambda level, open_nodes: heard.append((level, open_nodes)),
    )
    assert [level for level, _ in heard] == list(range(len(heard)))
    assert heard[0] == (0, len(case.trees))
    assert all(open_nodes > 0 for _, open_nodes in heard)

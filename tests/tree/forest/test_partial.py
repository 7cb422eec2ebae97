"""Shares of a forest: together they are the forest, alone they say nothing about the others."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedforest.errors import DataError
from fedforest.tree.forest.forest import LEAF, Forest, Shape
from fedforest.tree.forest.partial import (
    FOREIGN,
    MAX_OWNERS,
    ForestOutline,
    PartialForest,
    divide,
    own_importances,
    union,
)
from tests.tree.grown_forests import (
    ForestCase,
    arrays_of,
    assert_same_arrays,
    forest_cases,
    sample_forest,
)

Shares = tuple[ForestOutline, list[PartialForest]]


def draw_division(data: st.DataObject, n_columns: int) -> list[int]:
    """Consecutive columns for one to six owners, some of whom may have none."""
    n_owners = data.draw(st.integers(1, 6), label="owners")
    bounds = st.lists(st.integers(0, n_columns), min_size=n_owners - 1, max_size=n_owners - 1)
    ends = [*sorted(data.draw(bounds, label="bounds")), n_columns]
    return np.diff(ends, prepend=0).tolist()


def slow_importances(forest: Forest) -> list[float]:
    """Per tree each column's share in the decrease, then the mean over trees that decrease."""
    shares = []
    for first, last in zip(forest.shape.tree_start, forest.shape.tree_start[1:], strict=False):
        sums = [0.0] * forest.n_features
        for node in range(first, last):
            if forest.splits.feature[node] >= 0:
                sums[forest.splits.feature[node]] += forest.decrease[node]
        if sum(sums) > 0:
            shares.append([s / sum(sums) for s in sums])
    if not shares:
        return [0.0] * forest.n_features
    return [sum(column) / len(shares) for column in zip(*shares, strict=True)]


@given(forest_cases(), st.data())
def test_a_forest_divided_and_united_again_is_the_same_in_every_byte(
    case: ForestCase, data: st.DataObject
) -> None:
    forest = case.grow().forest
    outline, partials = divide(forest, draw_division(data, forest.n_features))
    united = union(outline, partials)
    assert_same_arrays(united, forest)
    assert (united.n_classes, united.n_features) == (forest.n_classes, forest.n_features)


def test_thresholds_on_raw_values_are_divided_and_united_like_bins() -> None:
    forest = sample_forest().forest
    thresholds = (forest.splits.cut / 3).astype(np.float32)
    forest = replace(forest, splits=replace(forest.splits, cut=thresholds))
    assert_same_arrays(union(*divide(forest, [1, 3])), forest)


@given(forest_cases(), st.data())
def test_an_owner_keeps_its_own_splits_and_nothing_of_the_others(
    case: ForestCase, data: st.DataObject
) -> None:
    forest = case.grow().forest
    splits = forest.splits
    counts = draw_division(data, forest.n_features)
    outline, partials = divide(forest, counts)
    first = 0
    for owner, (partial, n_columns) in enumerate(zip(partials, counts, strict=True)):
        assert partial.n_features == n_columns
        own = (splits.feature >= first) & (splits.feature < first + n_columns)
        assert partial.own_nodes().tolist() == np.flatnonzero(own).tolist()
        assert (outline.owner == owner).tolist() == own.tolist()
        kept = partial.splits
        np.testing.assert_array_equal(kept.feature[own] + first, splits.feature[own])
        np.testing.assert_array_equal(kept.cut[own], splits.cut[own])
        np.testing.assert_array_equal(kept.missing_left[own], splits.missing_left[own])
        by_set = own & (splits.set_index >= 0)
        of_forest, of_owner = splits.set_index[by_set], kept.set_index[by_set]
        np.testing.assert_array_equal(kept.left_set[of_owner], splits.left_set[of_forest])
        assert len(kept.left_set) == by_set.sum()
        inner = splits.feature >= 0
        assert set(kept.feature[inner & ~own].tolist()) <= {FOREIGN}
        assert set(kept.feature[~inner].tolist()) <= {LEAF}
        assert not kept.cut[~own].any()
        assert not kept.missing_left[~own].any()
        assert (kept.set_index[~by_set] == -1).all()
        first += n_columns


def test_a_share_of_an_owner_holds_no_leaf_and_the_outline_no_split() -> None:
    outline, partials = divide(sample_forest().forest, [2, 2])
    of_owner = {name.split(".")[-1] for name in arrays_of(partials[0])}
    of_coordinator = {name.split(".")[-1] for name in arrays_of(outline)}
    assert of_owner == {
        *("tree_start", "left_child"),
        *("feature", "cut", "missing_left", "set_index", "left_set"),
    }
    assert of_coordinator == {
        *("tree_start", "left_child"),
        *("owner", "start", "label", "value", "decrease"),
    }


@given(forest_cases(), st.data())
def test_the_importances_at_the_owners_are_exactly_those_of_the_forest(
    case: ForestCase, data: st.DataObject
) -> None:
    forest = case.grow().forest
    outline, partials = divide(forest, draw_division(data, forest.n_features))
    parts = [
        own_importances(partial, outline.decrease_of(owner), outline.tree_totals())
        for owner, partial in enumerate(partials)
    ]
    importances = forest.importances()
    assert np.concatenate(parts).tolist() == importances.tolist()
    np.testing.assert_allclose(importances, slow_importances(forest), rtol=1e-12)


def test_columns_that_do_not_add_up_are_refused() -> None:
    forest = sample_forest().forest
    for counts in ([], [3], [2, 3], [5, -1]):
        with pytest.raises(DataError, match="do not add up to the 4 of the forest"):
            divide(forest, counts)
    with pytest.raises(DataError, match="at most"):
        divide(forest, [4] + [0] * MAX_OWNERS)


def test_importances_need_the_decrease_of_every_own_split_and_tree() -> None:
    outline, partials = divide(sample_forest().forest, [2, 2])
    decrease, totals = outline.decrease_of(0), outline.tree_totals()
    for own, trees in ((decrease[1:], totals), (decrease, totals[1:])):
        with pytest.raises(DataError, match="one decrease for each own split"):
            own_importances(partials[0], own, trees)


def last_root(shape: Shape) -> int:
    return int(shape.tree_start[-2])


def with_feature(partial: PartialForest, node: int, feature: int) -> PartialForest:
    changed = partial.splits.feature.copy()
    changed[node] = feature
    return replace(partial, splits=replace(partial.splits, feature=changed))


def with_child(partial: PartialForest, node: int, child: int) -> PartialForest:
    left_child = partial.shape.left_child.copy()
    left_child[node] = child
    return replace(partial, shape=replace(partial.shape, left_child=left_child))


def with_owner(outline: ForestOutline, node: int, owner: int) -> ForestOutline:
    changed = outline.owner.copy()
    changed[node] = owner
    return replace(outline, owner=changed)


def lose_the_last_split(outline: ForestOutline, partials: list[PartialForest]) -> Shares:
    node = last_root(outline.shape)
    return outline, [with_feature(partial, node, FOREIGN) for partial in partials]


def split_the_last_root_everywhere(outline: ForestOutline, partials: list[PartialForest]) -> Shares:
    node = last_root(outline.shape)
    return outline, [with_feature(partial, node, 0) for partial in partials]


def blame_another_owner(outline: ForestOutline, partials: list[PartialForest]) -> Shares:
    node = last_root(outline.shape)
    return with_owner(outline, node, 1 - int(outline.owner[node])), partials


def give_a_leaf_an_owner(outline: ForestOutline, partials: list[PartialForest]) -> Shares:
    return with_owner(outline, outline.shape.n_nodes - 1, 0), partials


def split_a_leaf(outline: ForestOutline, partials: list[PartialForest]) -> Shares:
    return outline, [with_feature(partials[0], outline.shape.n_nodes - 1, 0), partials[1]]


def close_an_inner_node(outline: ForestOutline, partials: list[PartialForest]) -> Shares:
    return outline, [partials[0], with_feature(partials[1], last_root(outline.shape), LEAF)]


def use_a_column_too_many(outline: ForestOutline, partials: list[PartialForest]) -> Shares:
    number = int(outline.owner[last_root(outline.shape)])
    partials[number] = with_feature(partials[number], last_root(outline.shape), 2)
    return outline, partials


def move_a_child(outline: ForestOutline, partials: list[PartialForest]) -> Shares:
    return outline, [partials[0], with_child(partials[1], last_root(outline.shape), 3)]


def drop_the_last_tree(outline: ForestOutline, partials: list[PartialForest]) -> Shares:
    end = last_root(outline.shape)
    shape = Shape(outline.shape.tree_start[:-1], outline.shape.left_child[:end])
    return outline, [replace(partials[0], shape=shape), partials[1]]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lose_the_last_split, "tree 2 has a split that no owner keeps"),
        (split_the_last_root_everywhere, "tree 2 has a split that more than one owner keeps"),
        (blame_another_owner, "tree 2 was split by other owners"),
        (give_a_leaf_an_owner, "tree 2 was split by other owners"),
        (split_a_leaf, "tree 2 and the splits of owner 0 do not fit together"),
        (close_an_inner_node, "tree 2 and the splits of owner 1 do not fit together"),
        (use_a_column_too_many, "tree 2 and the splits of owner . do not fit together"),
        (move_a_child, "tree 2 has another shape at owner 1"),
        (drop_the_last_tree, "tree 2 has another shape at owner 0"),
    ],
)
def test_shares_that_are_not_of_one_forest_are_refused_and_the_tree_is_named(
    change: Callable[[ForestOutline, list[PartialForest]], Shares], reason: str
) -> None:
    outline, partials = divide(sample_forest().forest, [2, 2])
    with pytest.raises(DataError, match=reason):
        union(*change(outline, partials))


def test_the_owners_of_another_forest_are_refused() -> None:
    outline, _ = divide(sample_forest().forest, [2, 2])
    _, strangers = divide(sample_forest("regression").forest, [2, 2])
    with pytest.raises(DataError, match="tree 0 has another shape at owner 0"):
        union(outline, strangers)


def test_owners_in_another_order_are_refused() -> None:
    outline, partials = divide(sample_forest().forest, [2, 2])
    with pytest.raises(DataError, match="was split by other owners"):
        union(outline, partials[::-1])


def test_a_forest_of_leaves_needs_no_owner() -> None:
    leaves = Shape(np.arange(3), np.full(2, LEAF, np.int32))
    nobody = np.full(2, -1, np.int16)
    sample = sample_forest("regression").forest
    outline = ForestOutline(leaves, nobody, sample.leaves, np.zeros(2), 0)
    assert union(outline, []).n_features == 0

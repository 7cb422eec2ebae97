"""A stranger's file can do no harm: what is wrong with it is named, and nothing follows it."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedforest.errors import DamagedModelError
from fedforest.tree.files.container import decode_model
from fedforest.tree.files.forests import (
    decode_forest,
    decode_outline,
    decode_partial,
    encode_forest,
    encode_outline,
    encode_partial,
)
from fedforest.tree.forest.decreases import spread_decreases
from fedforest.tree.forest.forest import ForestWalker
from fedforest.tree.forest.partial import divide
from fedforest.tree.workers import Workers
from tests.tree.changed_files import (
    CLASSES,
    DAMAGED_DESCRIPTIONS,
    HUGE,
    SECRET,
    Arrays,
    Change,
    Metadata,
    changed,
    drop,
    make,
    put,
    state,
    stored_forest,
    with_columns,
    wrap_around,
)
from tests.tree.grown_forests import (
    sample_forest,
)

ALONE = Workers()
NO_TREES = "out of place"


def stored_spread() -> bytes:
    """With a table of decreases, and columns that have no split in a tree."""
    grown = sample_forest()
    forest, bins = with_columns(spread_decreases(grown.forest), grown.bins, 20)
    return encode_forest(forest, bins, CLASSES)


def flip_bit(name: str, at: int) -> Change:
    """Change one flag."""

    def change(arrays: Arrays, _metadata: Metadata) -> None:
        arrays[name][at >> 3] ^= 1 << (at & 7)

    return change


def use_spare_bits(name: str) -> Change:
    """Set the highest bit of the last byte, which no node has."""

    def change(arrays: Arrays, _metadata: Metadata) -> None:
        arrays[name][-1] |= 128

    return change


def at_column(name: str, column: int, value: Any) -> Change:
    """Change one array at the first split by a column."""

    def change(arrays: Arrays, _metadata: Metadata) -> None:
        arrays[name][np.flatnonzero(arrays["feature"] == column)[0]] = value

    return change


def cut_beyond_the_bins(arrays: Arrays, metadata: Metadata) -> None:
    """The third column has few distinct values."""
    at_column("cut", 2, arrays["edge_counts"][2] + 1)(arrays, metadata)


def reverse_a_leaf(arrays: Arrays, _metadata: Metadata) -> None:
    """Swap the first two classes of a leaf that has several."""
    entries = arrays["leaf_entries"]
    first = int(entries[: np.flatnonzero(entries > 1)[0]].sum())
    arrays["leaf_label"][[first, first + 1]] = arrays["leaf_label"][[first + 1, first]]


def keep_order(arrays: Arrays, _metadata: Metadata) -> None:
    """Keep the left children of a tree whose bits say it all."""
    n_splits = len(arrays["feature"])
    arrays["is_in_order"][:] = False
    children = decode_forest(stored_forest()).forest.shape.left_child
    arrays["left_child"] = children[children >= 0]
    assert len(arrays["left_child"]) == n_splits


def claim_order(arrays: Arrays, _metadata: Metadata) -> None:
    """Say that all trees are in order, but keep their left children."""
    arrays["is_in_order"][:] = True


def spread_one_by_one(arrays: Arrays, _metadata: Metadata) -> None:
    """Keep the decrease of every split where a table would do."""
    of_nodes = decode_forest(stored_spread()).forest
    arrays["decrease"] = of_nodes.decrease[of_nodes.splits.feature >= 0]


def tabulate(arrays: Arrays, _metadata: Metadata) -> None:
    """A table that is larger than what it says."""
    n_trees, n_columns = len(arrays["is_in_order"]), len(arrays["is_categorical"])
    arrays["decrease"] = np.zeros((n_trees, n_columns))


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (make("tree_start", lambda a: a[:1]), "there are none"),
        (make("tree_start", lambda a: a[:0]), "there are none"),
        (make("tree_start", lambda a: a[:-1]), "'is_split'"),
        (put("tree_start", 0, 1), NO_TREES),
        (put("tree_start", 0, -1), NO_TREES),
        (put("tree_start", -1, HUGE), "'is_split'"),
        (put("tree_start", -1, 2**63 - 1), "'is_split'"),
        (put("tree_start", -1, -1), NO_TREES),
        (put("tree_start", 1, 0), NO_TREES),
        (put("tree_start", 1, HUGE), NO_TREES),
        (put("tree_start", 1, 2), NO_TREES),
        (wrap_around("tree_start"), NO_TREES),
        (make("tree_start", lambda a: a.astype(np.int32)), "'tree_start'.*int64"),
        (make("tree_start", lambda a: a.reshape(2, 2)), "'tree_start'"),
        (make("tree_start", lambda a: a[:1].reshape(())), "'tree_start'"),
        (flip_bit("is_split", 0), NO_TREES),
        (flip_bit("is_split", 9), NO_TREES),
        (use_spare_bits("is_split"), "'is_split': spare bits"),
        (make("is_split", lambda a: a[:-1]), "'is_split'"),
        (make("is_split", lambda a: a.astype(np.uint16)), "'is_split'"),
        (make("is_in_order", lambda a: a[:-1]), "'is_in_order'"),
        (make("is_in_order", lambda a: a.astype(np.uint8)), "'is_in_order'"),
        (put("is_in_order", 0, 0), "'left_child'"),
        (make("left_child", lambda _: np.ones(1, np.int32)), "'left_child'"),
        (make("left_child", lambda a: a.astype(np.int64)), "'left_child'.*int32"),
        (keep_order, NO_TREES),
        (put("feature", 0, 4), "features: one is out of range"),
        (put("feature", 0, 255), "features: one is out of range"),
        (make("feature", lambda a: a[:-1]), "'feature'"),
        (make("feature", lambda a: a.astype(np.uint16)), "'feature'.*uint8"),
        (make("feature", lambda a: a.astype(np.int8)), "'feature'.*uint8"),
        (at_column("feature", 2, 1), "'left_set'|beyond the bins"),
        (at_column("feature", 1, 0), "'left_set'"),
        (cut_beyond_the_bins, "beyond the bins of its column"),
        (put("cut", 0, 255), "beyond the bins of its column"),
        (make("cut", lambda a: a.astype(np.int8)), "'cut'.*uint8"),
        (make("cut", lambda a: a.astype(np.float64)), "'cut'.*float32"),
        (make("cut", lambda a: np.full(len(a), np.nan, np.float32)), "no number"),
        (make("cut", lambda a: np.full(len(a), np.inf, np.float32)), "no number"),
        (make("cut", lambda a: a[1:]), "'cut'"),
        (make("missing_left", lambda a: a[1:]), "'missing_left'"),
        (use_spare_bits("missing_left"), "'missing_left': spare bits"),
        (make("left_set", lambda a: a[:-1]), "'left_set'"),
        (make("left_set", lambda a: a[:, :3]), "'left_set'"),
        (make("left_set", lambda a: a.reshape(-1)), "'left_set'"),
        (make("left_set", lambda a: a.astype(np.int64)), "'left_set'.*uint64"),
        (put("leaf_entries", 0, 0), "no class, or more than there are"),
        (put("leaf_entries", 0, 4), "no class, or more than there are"),
        (put("leaf_entries", slice(None), 3), "'leaf_label'"),
        (make("leaf_entries", lambda a: a[:-1]), "'leaf_entries'"),
        (make("leaf_entries", lambda a: a.astype(np.uint16)), "'leaf_entries'.*uint8"),
        (put("leaf_label", 0, 3), "class is out of range"),
        (put("leaf_label", 0, 255), "class is out of range"),
        (reverse_a_leaf, "out of order"),
        (make("leaf_label", lambda a: a[:0]), "'leaf_label'"),
        (make("leaf_label", lambda a: a.astype(np.uint16)), "'leaf_label'.*uint8"),
        (put("leaf_value", 0, np.nan), "not finite"),
        (put("leaf_value", 0, np.inf), "not finite"),
        (put("leaf_value", 0, -0.5), "no share"),
        (put("leaf_value", 0, 1.5), "no share"),
        (make("leaf_value", lambda a: a[:-1]), "'leaf_value'"),
        (make("leaf_value", lambda a: a.astype(np.float32)), "'leaf_value'.*float64"),
        (put("decrease", 0, np.nan), "no decrease"),
        (put("decrease", 0, -1.0), "no decrease"),
        (put("decrease", 0, np.inf), "no decrease"),
        (make("decrease", lambda a: a[:-1]), "'decrease'"),
        (state(n_classes=0, classes=None), "'leaf_entries'"),
        *DAMAGED_DESCRIPTIONS,
    ],
)
def test_a_damaged_forest_is_refused_and_what_is_damaged_is_named(
    change: Change, reason: str
) -> None:
    with pytest.raises(DamagedModelError, match=reason) as error:
        decode_forest(changed(stored_forest(), change))
    assert SECRET not in str(error.value)


def test_tree_starts_that_overflow_are_refused_before_a_kernel_follows_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[Any] = []
    monkeypatch.setattr(
        "fedforest.tree.files.packed_shape.are_trees", lambda *arrays: asked.append(arrays)
    )
    with pytest.raises(DamagedModelError, match="out of place"):
        decode_forest(changed(stored_forest(), wrap_around("tree_start")))
    assert asked == []


@pytest.mark.parametrize(
    "change",
    [
        claim_order,
        put("is_in_order", 1, 1),
        put("left_child", 0, 0),
        put("left_child", 0, -1),
        put("left_child", 0, -2),
        put("left_child", 0, 3),
        put("left_child", 1, 1),
        put("left_child", -1, HUGE),
        flip_bit("is_split", 60),
        make("left_child", lambda a: a[:-1]),
    ],
)
def test_a_tree_in_another_order_that_is_damaged_is_refused(change: Change) -> None:
    with pytest.raises(DamagedModelError, match=r"'left_child'|out of place"):
        decode_forest(changed(stored_forest(by_level=False), change))


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (put("decrease", (0, 0), -1.0), "no decrease"),
        (put("decrease", (0, 0), np.nan), "no decrease"),
        (put("decrease", (0, 19), 1.0), "column without splits"),
        (put("decrease", (0, 19), -0.0), "column without splits"),
        (make("decrease", lambda a: a[1:]), "'decrease'"),
        (make("decrease", lambda a: a[:, 1:]), "'decrease'"),
        (make("decrease", lambda a: a.reshape(-1)), "'decrease'"),
        (spread_one_by_one, "one form"),
    ],
)
def test_a_damaged_table_of_decreases_is_refused(change: Change, reason: str) -> None:
    with pytest.raises(DamagedModelError, match=reason):
        decode_forest(changed(stored_spread(), change))


def test_a_table_of_decreases_that_saves_nothing_is_refused() -> None:
    grown = sample_forest()
    wide, bins = with_columns(grown.forest, grown.bins, 400)
    with pytest.raises(DamagedModelError, match="one form"):
        decode_forest(changed(encode_forest(wide, bins), tabulate))


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (put("leaf_value", 0, np.nan), "not finite"),
        (make("leaf_entries", lambda a: np.append(a, np.uint8(1))), "'leaf_entries'"),
        (make("leaf_label", lambda a: np.append(a, np.uint8(0))), "'leaf_label'"),
        (make("leaf_value", lambda a: a[:-1]), "'leaf_value'"),
        (make("leaf_value", lambda a: np.append(a, 1.0)), "'leaf_value'"),
        (state(n_classes=2), "'leaf_entries'"),
        (state(classes={"dtype": "U4", "labels": []}), "number of class labels"),
    ],
)
def test_a_damaged_regression_forest_is_refused_and_what_is_damaged_is_named(
    change: Change, reason: str
) -> None:
    with pytest.raises(DamagedModelError, match=reason):
        decode_forest(changed(stored_forest("regression"), change))


@pytest.mark.parametrize("name", sorted(decode_model(stored_forest()).arrays))
def test_a_forest_that_lacks_an_array_is_refused(name: str) -> None:
    with pytest.raises(DamagedModelError, match="missing or unknown"):
        decode_forest(changed(stored_forest(), drop(name)))


@pytest.mark.parametrize("name", sorted(decode_model(stored_forest()).metadata))
def test_a_forest_that_lacks_metadata_is_refused(name: str) -> None:
    with pytest.raises(DamagedModelError, match="other entries"):
        decode_forest(changed(stored_forest(), drop(name)))


def test_an_array_nobody_knows_is_refused() -> None:
    def change(arrays: Arrays, _metadata: Metadata) -> None:
        arrays["more"] = np.zeros(1)

    with pytest.raises(DamagedModelError, match="missing or unknown"):
        decode_forest(changed(stored_forest(), change))


def use_a_foreign_split(arrays: Arrays, _metadata: Metadata) -> None:
    """A split of another owner sends missing values to the left."""
    at = np.flatnonzero(arrays["feature"] == 2)[0]
    arrays["missing_left"][at >> 3] |= 1 << (at & 7)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (put("feature", 0, 3), "features: one is out of range"),
        (at_column("feature", 1, 0), "'left_set'"),
        (at_column("cut", 2, 1), "beyond the bins|not split here"),
        (use_a_foreign_split, "not split here"),
        (make("cut", lambda a: np.ones(len(a), np.float32)), "not split here"),
        (make("left_set", lambda a: a[1:]), "'left_set'"),
        (flip_bit("is_split", 0), NO_TREES),
    ],
)
def test_a_damaged_share_of_an_owner_is_refused(change: Change, reason: str) -> None:
    grown = sample_forest()
    partial = divide(grown.forest, [2, 2])[1][0]
    data = encode_partial(partial, grown.bins.take([0, 1]))
    with pytest.raises(DamagedModelError, match=reason):
        decode_partial(changed(data, change))


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (put("owner", 0, -1), "owners: one is out of range"),
        (put("owner", 0, -2), "owners: one is out of range"),
        (make("owner", lambda a: a.astype(np.int32)), "'owner'.*int16"),
        (make("owner", lambda a: a[1:]), "'owner'"),
        (put("leaf_label", 0, 3), "class is out of range"),
        (put("decrease", 0, np.nan), "no decrease"),
        (make("decrease", lambda a: a.reshape(1, -1)), "'decrease'"),
        (flip_bit("is_split", 0), NO_TREES),
    ],
)
def test_a_damaged_share_of_the_coordinator_is_refused(change: Change, reason: str) -> None:
    outline, _ = divide(sample_forest().forest, [2, 2])
    with pytest.raises(DamagedModelError, match=reason):
        decode_outline(changed(encode_outline(outline, CLASSES), change))


@given(st.data())
@settings(max_examples=300)
def test_any_change_to_a_stored_forest_is_refused_or_gives_a_forest_that_can_be_walked(
    data: st.DataObject,
) -> None:
    task = data.draw(st.sampled_from(["classes", "regression"]))
    by_level = data.draw(st.booleans())
    walked = (
        "cut",
        "feature",
        "leaf_entries",
        "leaf_label",
        "left_child",
        "is_split",
        "tree_start",
    )

    def change(arrays: Arrays, _metadata: Metadata) -> None:
        for name in data.draw(st.lists(st.sampled_from(walked), min_size=1, max_size=3)):
            if arrays[name].size:
                limits = np.iinfo(np.int8 if name == "is_in_order" else arrays[name].dtype)
                near = st.integers(max(-3, limits.min), min(300, limits.max))
                at = data.draw(st.integers(0, arrays[name].size - 1))
                arrays[name][at] = data.draw(near | st.integers(limits.min, limits.max))

    try:
        stored = decode_forest(changed(stored_forest(task, by_level=by_level), change))
    except DamagedModelError:
        return
    forest, binned = stored.forest, sample_forest(task).binned
    walker = ForestWalker(forest)
    leaves = walker.apply(binned, ALONE) + forest.shape.tree_start[:-1]
    assert (forest.shape.left_child[leaves] == -1).all()
    assert np.isfinite(walker.votes(binned, ALONE)).all()
    assert np.isfinite(walker.votes(binned, ALONE, hard=True)).all()

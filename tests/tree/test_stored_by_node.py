"""Files with one entry per node, as they were written before: read, and as safe as others."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from fedforest.errors import DamagedModelError
from fedforest.tree.bins import Bins
from fedforest.tree.forest import ForestWalker
from fedforest.tree.forest_file import (
    decode_forest,
    decode_outline,
    decode_partial,
    encode_forest,
    encode_outline,
    encode_partial,
    open_forest,
)
from fedforest.tree.model_file import decode_model
from fedforest.tree.partial import divide, no_trees
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
    wrap_around,
)
from tests.tree.files_by_node import write_forest, write_outline, write_partial
from tests.tree.grown_forests import ForestCase, assert_same_arrays, forest_cases, sample_forest

ALONE = Workers()


@given(forest_cases(), st.integers(0, 7))
def test_files_of_before_come_back_as_the_models_that_they_were(case: ForestCase, cut: int) -> None:
    grown = case.grow()
    forest, bins, about = grown.forest, grown.bins, {"note": "ä"}
    labels = np.arange(forest.n_classes) if forest.n_classes else None
    stored = decode_forest(write_forest(forest, bins, labels, about))
    assert_same_arrays(stored.forest, forest)
    assert stored.metadata == about
    packed = encode_forest(forest, bins, labels, about)
    assert encode_forest(stored.forest, stored.bins, stored.classes, stored.metadata) == packed
    n_first = min(cut, forest.n_features)
    outline, partials = divide(forest, [n_first, forest.n_features - n_first])
    kept = decode_outline(write_outline(outline, labels, about))
    assert_same_arrays(kept.outline, outline)
    assert encode_outline(kept.outline, kept.classes, about) == encode_outline(
        outline, labels, about
    )
    own = bins.take(range(n_first))
    share = decode_partial(write_partial(partials[0], own, about))
    assert_same_arrays(share.partial, partials[0])
    assert encode_partial(share.partial, share.bins, about) == encode_partial(
        partials[0], own, about
    )


@pytest.mark.parametrize("task", ["classes", "regression"])
def test_an_opened_file_of_before_tells_what_is_asked_first(task: str) -> None:
    opened = open_forest(stored_forest(task))
    forest = opened.expand().forest
    assert (opened.n_trees, opened.n_classes) == (forest.shape.n_trees, forest.n_classes)
    assert opened.has_bins


def stored_forest(task: str = "classes") -> bytes:
    grown = sample_forest(task)
    labels = CLASSES if grown.forest.n_classes else None
    return write_forest(grown.forest, grown.bins, labels, {"note": SECRET})


def at_node(name: str, wanted: str, value: Any) -> Change:
    """Change one array at the first leaf, numeric split or categorical split."""

    def change(arrays: Arrays, _metadata: Metadata) -> None:
        node = int(np.flatnonzero(nodes_of(arrays, wanted))[0])
        arrays[name][node] = value

    return change


def nodes_of(arrays: Arrays, wanted: str) -> NDArray[np.bool_]:
    is_leaf: NDArray[np.bool_] = arrays["left_child"] == -1
    by_set: NDArray[np.bool_] = arrays["set_index"] >= 0
    return {"leaf": is_leaf, "categorical": by_set, "numeric": ~is_leaf & ~by_set}[wanted]


def share_a_child(arrays: Arrays, _metadata: Metadata) -> None:
    """Two nodes of the first tree get the same children."""
    inner = np.flatnonzero(arrays["left_child"][: arrays["tree_start"][1]] != -1)
    arrays["left_child"][inner[1]] = arrays["left_child"][inner[2]]


def swap_two_sets(arrays: Arrays, _metadata: Metadata) -> None:
    first, second = np.flatnonzero(arrays["set_index"] >= 0)[:2]
    arrays["set_index"][[first, second]] = arrays["set_index"][[second, first]]


def cut_beyond_the_bins(arrays: Arrays, _metadata: Metadata) -> None:
    """The third column has few distinct values."""
    node = np.flatnonzero(arrays["feature"] == 2)[0]
    arrays["cut"][node] = arrays["edge_counts"][2] + 1


def reverse_a_leaf(arrays: Arrays, _metadata: Metadata) -> None:
    """Swap the first two classes of a leaf that has several."""
    start = arrays["leaf_start"]
    first = start[np.flatnonzero(np.diff(start) > 1)[0]]
    arrays["leaf_label"][[first, first + 1]] = arrays["leaf_label"][[first + 1, first]]


def move_an_entry(arrays: Arrays, _metadata: Metadata) -> None:
    """The root of the first tree takes the first entry of the first leaf."""
    first_leaf = np.flatnonzero(arrays["left_child"] == -1)[0]
    arrays["leaf_start"][1 : first_leaf + 1] = 1


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (make("tree_start", lambda a: a[:1]), "there are none"),
        (make("tree_start", lambda a: a[:0]), "there are none"),
        (make("tree_start", lambda a: a[:-1]), "out of place"),
        (put("tree_start", 0, 1), "out of place"),
        (put("tree_start", 0, -1), "out of place"),
        (put("tree_start", -1, HUGE), "out of place"),
        (put("tree_start", 1, 0), "out of place"),
        (put("tree_start", 1, HUGE), "out of place"),
        (wrap_around("tree_start"), "out of place"),
        (make("tree_start", lambda a: a.astype(np.int32)), "'tree_start'.*int64"),
        (make("tree_start", lambda a: a.reshape(2, 2)), "'tree_start'"),
        (make("tree_start", lambda a: a[:1].reshape(())), "'tree_start'"),
        (put("left_child", 0, 0), "out of place"),
        (put("left_child", 0, -2), "out of place"),
        (put("left_child", 0, HUGE), "out of place"),
        (put("left_child", 0, -1), "exactly one other"),
        (put("left_child", 0, 3), "exactly one other"),
        (share_a_child, "exactly one other"),
        (make("left_child", lambda a: a.astype(np.int64)), "'left_child'.*int32"),
        (make("left_child", lambda a: a[:-1]), "out of place"),
        (at_node("feature", "numeric", 4), "features: one is out of range"),
        (at_node("feature", "numeric", HUGE), "features: one is out of range"),
        (at_node("feature", "numeric", -1), "leaves and splits are mixed up"),
        (at_node("feature", "numeric", -2), "features: one is out of range"),
        (at_node("feature", "numeric", -3), "features: one is out of range"),
        (at_node("feature", "leaf", 0), "leaves and splits are mixed up"),
        (at_node("feature", "numeric", 1), "sets: they are not those of the categorical"),
        (at_node("feature", "categorical", 0), "sets: they are not those of the categorical"),
        (make("feature", lambda a: a[:-1]), "'feature'"),
        (make("feature", lambda a: a.astype(np.uint32)), "'feature'.*int32"),
        (cut_beyond_the_bins, "beyond the bins of its column"),
        (at_node("cut", "numeric", 255), "beyond the bins of its column"),
        (at_node("cut", "leaf", 1), "not split here"),
        (make("cut", lambda a: a.astype(np.int8)), "'cut'.*uint8"),
        (make("cut", lambda a: a.astype(np.float64)), "'cut'.*float32"),
        (make("cut", lambda a: np.full(len(a), np.nan, np.float32)), "no number"),
        (make("cut", lambda a: np.full(len(a), np.inf, np.float32)), "no number"),
        (make("cut", lambda a: a[1:]), "'cut'"),
        (at_node("missing_left", "numeric", 2), "neither left nor right"),
        (at_node("missing_left", "leaf", 1), "not split here"),
        (make("missing_left", lambda a: a[1:]), "'missing_left'"),
        (at_node("set_index", "categorical", -1), "sets: they are not those"),
        (at_node("set_index", "categorical", HUGE), "sets: they are not those"),
        (at_node("set_index", "categorical", -HUGE), "sets: they are not those"),
        (at_node("set_index", "numeric", 0), "sets: they are not those"),
        (swap_two_sets, "sets: they are not those"),
        (make("left_set", lambda a: a[:-1]), "'left_set'"),
        (make("left_set", lambda a: a[:, :3]), "'left_set'"),
        (make("left_set", lambda a: a.reshape(-1)), "'left_set'"),
        (make("left_set", lambda a: a.astype(np.int64)), "'left_set'.*uint64"),
        (put("leaf_start", 0, 1), "do not follow each other"),
        (put("leaf_start", 2, HUGE), "do not follow each other"),
        (put("leaf_start", 2, -1), "do not follow each other"),
        (put("leaf_start", -1, 0), "do not follow each other"),
        (wrap_around("leaf_start"), "do not follow each other"),
        (move_an_entry, "one is empty, or no leaf"),
        (make("leaf_start", lambda a: a[:-1]), "'leaf_start'"),
        (put("leaf_label", 0, 3), "class is out of range"),
        (put("leaf_label", 0, 65535), "class is out of range"),
        (reverse_a_leaf, "out of order"),
        (make("leaf_label", lambda a: a[:0]), "'leaf_label'"),
        (make("leaf_label", lambda a: a.astype(np.uint8)), "'leaf_label'.*uint16"),
        (put("leaf_value", 0, np.nan), "not finite"),
        (put("leaf_value", 0, np.inf), "not finite"),
        (put("leaf_value", 0, -0.5), "no share"),
        (put("leaf_value", 0, 1.5), "no share"),
        (make("leaf_value", lambda a: a[:-1]), "'leaf_label'"),
        (make("leaf_value", lambda a: a.astype(np.float32)), "'leaf_value'.*float64"),
        (put("decrease", 0, np.nan), "no decrease"),
        (put("decrease", 0, -1.0), "no decrease"),
        (put("decrease", 0, np.inf), "no decrease"),
        (at_node("decrease", "leaf", 1.0), "belongs to a leaf"),
        (make("decrease", lambda a: a[:-1]), "'decrease'"),
        (state(n_classes=0, classes=None), "'leaf_label'"),
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
        "fedforest.tree.forest.measure_depths", lambda *arrays: asked.append(arrays)
    )
    with pytest.raises(DamagedModelError, match="out of place"):
        decode_forest(changed(stored_forest(), wrap_around("tree_start")))
    assert asked == []


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (put("leaf_value", 0, np.nan), "not finite"),
        (move_an_entry, "one is empty, or no leaf"),
        (make("leaf_label", lambda a: np.append(a, np.uint16(0))), "'leaf_label'"),
        (make("leaf_value", lambda a: a[:-1]), "do not follow each other"),
        (state(n_classes=2), "'leaf_label'"),
        (state(classes={"dtype": "U4", "labels": []}), "number of class labels"),
    ],
)
def test_a_damaged_regression_forest_is_refused_and_what_is_damaged_is_named(
    change: Change, reason: str
) -> None:
    with pytest.raises(DamagedModelError, match=reason):
        decode_forest(changed(stored_forest("regression"), change))


def test_a_regression_leaf_with_two_values_is_refused() -> None:
    def change(arrays: Arrays, _metadata: Metadata) -> None:
        arrays["leaf_value"] = np.append(arrays["leaf_value"], 1.0)
        arrays["leaf_start"][-1] += 1

    with pytest.raises(DamagedModelError, match="more than one value"):
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


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (at_node("feature", "leaf", -2), "leaves and splits are mixed up"),
        (at_node("feature", "numeric", -1), "leaves and splits are mixed up"),
        (at_node("feature", "numeric", 2), "features: one is out of range"),
        (at_node("feature", "numeric", -3), "features: one is out of range"),
        (at_node("cut", "leaf", 1), "not split here"),
        (lambda arrays, _: arrays["cut"].__setitem__(arrays["feature"] == -2, 1), "not split here"),
        (at_node("set_index", "categorical", 1), "sets: they are not those"),
        (put("left_child", 0, HUGE), "out of place"),
    ],
)
def test_a_damaged_share_of_an_owner_is_refused(change: Change, reason: str) -> None:
    grown = sample_forest()
    partial = divide(grown.forest, [2, 2])[1][0]
    data = write_partial(partial, grown.bins.take([0, 1]), {})
    with pytest.raises(DamagedModelError, match=reason):
        decode_partial(changed(data, change))


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (put("owner", 0, -1), "leaves and splits are mixed up"),
        (put("owner", -1, 0), "leaves and splits are mixed up"),
        (put("owner", 0, -2), "owners: one is out of range"),
        (make("owner", lambda a: a.astype(np.int32)), "'owner'.*int16"),
        (make("owner", lambda a: a[1:]), "'owner'"),
        (put("leaf_label", 0, 3), "class is out of range"),
        (put("decrease", 0, np.nan), "no decrease"),
        (put("left_child", 0, HUGE), "out of place"),
    ],
)
def test_a_damaged_share_of_the_coordinator_is_refused(change: Change, reason: str) -> None:
    outline, _ = divide(sample_forest().forest, [2, 2])
    with pytest.raises(DamagedModelError, match=reason):
        decode_outline(changed(write_outline(outline, CLASSES, {}), change))


@given(st.data())
@settings(max_examples=300)
def test_any_change_to_a_stored_forest_is_refused_or_gives_a_forest_that_can_be_walked(
    data: st.DataObject,
) -> None:
    task = data.draw(st.sampled_from(["classes", "regression"]))
    walked = ("cut", "feature", "leaf_label", "leaf_start", "left_child", "set_index", "tree_start")

    def change(arrays: Arrays, _metadata: Metadata) -> None:
        for name in data.draw(st.lists(st.sampled_from(walked), min_size=1, max_size=3)):
            if arrays[name].size:
                limits = np.iinfo(arrays[name].dtype)
                near = st.integers(max(-3, limits.min), min(300, limits.max))
                at = data.draw(st.integers(0, arrays[name].size - 1))
                arrays[name][at] = data.draw(near | st.integers(limits.min, limits.max))

    try:
        stored = decode_forest(changed(stored_forest(task), change))
    except DamagedModelError:
        return
    forest, binned = stored.forest, sample_forest(task).binned
    walker = ForestWalker(forest)
    leaves = walker.apply(binned, ALONE) + forest.shape.tree_start[:-1]
    assert (forest.shape.left_child[leaves] == -1).all()
    assert np.isfinite(walker.votes(binned, ALONE)).all()
    assert np.isfinite(walker.votes(binned, ALONE, hard=True)).all()


def test_the_share_of_an_owner_of_labels_only_has_no_trees_and_is_read_back() -> None:
    nothing = Bins.concatenate([])
    stored = decode_partial(write_partial(no_trees(0), nothing, {"classes": ["a", "b"]}))
    assert stored.partial.shape.n_trees == 0
    assert stored.metadata == {"classes": ["a", "b"]}

"""Stored forests: they come back the same in every byte, and hold no more than they must."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from fedforest.errors import ModelFileError
from fedforest.kernels.prediction.walk import Leaves, find_leaves, sum_votes
from fedforest.tree.files.container import decode_model, encode_model
from fedforest.tree.files.forests import (
    decode_forest,
    decode_outline,
    decode_partial,
    encode_forest,
    encode_outline,
    encode_partial,
    open_forest,
)
from fedforest.tree.forest.decreases import spread_decreases
from fedforest.tree.forest.forest import Forest, ForestWalker, Shape, concatenate_forests
from fedforest.tree.forest.partial import divide, no_trees
from fedforest.tree.table.bins import Bins
from fedforest.tree.workers import Workers
from tests.strategies import IS_PLAIN_PYTHON
from tests.tree.changed_files import (
    CLASSES,
    Arrays,
    stored_forest,
    with_columns,
)
from tests.tree.grown_forests import (
    ForestCase,
    arrays_of,
    assert_same_arrays,
    forest_cases,
    renumber,
    sample_forest,
)

ALONE = Workers()


def some_labels(forest: Forest) -> NDArray[np.int64] | None:
    return np.arange(forest.n_classes) * 3 if forest.n_classes else None


def contents_of(bins: Bins) -> bytes:
    arrays, metadata = bins.to_arrays()
    return encode_model("bins", metadata, arrays)


@given(forest_cases())
def test_a_stored_forest_comes_back_the_same_in_every_byte(case: ForestCase) -> None:
    grown = case.grow()
    labels = some_labels(grown.forest)
    data = encode_forest(grown.forest, grown.bins, labels, {"note": "ä", "seed": 2**70})
    stored = decode_forest(data)
    assert_same_arrays(stored.forest, grown.forest)
    assert stored.forest.n_classes == grown.forest.n_classes
    assert stored.forest.n_features == grown.forest.n_features
    assert contents_of(stored.bins) == contents_of(grown.bins)
    assert stored.metadata == {"note": "ä", "seed": 2**70}
    if labels is None:
        assert stored.classes is None
    else:
        np.testing.assert_array_equal(stored.classes, labels, strict=True)
    again = encode_forest(stored.forest, stored.bins, stored.classes, stored.metadata)
    assert again == data


@given(forest_cases(), st.integers(0, 7))
def test_stored_shares_come_back_the_same_in_every_byte(case: ForestCase, cut: int) -> None:
    grown = case.grow()
    n_first = min(cut, grown.forest.n_features)
    outline, partials = divide(grown.forest, [n_first, grown.forest.n_features - n_first])
    labels = some_labels(grown.forest)
    data = encode_outline(outline, labels, {"parties": ["a", "b"]})
    stored = decode_outline(data)
    assert_same_arrays(stored.outline, outline)
    assert stored.outline.n_classes == outline.n_classes
    assert encode_outline(stored.outline, stored.classes, stored.metadata) == data
    for partial, first, last in zip(
        partials, (0, n_first), (n_first, grown.forest.n_features), strict=True
    ):
        bins = grown.bins.take(range(first, last))
        data = encode_partial(partial, bins, {"party": "a"})
        share = decode_partial(data)
        assert_same_arrays(share.partial, partial)
        assert share.partial.n_features == last - first
        assert encode_partial(share.partial, share.bins, share.metadata) == data


def test_thresholds_on_raw_values_come_back() -> None:
    grown = sample_forest()
    thresholds = (grown.forest.splits.cut / 3).astype(np.float32)
    thresholds[np.flatnonzero(thresholds)[0]] = -np.inf
    forest = replace(grown.forest, splits=replace(grown.forest.splits, cut=thresholds))
    assert_same_arrays(decode_forest(encode_forest(forest, grown.bins)).forest, forest)


@given(forest_cases())
def test_trees_that_number_children_in_another_order_come_back(case: ForestCase) -> None:
    grown = case.grow()
    forest = renumber(grown.forest, by_level=False)
    data = encode_forest(forest, grown.bins)
    stored = decode_forest(data)
    assert_same_arrays(stored.forest, forest)
    assert encode_forest(stored.forest, stored.bins) == data


@given(forest_cases())
def test_decreases_that_are_spread_over_columns_come_back(case: ForestCase) -> None:
    grown = case.grow()
    forest = spread_decreases(grown.forest)
    data = encode_forest(forest, grown.bins)
    stored = decode_forest(data)
    assert_same_arrays(stored.forest, forest)
    assert encode_forest(stored.forest, stored.bins) == data


def test_a_file_holds_nothing_that_follows_from_the_rest() -> None:
    grown = sample_forest()
    forest = spread_decreases(renumber(grown.forest, by_level=True))
    arrays = arrays_in(encode_forest(forest, grown.bins))
    shape, leaves = grown.forest.shape, grown.forest.leaves
    n_splits = (shape.n_nodes - shape.n_trees) // 2
    counts = np.diff(leaves.start)
    assert {name: (array.dtype.str, len(array)) for name, array in arrays.items()} == {
        "tree_start": ("<i8", shape.n_trees + 1),
        "is_split": ("|u1", -(-shape.n_nodes // 8)),
        "is_in_order": ("|b1", shape.n_trees),
        "left_child": ("<i4", 0),
        "feature": ("|u1", n_splits),
        "cut": ("|u1", n_splits),
        "missing_left": ("|u1", -(-n_splits // 8)),
        "left_set": ("<u8", len(grown.forest.splits.left_set)),
        "leaf_entries": ("|u1", n_splits + shape.n_trees),
        "leaf_label": ("|u1", len(leaves.label)),
        "leaf_value": ("<f8", counts[counts > 1].sum()),
        "decrease": ("<f8", shape.n_trees),
    }
    assert arrays["decrease"].shape == (shape.n_trees, grown.forest.n_features)


def test_children_are_kept_of_trees_that_number_them_in_another_order_only() -> None:
    grown = sample_forest()
    by_level, deep = (renumber(grown.forest, by_level=by_level) for by_level in (True, False))
    mixed = concatenate_forests([by_level, deep, by_level])
    arrays = arrays_in(encode_forest(mixed, grown.bins))
    n_trees, n_nodes = grown.forest.shape.n_trees, grown.forest.shape.n_nodes
    assert arrays["is_in_order"].tolist() == [True] * n_trees + [False] * n_trees + [True] * n_trees
    assert len(arrays["left_child"]) == (n_nodes - n_trees) // 2


def test_a_table_of_decreases_is_kept_only_where_it_is_smaller() -> None:
    grown = sample_forest()
    narrow = spread_decreases(grown.forest)
    wide, bins = with_columns(narrow, grown.bins, 400)
    assert arrays_in(encode_forest(narrow, grown.bins))["decrease"].ndim == 2
    assert arrays_in(encode_forest(grown.forest, grown.bins))["decrease"].ndim == 1
    assert arrays_in(encode_forest(wide, bins))["decrease"].ndim == 1


def test_many_columns_and_classes_come_back_in_wider_types() -> None:
    grown = sample_forest()
    for n, width in ((255, np.uint8), (256, np.uint16), (2**16, np.uint32)):
        wide, bins = with_columns(grown.forest, grown.bins, n)
        data = encode_forest(wide, bins)
        assert arrays_in(data)["feature"].dtype == width
        assert_same_arrays(decode_forest(data).forest, wide)
    for n, width in ((255, np.uint8), (256, np.uint16), (1000, np.uint16)):
        data = encode_forest(replace(grown.forest, n_classes=n), grown.bins)
        assert arrays_in(data)["leaf_label"].dtype == arrays_in(data)["leaf_entries"].dtype == width
        assert_same_arrays(decode_forest(data).forest, grown.forest)


def arrays_in(data: bytes) -> Arrays:
    """What a file holds beside bins."""
    of_bins = Bins.concatenate([]).to_arrays()[0]
    arrays = decode_model(data).arrays
    return {name: array for name, array in arrays.items() if name not in of_bins}


@pytest.mark.parametrize("task", ["classes", "regression"])
def test_an_opened_forest_tells_what_is_asked_first_and_is_expanded_later(task: str) -> None:
    data = bytearray(stored_forest(task))
    opened = open_forest(memoryview(data))
    data[:] = bytes(len(data))  # whoever sent it may use the memory for something else
    forest = renumber(sample_forest(task).forest, by_level=True)
    assert (opened.n_trees, opened.n_classes) == (forest.shape.n_trees, forest.n_classes)
    assert opened.has_bins
    assert_same_arrays(opened.expand(Workers()).forest, forest)


def test_a_forest_of_single_leaves_has_no_use_for_bins() -> None:
    leaf = Forest(
        Shape(np.array([0, 1]), np.array([-1], np.int32)),
        sample_forest().forest.splits.first_nodes(0),
        Leaves(np.array([0, 1]), np.array([2], np.uint16), np.ones(1)),
        np.zeros(1),
        3,
        4,
    )
    leaf = replace(leaf, splits=replace(leaf.splits, **defaults_of_a_leaf()))
    opened = open_forest(encode_forest(leaf, sample_forest().bins))
    assert not opened.has_bins
    assert_same_arrays(opened.expand().forest, leaf)


def defaults_of_a_leaf() -> Arrays:
    nothing, none = np.zeros(1, np.uint8), np.full(1, -1, np.int32)
    return {"feature": none, "cut": nothing, "missing_left": nothing, "set_index": none}


def test_decoded_arrays_are_like_those_of_a_forest_just_grown() -> None:
    grown = sample_forest()
    outline, partials = divide(grown.forest, [4])
    for model in (
        decode_forest(encode_forest(grown.forest, grown.bins)).forest,
        decode_partial(encode_partial(partials[0], grown.bins)).partial,
        decode_outline(encode_outline(outline)).outline,
    ):
        for name, array in arrays_of(model).items():
            assert array.flags.writeable, name
            assert array.flags.c_contiguous, name
            assert array.flags.aligned, name
            assert array.dtype.isnative, name


@pytest.mark.skipif(IS_PLAIN_PYTHON, reason="nothing is compiled")
@pytest.mark.parametrize("task", ["classes", "regression"])
def test_a_decoded_forest_predicts_the_same_without_compiling_kernels_again(task: str) -> None:
    grown = sample_forest(task)
    walker = ForestWalker(grown.forest)
    votes, leaves = walker.votes(grown.binned, ALONE), walker.apply(grown.binned, ALONE)
    compiled = [list(kernel.signatures) for kernel in (sum_votes, find_leaves)]
    stored = decode_forest(encode_forest(grown.forest, grown.bins))
    walker = ForestWalker(stored.forest)
    np.testing.assert_array_equal(walker.votes(grown.binned, ALONE), votes, strict=True)
    np.testing.assert_array_equal(walker.apply(grown.binned, ALONE), leaves, strict=True)
    assert [list(kernel.signatures) for kernel in (sum_votes, find_leaves)] == compiled


def test_a_file_of_another_kind_is_refused() -> None:
    grown = sample_forest()
    outline, partials = divide(grown.forest, [4])
    files: dict[Any, bytes] = {
        decode_forest: encode_forest(grown.forest, grown.bins),
        decode_partial: encode_partial(partials[0], grown.bins),
        decode_outline: encode_outline(outline),
    }
    for decode in files:
        for writer, data in files.items():
            if writer is not decode:
                with pytest.raises(ModelFileError, match="not a"):
                    decode(data)


def test_what_does_not_belong_together_is_not_stored() -> None:
    grown = sample_forest()
    _, partials = divide(grown.forest, [1, 3])
    with pytest.raises(ModelFileError, match="4 columns, its bins 3"):
        encode_forest(grown.forest, grown.bins.take([0, 1, 2]))
    with pytest.raises(ModelFileError, match="1 columns, its bins 4"):
        encode_partial(partials[0], grown.bins)
    with pytest.raises(ModelFileError, match="3 classes need as many labels"):
        encode_forest(grown.forest, grown.bins, CLASSES[:2])
    regression = sample_forest("regression")
    with pytest.raises(ModelFileError, match="0 classes need as many labels"):
        encode_forest(regression.forest, regression.bins, CLASSES)


def changed_at(array: NDArray[Any], place: Any, value: Any) -> NDArray[Any]:
    array = array.copy()
    array[place] = value
    return array


def test_a_forest_that_does_not_fit_together_is_not_stored() -> None:
    grown = sample_forest()
    shape, splits, leaves = grown.forest.shape, grown.forest.splits, grown.forest.leaves
    alone = leaves.start[np.flatnonzero(np.diff(leaves.start) == 1)[0]]
    for wrong, reason in (
        ({"shape": replace(shape, left_child=changed_at(shape.left_child, 0, 3))}, "inconsistent"),
        ({"shape": replace(shape, tree_start=shape.tree_start[:-1])}, "inconsistent"),
        ({"splits": replace(splits, feature=changed_at(splits.feature, 0, 300))}, "of a column"),
        ({"splits": replace(splits, feature=changed_at(splits.feature, 0, -3))}, "of a column"),
        ({"leaves": leaves._replace(start=changed_at(leaves.start, -1, 0))}, "do not add up"),
        ({"leaves": leaves._replace(value=leaves.value[1:])}, "do not add up"),
        ({"leaves": leaves._replace(label=leaves.label[1:])}, "do not add up"),
        ({"leaves": leaves._replace(value=changed_at(leaves.value, alone, 0.5))}, "all of it"),
        ({"leaves": leaves._replace(start=leaves.start[1:])}, "not about the same nodes"),
        ({"splits": replace(splits, cut=splits.cut[1:])}, "not about the same nodes"),
        ({"decrease": grown.forest.decrease[1:]}, "not about the same nodes"),
        ({"n_classes": 0}, "do not add up"),
    ):
        with pytest.raises(ModelFileError, match=reason):
            encode_forest(replace(grown.forest, **wrong), grown.bins)


def test_the_share_of_an_owner_of_labels_only_has_no_trees_and_is_read_back() -> None:
    nothing = Bins.concatenate([])
    stored = decode_partial(encode_partial(no_trees(0), nothing, {"classes": ["a", "b"]}))
    assert stored.partial.shape.n_trees == 0
    assert stored.metadata == {"classes": ["a", "b"]}

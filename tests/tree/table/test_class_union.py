"""All classes of a federation, from what each party declares of its own."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from fedforest.errors import DataError
from fedforest.tree.table.class_labels import pack_labels, unpack_labels
from fedforest.tree.table.class_union import find_codes, merge_classes

STRINGS = np.dtypes.StringDType()


def merge(*parts: Any) -> NDArray[Any]:
    return merge_classes({f"party_{i}": np.asarray(part) for i, part in enumerate(parts)})


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        (([0, 2], [1, 2]), [0, 1, 2]),
        (([0.0, 1.0], [1, 2]), [0.0, 1.0, 2.0]),
        (([False], [True]), [False, True]),
        ((["no"], ["yes", "perhaps"]), ["no", "perhaps", "yes"]),
        ((["b"], np.array(["a", "long label"], object)), ["a", "b", "long label"]),
        ((np.array(["b"], STRINGS), ["a"]), ["a", "b"]),
        ((np.array(["b"], STRINGS), np.array(["a"], object)), ["a", "b"]),
        ((np.array([1], np.int8), np.array([300], np.uint16)), [1, 300]),
    ],
)
def test_classes_are_united_in_order(parts: tuple[Any, ...], expected: list[Any]) -> None:
    assert merge(*parts).tolist() == expected
    assert merge(*reversed(parts)).tolist() == expected
    assert merge(*reversed(parts)).dtype == merge(*parts).dtype


@given(st.lists(st.lists(st.integers(-5, 5), min_size=1), min_size=1, max_size=6))
def test_the_union_is_that_of_all_labels_together(parts: list[list[int]]) -> None:
    own = [np.unique(part) for part in parts]
    merged = merge(*own)
    assert merged.tolist() == sorted({label for part in parts for label in part})
    for classes in own:
        assert merged[find_codes(classes, merged)].tolist() == classes.tolist()


def test_a_party_without_rows_declares_no_class_and_changes_nothing() -> None:
    assert merge([], ["a", "b"]).tolist() == ["a", "b"]
    assert merge([], ["a", "b"]).dtype == np.array(["a", "b"]).dtype
    assert find_codes(np.array([]), np.array(["a", "b"])).tolist() == []


def test_where_nobody_has_a_label_there_is_nothing_to_learn() -> None:
    with pytest.raises(DataError, match="No party has a label"):
        merge([], [])


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ((["1"], [1]), "text at party 'party_0' and numbers at 'party_1'"),
        (([1], [True]), "numbers at party 'party_0' and booleans at 'party_1'"),
        (([0.5], ["a"]), "numbers at party 'party_0' and text"),
        (([1], np.array([1, "a"], object)), "party 'party_1' mixes .*numbers, text"),
        (([1], np.array([True, False], object)), "and booleans at 'party_1'"),
        (([1], np.array(["2020-01-01"], "datetime64[D]")), r"and datetime64\[D\] at 'party_1'"),
    ],
)
def test_labels_of_different_kinds_are_refused_and_parties_named(
    parts: tuple[Any, ...], message: str
) -> None:
    with pytest.raises(DataError, match=message):
        merge(*parts)


def test_numbers_that_no_common_type_holds_are_refused_instead_of_rounded() -> None:
    large = np.array([2**63 + 1], np.uint64)
    with pytest.raises(DataError, match="int64 at 'party_0', uint64 at 'party_1'") as caught:
        merge([-1], large)
    assert str(2**63 + 1) not in str(caught.value)
    with pytest.raises(DataError, match="no common type"):
        merge([2**53 + 1], [0.5])


def test_a_quantity_taken_for_classes_is_refused() -> None:
    with pytest.raises(DataError, match="1001 classes; at most 1000"):
        merge(np.arange(500), np.arange(500, 1001))


def test_a_run_that_lacks_a_partys_class_is_refused_by_the_party() -> None:
    with pytest.raises(DataError, match="lack a class of this party") as caught:
        find_codes(np.array(["secret"]), np.array(["a", "b"]))
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    "classes", [np.array([1, 5]), np.array(["a", "bc"]), np.array(["x"], STRINGS)]
)
def test_what_was_declared_in_a_message_merges_like_the_original(classes: NDArray[Any]) -> None:
    declared = unpack_labels(pack_labels(classes))
    merged = merge(declared, classes)
    assert merged.tolist() == classes.tolist()
    assert merged.dtype == classes.dtype

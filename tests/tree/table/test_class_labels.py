"""Class labels in a model file: they come back with their type, or are refused."""

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from fedforest.errors import DamagedModelError, ModelFileError
from fedforest.tree.files.container import decode_model, encode_model
from fedforest.tree.table.class_labels import pack_labels, unpack_labels

MIXED: list[Any] = ["yes", "", "1", 1, 2.0, -(2**63)]


def through_a_file(labels: NDArray[Any]) -> NDArray[Any]:
    data = encode_model("labels", {"classes": pack_labels(labels)}, {})
    return unpack_labels(decode_model(data).metadata["classes"])


def assert_same_labels(one: NDArray[Any], other: NDArray[Any]) -> None:
    assert one.dtype == other.dtype
    assert one.tolist() == other.tolist()
    assert [type(label) for label in one] == [type(label) for label in other]


@pytest.mark.parametrize(
    "labels",
    [
        np.array([-5, 0, 2**62]),
        np.array([1, 2], np.int8),
        np.array([0, 2**64 - 1], np.uint64),
        np.array([False, True]),
        np.array([0.1, 2.0, 1e300]),
        np.array([0.1, 3.5], np.float32),
        np.array([0.1, 3.5], np.float16),
        np.array(["no", "yes", "ß\n☃"]),
        np.array(["no", "yes"], "U40"),
        np.array(["", "no"], object),
        np.array([True, "true"], object),
        np.array(MIXED, object),
        np.array(["no", "yes"], np.dtypes.StringDType()),
    ],
    ids=lambda labels: str(labels.dtype),
)
def test_labels_come_back_with_their_type(labels: NDArray[Any]) -> None:
    assert_same_labels(through_a_file(labels), labels)


@given(
    st.one_of(
        st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, unique=True),
        st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, unique=True),
        st.lists(st.text(st.characters(exclude_categories=["Cs"])), min_size=1, unique=True),
    )
)
def test_any_distinct_labels_come_back(values: list[Any]) -> None:
    labels = np.unique(values)
    assert_same_labels(through_a_file(labels), labels)
    objects = np.array(values, object)
    assert_same_labels(through_a_file(objects), objects)


def test_labels_in_the_byte_order_of_another_machine_come_back_in_ours() -> None:
    labels = through_a_file(np.array([1, 2], np.dtype(np.int32).newbyteorder()))
    assert_same_labels(labels, np.array([1, 2], np.int32))


@pytest.mark.parametrize(
    "labels",
    [
        np.array([b"no", b"yes"]),
        np.array(["2020-01-01"], "datetime64[D]"),
        np.array([1 + 2j]),
        np.array([1.0], np.longdouble),
        np.array([None, "yes"], object),
        np.array([np.int64(1), "yes"], object),
        np.array([10**40], object),
        np.array([np.nan]),
        np.array([np.inf], object),
        np.array(["\ud800"], object),
        np.array([["no", "yes"]]),
    ],
    ids=lambda labels: str(labels.dtype),
)
def test_labels_that_no_file_can_hold_are_refused(labels: NDArray[Any]) -> None:
    with pytest.raises(ModelFileError, match="cannot store"):
        through_a_file(labels)


@pytest.mark.parametrize(
    ("dtype", "labels", "reason"),
    [
        ("int64", [1, 1], "repeated"),
        ("object", [1, 1.0], "repeated"),
        ("object", [True, 1], "repeated"),
        ("object", [1, None], "another type"),
        ("object", [1, ["a"]], "another type"),
        ("int64", [1, True], "another type"),
        ("bool", [0, 1], "another type"),
        ("float64", [1.0, 2], "another type"),
        ("U3", ["no", 1], "another type"),
        ("string", [1], "another type"),
        ("uint8", [256], "does not fit"),
        ("int64", [2**63], "does not fit"),
        ("float32", [0.1], "does not fit"),
        ("float32", [1e300], "does not fit"),
        ("U2", ["yes"], "does not fit"),
        ("U3", ["no\0"], "does not fit"),
        ("U99999999", ["no"], "too wide"),
        ("U0", [""], "not one of ours"),
        ("<U3", ["no"], "not one of ours"),
        ("float128", [1.0], "not one of ours"),
        ("datetime64[D]", [1], "not one of ours"),
        ("S3", ["no"], "not one of ours"),
        ("O", ["no"], "not one of ours"),
        ("i8,i8", [1], "not one of ours"),
    ],
)
def test_damaged_labels_are_refused_with_the_reason(
    dtype: str, labels: list[Any], reason: str
) -> None:
    with pytest.raises(DamagedModelError, match=reason):
        unpack_labels(json.loads(json.dumps({"dtype": dtype, "labels": labels})))


@pytest.mark.parametrize(
    "stored",
    [[], "int64", {"dtype": "int64"}, {"dtype": 8, "labels": [1]}, {"dtype": "int64", "labels": 1}],
)
def test_what_does_not_describe_labels_is_refused(stored: Any) -> None:
    with pytest.raises(DamagedModelError, match="description"):
        unpack_labels(stored)


def test_an_error_about_a_label_does_not_show_it() -> None:
    with pytest.raises(DamagedModelError) as error:
        unpack_labels({"dtype": "U3", "labels": ["patient-4711"]})
    assert "4711" not in str(error.value)

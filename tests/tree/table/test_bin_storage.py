"""Stored bins: they come back the same, and what a stranger wrote cannot do harm."""

import copy
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedforest.errors import DamagedModelError
from fedforest.tree.files.container import decode_model, encode_model
from fedforest.tree.table.bins import Bins, fit_bins
from fedforest.tree.table.frames import read_table

MISSING = 255


def contents(bins: Bins) -> bytes:
    """Everything in the bins, for comparison."""
    arrays, metadata = bins.to_arrays()
    return encode_model("bins", metadata, arrays)


def stored_bins() -> Bins:
    categories = np.array(["ä", "", 3, 2.5, -np.inf, 2**63, "3"], object)
    columns = {
        "n": np.linspace(0, 1, 700),
        "infinite": np.repeat([-np.inf, -np.finfo(np.float64).max, 0, np.inf], 175),
        "c": np.tile(categories, 100),
        "many": [f"id{number}" for number in range(700)],
        "empty": np.full(700, np.nan),
        "no category": pd.Categorical([None] * 700),
    }
    return fit_bins(read_table(columns), seed=0)


def test_stored_bins_come_back_the_same() -> None:
    bins = stored_bins()
    file = decode_model(contents(bins))
    restored = Bins.from_arrays(file.arrays, file.metadata)
    assert contents(restored) == contents(bins)
    assert restored.names == bins.names
    assert restored.n_bins.tolist() == bins.n_bins.tolist()
    assert restored.is_categorical.tolist() == bins.is_categorical.tolist()
    for feature in range(bins.n_features):
        assert restored.edges(feature).tolist() == bins.edges(feature).tolist()
        assert restored.categories(feature) == bins.categories(feature)
        types = [type(value) for value in bins.categories(feature)]
        assert [type(value) for value in restored.categories(feature)] == types


def test_bins_without_columns_come_back() -> None:
    bins = fit_bins(read_table(np.empty((5, 0))), seed=0)
    assert Bins.from_arrays(*bins.to_arrays()).n_features == 0


@pytest.mark.parametrize(
    "duplicate", [copy.deepcopy, lambda bins: pickle.loads(pickle.dumps(bins))]
)
def test_bins_can_be_copied_and_pickled(duplicate: Callable[[Bins], Bins]) -> None:
    assert contents(duplicate(stored_bins())) == contents(stored_bins())


def replaced(name: str, value: object) -> Callable[[dict[str, Any], dict[str, Any]], None]:
    def change(arrays: dict[str, Any], metadata: dict[str, Any]) -> None:
        (metadata if name in metadata else arrays)[name] = value

    return change


def with_item(name: str, index: int, value: object) -> Callable[[dict[str, Any], Any], None]:
    def change(arrays: dict[str, Any], _metadata: Any) -> None:
        arrays[name] = arrays[name].copy()
        arrays[name][index] = value

    return change


def without(name: str) -> Callable[[dict[str, Any], dict[str, Any]], None]:
    def change(arrays: dict[str, Any], metadata: dict[str, Any]) -> None:
        (metadata if name in metadata else arrays).pop(name)

    return change


ARRAYS, METADATA = stored_bins().to_arrays()


@pytest.mark.parametrize("name", [*ARRAYS, *METADATA])
def test_stored_bins_that_lack_a_part_are_refused(name: str) -> None:
    arrays, metadata = dict(ARRAYS), dict(METADATA)
    without(name)(arrays, metadata)
    with pytest.raises(DamagedModelError, match="bins of the model are damaged"):
        Bins.from_arrays(arrays, metadata)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (replaced("edges", np.zeros((2, 2))), "vector of float64"),
        (replaced("edges", np.zeros(3, np.float32)), "vector of float64"),
        (replaced("edges", [0.5]), "vector of float64"),
        (replaced("edges", np.zeros(0)), "do not add up"),
        (with_item("edges", 3, np.nan), "do not ascend"),
        (with_item("edges", 3, -5), "do not ascend"),
        (with_item("edges", 253, np.inf), "do not ascend"),
        (with_item("edge_counts", 0, -1), "do not add up"),
        (with_item("edge_counts", 0, 255), "do not add up"),
        (replaced("edge_counts", np.zeros(0, np.int16)), "do not add up"),
        (replaced("is_categorical", np.zeros(0, np.bool_)), "different numbers of columns"),
        (with_item("is_categorical", 0, value=True), "different numbers of columns"),
        (
            replaced("is_categorical", np.array([True, False, True, True, False, False])),
            "categorical column has edges",
        ),
        (with_item("category_counts", 0, -1), "negative"),
        (with_item("category_counts", 0, 2**62), "do not add up"),
        (with_item("category_lengths", 0, -1), "negative"),
        (with_item("category_lengths", 0, 2**62), "do not add up"),
        (with_item("category_types", 0, 3), "cannot be read"),
        (with_item("category_types", 6, 1), "cannot be read"),
        (with_item("category_text", 0, 0xFF), "cannot be read"),
        (replaced("names", ["a"]), "one for each column"),
        (replaced("names", list("aabcde")), "one for each column"),
        (replaced("names", [*"abcde", 6]), "one for each column"),
        (replaced("names", [*"abcde", "\ud800"]), "one for each column"),
        (replaced("names", "abcdef"), "names are missing"),
        (replaced("has_names", 1), "names are missing"),
    ],
)
def test_damage_to_stored_bins_is_refused_with_the_reason(
    change: Callable[[dict[str, Any], dict[str, Any]], None], reason: str
) -> None:
    arrays, metadata = dict(ARRAYS), dict(METADATA)
    change(arrays, metadata)
    with pytest.raises(DamagedModelError, match=reason):
        Bins.from_arrays(arrays, metadata)


@pytest.mark.parametrize("text", ["01", "1_0", " 1", "+1", "1" * 5000, "18446744073709551616", "x"])
def test_a_stored_number_has_one_spelling(text: str) -> None:
    arrays, metadata = fit_bins(read_table([[1]], categorical=[0]), seed=0).to_arrays()
    arrays["category_lengths"] = np.array([len(text)])
    arrays["category_text"] = np.frombuffer(text.encode(), np.uint8)
    for kind in (1, 2):
        arrays["category_types"] = np.array([kind], np.uint8)
        with pytest.raises(DamagedModelError):
            Bins.from_arrays(arrays, metadata)


@pytest.mark.parametrize("text", ["nan", "1.0", "1e0", "Infinity"])
def test_a_stored_float_is_no_integer_and_a_number(text: str) -> None:
    arrays, metadata = fit_bins(read_table([[1.5]], categorical=[0]), seed=0).to_arrays()
    arrays["category_lengths"] = np.array([len(text)])
    arrays["category_text"] = np.frombuffer(text.encode(), np.uint8)
    with pytest.raises(DamagedModelError):
        Bins.from_arrays(arrays, metadata)


def test_more_edges_than_bins_allow_are_refused() -> None:
    arrays, metadata = fit_bins(read_table([[1.0]]), seed=0).to_arrays()
    arrays["edges"] = np.arange(255.0)
    arrays["edge_counts"] = np.array([255], np.int16)
    with pytest.raises(DamagedModelError, match="do not add up"):
        Bins.from_arrays(arrays, metadata)


def test_a_repeated_stored_category_is_refused() -> None:
    arrays, metadata = fit_bins(read_table({"c": ["a", "b"]}), seed=0).to_arrays()
    arrays["category_text"] = np.frombuffer(b"aa", np.uint8)
    with pytest.raises(DamagedModelError, match="repeated"):
        Bins.from_arrays(arrays, metadata)


@given(st.data())
@settings(max_examples=200)
def test_any_change_to_stored_bins_is_refused_or_gives_bins_that_work(data: st.DataObject) -> None:
    arrays = dict(ARRAYS)
    name = data.draw(st.sampled_from(sorted(arrays)))
    raw = bytearray(arrays[name].tobytes())
    for _ in range(data.draw(st.integers(1, 3))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    arrays[name] = np.frombuffer(bytes(raw), np.uint8).view(arrays[name].dtype)
    try:
        bins = Bins.from_arrays(arrays, METADATA)
    except DamagedModelError:
        return
    assert ((bins.n_bins >= 1) & (bins.n_bins <= MISSING)).all()
    table = read_table(np.linspace(-1, 1, 600).reshape(100, 6))
    binned = bins.transform(table)
    assert ((binned < bins.n_bins[:, None]) | (binned == MISSING)).all()

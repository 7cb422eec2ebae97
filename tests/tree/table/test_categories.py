"""Categorical columns: the order of their bins, rare and unknown categories."""

from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from fedforest.errors import DataError
from fedforest.tree.table.bins import fit_bins
from fedforest.tree.table.frames import read_table
from tests.reference import binning as reference

MISSING = 255


def test_categories_are_numbered_in_their_order() -> None:
    table = read_table({"c": ["pear", "apple", None, "fig", "apple"]})
    bins = fit_bins(table, seed=0)
    assert bins.categories(0) == ("apple", "fig", "pear")
    assert bins.is_categorical.tolist() == [True]
    assert bins.n_bins.tolist() == [3]
    assert bins.transform(table).tolist() == [[2, 0, MISSING, 1, 0]]


def test_numbers_as_categories_are_ordered_by_value() -> None:
    table = read_table(np.array([[10.0], [9.0], [2.5], [np.nan]]), categorical=[0])
    assert fit_bins(table, seed=0).categories(0) == (2.5, 9, 10)


def test_mixed_categories_are_ordered_by_type_and_then_as_text() -> None:
    table = read_table({"c": np.array(["b", 10, 2.5, "a", 9, 1.5], object)})
    assert fit_bins(table, seed=0).categories(0) == (1.5, 2.5, 10, 9, "a", "b")


@pytest.mark.parametrize("ordered", [True, False])
def test_only_pandas_categories_that_occur_count_and_in_sorted_order(ordered: bool) -> None:
    values = pd.Categorical(["low", "high"], categories=["low", "mid", "high"], ordered=ordered)
    bins = fit_bins(read_table(pd.DataFrame({"c": values})), seed=0)
    assert bins.categories(0) == ("high", "low")


def test_only_arrow_dictionary_values_that_occur_count() -> None:
    values = pa.DictionaryArray.from_arrays([2, 0, None], ["low", "mid", "high"])
    bins = fit_bins(read_table(pa.table({"c": values})), seed=0)
    assert bins.categories(0) == ("high", "low")


@pytest.mark.parametrize("n_categories", [253, 254, 255, 256, 400])
def test_the_rarest_categories_share_a_bin_when_there_are_too_many(n_categories: int) -> None:
    rng = np.random.default_rng(0)
    numbers = np.concatenate([np.arange(n_categories), rng.integers(0, n_categories, 2000)])
    values = [f"c{number:03}" for number in numbers]
    table = read_table({"c": values})
    bins = fit_bins(table, seed=0)
    expected = reference.order_categories(values)
    assert list(bins.categories(0)) == expected
    assert bins.n_bins[0] == min(n_categories, 255)
    assert bins.transform(table)[0].tolist() == [min(expected.index(v), 254) for v in values]


def test_unknown_categories_are_missing_but_rare_ones_are_not() -> None:
    values = [f"c{number:03}" for number in range(300)]
    bins = fit_bins(read_table({"c": values}), seed=0)
    binned = bins.transform(read_table({"c": ["c000", "c299", "new", None]}))
    assert binned.tolist() == [[0, 254, MISSING, MISSING]]


@pytest.mark.parametrize(
    "data",
    [
        [[3], [1], [7], [None]],
        np.array([[3], [1], [7], [np.nan]], np.float32),
        pd.DataFrame({0: pd.Series([3, 1, 7, None], dtype="Int64")}),
        pd.DataFrame({0: pd.Series([3, 1, 7, None], dtype="category")}),
        np.array([[3], ["x"], [7], [None]], object),
    ],
)
def test_categories_that_are_numbers_match_by_value(data: Any) -> None:
    bins = fit_bins(read_table(np.array([[1], [3], [5]]), categorical=[0]), seed=0)
    binned = bins.transform(read_table(data))[0]
    assert binned[[0, 2, 3]].tolist() == [1, MISSING, MISSING]
    assert binned[1] in (0, MISSING)


def test_text_where_training_had_numbers_is_refused() -> None:
    bins = fit_bins(read_table({"age": [1.0, 2.0]}), seed=0)
    with pytest.raises(DataError, match="'age' was numeric in training"):
        bins.transform(read_table({"age": ["old", "new"]}))


def test_a_column_of_nothing_is_missing_whatever_training_had() -> None:
    bins = fit_bins(read_table([[1.0, "a"], [2.0, "b"]]), seed=0)
    nothing = {"x0": pd.Categorical([None]), "x1": np.array([np.nan])}
    assert bins.transform(read_table(nothing)).tolist() == [[MISSING], [MISSING]]
